// Crops and flips: which pixels land where, and what the draw depends on.
#include "runtime/data/augment.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/runtime/data/files.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;
using testing::error_of;
using Pixels = std::vector<uint8_t>;

std::shared_ptr<const Dataset> images(const Tensor& samples, ImageAxes axes) {
  DatasetInfo info;
  info.name = "d";
  info.axes = axes;
  return std::make_shared<ArrayDataset>(Arrays{samples, {}, {}}, info);
}

Pixels sample(const Dataset& data, int64_t index, int64_t epoch) {
  Pixels out(data.info().sample.bytes());
  auto bytes = data.sample({index, epoch}, std::as_writable_bytes(std::span(out)));
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

TEST(Augment, a_crop_of_one_shifts_to_all_nine_places) {
  auto data = images(Tensor::of<uint8_t>({1, 2, 2}, {1, 2, 3, 4}), ImageAxes::kHw);
  auto cropped = augment(data, {1, Flip::kNever}, 5);
  std::map<Pixels, int> counts;
  for (int64_t epoch = 0; epoch < 9000; ++epoch) ++counts[sample(*cropped, 0, epoch)];
  const std::set<Pixels> expected{{1, 2, 3, 4}, {0, 1, 0, 3}, {2, 0, 4, 0},
                                  {0, 0, 1, 2}, {3, 4, 0, 0}, {0, 0, 0, 1},
                                  {0, 0, 2, 0}, {0, 3, 0, 0}, {4, 0, 0, 0}};
  EXPECT_EQ(counts.size(), 9u);
  for (const auto& [pixels, count] : counts) {
    EXPECT_TRUE(expected.contains(pixels));
    EXPECT_NEAR(count, 1000, 150);  // 5 sigma
  }
}

TEST(Augment, a_flip_mirrors_columns_of_every_channel_half_the_time) {
  auto chw = augment(images(Tensor::of<uint8_t>({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6}), ImageAxes::kChw),
                     {0, Flip::kHorizontal}, 5);
  auto hwc = augment(images(Tensor::of<uint8_t>({1, 1, 3, 2}, {1, 2, 3, 4, 5, 6}), ImageAxes::kHwc),
                     {0, Flip::kHorizontal}, 5);
  int flipped = 0;
  for (int64_t epoch = 0; epoch < 1000; ++epoch) {
    Pixels planes = sample(*chw, 0, epoch);
    bool mirrored = planes == Pixels{3, 2, 1, 6, 5, 4};
    EXPECT_TRUE(mirrored || planes == (Pixels{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(sample(*hwc, 0, epoch),
              mirrored ? (Pixels{5, 6, 3, 4, 1, 2}) : (Pixels{1, 2, 3, 4, 5, 6}));
    flipped += mirrored;
  }
  EXPECT_NEAR(flipped, 500, 80);
}

TEST(Augment, crop_and_flip_together_keep_the_cut) {
  auto data = images(Tensor::of<uint8_t>({1, 1, 3}, {1, 2, 3}), ImageAxes::kHw);
  auto both = augment(data, {1, Flip::kHorizontal}, 5);
  std::set<Pixels> found;
  for (int64_t epoch = 0; epoch < 500; ++epoch) found.insert(sample(*both, 0, epoch));
  EXPECT_EQ(found,
            (std::set<Pixels>{
                {1, 2, 3}, {3, 2, 1}, {0, 1, 2}, {2, 1, 0}, {2, 3, 0}, {0, 3, 2}, {0, 0, 0}}));
}

TEST(Augment, a_border_wider_than_the_image_leaves_black) {
  auto data = images(Tensor::of<uint8_t>({1, 1, 1}, {9}), ImageAxes::kHw);
  auto wide = augment(data, {3, Flip::kHorizontal}, 5);
  std::set<Pixels> found;
  for (int64_t epoch = 0; epoch < 500; ++epoch) found.insert(sample(*wide, 0, epoch));
  EXPECT_EQ(found, (std::set<Pixels>{{0}, {9}}));
}

TEST(Augment, the_draw_depends_on_seed_epoch_and_index) {
  std::vector<uint8_t> pixels(2 * 256);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i);
  auto data = images(Tensor::of<uint8_t>({2, 16, 16}, pixels), ImageAxes::kHw);
  auto a = augment(data, {4, Flip::kHorizontal}, 1);
  auto b = augment(data, {4, Flip::kHorizontal}, 2);
  EXPECT_EQ(sample(*a, 0, 3), sample(*a, 0, 3));
  EXPECT_NE(sample(*a, 0, 3), sample(*a, 0, 4));
  EXPECT_NE(sample(*a, 0, 3), sample(*a, 1, 3));
  EXPECT_NE(sample(*a, 0, 3), sample(*b, 0, 3));
}

TEST(Augment, nothing_asked_is_nothing_done_and_unknown_axes_are_refused) {
  auto data = images(Tensor::of<uint8_t>({1, 2, 2}, {1, 2, 3, 4}), ImageAxes::kUnknown);
  EXPECT_EQ(augment(data, {}, 1), data);
  EXPECT_NE(error_of([&] {
              augment(data, {1, Flip::kNever}, 1);
            }).find("--data-layout"),
            std::string::npos);
}

TEST(Augment, the_flag_is_read_in_any_order) {
  Augment a = parse_augment("flip,crop:4");
  EXPECT_EQ(a.crop, 4);
  EXPECT_EQ(a.flip, Flip::kHorizontal);
  EXPECT_EQ(parse_augment("crop:2").flip, Flip::kNever);
  for (std::string bad : {"", "crop", "crop:", "crop:0", "crop:x", "flip,", "rotate"}) {
    EXPECT_NE(error_of([&] { parse_augment(bad); }).find("--augment"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace sardonyx::runtime
