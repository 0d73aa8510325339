// StridedCopy against plain loops, for the shapes that take different ways through it.
#include "ops/core/strided.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/core/axes.h"
#include "tests/support/test_pool.h"

namespace sardonyx::ops {
namespace {

std::vector<int64_t> copied(const StridedBox& box, int64_t src_size, int64_t dst_size,
                            int threads) {
  std::vector<int64_t> src(src_size), dst(dst_size, -1);
  std::iota(src.begin(), src.end(), 0);
  test::TestPool pool(threads);
  StridedCopy(box, DType::kInt64).run(pool, src.data(), dst.data());
  return dst;
}

std::vector<int64_t> by_loops(const StridedBox& box, int64_t dst_size) {
  std::vector<int64_t> dst(dst_size, -1);
  for_each_index(box.dims, [&](const std::vector<int64_t>& index) {
    dst[box.dst_at + offset_of(index, box.dst)] = box.src_at + offset_of(index, box.src);
  });
  return dst;
}

void expect_like_loops(const StridedBox& box, int64_t src_size, int64_t dst_size) {
  for (int threads : {1, 3}) {
    EXPECT_EQ(copied(box, src_size, dst_size, threads), by_loops(box, dst_size)) << threads;
  }
}

TEST(StridedCopy, dense_arrays_are_copied_whole) {
  expect_like_loops({{50, 7, 100}, {700, 100, 1}, {700, 100, 1}}, 35000, 35000);
}

TEST(StridedCopy, a_matrix_is_transposed_with_short_last_tiles) {
  expect_like_loops({{203, 165}, {1, 203}, {165, 1}}, 203 * 165, 203 * 165);
  expect_like_loops({{16, 32}, {1, 16}, {32, 1}}, 512, 512);
}

TEST(StridedCopy, channels_last_to_channels_first_in_many_images) {
  // [5,37,29,23] NHWC: dims of the box are N, C, H, W.
  expect_like_loops(
      {{5, 23, 37, 29}, {37 * 29 * 23, 1, 29 * 23, 23}, {23 * 37 * 29, 37 * 29, 29, 1}},
      5 * 37 * 29 * 23, 5 * 37 * 29 * 23);
}

TEST(StridedCopy, reverses_and_scatters) {
  expect_like_loops({{4, 5}, {-5, -1}, {20, 2}, 19, 3}, 20, 80);
}

TEST(StridedCopy, a_zero_source_stride_repeats) {
  EXPECT_EQ(copied({{2, 3}, {1, 0}, {3, 1}}, 2, 6, 1), (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
}

TEST(StridedCopy, an_empty_box_writes_nothing) {
  EXPECT_EQ(copied({{2, 0}, {0, 1}, {0, 1}}, 1, 2, 1), (std::vector<int64_t>{-1, -1}));
}

TEST(StridedCopy, a_box_without_axes_copies_one_element) {
  EXPECT_EQ(copied({{}, {}, {}, 2, 1}, 3, 2, 1), (std::vector<int64_t>{-1, 2}));
}

TEST(StoredDims, lanes_become_an_inner_axis_of_sixteen) {
  TensorType type(DType::kFloat32, {19, 3, 4});
  EXPECT_EQ(stored_dims(type), (std::vector<int64_t>{19, 3, 4}));
  type.layout = graph::Layout::lanes(16);
  EXPECT_EQ(stored_dims(type), (std::vector<int64_t>{2, 3, 4, 16}));
}

TEST(Axes, count_from_the_end_and_are_checked) {
  EXPECT_EQ(checked_axis(-1, 3), 2);
  EXPECT_EQ(checked_axes({-1, 0}, 3), (std::vector<int>{2, 0}));
  try {
    checked_axis(5, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "axis 5 is out of range [-3, 2] for rank 3");
  }
  try {
    checked_axes({2, -1}, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "axis -1 is listed twice");
  }
}

TEST(Axes, a_shared_dimension_keeps_the_batch_symbol) {
  using graph::Dim;
  EXPECT_EQ(merged(Dim(8), Dim(8, "N"), "N"), Dim(8, "N"));
  EXPECT_EQ(merged(Dim(8, "seq"), Dim(8, "N"), "N"), Dim(8, "N"));
  EXPECT_EQ(merged(Dim(8, "N"), Dim(8, "seq"), "N"), Dim(8, "N"));
  EXPECT_EQ(merged(Dim::named("N"), Dim(8), "N"), Dim(8, "N"));
  EXPECT_FALSE(agree(Dim(8), Dim(7)));
  EXPECT_TRUE(agree(Dim(8), Dim::named("N")));
}

}  // namespace
}  // namespace sardonyx::ops
