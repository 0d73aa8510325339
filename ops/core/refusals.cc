#include "ops/core/refusals.h"

#include <algorithm>

#include "ops/core/dispatch.h"
#include "ops/core/lane_shapes.h"

namespace sardonyx::ops {

namespace {

bool given(const TensorType& type) { return type.dtype != DType::kUndefined; }

// True when some operand that is there fails the test.
template <class Test>
bool any_fails(const std::vector<TensorType>& types, const Test& test) {
  return std::any_of(types.begin(), types.end(),
                     [&](const TensorType& type) { return given(type) && !test(type); });
}

template <class Test>
bool any_operand_fails(const KernelRequest& request, const Test& test) {
  return any_fails(request.in, test) || any_fails(request.out, test);
}

}  // namespace

Refusal unless_float() {
  return {"takes float and double only", [](const KernelRequest& request) {
            const DType dtype = request.in.at(0).dtype;
            return dtype != DType::kFloat32 && dtype != DType::kFloat64;
          }};
}

Refusal unless_float32() {
  return {"takes float only",
          [](const KernelRequest& request) { return request.in.at(0).dtype != DType::kFloat32; }};
}

Refusal unless_stored_float() {
  return {"takes float, double and bfloat16 only", [](const KernelRequest& request) {
            return request.in.at(0).dtype != DType::kBFloat16 && unless_float().applies(request);
          }};
}

Refusal unless_numbers() {
  return {"takes float, double and integers only", [](const KernelRequest& request) {
            return any_fails(request.in, [](const TensorType& type) {
              return is_dispatched_number(type.dtype);
            });
          }};
}

Refusal unless_elements() {
  return {"takes float, double, integers and booleans only", [](const KernelRequest& request) {
            return !is_dispatched_element(request.in.at(0).dtype);
          }};
}

Refusal unless_integers() {
  return {"takes integers only",
          [](const KernelRequest& request) { return !graph::is_integer(request.in.at(0).dtype); }};
}

Refusal unless_int32_or_int64() {
  return {"takes int32 and int64 only", [](const KernelRequest& request) {
            const DType dtype = request.in.at(0).dtype;
            return dtype != DType::kInt32 && dtype != DType::kInt64;
          }};
}

Refusal unless_one_dtype() {
  return {"takes operands of one type only", [](const KernelRequest& request) {
            return any_fails(request.in, [&](const TensorType& type) {
              return type.dtype == request.in[0].dtype;
            });
          }};
}

Refusal unless_sized() {
  return {"takes elements of 1, 2, 4 or 8 bytes only", [](const KernelRequest& request) {
            return any_operand_fails(request, [](const TensorType& type) {
              const size_t size = graph::dtype_size(type.dtype);
              return size >= 1 && size <= 8;
            });
          }};
}

Refusal unless_equal_layouts() {
  return {"takes operands of equal layout only", [](const KernelRequest& request) {
            return any_operand_fails(request, [&](const TensorType& type) {
              return type.layout == request.in[0].layout;
            });
          }};
}

Refusal beyond_axes(int most) {
  return {most == 2 ? "knows one or two spatial axes" : "knows one to three spatial axes",
          [most](const KernelRequest& request) { return request.in[0].rank() > 2 + most; }};
}

Refusal unless_in_lanes(int data_inputs) {
  return {"takes operands in lanes of 16 images only", [data_inputs](const KernelRequest& request) {
            const auto data = std::min<ptrdiff_t>(data_inputs, std::ssize(request.in));
            return any_fails({request.in.begin(), request.in.begin() + data}, lanes::in_lanes) ||
                   any_fails(request.out, lanes::in_lanes);
          }};
}

std::vector<Refusal> joined(std::vector<Refusal> first, const std::vector<Refusal>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

}  // namespace sardonyx::ops
