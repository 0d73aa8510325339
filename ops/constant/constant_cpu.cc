// Kernels of Constant, ConstantOfShape, Range and EyeLike: all run once, when they are folded.
#include <algorithm>
#include <cstring>

#include "graph/support/bytes.h"
#include "ops/core/integers.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

void constant_ref(const KernelRequest& request, CpuContext& context) {
  const Tensor value = OpRegistry::get().at(*request.node).literal(*request.node);
  if (value.numel() > 0) {
    copy_bytes(context.outputs[0], value.bytes().data(), value.bytes().size());
  }
}

void fill_ref(const KernelRequest& request, CpuContext& context) {
  const Tensor* value = request.node->get_tensor("value");
  const int64_t count = request.out[0].numel();
  const size_t size = graph::dtype_size(request.out[0].dtype);
  auto* y = static_cast<std::byte*>(context.outputs[0]);
  if (value == nullptr) {
    zero_fill(*context.pool, y, count * size);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(y + i * size, value->bytes().data(), size);
}

template <class T>
void range_of(const KernelRequest& request, CpuContext& context) {
  const T start = *context.in<T>(0), delta = *context.in<T>(2);
  for (int64_t i = 0; i < request.out[0].numel(); ++i) {
    context.out<T>(0)[i] = wrapped_sum(start, wrapped_product(static_cast<T>(i), delta));
  }
}

void range_ref(const KernelRequest& request, CpuContext& context) {
  switch (request.out[0].dtype) {
    case DType::kFloat32:
      return range_of<float>(request, context);
    case DType::kFloat64:
      return range_of<double>(request, context);
    case DType::kInt16:
      return range_of<int16_t>(request, context);
    case DType::kInt32:
      return range_of<int32_t>(request, context);
    case DType::kInt64:
      return range_of<int64_t>(request, context);
    default:
      throw InternalError("range.ref accepted a type it can't compute");
  }
}

Refusal unless_counted() {
  return {"makes float, double, int16, int32 and int64 only", [](const KernelRequest& request) {
            switch (request.out[0].dtype) {
              case DType::kFloat32:
              case DType::kFloat64:
              case DType::kInt16:
              case DType::kInt32:
              case DType::kInt64:
                return false;
              default:
                return true;
            }
          }};
}

void eye_ref(const KernelRequest& request, CpuContext& context) {
  const TensorType& type = request.out[0];
  const std::vector<int64_t> shape = type.shape();
  const size_t size = graph::dtype_size(type.dtype);
  const Tensor one = Tensor::scalar<int64_t>(1).cast(type.dtype);
  // A diagonal outside is empty, however far out it lies.
  const int64_t k = std::clamp(request.node->get_int("k", 0), -shape[0], shape[1]);
  auto* y = static_cast<std::byte*>(context.outputs[0]);
  zero_fill(*context.pool, y, type.numel() * size);
  for (int64_t row = std::max<int64_t>(0, -k); row < shape[0] && row + k < shape[1]; ++row) {
    std::memcpy(y + (row * shape[1] + row + k) * size, one.bytes().data(), size);
  }
}

void add(KernelRegistry& kernels, const char* op, const char* name, KernelFunction function,
         Refusal refusal) {
  KernelDef def;
  def.op = op;
  def.name = name;
  def.declines = {std::move(refusal)};
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

}  // namespace

void register_constant_cpu(KernelRegistry& kernels) {
  add(kernels, "Constant", "constant.ref", constant_ref, unless_sized());
  add(kernels, "ConstantOfShape", "constant_of_shape.ref", fill_ref, unless_sized());
  add(kernels, "Range", "range.ref", range_ref, unless_counted());
  add(kernels, "EyeLike", "eye_like.ref", eye_ref, unless_sized());
}

}  // namespace sardonyx::ops
