// JPEG through the TurboJPEG interface, which reports errors as return values.
//
// It fills what is missing with gray and gives only a warning, so warnings are judged: those that
// say that the data are damaged are errors. A decoder serves one file only: after some errors the
// library would refuse every file that follows.
#include <turbojpeg.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "graph/support/error.h"
#include "runtime/data/image.h"

namespace sardonyx::runtime {
namespace {

struct JpegHeader {
  int width = 0;
  int height = 0;
  int colours = -1;  // TJCS
};

class JpegReader {
 public:
  JpegReader(std::span<const std::byte> file, const std::string& name)
      : name_(name),
        data_(reinterpret_cast<const unsigned char*>(file.data())),
        size_(file.size()),
        decoder_(tjInitDecompress()) {
    CHECK(decoder_ != nullptr, "{}", tjGetErrorStr2(nullptr));
    int subsampling = -1;
    const int failed = tjDecompressHeader3(decoder_.get(), data_, size_, &header_.width,
                                           &header_.height, &subsampling, &header_.colours);
    // It also fails for ways of subsampling that it has no number for, yet decodes them.
    if (header_.width > 0 && header_.height > 0 && header_.colours >= 0) return;
    fail(failed != 0 ? tjGetErrorStr2(decoder_.get()) : "the file ends before its picture begins");
  }

  const JpegHeader& header() const { return header_; }
  Image decode(int format, int64_t channels) const;

 private:
  struct Destroy {
    void operator()(void* decoder) const { tjDestroy(decoder); }
  };

  [[noreturn]] void fail(const std::string& reason) const {
    throw Error("{}: cannot read this JPEG image: {}", name_, reason);
  }
  bool ends_as_it_should() const;

  const std::string& name_;
  const unsigned char* data_;
  size_t size_;
  std::unique_ptr<void, Destroy> decoder_;
  JpegHeader header_;
};

// What some cameras and programs write; the picture is whole. All other warnings mean that a part
// of it is gray or garbled. Of several warnings the library tells the first, and of an error behind
// a warning it says that it is one too, so it is the text that counts.
bool is_harmless(std::string_view warning) {
  constexpr std::string_view kHarmless[] = {
      "extraneous bytes before marker", "Invalid SOS parameters for sequential JPEG",
      "Unknown Adobe color transform code", "unknown JFIF revision number"};
  return std::ranges::any_of(
      kHarmless, [&](std::string_view words) { return warning.find(words) != warning.npos; });
}

// The end marker stands in the last bytes; some programs add a few behind it.
bool JpegReader::ends_as_it_should() const {
  constexpr size_t kTail = 64;
  const std::string_view text(reinterpret_cast<const char*>(data_), size_);
  return text.substr(size_ - std::min(size_, kTail)).find("\xff\xd9") != text.npos;
}

Image JpegReader::decode(int format, int64_t channels) const {
  Image image(header_.width, header_.height, channels);
  const int failed =
      tjDecompress2(decoder_.get(), data_, size_, image.pixels.get(), header_.width, 0,
                    header_.height, format, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
  if (failed == 0) return image;
  const std::string reason = tjGetErrorStr2(decoder_.get());
  if (is_harmless(reason) && ends_as_it_should()) return image;
  fail(reason);
}

// As it stands in files: 255 is no ink, which is what Adobe writes.
Image from_cmyk(const Image& cmyk) {
  Image result(cmyk.width, cmyk.height, 3);
  const size_t pixels = static_cast<size_t>(cmyk.width * cmyk.height);
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* ink = &cmyk.pixels[4 * i];
    for (size_t c = 0; c < 3; ++c) {
      const int covered = (255 - ink[c]) * ink[3];
      const int rounded = (covered + 127) / 255;
      result.pixels[3 * i + c] = static_cast<uint8_t>(ink[3] - rounded);
    }
  }
  return result;
}

}  // namespace

ImageHeader read_jpeg_header(std::span<const std::byte> file, const std::string& name) {
  const JpegReader reader(file, name);
  return {ImageFormat::kJpeg, reader.header().width, reader.header().height};
}

Image decode_jpeg(std::span<const std::byte> file, const std::string& name) {
  const JpegReader reader(file, name);
  switch (reader.header().colours) {
    case TJCS_GRAY:
      return reader.decode(TJPF_GRAY, 1);
    case TJCS_CMYK:
    case TJCS_YCCK:
      return from_cmyk(reader.decode(TJPF_CMYK, 4));
    default:
      return reader.decode(TJPF_RGB, 3);
  }
}

}  // namespace sardonyx::runtime
