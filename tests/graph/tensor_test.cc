#include "graph/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

bool aligned_to(const void* address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

// A tensor of floats whose bytes stand at an odd address of `buffer`.
Tensor misaligned(std::shared_ptr<std::vector<std::byte>> buffer,
                  const std::vector<float>& values) {
  buffer->resize(values.size() * sizeof(float) + 1);
  std::memcpy(buffer->data() + 1, values.data(), values.size() * sizeof(float));
  return Tensor::borrow(DType::kFloat32, {static_cast<int64_t>(values.size())},
                        std::span(*buffer).subspan(1), buffer);
}

TEST(Tensor, owned_memory_is_zero_and_aligned_to_64_bytes) {
  for (int64_t n = 1; n < 40; ++n) {
    const Tensor tensor(DType::kFloat32, {n});
    EXPECT_TRUE(aligned_to(tensor.bytes().data(), 64));
    for (const float value : tensor.data<float>()) EXPECT_EQ(value, 0.0F);
  }
}

TEST(Tensor, empty_and_scalar_shapes) {
  const Tensor empty(DType::kFloat32, {2, 0, 3});
  EXPECT_TRUE(empty.defined());
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_TRUE(empty.data<float>().empty());
  EXPECT_TRUE(empty.cast(DType::kInt8).to_ints().empty());
  EXPECT_TRUE(empty.identical(Tensor(DType::kFloat32, {2, 0, 3})));
  EXPECT_FALSE(empty.identical(Tensor(DType::kFloat32, {0})));
  const Tensor scalar = Tensor::scalar<int64_t>(7);
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(scalar.as_int(0), 7);
  EXPECT_EQ(scalar.type().str(), "int64[]");
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, copies_share_until_one_is_written) {
  Tensor a = Tensor::of<float>({3}, {1, 2, 3});
  const Tensor b = a;
  EXPECT_EQ(a.bytes().data(), b.bytes().data());
  a.mutable_data<float>()[1] = 9;
  EXPECT_NE(a.bytes().data(), b.bytes().data());
  EXPECT_EQ(b.data<float>()[1], 2.0F);
  EXPECT_EQ(a.data<float>()[1], 9.0F);
  const std::byte* before = a.bytes().data();
  a.mutable_data<float>()[0] = 8;  // no sharer left: in place
  EXPECT_EQ(a.bytes().data(), before);
}

TEST(Tensor, borrowed_bytes_are_not_copied_until_written) {
  const auto buffer = std::make_shared<std::vector<float>>(std::vector<float>{1, 2});
  Tensor tensor = Tensor::borrow(DType::kFloat32, {2}, std::as_bytes(std::span(*buffer)), buffer);
  EXPECT_EQ(tensor.bytes().data(), reinterpret_cast<const std::byte*>(buffer->data()));
  EXPECT_EQ(buffer.use_count(), 2);
  tensor.mutable_data<float>()[0] = 5;
  EXPECT_EQ((*buffer)[0], 1.0F);
  EXPECT_EQ(tensor.data<float>()[0], 5.0F);
  EXPECT_EQ(tensor.data<float>()[1], 2.0F);
  EXPECT_EQ(buffer.use_count(), 1);
}

TEST(Tensor, misaligned_bytes_are_realigned_once_for_all_sharers) {
  const auto buffer = std::make_shared<std::vector<std::byte>>();
  const Tensor tensor = misaligned(buffer, {1.5F, -2, 3});
  const Tensor sharer = tensor;
  EXPECT_FALSE(aligned_to(tensor.bytes().data(), 4));
  EXPECT_EQ(tensor.as_double(1), -2.0);  // needs no aligned copy
  const std::span<const float> data = tensor.data<float>();
  EXPECT_TRUE(aligned_to(data.data(), 64));
  EXPECT_EQ(std::vector<float>(data.begin(), data.end()), (std::vector<float>{1.5F, -2, 3}));
  EXPECT_EQ(sharer.data<float>().data(), data.data());
  EXPECT_FALSE(aligned_to(tensor.bytes().data(), 4));  // what was handed out stays valid
}

TEST(Tensor, misaligned_bytes_may_be_read_first_from_several_threads) {
  const auto buffer = std::make_shared<std::vector<std::byte>>();
  const Tensor tensor = misaligned(buffer, std::vector<float>(1000, 2.0F));
  std::vector<const float*> seen(4);
  std::vector<std::thread> threads;
  for (auto& at : seen) threads.emplace_back([&] { at = tensor.data<float>().data(); });
  for (std::thread& thread : threads) thread.join();
  for (const float* at : seen) EXPECT_EQ(at, seen[0]);
  EXPECT_EQ(seen[0][999], 2.0F);
}

TEST(Tensor, wrong_sizes_and_types_are_broken_invariants) {
  const std::vector<std::byte> seven(7);
  EXPECT_THROW(Tensor::borrow(DType::kFloat32, {2}, seven, nullptr), InternalError);
  EXPECT_THROW(Tensor::of<float>({3}, {1, 2}), InternalError);
  EXPECT_THROW(Tensor::scalar(1.0F).data<double>(), InternalError);
  EXPECT_THROW(Tensor::scalar(1.0F).as_double(1), InternalError);
  EXPECT_THROW(Tensor::scalar(1.0F).as_double(-1), InternalError);
  EXPECT_THROW(Tensor::of<float>({4}, {1, 2, 3, 4}).reshaped({3}), InternalError);
  EXPECT_THROW(Tensor(DType::kFloat32, {-1}), Error);
}

TEST(Tensor, strings_have_no_bytes) {
  const Tensor tensor = Tensor::of_strings({2}, {"a", "b\0c"});
  EXPECT_EQ(tensor.bytes().size(), 0U);
  EXPECT_EQ(tensor.strings()[0], "a");
  EXPECT_TRUE(tensor.identical(Tensor::of_strings({2}, {"a", "b\0c"})));
  EXPECT_FALSE(tensor.identical(Tensor::of_strings({2}, {"a", "c"})));
  EXPECT_THROW(tensor.to_doubles(), Error);
  EXPECT_THROW(tensor.cast(DType::kFloat32), Error);
}

TEST(Tensor, reshaped_shares_the_bytes) {
  const Tensor tensor = Tensor::of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor flat = tensor.reshaped({6});
  EXPECT_EQ(flat.bytes().data(), tensor.bytes().data());
  EXPECT_EQ(flat.shape(), (std::vector<int64_t>{6}));
  EXPECT_FALSE(flat.identical(tensor));
}

TEST(Tensor, identical_compares_bits) {
  const float nan = std::nanf("");
  EXPECT_TRUE(Tensor::scalar(nan).identical(Tensor::scalar(nan)));
  EXPECT_FALSE(Tensor::scalar(0.0F).identical(Tensor::scalar(-0.0F)));
  EXPECT_FALSE(Tensor::scalar(int32_t{0}).identical(Tensor::scalar(0.0F)));
}

TEST(TensorCast, floating_to_integer_truncates_and_saturates) {
  const Tensor values = Tensor::of<double>({8}, {2.9, -2.9, 300, -300, 1e30, -1e30, NAN, -0.9});
  EXPECT_EQ(values.cast(DType::kInt8).to_ints(),
            (std::vector<int64_t>{2, -2, 127, -128, 127, -128, 0, 0}));
  EXPECT_EQ(values.cast(DType::kUint8).to_ints(),
            (std::vector<int64_t>{2, 0, 255, 0, 255, 0, 0, 0}));
  EXPECT_EQ(values.to_ints(), (std::vector<int64_t>{2, -2, 300, -300, INT64_MAX, INT64_MIN, 0, 0}));
  EXPECT_EQ(Tensor::scalar(2147483648.0F).cast(DType::kInt32).as_int(0), 2147483647);
}

TEST(TensorCast, integers_wrap_and_bool_is_not_zero) {
  EXPECT_EQ(Tensor::of<int32_t>({3}, {300, -1, 128}).cast(DType::kInt8).to_ints(),
            (std::vector<int64_t>{44, -1, -128}));
  EXPECT_EQ(Tensor::of<int64_t>({3}, {256, 0, -1}).cast(DType::kBool).to_ints(),
            (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(Tensor::of<float>({4}, {0.5F, -0.0F, kInf, NAN}).cast(DType::kBool).to_ints(),
            (std::vector<int64_t>{1, 0, 1, 1}));
  EXPECT_EQ(Tensor::of<bool>({2}, {true, false}).cast(DType::kFloat32).to_doubles(),
            (std::vector<double>{1, 0}));
}

TEST(TensorCast, wide_integers_keep_every_digit) {
  const int64_t odd = (int64_t{1} << 53) + 1;  // no double
  EXPECT_EQ(Tensor::scalar(odd).as_int(0), odd);
  EXPECT_EQ(Tensor::scalar(odd).cast(DType::kUint64).as_int(0), odd);
  EXPECT_EQ(Tensor::scalar(std::numeric_limits<uint64_t>::max()).as_double(0),
            18446744073709551616.0);
}

TEST(TensorCast, halves_round_to_nearest_even_once) {
  const auto half = [](auto value) {
    return Tensor::scalar(value).cast(DType::kFloat16).template data<uint16_t>()[0];
  };
  EXPECT_EQ(half(1.0), 0x3c00);
  EXPECT_EQ(half(2049.0), 0x6800);   // tie: to even 2048
  EXPECT_EQ(half(2051.0), 0x6802);   // tie: to even 2052
  EXPECT_EQ(half(65519.0), 0x7bff);  // 65504
  EXPECT_EQ(half(65520.0), 0x7c00);  // inf
  EXPECT_EQ(half(int64_t{-100000}), 0xfc00);
  // Just above a tie: a first rounding to float would make it the tie and round down.
  EXPECT_EQ(half(1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(half(1.0 + 0x1p-11), 0x3c00);
  const auto brain = [](auto value) {
    return Tensor::scalar(value).cast(DType::kBFloat16).template data<uint16_t>()[0];
  };
  EXPECT_EQ(brain(1.0 + 0x1p-8), 0x3f80);
  EXPECT_EQ(brain(1.0 + 0x1p-8 + 0x1p-50), 0x3f81);
  EXPECT_EQ(brain((int64_t{257} << 54) + 1), 0x5e81);
  EXPECT_EQ(brain(-kInf), 0xff80);
}

TEST(HalfFloat, every_half_reads_back_from_its_float) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    const uint16_t back = float_to_half(value);
    if (std::isnan(value)) {
      EXPECT_EQ(back, bits | 0x200U);  // quiet, payload kept
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(HalfFloat, known_values) {
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x8000), 0.0F);
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
  EXPECT_EQ(half_to_float(0x7bff), 65504.0F);
  EXPECT_EQ(half_to_float(0xfc00), -kInf);
  EXPECT_EQ(float_to_half(0x1p-25F), 0x0000);  // tie: to even zero
  EXPECT_EQ(float_to_half(0x1.000002p-25F), 0x0001);
  EXPECT_EQ(float_to_half(0x1.8p-24F), 0x0002);    // tie: to even
  EXPECT_EQ(float_to_half(0x1.ff8p-15F), 0x03ff);  // largest subnormal
  EXPECT_EQ(float_to_half(0x1.ffcp-15F), 0x0400);  // tie: to even, the smallest normal
  EXPECT_EQ(float_to_half(1e-20F), 0x0000);
}

// Between two neighbours the nearer one wins, and the even one at the exact middle.
TEST(HalfFloat, rounding_is_to_nearest_even_everywhere) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = half_to_float(static_cast<uint16_t>(bits));
    const double high = half_to_float(static_cast<uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact: 12 bits of fraction
    ASSERT_EQ(float_to_half(middle), bits + (bits & 1));
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(float_to_half(std::nextafter(middle, kInf)), bits + 1);
  }
}

TEST(BFloat16, rounding_is_to_nearest_even) {
  EXPECT_EQ(float_to_bfloat16(1.0F), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7f800001U)), 0x7fc0);  // stays a NaN
  EXPECT_EQ(bfloat16_to_float(0xc000), -2.0F);
}

}  // namespace
}  // namespace sardonyx::graph
