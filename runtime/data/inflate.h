// Streaming decompression (gzip, raw deflate) over zlib with bounded output.
//
// The caller says how many bytes it wants and gets at most that; nothing here allocates by a number
// found in a file. Offsets in messages count from the start of the file that holds the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sardonyx::runtime {

bool is_gzip(std::span<const std::byte> bytes);

class Inflater {
 public:
  enum class Format { kGzip, kRawDeflate };

  // `name` and `offset` (of `compressed` in that file) appear in messages. gzip: joined members are
  // read on.
  Inflater(std::span<const std::byte> compressed, Format format, std::string name,
           uint64_t offset = 0);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Fills `out`; returns fewer bytes only at the end of the stream. Throws Error when the stream is
  // cut, corrupt, fails its checksum, or is followed by something else.
  size_t read(std::span<std::byte> out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Refuses sizes that `compressed` bytes cannot expand to, and decompression bombs: beyond 256 MiB
// at most a hundredfold expansion is accepted. Call it before allocating `expanded` bytes. Throws
// Error.
void check_expansion(uint64_t compressed, uint64_t expanded, const std::string& name);

}  // namespace sardonyx::runtime
