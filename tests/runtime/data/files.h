// Small files for the tests of the data readers.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/support/error.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::testing {

inline std::string big_endian32(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

// Header of an IDX file.
inline std::string idx_header(char code, const std::vector<uint32_t>& dims) {
  std::string out{'\0', '\0', code, static_cast<char>(dims.size())};
  for (uint32_t dim : dims) out += big_endian32(dim);
  return out;
}

// `window` as for deflateInit2: 15 + 16 gzip, -15 raw deflate.
inline std::string deflated(const std::string& bytes, int window) {
  z_stream stream = {};
  CHECK(deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

inline std::string gzipped(const std::string& bytes) { return deflated(bytes, 15 + 16); }

// A version-1 npy file with this header text.
inline std::string npy_file(std::string header, const std::string& data) {
  header += '\n';
  return "\x93NUMPY" + std::string("\x01\x00", 2) + little_endian(header.size(), 2) + header + data;
}

inline std::string npy_file(const std::string& descr, const std::string& shape,
                            const std::string& data) {
  return npy_file("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }",
                  data);
}

struct ZipMember {
  std::string name;
  std::string content;
  int method = 0;  // 0 stored, 8 deflated
  bool zip64 = false;
};

// A zip archive; with zip64 members also the zip64 end records.
inline std::string zip_file(const std::vector<ZipMember>& members) {
  std::string out, directory;
  bool zip64 = false;
  for (const ZipMember& m : members) {
    std::string packed = m.method == 8 ? deflated(m.content, -15) : m.content;
    uint32_t crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(m.content.data()), m.content.size()));
    std::string extra;
    if (m.zip64) {
      zip64 = true;
      extra = little_endian(1, 2) + little_endian(24, 2) + little_endian(m.content.size(), 8) +
              little_endian(packed.size(), 8) + little_endian(out.size(), 8);
    }
    uint32_t wide = 0xffffffff;
    std::string common = little_endian(0, 2) + little_endian(m.method, 2) + little_endian(0, 4) +
                         little_endian(crc, 4) + little_endian(m.zip64 ? wide : packed.size(), 4) +
                         little_endian(m.zip64 ? wide : m.content.size(), 4) +
                         little_endian(m.name.size(), 2) + little_endian(extra.size(), 2);
    directory += little_endian(0x02014b50, 4) + little_endian(45, 2) + little_endian(45, 2) +
                 common + little_endian(0, 2) + little_endian(0, 8) +
                 little_endian(m.zip64 ? wide : out.size(), 4) + m.name + extra;
    out += little_endian(0x04034b50, 4) + little_endian(45, 2) + common + m.name + extra + packed;
  }
  uint64_t at = out.size();
  out += directory;
  if (zip64) {
    uint64_t end64 = out.size();
    out += little_endian(0x06064b50, 4) + little_endian(44, 8) + little_endian(45, 2) +
           little_endian(45, 2) + little_endian(0, 8) + little_endian(members.size(), 8) +
           little_endian(members.size(), 8) + little_endian(directory.size(), 8) +
           little_endian(at, 8);
    out += little_endian(0x07064b50, 4) + little_endian(0, 4) + little_endian(end64, 8) +
           little_endian(1, 4);
  }
  uint64_t count = zip64 ? 0xffff : members.size();
  return out + little_endian(0x06054b50, 4) + little_endian(0, 4) + little_endian(count, 2) +
         little_endian(count, 2) + little_endian(zip64 ? 0xffffffff : directory.size(), 4) +
         little_endian(zip64 ? 0xffffffff : at, 4) + little_endian(0, 2);
}

}  // namespace sardonyx::testing
