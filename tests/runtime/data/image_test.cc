// What each kind of PNG and JPEG becomes, and what damaged files say. Never a crash: the last test
// mutates files.
#include "runtime/data/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/runtime/data/files.h"
#include "tests/support/pictures.h"

namespace sardonyx::runtime {
namespace {

using namespace std::string_literals;
using testing::error_of;
using testing::JpegColours;
using testing::JpegScans;
using Bytes = std::vector<uint8_t>;

std::span<const std::byte> bytes_of(const std::string& file) {
  return std::as_bytes(std::span(file));
}

Bytes decoded(const std::string& file, int64_t channels) {
  const Image image = decode_image(bytes_of(file), channels, "a.png");
  return {image.pixels.get(), image.pixels.get() + image.bytes()};
}

std::string refusal(const std::string& file) {
  return error_of([&] { decode_image(bytes_of(file), 3, "a.png"); });
}

std::string two_by_one(int depth, int colour_type, const std::string& row) {
  return testing::png_file({.width = 2, .height = 1, .depth = depth, .colour_type = colour_type},
                           row);
}

TEST(Image, png_gray_and_rgb) {
  EXPECT_EQ(decoded(two_by_one(8, 0, "\x05\xc8"), 1), (Bytes{5, 200}));
  EXPECT_EQ(decoded(two_by_one(8, 0, "\x05\xc8"), 3), (Bytes{5, 5, 5, 200, 200, 200}));
  const std::string colour = two_by_one(8, 2, "\xff\x00\x00\x0a\xc8\x1e"s);
  EXPECT_EQ(decoded(colour, 3), (Bytes{255, 0, 0, 10, 200, 30}));
  // As Pillow's convert("L").
  EXPECT_EQ(decoded(colour, 1), (Bytes{76, 124}));
}

TEST(Image, png_alpha_is_dropped_not_blended) {
  EXPECT_EQ(decoded(two_by_one(8, 6, "\x01\x02\x03\x00\x0a\xc8\x1e\x80"s), 3),
            (Bytes{1, 2, 3, 10, 200, 30}));
  EXPECT_EQ(decoded(two_by_one(8, 4, "\x07\x00\x09\xff"s), 1), (Bytes{7, 9}));
}

TEST(Image, png_palette_with_and_without_transparency) {
  testing::Png png{.width = 2, .height = 1, .depth = 8, .colour_type = 3};
  png.palette = "\x01\x02\x03\x0a\xc8\x1e";
  EXPECT_EQ(decoded(testing::png_file(png, "\x01\x00"s), 3), (Bytes{10, 200, 30, 1, 2, 3}));
  png.alpha = "\x00\x80"s;
  EXPECT_EQ(decoded(testing::png_file(png, "\x01\x00"s), 3), (Bytes{10, 200, 30, 1, 2, 3}));
}

TEST(Image, png_of_one_and_of_sixteen_bits) {
  EXPECT_EQ(decoded(two_by_one(1, 0, "\x40"), 1), (Bytes{0, 255}));
  EXPECT_EQ(decoded(two_by_one(16, 0, "\x05\x05\xc8\xc8"), 1), (Bytes{5, 200}));
}

TEST(Image, png_interlaced) {
  const testing::Png plain{.width = 11, .height = 9};
  testing::Png interlaced = plain;
  interlaced.interlaced = true;
  const std::string pixels = testing::picture(11, 9, 3);
  EXPECT_EQ(decoded(testing::png_file(interlaced, pixels), 3),
            decoded(testing::png_file(plain, pixels), 3));
}

TEST(Image, jpeg_colours) {
  const auto near = [](const Bytes& found, const Bytes& expected) {
    ASSERT_EQ(found.size() % expected.size(), 0u);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i % expected.size()], 2) << i;
    }
  };
  const auto flat = [](const std::string& pixel) {
    std::string pixels;
    for (int i = 0; i < 16 * 8; ++i) pixels += pixel;
    return pixels;
  };
  const std::string rgb = testing::jpeg_file(16, 8, flat("\x0a\xc8\x1e"));
  near(decoded(rgb, 3), {10, 200, 30});
  near(decoded(rgb, 1), {124});
  const std::string gray = testing::jpeg_file(16, 8, flat("\x37"), JpegColours::kGray);
  near(decoded(gray, 1), {55});
  near(decoded(gray, 3), {55});
  // Adobe's CMYK, 255 is no ink: (255 - C) (255 - K) / 255.
  const std::string cmyk = testing::jpeg_file(16, 8, flat("\xff\x80\x40\xc8"), JpegColours::kCmyk);
  near(decoded(cmyk, 3), {200, 100, 50});
}

TEST(Image, jpeg_progressive_is_the_same_picture) {
  const std::string pixels = testing::picture(33, 21, 3);
  EXPECT_EQ(
      decoded(testing::jpeg_file(33, 21, pixels, JpegColours::kRgb, JpegScans::kProgressive), 3),
      decoded(testing::jpeg_file(33, 21, pixels), 3));
}

TEST(Image, header_has_format_and_size) {
  const ImageHeader png = read_image_header(
      bytes_of(testing::png_file({.width = 5, .height = 3}, testing::picture(5, 3, 3))), "a.jpg");
  EXPECT_EQ(png.format, ImageFormat::kPng);
  EXPECT_EQ(png.width, 5);
  EXPECT_EQ(png.height, 3);
  const ImageHeader jpeg =
      read_image_header(bytes_of(testing::jpeg_file(5, 3, testing::picture(5, 3, 3))), "a.png");
  EXPECT_EQ(jpeg.format, ImageFormat::kJpeg);
  EXPECT_EQ(jpeg.width, 5);
  EXPECT_EQ(jpeg.height, 3);
}

