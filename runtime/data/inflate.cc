// zlib's inflate behind a span interface. Input is handed over in pieces: zlib counts in 32 bits.
#include "runtime/data/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

// Deflate cannot expand further than this (one bit per match of 258 bytes, plus block headers).
constexpr uint64_t kDeflateLimit = 1032;
constexpr uint64_t kFreeExpansion = uint64_t{256} << 20;
constexpr uint64_t kBombRatio = 100;
constexpr size_t kPiece = size_t{1} << 30;

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

struct Inflater::Impl {
  std::span<const std::byte> input;
  Format format;
  std::string name;
  uint64_t offset;
  size_t handed_over = 0;  // input bytes given to zlib so far
  bool ended = false;
  z_stream stream = {};

  uint64_t position() const { return offset + handed_over - stream.avail_in; }

  void refill() {
    if (stream.avail_in != 0) return;
    size_t piece = std::min(kPiece, input.size() - handed_over);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data() + handed_over));
    stream.avail_in = static_cast<uInt>(piece);
    handed_over += piece;
  }

  // After the end of a gzip member: another member, the end of the input, or garbage.
  void finish_member() {
    refill();
    std::span<const std::byte> rest = input.subspan(handed_over - stream.avail_in);
    if (rest.empty()) {
      ended = true;
    } else if (format == Format::kGzip && is_gzip(rest)) {
      CHECK(inflateReset(&stream) == Z_OK);
    } else {
      throw Error("{}: {} trailing bytes after the compressed data, at offset {}", name,
                  rest.size(), position());
    }
  }

  [[noreturn]] void fail(int code) const {
    if (code == Z_MEM_ERROR) throw Error("{}: out of memory while decompressing", name);
    if (code == Z_BUF_ERROR) {
      throw Error(
          "{}: the compressed data is truncated: it ends at offset {} in the middle of the stream",
          name, position());
    }
    std::string reason = stream.msg != nullptr ? stream.msg : "preset dictionary";
    if (reason == "incorrect data check") reason = "checksum (crc) mismatch";
    if (reason == "incorrect length check") reason = "length mismatch";
    throw Error("{}: the compressed data is corrupt near offset {}: {}", name, position(), reason);
  }
};

Inflater::Inflater(std::span<const std::byte> compressed, Format format, std::string name,
                   uint64_t offset)
    : impl_(new Impl{compressed, format, std::move(name), offset}) {
  int window = format == Format::kGzip ? 16 + MAX_WBITS : -MAX_WBITS;
  int code = inflateInit2(&impl_->stream, window);
  if (code != Z_OK) impl_->fail(code);
}

Inflater::~Inflater() { inflateEnd(&impl_->stream); }

size_t Inflater::read(std::span<std::byte> out) {
  size_t written = 0;
  while (written < out.size() && !impl_->ended) {
    impl_->refill();
    size_t piece = std::min(kPiece, out.size() - written);
    impl_->stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    impl_->stream.avail_out = static_cast<uInt>(piece);
    int code = inflate(&impl_->stream, Z_NO_FLUSH);
    written += piece - impl_->stream.avail_out;
    if (code == Z_STREAM_END) {
      impl_->finish_member();
    } else if (code != Z_OK) {
      impl_->fail(code);
    }
  }
  return written;
}

void check_expansion(uint64_t compressed, uint64_t expanded, const std::string& name) {
  if (expanded / kDeflateLimit > compressed) {
    throw Error("{}: declares {} bytes of data, but {} compressed bytes cannot hold more than {}",
                name, expanded, compressed, compressed * kDeflateLimit);
  }
  if (expanded > kFreeExpansion && expanded / kBombRatio > compressed) {
    throw Error(
        "{}: {} compressed bytes would expand to {} bytes, more than {} times as much; refused as "
        "a "
        "decompression bomb. If the file is right, decompress it first",
        name, compressed, expanded, kBombRatio);
  }
}

}  // namespace sardonyx::runtime
