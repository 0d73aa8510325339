// Transpose, Expand, Tile, Concat, Split, Slice, Pad, Cast: tiles with short edges, packs that
// don't come out even, pads in all modes. The meanings are tried by the cases of tests/ops.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using Shape = std::vector<int64_t>;

Tensor numbered(DType dtype, const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i % 120));
  return doubles(shape, values).cast(dtype);
}

TEST(CudaTranspose, tiles_end_anywhere) {
  for (const int64_t rows : {1, 7, 8, 31, 32, 33, 65}) {
    for (const int64_t columns : {1, 8, 31, 32, 33, 40}) {
      check_cuda({.claim = fmt::format("{} x {}", rows, columns),
                  .op = "Transpose",
                  .inputs = {random({rows, columns})}});
    }
  }
}

TEST(CudaTranspose, of_channels_and_of_all_axes) {
  for (const Shape& perm : {Shape{0, 2, 3, 1}, Shape{0, 3, 1, 2}, Shape{3, 2, 1, 0},
                            Shape{1, 0, 2, 3}, Shape{0, 1, 2, 3}, Shape{2, 0, 3, 1}}) {
    check_cuda({.claim = graph::shape_str(perm),
                .op = "Transpose",
                .inputs = {random({3, 9, 5, 11})},
                .attributes = {{"perm", perm}}});
  }
  check_cuda({.claim = "nothing", .op = "Transpose", .inputs = {random({0, 3})}});
}

TEST(CudaTranspose, of_every_element_size) {
  for (const DType dtype : {DType::kUint8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    check_cuda({.claim = std::string(graph::dtype_name(dtype)),
                .op = "Transpose",
                .inputs = {given(numbered(dtype, {33, 9}))}});
  }
}

TEST(CudaTranspose, more_than_eight_axes_are_declined_unless_they_merge) {
  const OpCase turned = {.claim = "reversed", .op = "Transpose", .inputs = {random(Shape(9, 2))}};
  EXPECT_EQ(cuda_refusal(turned, "transpose.cuda"),
            "knows up to 8 axes after neighbours were merged");
  check_cuda({.claim = "two groups",
              .op = "Transpose",
              .inputs = {random(Shape(10, 2))},
              .attributes = {{"perm", Shape{5, 6, 7, 8, 9, 0, 1, 2, 3, 4}}}});
}

TEST(CudaConcat, parts_of_any_width_move_in_packs_or_not) {
  for (const int64_t width : {1, 2, 3, 4, 8, 16, 17}) {
    check_cuda({.claim = fmt::format("columns, {} wide", width),
                .op = "Concat",
                .inputs = {random({5, width}), random({5, 0}), random({5, 8})},
                .attributes = {{"axis", int64_t{1}}}});
  }
  check_cuda({.claim = "rows",
              .op = "Concat",
              .inputs = {random({2, 3}), random({4, 3})},
              .attributes = {{"axis", int64_t{0}}}});
  check_cuda(
      {.claim = "bytes",
       .op = "Concat",
       .inputs = {given(numbered(DType::kUint8, {3, 16})), given(numbered(DType::kUint8, {3, 5}))},
       .attributes = {{"axis", int64_t{1}}}});
}

TEST(CudaSplit, outputs_may_be_left_out) {
  check_cuda({.claim = "the middle one",
              .op = "Split",
              .inputs = {random({3, 9, 2}), constant_ints({4, 3, 2})},
              .attributes = {{"axis", int64_t{1}}},
              .num_outputs = 3,
              .wanted_outputs = {false, true, false}});
}

TEST(CudaExpand, repeats_in_every_position) {
  for (const Shape& from :
       {Shape{1, 3, 4}, Shape{2, 1, 4}, Shape{2, 3, 1}, Shape{1, 1, 1}, Shape{}}) {
    check_cuda({.claim = graph::shape_str(from),
                .op = "Expand",
                .inputs = {random(from), constant_ints({2, 3, 4})}});
  }
  check_cuda({.claim = "tiles", .op = "Tile", .inputs = {random({2, 3}), constant_ints({3, 2})}});
}

TEST(CudaSlice, steps_back_and_over) {
  check_cuda({.claim = "backwards by two",
              .op = "Slice",
              .inputs = {random({4, 11}), constant_ints({-1, 1}), constant_ints({-100, 10}),
                         constant_ints({1, 0}), constant_ints({-2, 1})}});
  check_cuda({.claim = "nothing",
              .op = "Slice",
              .inputs = {random({4}), constant_ints({2}), constant_ints({2})}});
  check_cuda(
      {.claim = "a row of a map",
       .op = "Slice",
       .inputs = {random({2, 8, 16}), constant_ints({4}), constant_ints({8}), constant_ints({2})}});
}

TEST(CudaConcat, along_channels_that_come_last) {
  for (const int64_t axis : {1, 3}) {
    check_cuda({.claim = fmt::format("parts along axis {}", axis),
                .op = "Concat",
                .inputs = {random({2, axis == 1 ? 1 : 5, 3, 4}), random({2, 5, 3, 4}),
                           random({2, axis == 1 ? 17 : 5, 3, 4})},
                .attributes = {{"axis", axis}},
                .batch = true,
                .must_run = {"concat.cuda", "concat.cuda_nhwc"}});
  }
  check_cuda({.claim = "parts of 3, 1 and 8 channels",
              .op = "Split",
              .inputs = {random({2, 12, 3, 2}), constant_ints({3, 1, 8})},
              .attributes = {{"axis", int64_t{1}}},
              .num_outputs = 3,
              .batch = true,
              .must_run = {"split.cuda", "split.cuda_nhwc"}});
}

TEST(CudaPad, all_modes_and_signs) {
  const std::vector<Shape> pads = {
      {1, 2, 0, 1}, {0, 0, 0, 0}, {-1, 2, 1, -2}, {2, -1, -1, 3}, {0, 3, 0, 2}};
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    for (const Shape& around : pads) {
      check_cuda({.claim = fmt::format("{} {}", mode, graph::shape_str(around)),
                  .op = "Pad",
                  .inputs = {random({4, 5}), constant_ints(around), given(floats({}, {7}))},
                  .attributes = {{"mode", std::string(mode)}}});
    }
  }
}

