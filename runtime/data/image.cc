// Which format a file is, and gray to colour and back.
#include "runtime/data/image.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n"sv;
constexpr std::string_view kJpegStart = "\xff\xd8\xff"sv;

// What people have in such folders, by its first bytes; "" when it is none of these.
std::string_view other_format(std::string_view start) {
  if (start.starts_with("GIF8")) return "a GIF";
  if (start.starts_with("BM")) return "a BMP";
  if (start.starts_with("RIFF") && start.substr(std::min<size_t>(8, start.size()), 4) == "WEBP") {
    return "a WebP";
  }
  if (start.starts_with("II*\0"sv) || start.starts_with("MM\0*"sv)) return "a TIFF";
  if (start.starts_with("<")) return "a text such as HTML or SVG";
  if (start.starts_with("version https://git-lfs")) {
    return "a Git-LFS pointer (run `git lfs pull`)";
  }
  return "";
}

[[noreturn]] void fail_format(std::string_view file, const std::string& name) {
  if (file.empty()) throw Error("{}: the file is empty, expected a PNG or JPEG image", name);
  if (const std::string_view other = other_format(file); !other.empty()) {
    throw Error("{}: this is {}, expected a PNG or JPEG image", name, other);
  }
  std::string start;
  for (const char c : file.substr(0, 4)) {
    start += fmt::format("{}{:02x}", start.empty() ? "" : " ", static_cast<unsigned char>(c));
  }
  throw Error("{}: begins with {}, expected a PNG (89 50 4e 47) or JPEG image (ff d8 ff)", name,
              start);
}

ImageFormat format_of(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(kPngStart)) return ImageFormat::kPng;
  if (text.starts_with(kJpegStart)) return ImageFormat::kJpeg;
  fail_format(text, name);
}

Image to_colour(const Image& gray) {
  Image result(gray.width, gray.height, 3);
  for (size_t i = 0; i < gray.bytes(); ++i) {
    std::memset(&result.pixels[3 * i], gray.pixels[i], 3);
  }
  return result;
}

// 0.299 R + 0.587 G + 0.114 B in units of 2^-16, rounded.
Image to_gray(const Image& colour) {
  Image result(colour.width, colour.height, 1);
  for (size_t i = 0; i < result.bytes(); ++i) {
    const uint8_t* rgb = &colour.pixels[3 * i];
    const uint32_t sum = 19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u;
    result.pixels[i] = static_cast<uint8_t>(sum >> 16);
  }
  return result;
}

}  // namespace

Image::Image(int64_t width, int64_t height, int64_t channels)
    : width(width),
      height(height),
      channels(channels),
      pixels(std::make_unique_for_overwrite<uint8_t[]>(bytes() + 1)) {
  pixels[bytes()] = 0;
}

ImageHeader read_image_header(std::span<const std::byte> file, const std::string& name) {
  const bool png = format_of(file, name) == ImageFormat::kPng;
  const ImageHeader header = png ? read_png_header(file, name) : read_jpeg_header(file, name);
  // The factors are below 2^32.
  if (header.width > kMostPixels / header.height) {
    throw Error("{}: {} x {} pixels, expected at most {}", name, header.width, header.height,
                kMostPixels);
  }
  return header;
}

Image decode_image(std::span<const std::byte> file, int64_t channels, const std::string& name) {
  CHECK(channels == 1 || channels == 3);
  const ImageHeader header = read_image_header(file, name);
  Image image =
      header.format == ImageFormat::kPng ? decode_png(file, name) : decode_jpeg(file, name);
  if (image.channels == channels) return image;
  return channels == 1 ? to_gray(image) : to_colour(image);
}

}  // namespace sardonyx::runtime
