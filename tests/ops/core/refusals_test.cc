// KernelDef::declines: the first sentence that applies is the reason.
#include "ops/core/refusals.h"

#include <gtest/gtest.h>

namespace sardonyx::test {
namespace {

using ops::DType;
using ops::KernelDef;
using ops::KernelRequest;
using ops::Refusal;
using ops::TensorType;

KernelRequest request_of(std::vector<TensorType> in, std::vector<TensorType> out) {
  KernelRequest request;
  request.in = std::move(in);
  request.out = std::move(out);
  return request;
}

TensorType plain(DType dtype) { return TensorType(dtype, {32, 4}); }

TensorType lanes(DType dtype) {
  TensorType type = plain(dtype);
  type.layout = graph::Layout::lanes(16);
  return type;
}

TEST(Refusals, the_first_that_applies_is_the_reason_and_later_ones_are_not_asked) {
  const Refusal never_asked{"never asked", [](const KernelRequest&) -> bool {
                              throw InternalError("a later refusal was asked");
                            }};
  KernelDef kernel;
  kernel.declines = {ops::unless_float(), never_asked};
  const KernelRequest integers = request_of({plain(DType::kInt32)}, {plain(DType::kInt32)});
  EXPECT_EQ(ops::declines(kernel, integers), "takes float and double only");
  const KernelRequest blocked = request_of({lanes(DType::kFloat32)}, {lanes(DType::kFloat32)});
  EXPECT_EQ(ops::declines(kernel, blocked), "takes plain layouts only");
  kernel.declines.pop_back();
  EXPECT_EQ(ops::declines(kernel, request_of({plain(DType::kFloat64)}, {})), std::nullopt);
}

TEST(Refusals, all_sentences_of_a_kernel_are_listed_in_the_order_they_are_asked) {
  KernelDef kernel;
  kernel.declines = ops::joined({ops::unless_sized()}, {ops::beyond_axes(2)});
  kernel.layouts = ops::Layouts::kLanes;
  EXPECT_EQ(ops::decline_sentences(kernel),
            (std::vector<std::string>{"takes batch operands in lanes of 16 images only",
                                      "takes elements of 1, 2, 4 or 8 bytes only",
                                      "knows one or two spatial axes"}));
  kernel.layouts = ops::Layouts::kAny;
  EXPECT_EQ(ops::decline_sentences(kernel).size(), 2u);
}

TEST(Refusals, operands_left_out_never_refuse) {
  const TensorType left_out;
  EXPECT_FALSE(ops::unless_numbers().applies(request_of({plain(DType::kUint8), left_out}, {})));
  EXPECT_TRUE(ops::unless_numbers().applies(request_of({plain(DType::kBool), left_out}, {})));
  EXPECT_FALSE(ops::unless_one_dtype().applies(request_of({plain(DType::kInt8), left_out}, {})));
  EXPECT_FALSE(ops::unless_in_lanes(2).applies(
      request_of({lanes(DType::kFloat32), left_out}, {lanes(DType::kFloat32), left_out})));
}

TEST(Refusals, only_data_inputs_must_be_in_lanes) {
  const TensorType x = lanes(DType::kFloat32), w = plain(DType::kFloat32);
  EXPECT_FALSE(ops::unless_in_lanes(1).applies(request_of({x, w}, {x})));
  EXPECT_TRUE(ops::unless_in_lanes(2).applies(request_of({x, w}, {x})));
  EXPECT_TRUE(ops::unless_in_lanes(1).applies(request_of({x, w}, {w})));
}

}  // namespace
}  // namespace sardonyx::test
