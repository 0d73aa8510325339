#include "graph/type.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(DType, names_and_sizes_agree_with_onnx) {
  const std::vector<std::pair<std::string, size_t>> expected{
      {"float", 4},  {"uint8", 1},     {"int8", 1},        {"uint16", 2},
      {"int16", 2},  {"int32", 4},     {"int64", 8},       {"string", 0},
      {"bool", 1},   {"float16", 2},   {"double", 8},      {"uint32", 4},
      {"uint64", 8}, {"complex64", 8}, {"complex128", 16}, {"bfloat16", 2}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto dtype = static_cast<DType>(i + 1);
    EXPECT_EQ(dtype_name(dtype), expected[i].first);
    EXPECT_EQ(dtype_size(dtype), expected[i].second);
    EXPECT_EQ(dtype_from_name(expected[i].first), dtype);
  }
  EXPECT_EQ(dtype_from_name("float32"), DType::kUndefined);
  EXPECT_EQ(dtype_size(DType::kUndefined), 0U);
}

TEST(DType, floating_and_integer_exclude_bool_string_and_complex) {
  for (const DType dtype : {DType::kBool, DType::kString, DType::kComplex64, DType::kUndefined}) {
    EXPECT_FALSE(is_floating(dtype));
    EXPECT_FALSE(is_integer(dtype));
  }
  EXPECT_TRUE(is_floating(DType::kBFloat16));
  EXPECT_TRUE(is_integer(DType::kUint64));
}

TEST(Layout, text_reads_back) {
  Layout nhwc;
  nhwc.order = {0, 2, 3, 1};
  Layout blocked;
  blocked.order = {1, 0, 12};
  blocked.inner = {{1, 16}, {0, 4}, {2, 8}};
  blocked.padding = Layout::Padding::kZero;
  EXPECT_EQ(Layout().str(), "");
  EXPECT_EQ(nhwc.str(), "@0231");
  EXPECT_EQ(Layout::lanes(16).str(), "@n16");
  EXPECT_EQ(blocked.str(), "@10(12)c16n4a2x8z");
  for (const Layout& layout : {nhwc, blocked, Layout::lanes(8)}) {
    EXPECT_EQ(Layout::from_str(layout.str().substr(1)), layout);
  }
}

TEST(Layout, text_that_is_no_layout_is_refused) {
  for (const char* text : {"", "z", "n", "n0", "n-4", "q16", "16n", "a2", "a2y8", "(3", "()",
                           "n16zz", "n99999999999", "zn16"}) {
    EXPECT_EQ(Layout::from_str(text), std::nullopt) << text;
  }
}

TEST(Layout, only_one_block_of_axis_0_counts_as_lanes) {
  EXPECT_EQ(Layout::lanes(16).lane_count(), 16);
  EXPECT_EQ(Layout().lane_count(), 0);
  EXPECT_EQ(Layout::from_str("c16")->lane_count(), 0);
  EXPECT_EQ(Layout::from_str("10n16")->lane_count(), 0);
  EXPECT_EQ(Layout::from_str("n16c8")->lane_count(), 0);
}

TEST(TensorType, text_shows_symbols_sizes_and_layout) {
  TensorType type(DType::kFloat32, {Dim(60, "N"), 1, Dim::named("batch size"), Dim()});
  EXPECT_EQ(type.str(), "float[N:60,1,\"batch size\",?]");
  type.layout = Layout::lanes(16);
  EXPECT_EQ(type.str(), "float[N:60,1,\"batch size\",?]@n16");
  EXPECT_EQ(TensorType(DType::kInt64, {}).str(), "int64[]");
  EXPECT_EQ(TensorType::unranked(DType::kFloat32).str(), "float");
  EXPECT_EQ(TensorType().str(), "undefined");
}

TEST(TensorType, static_needs_every_dimension) {
  EXPECT_TRUE(TensorType(DType::kFloat32, {}).is_static());
  EXPECT_TRUE(TensorType(DType::kFloat32, {Dim(3, "N"), 0}).is_static());
  EXPECT_FALSE(TensorType(DType::kFloat32, {3, Dim::named("N")}).is_static());
  EXPECT_FALSE(TensorType::unranked(DType::kFloat32).is_static());
  EXPECT_THROW(TensorType::unranked(DType::kFloat32).shape(), InternalError);
}

TEST(TensorType, short_last_blocks_are_stored_whole) {
  TensorType type(DType::kFloat32, {61, 3, 5, 5});
  EXPECT_EQ(type.numel(), 61 * 3 * 25);
  EXPECT_EQ(type.physical_numel(), 61 * 3 * 25);
  type.layout = Layout::lanes(16);
  EXPECT_EQ(type.physical_numel(), 64 * 3 * 25);
  EXPECT_EQ(type.bytes(), 64U * 3 * 25 * 4);
  type.layout = *Layout::from_str("n16c8");
  EXPECT_EQ(type.physical_numel(), 64 * 8 * 25);
  type.layout = *Layout::from_str("n4n4");  // two blocks of one axis: rounded up to their product
  EXPECT_EQ(type.physical_numel(), 64 * 3 * 25);
  type.layout = *Layout::from_str("0231");
  EXPECT_EQ(type.physical_numel(), 61 * 3 * 25);
}

TEST(TensorType, same_storage_ignores_symbols_of_known_sizes_only) {
  const TensorType plain(DType::kFloat32, {4, 3});
  const TensorType bound(DType::kFloat32, {Dim(4, "N"), 3});
  TensorType lanes = bound;
  lanes.layout = Layout::lanes(4);
  const TensorType open(DType::kFloat32, {Dim::named("N"), 3});
  EXPECT_TRUE(plain.same_storage(bound));
  EXPECT_FALSE(plain == bound);
  EXPECT_FALSE(plain.same_storage(lanes));
  EXPECT_FALSE(plain.same_storage(TensorType(DType::kFloat64, {4, 3})));
  EXPECT_FALSE(plain.same_storage(TensorType(DType::kFloat32, {4, 3, 1})));
  EXPECT_FALSE(plain.same_storage(open));
  EXPECT_TRUE(open.same_storage(open));
  EXPECT_FALSE(open.same_storage(TensorType(DType::kFloat32, {Dim::named("M"), 3})));
  EXPECT_FALSE(
      TensorType(DType::kFloat32, {Dim()}).same_storage(TensorType(DType::kFloat32, {Dim()})));
}

TEST(CheckedNumel, overflow_and_negative_entries_name_the_shape) {
  EXPECT_EQ(checked_numel({}), 1);
  EXPECT_EQ(checked_numel({int64_t{1} << 40, 0, int64_t{1} << 22}), 0);
  EXPECT_EQ(checked_numel({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_EQ(message_of([] {
              checked_numel({int64_t{1} << 31, int64_t{1} << 31, 2});
            }),
            "shape [2147483648,2147483648,2] has more than 2^62 elements");
  EXPECT_EQ(message_of([] {
              checked_numel({0, int64_t{1} << 62, 2});
            }),
            "shape [0,4611686018427387904,2] has more than 2^62 elements");
  EXPECT_EQ(message_of([] { checked_numel({2, -1}); }), "shape [2,-1] has a negative entry");
  EXPECT_EQ(message_of([] { TensorType(DType::kFloat64, {int64_t{1} << 61}).bytes(); }),
            "tensor type double[2305843009213693952] needs more bytes than can be addressed");
}

}  // namespace
}  // namespace sardonyx::graph
