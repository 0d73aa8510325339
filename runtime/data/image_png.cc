// PNG through libpng's simplified interface, which reports errors as return values.
//
// It is asked for what the file has, alpha included, because it would blend alpha with a background
// and turn colour into gray in linear light.
#include <png.h>

#include <utility>

#include "graph/support/error.h"
#include "runtime/data/image.h"

namespace sardonyx::runtime {
namespace {

class PngReader {
 public:
  PngReader(std::span<const std::byte> file, const std::string& name) : name_(name) {
    image_.version = PNG_IMAGE_VERSION;
    check(png_image_begin_read_from_memory(&image_, file.data(), file.size()));
    // 16-bit samples without a stated gamma are like those of 8 bits.
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ImageHeader header() const { return {ImageFormat::kPng, image_.width, image_.height}; }

  Image decode() {
    image_.format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;
    Image image(image_.width, image_.height, PNG_IMAGE_SAMPLE_CHANNELS(image_.format));
    const bool alpha = (image_.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    check(png_image_finish_read(&image_, nullptr, image.pixels.get(), 0, nullptr));
    return alpha ? without_last_channel(image) : std::move(image);
  }

 private:
  void check(int success) const {
    if (success != 0) return;
    throw Error("{}: cannot read this PNG image: {}", name_, image_.message);
  }

  static Image without_last_channel(const Image& image) {
    Image result(image.width, image.height, image.channels - 1);
    const size_t pixels = static_cast<size_t>(image.width * image.height);
    const size_t kept = static_cast<size_t>(result.channels);
    for (size_t i = 0; i < pixels; ++i) {
      for (size_t c = 0; c < kept; ++c) {
        result.pixels[i * kept + c] = image.pixels[i * (kept + 1) + c];
      }
    }
    return result;
  }

  png_image image_ = {};
  const std::string& name_;
};

}  // namespace

ImageHeader read_png_header(std::span<const std::byte> file, const std::string& name) {
  return PngReader(file, name).header();
}

Image decode_png(std::span<const std::byte> file, const std::string& name) {
  return PngReader(file, name).decode();
}

}  // namespace sardonyx::runtime
