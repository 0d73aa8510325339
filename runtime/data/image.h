// Pictures in memory, and the two formats that they come in: PNG and JPEG, told apart by their
// first bytes, never by their name.
//
// Decoded is what Pillow's convert("RGB") and convert("L") give: alpha is dropped, CMYK is Adobe's,
// gray is made of colour by the weights of Rec. 601, EXIF is not looked at. Sizes are checked
// before memory is taken. No error of the two libraries leaves them by longjmp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sardonyx::runtime {

// A picture with more pixels is refused.
constexpr int64_t kMostPixels = 100'000'000;

enum class ImageFormat : uint8_t { kPng, kJpeg };

struct ImageHeader {
  ImageFormat format = ImageFormat::kPng;
  int64_t width = 0;
  int64_t height = 0;
};

// Bytes of pixels [height, width, channels], and one more that loops over them may read.
struct Image {
  Image(int64_t width, int64_t height, int64_t channels);
  size_t bytes() const { return static_cast<size_t>(width * height * channels); }

  int64_t width;
  int64_t height;
  int64_t channels;
  std::unique_ptr<uint8_t[]> pixels;
};

// Throws Error: what is no PNG or JPEG, a damaged header, too many pixels. `name` is the file, for
// the message.
ImageHeader read_image_header(std::span<const std::byte> file, const std::string& name);

// With 1 or 3 channels. Throws Error; a file that ends early or whose data are damaged is an error,
// never half a picture.
Image decode_image(std::span<const std::byte> file, int64_t channels, const std::string& name);

// The two formats, for image.cc. They give one channel for pictures that are gray, else three.
ImageHeader read_png_header(std::span<const std::byte> file, const std::string& name);
ImageHeader read_jpeg_header(std::span<const std::byte> file, const std::string& name);
Image decode_png(std::span<const std::byte> file, const std::string& name);
Image decode_jpeg(std::span<const std::byte> file, const std::string& name);

}  // namespace sardonyx::runtime