TEST(Image, what_is_no_image_is_told_by_its_first_bytes) {
  EXPECT_EQ(refusal(""), "a.png: the file is empty, expected a PNG or JPEG image");
  EXPECT_EQ(refusal("GIF89a..."), "a.png: this is a GIF, expected a PNG or JPEG image");
  EXPECT_EQ(refusal("RIFF....WEBPVP8 "), "a.png: this is a WebP, expected a PNG or JPEG image");
  EXPECT_EQ(refusal("RIFF"),
            "a.png: begins with 52 49 46 46, expected a PNG (89 50 4e 47) or JPEG image (ff d8 "
            "ff)");
  EXPECT_EQ(refusal("\x01\xff"),
            "a.png: begins with 01 ff, expected a PNG (89 50 4e 47) or JPEG image (ff d8 ff)");
}

TEST(Image, too_many_pixels_are_refused_before_memory_is_taken) {
  EXPECT_EQ(refusal(testing::png_file({.width = 100000, .height = 1001}, std::string(1001, ' '))),
            "a.png: 100000 x 1001 pixels, expected at most 100000000");
  std::string jpeg = testing::jpeg_file(8, 8, testing::picture(8, 8, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00"s);
  EXPECT_EQ(refusal(jpeg), "a.png: 65280 x 65280 pixels, expected at most 100000000");
}

TEST(Image, cut_off_anywhere_is_an_error) {
  const std::string pixels = testing::picture(40, 30, 3);
  for (const std::string& whole :
       {testing::png_file({.width = 40, .height = 30}, pixels), testing::jpeg_file(40, 30, pixels),
        testing::jpeg_file(40, 30, pixels, JpegColours::kRgb, JpegScans::kProgressive)}) {
    // Without its end marker alone a file is whole.
    for (size_t size = 0; size + 16 < whole.size(); size += 7) {
      EXPECT_NE(refusal(whole.substr(0, size)), "no error") << size << " of " << whole.size();
    }
  }
  const std::string jpeg = testing::jpeg_file(40, 30, pixels);
  EXPECT_EQ(refusal(jpeg.substr(0, 900)),
            "a.png: cannot read this JPEG image: Premature end of JPEG file");
  EXPECT_EQ(refusal(jpeg.substr(0, 30)),
            "a.png: cannot read this JPEG image: the file ends before its picture begins");
}

TEST(Image, a_damaged_jpeg_spoils_no_other_file) {
  const std::string jpeg = testing::jpeg_file(40, 30, testing::picture(40, 30, 3));
  const Bytes before = decoded(jpeg, 3);
  for (size_t size = 3; size < jpeg.size(); size += 11) {
    EXPECT_NE(refusal(jpeg.substr(0, size)), "no error");
    EXPECT_EQ(decoded(jpeg, 3), before);
  }
}

TEST(Image, jpeg_with_stray_bytes_is_taken_when_it_is_whole) {
  std::string jpeg = testing::jpeg_file(40, 30, testing::picture(40, 30, 3));
  const Bytes expected = decoded(jpeg, 3);
  // Before the end marker, and behind it.
  jpeg.insert(jpeg.size() - 2, "stray");
  EXPECT_EQ(decoded(jpeg + "padding", 3), expected);
  EXPECT_EQ(refusal(jpeg.substr(0, jpeg.size() - 2)),
            "a.png: cannot read this JPEG image: Premature end of JPEG file");
  // Before the tables; the end is missing.
  jpeg.insert(20, "stray");
  EXPECT_EQ(refusal(jpeg.substr(0, 900)),
            "a.png: cannot read this JPEG image: Corrupt JPEG data: 5 extraneous bytes before "
            "marker 0xdb");
}

TEST(Image, damaged_png_data_are_an_error) {
  std::string png = testing::png_file({.width = 40, .height = 30}, testing::picture(40, 30, 3));
  png[png.size() / 2] ^= 0x10;
  EXPECT_TRUE(refusal(png).starts_with("a.png: cannot read this PNG image: ")) << refusal(png);
}

TEST(Image, mutated_files_give_a_picture_or_an_error) {
  const std::string pixels = testing::picture(40, 30, 3);
  testing::Png palette{.width = 40, .height = 90, .depth = 8, .colour_type = 3};
  palette.palette = std::string(768, 'p');
  palette.alpha = "\x01\x02";
  const std::vector<std::string> seeds = {
      testing::png_file({.width = 40, .height = 30}, pixels),
      testing::png_file({.width = 40, .height = 30, .interlaced = true}, pixels),
      testing::png_file(palette, pixels),
      testing::jpeg_file(40, 30, pixels),
      testing::jpeg_file(40, 30, pixels, JpegColours::kRgb, JpegScans::kProgressive),
      testing::jpeg_file(30, 30, pixels, JpegColours::kCmyk)};
  std::mt19937 random(1);
  int errors = 0;
  for (int i = 0; i < 1200; ++i) {
    std::string file = seeds[static_cast<size_t>(i) % seeds.size()];
    for (uint32_t change = random() % 4; change < 4; ++change) {
      const size_t within = random() % 2 == 0 ? std::min<size_t>(64, file.size()) : file.size();
      file[random() % within] = static_cast<char>(random());
    }
    errors += refusal(file) == "no error" ? 0 : 1;
  }
  EXPECT_GT(errors, 100);
}

}  // namespace
}  // namespace sardonyx::runtime
