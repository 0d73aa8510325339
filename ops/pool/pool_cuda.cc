// CUDA kernels: one to three spatial axes, plain or with channels last (pool.cuda_nhwc).
#include "ops/pool/pool_cuda.h"

#include <limits>

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/pool/pool.h"

namespace sardonyx::ops {

namespace pool {

void Planes::lay_out(Channels order) {
  const bool last = order == Channels::kLast;
  const auto places = [&](int Axis::*size, int64_t cells) {
    Places result;
    int64_t step = last ? channels : 1;
    for (int a = 3; a-- > 0;) {
      result.cell[a] = step;
      step *= axis[a].*size;
    }
    result.channel = last ? 1 : cells;
    result.image = channels * cells;
    return result;
  };
  x = places(&Axis::in, in_cells());
  y = places(&Axis::out, out_cells());
}

}  // namespace pool

namespace {

using pool::Planes;
using pool::PoolGeometry;

// `type`: an operand with channels.
Planes planes_of(const PoolGeometry& g, const TensorType& type) {
  Planes planes;
  const bool counted = g.pad_cells == pool::PadCells::kCounted;
  const int axes = g.window.axes();
  for (int a = 0; a < axes; ++a) {
    const auto in = static_cast<int>(g.window.in[a]), pad = static_cast<int>(g.window.pad_begin[a]);
    planes.axis[3 - axes + a] = {
        in,
        static_cast<int>(g.window.out[a]),
        static_cast<int>(g.window.kernel[a]),
        static_cast<int>(g.window.stride[a]),
        static_cast<int>(g.window.dilation[a]),
        pad,
        counted ? -pad : 0,
        counted ? in + static_cast<int>(g.window.pad_end[a]) : in,
    };
  }
  planes.images = g.batch;
  planes.channels = g.channels;
  planes.lay_out(type.layout.channels_last() ? pool::Channels::kLast : pool::Channels::kFirst);
  return planes;
}

auto max_pool(const KernelRequest& request) {
  const bool columns = request.node->get_int("storage_order", 0) == 1;
  return [planes = planes_of(PoolGeometry::forward(request), request.in[0]),
          dtype = request.in[0].dtype,
          order = columns ? pool::Order::kColumns : pool::Order::kRows](CudaContext& context) {
    pool::launch_max(context.stream, dtype, planes, order, context.inputs[0], context.outputs[0],
                     context.out<int64_t>(1));
  };
}

auto average_pool(const KernelRequest& request) {
  return [planes = planes_of(PoolGeometry::forward(request), request.in[0]),
          dtype = request.in[0].dtype](CudaContext& context) {
    pool::launch_average(context.stream, dtype, planes, context.inputs[0], context.outputs[0]);
  };
}

auto average_pool_grad(const KernelRequest& request) {
  return [planes = planes_of(PoolGeometry::avg_grad(request), request.in[0]),
          dtype = request.in[0].dtype](CudaContext& context) {
    pool::launch_average_grad(context.stream, dtype, planes, context.inputs[0], context.outputs[0]);
  };
}

// The winners are looked for once per window, then each cell of x asks its windows.
class MaxPoolGradKernel final : public Kernel {
 public:
  explicit MaxPoolGradKernel(const KernelRequest& request)
      : dtype_(request.in[0].dtype),
        planes_(planes_of(PoolGeometry::max_grad(request), request.in[0])) {}
  size_t workspace_bytes() const override {
    return static_cast<size_t>(planes_.y_count()) * sizeof(int32_t);
  }
  void launch(CudaContext& context) const override {
    pool::launch_max_grad(context.stream, dtype_, planes_, context.inputs[0], context.inputs[1],
                          static_cast<int32_t*>(context.workspace), context.outputs[0]);
  }

 private:
  DType dtype_;
  Planes planes_;
};

Refusal unless_float_or_bytes() {
  return {"takes float, double, bfloat16, int8 and uint8 only", [](const KernelRequest& request) {
            const DType dtype = request.in[0].dtype;
            return dtype != DType::kInt8 && dtype != DType::kUint8 &&
                   unless_stored_float().applies(request);
          }};
}

Refusal beyond_32_bits() {
  return {"takes maps of fewer than 2^31 cells only", [](const KernelRequest& request) {
            const auto too_many = [](const TensorType& type) {
              int64_t cells = 1;
              for (const int64_t size : spatial(type)) cells *= size;
              return cells > std::numeric_limits<int32_t>::max();
            };
            return too_many(request.in[0]) || too_many(request.out[0]);
          }};
}

KernelDef kernel(const char* domain, const char* op, Refusal types) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "pool.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = {std::move(types), unless_one_dtype(), beyond_axes(3), beyond_32_bits()};
  return def;
}

void add_in_both_orders(KernelRegistry& kernels, KernelDef def) {
  kernels.add(def);
  def.name = "pool.cuda_nhwc";
  def.layouts = Layouts::kChannelsLast;
  kernels.add(std::move(def));
}

}  // namespace

void register_pool_cuda(KernelRegistry& kernels) {
  for (const char* op : {"MaxPool", "GlobalMaxPool"}) {
    KernelDef def = kernel("", op, unless_float_or_bytes());
    def.create = prepared_launch(max_pool);
    add_in_both_orders(kernels, std::move(def));
  }
  for (const char* op : {"AveragePool", "GlobalAveragePool"}) {
    KernelDef def = kernel("", op, unless_stored_float());
    def.create = prepared_launch(average_pool);
    add_in_both_orders(kernels, std::move(def));
  }
  KernelDef max_grad = kernel(kDomain, "MaxPoolGrad", unless_stored_float());
  max_grad.create = [](const KernelRequest& request) {
    return std::make_unique<MaxPoolGradKernel>(request);
  };
  add_in_both_orders(kernels, std::move(max_grad));
  KernelDef average_grad = kernel(kDomain, "AveragePoolGrad", unless_stored_float());
  average_grad.create = prepared_launch(average_pool_grad);
  add_in_both_orders(kernels, std::move(average_grad));
}

}  // namespace sardonyx::ops