TEST(CudaPad, goes_around_more_than_once) {
  for (const char* mode : {"edge", "reflect", "wrap"}) {
    for (const int64_t size : {1, 2, 3}) {
      check_cuda({.claim = fmt::format("{} of {}", mode, size),
                  .op = "Pad",
                  .inputs = {random({2, size, 3}), constant_ints({0, 7, 0, 0, 8, 0})},
                  .attributes = {{"mode", std::string(mode)}}});
    }
  }
}

TEST(CudaPad, without_a_value_the_rim_is_zero) {
  check_cuda({.claim = "images",
              .op = "Pad",
              .inputs = {random({2, 3, 4, 4}), constant_ints({0, 0, 1, 1, 0, 0, 1, 1})}});
  check_cuda({.claim = "bytes",
              .op = "Pad",
              .inputs = {given(numbered(DType::kUint8, {3})), constant_ints({1, 1})}});
}

TEST(CudaReorder, between_plain_layouts_is_a_copy) {
  check_cuda({.claim = "plain",
              .domain = "sardonyx",
              .op = "Reorder",
              .inputs = {random({3, 4})},
              .attributes = {{"to", std::string("plain")}}});
  const OpCase lanes = {.claim = "lanes",
                        .domain = "sardonyx",
                        .op = "Reorder",
                        .inputs = {random({3, 4})},
                        .attributes = {{"to", std::string("n16")}}};
  EXPECT_EQ(cuda_refusal(lanes, "reorder.cuda"), "knows plain and channels last only");
}

TEST(CudaCast, every_pair_of_types) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x =
      doubles({12}, {0, 1, -1, 2.9, -2.9, 127.5, -128.5, 300, -70000, 1e12, inf, -inf});
  const std::vector<DType> dtypes = {DType::kFloat32, DType::kFloat64, DType::kInt8,
                                     DType::kInt16,   DType::kInt32,   DType::kInt64,
                                     DType::kUint8,   DType::kUint16,  DType::kUint32,
                                     DType::kUint64,  DType::kBool,    DType::kBFloat16};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      check_cuda({.claim = fmt::format("{} to {}", graph::dtype_name(from), graph::dtype_name(to)),
                  .op = "Cast",
                  .inputs = {exactly(given(x.cast(from)))},
                  .attributes = {{"to", static_cast<int64_t>(to)}},
                  .differentiate = std::vector<int>{}});
    }
  }
}

TEST(CudaCast, doubles_are_rounded_to_bfloat16_once) {
  // Each lies just beside the middle of two numbers, where float would put it.
  const double up = 0x1.01p0 + 0x1p-40, down = 0x1.03p0 - 0x1p-40;
  check_cuda({.claim = "beside the middle",
              .op = "Cast",
              .inputs = {exactly(given(doubles({4}, {up, down, -up, -down})))},
              .attributes = {{"to", static_cast<int64_t>(DType::kBFloat16)}},
              .expected = {doubles({4}, {0x1.02p0, 0x1.02p0, -0x1.02p0, -0x1.02p0})},
              .expected_tolerance = {0, 0},
              .float_tolerance = {0, 0},
              .differentiate = std::vector<int>{}});
}

TEST(CudaCast, half_precision_is_declined_with_a_sentence) {
  const OpCase halves = {.claim = "halves",
                         .op = "Cast",
                         .inputs = {random({3})},
                         .attributes = {{"to", static_cast<int64_t>(DType::kFloat16)}}};
  EXPECT_EQ(cuda_refusal(halves, "cast.cuda"),
            "takes float, double, bfloat16, integers and bool only");
}

}  // namespace

}  // namespace sardonyx::test
