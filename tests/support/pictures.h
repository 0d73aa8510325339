// Small PNG and JPEG files for tests, made by hand and by libturbojpeg.
#pragma once

#include <cstdint>
#include <string>

namespace sardonyx::testing {

// Bytes of a PNG file as its header tells it.
struct Png {
  uint32_t width = 0;
  uint32_t height = 0;
  int depth = 8;
  int colour_type = 2;       // 0 gray, 2 RGB, 3 palette, 4 gray and alpha, 6 RGB and alpha
  std::string palette = {};  // PLTE
  std::string alpha = {};    // tRNS
  bool interlaced = false;
};
// `pixels`: the rows of the picture, whole bytes each. Interlaced: 8 bits or more a sample.
std::string png_file(const Png& png, const std::string& pixels);

enum class JpegColours { kRgb, kGray, kCmyk };
enum class JpegScans { kBaseline, kProgressive };
// `pixels`: height x width x (3, 1 or 4) bytes. Quality 95, colours not subsampled.
std::string jpeg_file(int width, int height, const std::string& pixels,
                      JpegColours colours = JpegColours::kRgb,
                      JpegScans scans = JpegScans::kBaseline);

// Pixel (x, y, c) of a test picture, and `channels` of them for every pixel.
uint8_t picture_byte(int64_t x, int64_t y, int64_t channel);
std::string picture(int64_t width, int64_t height, int64_t channels);

}  // namespace sardonyx::testing
