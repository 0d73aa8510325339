#include "tests/support/pictures.h"

#include <turbojpeg.h>
#include <zlib.h>

#include <memory>

#include "graph/support/error.h"

namespace sardonyx::testing {
namespace {

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), uInt(body.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + body +
         big_endian(static_cast<uint32_t>(crc));
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  CHECK(compress(reinterpret_cast<Bytef*>(out.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) == Z_OK);
  out.resize(size);
  return out;
}

int channels_of(int colour_type) {
  constexpr int kChannels[] = {1, 0, 3, 1, 2, 0, 4};
  return kChannels[colour_type];
}

// The rows of each pass of Adam7, with their filter bytes.
std::string interlaced_rows(const Png& png, const std::string& pixels) {
  struct Pass {
    uint32_t x, y, step_x, step_y;
  };
  constexpr Pass kPasses[] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                              {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
  const size_t pixel = static_cast<size_t>(channels_of(png.colour_type) * png.depth / 8);
  std::string rows;
  for (const Pass& pass : kPasses) {
    if (pass.x >= png.width) continue;
    for (uint32_t y = pass.y; y < png.height; y += pass.step_y) {
      rows += '\0';
      for (uint32_t x = pass.x; x < png.width; x += pass.step_x) {
        rows += pixels.substr((size_t{y} * png.width + x) * pixel, pixel);
      }
    }
  }
  return rows;
}

std::string plain_rows(const Png& png, const std::string& pixels) {
  const size_t row = pixels.size() / png.height;
  std::string rows;
  for (uint32_t y = 0; y < png.height; ++y) rows += '\0' + pixels.substr(y * row, row);
  return rows;
}

}  // namespace

std::string png_file(const Png& png, const std::string& pixels) {
  std::string header = big_endian(png.width) + big_endian(png.height);
  header += {static_cast<char>(png.depth), static_cast<char>(png.colour_type), 0, 0,
             png.interlaced ? '\1' : '\0'};
  std::string out = "\x89PNG\r\n\x1a\n" + chunk("IHDR", header);
  if (!png.palette.empty()) out += chunk("PLTE", png.palette);
  if (!png.alpha.empty()) out += chunk("tRNS", png.alpha);
  const std::string rows = png.interlaced ? interlaced_rows(png, pixels) : plain_rows(png, pixels);
  return out + chunk("IDAT", compressed(rows)) + chunk("IEND", "");
}

std::string jpeg_file(int width, int height, const std::string& pixels, JpegColours colours,
                      JpegScans scans) {
  const std::unique_ptr<void, int (*)(void*)> encoder(tjInitCompress(), tjDestroy);
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT: the library's type
  const bool gray = colours == JpegColours::kGray;
  const int format = gray ? TJPF_GRAY : colours == JpegColours::kCmyk ? TJPF_CMYK : TJPF_RGB;
  const int flags = scans == JpegScans::kProgressive ? TJFLAG_PROGRESSIVE : 0;
  CHECK(tjCompress2(encoder.get(), reinterpret_cast<const unsigned char*>(pixels.data()), width, 0,
                    height, format, &data, &size, gray ? TJSAMP_GRAY : TJSAMP_444, 95,
                    flags | TJFLAG_ACCURATEDCT) == 0);
  std::string out(reinterpret_cast<const char*>(data), size);
  tjFree(data);
  return out;
}

uint8_t picture_byte(int64_t x, int64_t y, int64_t channel) {
  return static_cast<uint8_t>((x * x * 3 + y * 17 + x * y + channel * 71) % 256);
}

std::string picture(int64_t width, int64_t height, int64_t channels) {
  std::string pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) pixels += static_cast<char>(picture_byte(x, y, c));
    }
  }
  return pixels;
}

}  // namespace sardonyx::testing
