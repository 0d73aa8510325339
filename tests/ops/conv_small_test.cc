// conv.small: the same sums as the reference on every geometry, also where it would decline,
// nothing but zeros where only padding meets, and where it serves.
#include <algorithm>

#include "tests/ops/conv_support.h"

namespace sardonyx::test {
namespace {

const std::vector<Geometry> kTiny = {
    {"one_cell", {1, 20, 1, 1}, {37, 20, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, true},
    {"two_by_two", {1, 17, 2, 2}, {35, 17, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, true},
    {"one_by_three", {1, 70, 1, 3}, {19, 70, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}},
    {"two_cells_to_one",
     {1, 33, 2, 2},
     {16, 33, 3, 3},
     {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}},
     true},
    {"dilation_meets_the_corners",
     {1, 16, 3, 3},
     {16, 16, 3, 3},
     {{"pads", Ints{2, 2, 2, 2}}, {"dilations", Ints{2, 2}}}},
    {"dilation_beyond_the_image",
     {1, 16, 2, 2},
     {18, 16, 3, 3},
     {{"pads", Ints{3, 3, 3, 3}}, {"dilations", Ints{3, 3}}}},
    {"three_groups",
     {1, 51, 2, 2},
     {60, 17, 3, 3},
     {{"group", int64_t{3}}, {"pads", Ints{1, 1, 1, 1}}},
     true},
    {"strides_skip_cells", {1, 16, 3, 3}, {16, 16, 1, 1}, {{"strides", Ints{2, 2}}}},
    {"one_axis", {1, 16, 3}, {20, 16, 5}, {{"pads", Ints{2, 2}}}, true},
    {"three_axes", {1, 16, 1, 2, 1}, {20, 16, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1, 1, 1}}}},
    {"only_padding",
     {1, 16, 1, 1},
     {16, 16, 2, 2},
     {{"pads", Ints{3, 3, 1, 1}}, {"strides", Ints{2, 2}}, {"dilations", Ints{2, 2}}}},
};

std::vector<OpCase> cases_of(Geometry g, int64_t batch) {
  g.x[0] = batch;
  return {conv_case(g), grad_data_case(g), grad_filter_case(g)};
}

const ops::KernelDef& small(const OpCase& c) { return kernel_named(c, "conv.small"); }

void expect_reference(const OpCase& c, int64_t batch) {
  const OneNode node(c);
  const Tensor want = node.run(kernel_named(c, "conv.ref"), 1);
  const Tensor got = node.run(small(c), 1);
  EXPECT_EQ(difference(got, want, {1e-5, 2e-5}), std::nullopt)
      << c.op << " " << c.claim << " with " << batch << " images";
  for (const int threads : {2, 3}) {
    EXPECT_TRUE(got.identical(node.run(small(c), threads)))
        << c.claim << " with " << threads << " threads";
  }
}

TEST(ConvSmall, agrees_with_the_reference_on_every_geometry) {
  for (const auto* list : {&kTiny, &kGeometries}) {
    for (const Geometry& g : *list) {
      for (const int64_t batch : {1, 5, 16, 61}) {
        for (const OpCase& c : cases_of(g, batch)) expect_reference(c, batch);
      }
    }
  }
}

// 512 KiB of one operand go together: 128 images here.
TEST(ConvSmall, agrees_with_the_reference_over_several_chunks_of_images) {
  const Geometry g{"chunks", {1, 256, 2, 2}, {24, 256, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, true};
  for (const OpCase& c : cases_of(g, 300)) {
    const OneNode node(c);
    const Tensor want = node.run(kernel_named(c, "conv.ref"), 2);
    EXPECT_EQ(difference(node.run(small(c), 2), want, {1e-4, 1e-4}), std::nullopt) << c.op;
  }
}

TEST(ConvSmall, taps_that_meet_only_padding_get_zeros_or_nothing_more) {
  for (const int64_t batch : {7, 300}) {
    const OpCase c =
        cases_of({"dead", {1, 512, 1, 1}, {16, 512, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}}, batch)[2];
    const OneNode node(c);
    const Tensor start = random_tensor(DType::kFloat32, {16, 512, 3, 3}, -1, 1, 9);
    const Tensor once = node.run(small(c), 2);
    const Tensor added = node.run(small(c), {.threads = 2, .start = start});
    for (int64_t i = 0; i < once.numel(); ++i) {
      if (i % 9 == 4) {
        ASSERT_NE(once.as_double(i), 0);
        ASSERT_NEAR(added.as_double(i), start.as_double(i) + once.as_double(i), 1e-5);
      } else {
        ASSERT_EQ(once.as_double(i), 0) << i;
        ASSERT_EQ(added.as_double(i), start.as_double(i)) << i;
      }
    }
  }
}

std::vector<std::optional<std::string>> refusals(const Geometry& g, int64_t batch) {
  std::vector<std::optional<std::string>> sentences;
  for (const OpCase& c : cases_of(g, batch)) {
    sentences.push_back(ops::declines(small(c), OneNode(c).request));
  }
  return sentences;
}

TEST(ConvSmall, serves_images_of_few_cells) {
  const Attributes padded{{"pads", Ints{1, 1, 1, 1}}};
  const Attributes halving{{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}};
  const std::vector<std::optional<std::string>> all(3),
      none(3, "does not pay for images of so many cells, or so few images");
  EXPECT_EQ(refusals({"", {1, 512, 1, 1}, {512, 512, 3, 3}, padded}, 64), all);
  EXPECT_EQ(refusals({"", {1, 256, 2, 2}, {256, 256, 3, 3}, padded}, 64), all);
  EXPECT_EQ(refusals({"", {1, 128, 4, 4}, {256, 128, 3, 3}, halving}, 64), all);
  EXPECT_EQ(refusals({"", {1, 128, 4, 4}, {128, 128, 3, 3}, padded}, 64), none);
  EXPECT_EQ(refusals({"", {1, 512, 7, 7}, {512, 512, 3, 3}, padded}, 16), none);
}

TEST(ConvSmall, few_images_are_served_in_the_filter_gradient_only) {
  const Geometry g{"", {1, 256, 2, 2}, {256, 256, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}};
  const auto sentences = refusals(g, 1);
  EXPECT_NE(sentences[0], std::nullopt);
  EXPECT_NE(sentences[1], std::nullopt);
  EXPECT_EQ(sentences[2], std::nullopt);
}

TEST(ConvSmall, declines_few_channels_large_images_empty_batches_and_double) {
  const Attributes padded{{"pads", Ints{1, 1, 1, 1}}};
  EXPECT_EQ(refusals({"", {1, 8, 1, 1}, {64, 8, 3, 3}, padded}, 64)[0],
            "does not pay below 16 channels and outputs in a group");
  EXPECT_EQ(refusals({"", {1, 64, 9, 9}, {64, 64, 3, 3}, padded}, 64)[1],
            "takes images and kernels of at most 64 cells");
  EXPECT_EQ(refusals({"", {1, 64, 1, 1}, {64, 64, 3, 3}, padded}, 0)[2],
            "needs at least one image");
  const OpCase c = cases_of({"", {1, 64, 1, 1}, {64, 64, 3, 3}, padded}, 64)[0];
  EXPECT_EQ(ops::declines(small(c), OneNode(c, DType::kFloat64).request), "takes float only");
}

TEST(ConvSmall, comes_before_onednn_and_behind_winograd) {
  const OpCase c = conv_case(kGeometries[0]);
  std::vector<std::string> names;
  for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find(c.domain, c.op)) {
    if (kernel->layouts == ops::Layouts::kPlain) names.push_back(kernel->name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"conv.onednn_winograd", "conv.small", "conv.onednn",
                                             "conv.onednn_nhwc", "conv.ref"}));
}

}  // namespace
}  // namespace sardonyx::test
