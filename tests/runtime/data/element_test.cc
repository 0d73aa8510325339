// Conversion of rows: values, bits and strides.
#include "runtime/data/element.h"

#include <gtest/gtest.h>

#include <cstring>

#include "graph/support/error.h"
#include "graph/tensor.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

constexpr DType kNumbers[] = {DType::kBool,   DType::kUint8,   DType::kInt8,     DType::kUint16,
                              DType::kInt16,  DType::kUint32,  DType::kInt32,    DType::kUint64,
                              DType::kInt64,  DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                              DType::kFloat64};

Tensor convert(const Tensor& from, DType to, RowConversion c = {}) {
  c.from = from.dtype();
  c.to = to;
  if (c.plane == 0) c.plane = from.numel();
  Tensor out(to, from.shape());
  RowConverter(c).convert(from.bytes(), out.mutable_bytes());
  return out;
}

TEST(Element, reversal_swaps_within_elements) {
  std::vector<std::byte> data{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  reverse_elements(data, 2);
  EXPECT_EQ(data, (std::vector<std::byte>{std::byte{2}, std::byte{1}, std::byte{4}, std::byte{3}}));
}

// Plain conversion agrees with Tensor::cast wherever it is allowed; 600 elements span three blocks.
TEST(Element, every_pair_of_types_keeps_the_values) {
  std::vector<int64_t> values(600);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * i % 100);
  for (DType from : kNumbers) {
    Tensor source = Tensor::of<int64_t>({600}, values).cast(from);
    for (DType to : kNumbers) {
      if (!can_convert(from, to)) continue;
      RowConversion raw;
      raw.scale = PixelScale::kRaw;
      Tensor found = convert(source, to, raw);
      EXPECT_TRUE(found.identical(source.cast(to)))
          << graph::dtype_name(from) << " to " << graph::dtype_name(to);
    }
  }
}

TEST(Element, floats_never_become_integers) {
  EXPECT_FALSE(can_convert(DType::kFloat32, DType::kInt64));
  EXPECT_FALSE(can_convert(DType::kFloat16, DType::kUint8));
  EXPECT_FALSE(can_convert(DType::kString, DType::kFloat32));
  EXPECT_FALSE(can_convert(DType::kComplex64, DType::kFloat32));
  EXPECT_TRUE(can_convert(DType::kBool, DType::kInt64));
}

TEST(Element, pixels_are_scaled_and_normalised_in_float_arithmetic) {
  std::vector<uint8_t> pixels(256);
  for (int v = 0; v < 256; ++v) pixels[v] = static_cast<uint8_t>(v);
  Tensor source = Tensor::of<uint8_t>({256}, pixels);
  Tensor unit = convert(source, DType::kFloat32);
  RowConversion c;
  c.mean = {0.1307f};
  c.std = {0.3081f};
  Tensor normal = convert(source, DType::kFloat32, c);
  Tensor doubles = convert(source, DType::kFloat64, c);
  for (int v = 0; v < 256; ++v) {
    EXPECT_EQ(unit.data<float>()[v], static_cast<float>(v) / 255.0f);
    EXPECT_EQ(normal.data<float>()[v], (static_cast<float>(v) / 255.0f - 0.1307f) / 0.3081f);
    EXPECT_EQ(doubles.data<double>()[v], normal.data<float>()[v]);
  }
  EXPECT_EQ(convert(source, DType::kFloat16).as_double(255), 1.0);
  EXPECT_EQ(convert(source, DType::kBFloat16).as_double(51), 0.2001953125);
}

// Two pixels of three channels, HWC to CHW, each channel with its own mean.
TEST(Element, axes_move_and_channels_keep_their_statistics) {
  RowConversion c;
  c.channels = 3;
  c.plane = 2;
  c.source = {1, 3};
  c.target = {2, 1};
  c.scale = PixelScale::kRaw;
  Tensor bytes = Tensor::of<uint8_t>({6}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(convert(bytes, DType::kUint8, c).to_ints(), (std::vector<int64_t>{1, 4, 2, 5, 3, 6}));
  c.mean = {0, 10, 20};
  c.std = {1, 1, 2};
  std::vector<double> expected{1, 4, -8, -5, -8.5, -7};
  EXPECT_EQ(convert(bytes, DType::kFloat32, c).to_doubles(), expected);
  EXPECT_EQ(convert(bytes.cast(DType::kFloat32), DType::kFloat32, c).to_doubles(), expected);
  EXPECT_EQ(convert(bytes.cast(DType::kInt32), DType::kFloat64, c).to_doubles(), expected);
}

TEST(Element, only_untouched_bytes_are_an_identity) {
  RowConversion c;
  c.from = c.to = DType::kFloat32;
  c.plane = 4;
  EXPECT_TRUE(RowConverter(c).identity());
  c.mean = {0};
  c.std = {1};
  EXPECT_FALSE(RowConverter(c).identity());
  c.mean = c.std = {};
  c.channels = 2;
  c.plane = 2;
  c.source = {1, 2};
  c.target = {2, 1};
  EXPECT_FALSE(RowConverter(c).identity());
  c.to = DType::kFloat64;
  EXPECT_FALSE(RowConverter(c).identity());
}

TEST(Element, unsigned_integers_of_64_bits_are_compared_in_full) {
  const Tensor values = Tensor::of<uint64_t>({3}, {7, uint64_t{1} << 63, ~uint64_t{0}});
  EXPECT_TRUE(is_within(values, 0, integer_range(DType::kInt64)));
  EXPECT_FALSE(is_within(values, 1, integer_range(DType::kInt64)));
  EXPECT_FALSE(is_within(values, 2, integer_range(DType::kInt8)));
  EXPECT_TRUE(is_within(values, 2, integer_range(DType::kUint64)));
  EXPECT_EQ(integer_text(values, 1), "9223372036854775808");
  const Tensor below = Tensor::of<int64_t>({1}, {-1});
  EXPECT_TRUE(is_within(below, 0, integer_range(DType::kInt8)));
  EXPECT_FALSE(is_within(below, 0, integer_range(DType::kUint64)));
  EXPECT_EQ(integer_text(below, 0), "-1");
}

}  // namespace
}  // namespace sardonyx::runtime
