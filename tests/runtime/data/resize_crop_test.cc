// The expected bytes are Pillow's: Image.resize(BILINEAR), then the crop of torchvision's
// CenterCrop.
#include "runtime/data/resize_crop.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "tests/support/pictures.h"

namespace sardonyx::runtime {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes resized(int64_t width, int64_t height, int64_t channels, int64_t to_height,
              int64_t to_width) {
  Image image(width, height, channels);
  std::ranges::copy(testing::picture(width, height, channels), image.pixels.get());
  Bytes out(static_cast<size_t>(to_height * to_width * channels));
  resize_crop(image, to_height, to_width, out);
  return out;
}

uint32_t checksum(const Bytes& bytes) {
  return static_cast<uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

TEST(ResizeCrop, shrinks_with_antialiasing_as_pillow) {
  EXPECT_EQ(resized(9, 7, 1, 3, 3), (Bytes{23, 70, 160, 62, 115, 160, 102, 160, 122}));
  EXPECT_EQ(resized(5, 5, 3, 2, 2), (Bytes{23, 94, 165, 49, 120, 191, 59, 130, 201, 89, 160, 205}));
  EXPECT_EQ(resized(31, 17, 1, 2, 2), (Bytes{122, 126, 129, 128}));
  EXPECT_EQ(checksum(resized(256, 200, 3, 224, 224)), 3609433275u);
}

TEST(ResizeCrop, enlarges_by_plain_interpolation) {
  EXPECT_EQ(resized(3, 2, 1, 4, 4),
            (Bytes{1, 2, 5, 10, 5, 7, 10, 15, 14, 16, 19, 24, 18, 20, 24, 29}));
  EXPECT_EQ(checksum(resized(40, 30, 1, 224, 224)), 1239182088u);
}

TEST(ResizeCrop, a_cut_between_two_pixels_starts_at_the_even_one) {
  const Bytes from_column_2{12, 27, 48, 75, 31, 47, 69, 97, 50, 67, 90, 119, 69, 87, 111, 141};
  EXPECT_EQ(resized(7, 4, 1, 4, 4), from_column_2);  // 1.5
  EXPECT_EQ(resized(9, 4, 1, 4, 4), from_column_2);  // 2.5
}

TEST(ResizeCrop, covers_targets_that_are_not_square) {
  EXPECT_EQ(resized(4, 9, 1, 2, 3), (Bytes{57, 67, 86, 83, 96, 117}));
  EXPECT_EQ(checksum(resized(97, 331, 3, 64, 48)), 3954032722u);
}

TEST(ResizeCrop, takes_extreme_shapes) {
  Image strip(100000, 1, 1);
  std::fill_n(strip.pixels.get(), 100000, uint8_t{7});
  Bytes out(64);
  resize_crop(strip, 8, 8, out);
  EXPECT_EQ(out, Bytes(64, 7));
  Image column(1, 100000, 1);
  std::fill_n(column.pixels.get(), 100000, uint8_t{9});
  resize_crop(column, 8, 8, out);
  EXPECT_EQ(out, Bytes(64, 9));
}

}  // namespace
}  // namespace sardonyx::runtime
