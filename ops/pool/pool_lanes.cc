// Pooling in lanes of 16 images, one or two spatial axes, on the kernels of ops/core/lanes.h.
// Threads share the blocks of images; lanes behind the last image hold anything.
#include "ops/core/lanes.h"
#include "ops/pool/pool.h"

namespace sardonyx::ops::pool {

namespace {

using lanes::kLanes;
using lanes::LaneKernels;
using lanes::PoolPadding;
using lanes::PoolShape;

PoolShape lane_shape(const PoolGeometry& g) {
  const Window& w = g.window;
  const auto at = [&](const std::vector<int64_t>& sizes, int from_last, int64_t absent) {
    const int i = w.axes() - 1 - from_last;
    return static_cast<int>(i < 0 ? absent : sizes[i]);
  };
  PoolShape s{};
  s.c = static_cast<int>(g.channels);
  s.h = at(w.in, 1, 1);
  s.w = at(w.in, 0, 1);
  s.r = at(w.kernel, 1, 1);
  s.s = at(w.kernel, 0, 1);
  s.p = at(w.out, 1, 1);
  s.q = at(w.out, 0, 1);
  s.stride_h = at(w.stride, 1, 1);
  s.stride_w = at(w.stride, 0, 1);
  s.dil_h = at(w.dilation, 1, 1);
  s.dil_w = at(w.dilation, 0, 1);
  s.pad_top = at(w.pad_begin, 1, 0);
  s.pad_left = at(w.pad_begin, 0, 0);
  s.pad_bottom = at(w.pad_end, 1, 0);
  s.pad_right = at(w.pad_end, 0, 0);
  return s;
}

enum class Work : uint8_t { kMax, kAverage, kMaxGrad, kAverageGrad };

template <class T, Work work>
class LanesKernel final : public Kernel {
 public:
  explicit LanesKernel(const PoolGeometry& g)
      : shape_(lane_shape(g)),
        blocks_((g.batch + kLanes - 1) / kLanes),
        padding_(g.pad_cells == PadCells::kCounted ? PoolPadding::kCounted
                                                   : PoolPadding::kNotCounted) {}

  void run(CpuContext& context) const override {
    const LaneKernels<T>& k = lanes::lane_kernels<T>();
    const ptrdiff_t x = ptrdiff_t{shape_.c} * shape_.h * shape_.w * kLanes;
    const ptrdiff_t y = ptrdiff_t{shape_.c} * shape_.p * shape_.q * kLanes;
    const T* a = context.in<T>(0);
    const T* b = context.in<T>(1);
    T* to = context.out<T>(0);
    parallel_for(*context.pool, blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (work == Work::kMax) k.max_pool(shape_, a + i * x, to + i * y);
        if constexpr (work == Work::kAverage) k.avg_pool(shape_, padding_, a + i * x, to + i * y);
        if constexpr (work == Work::kMaxGrad) {
          k.max_pool_grad(shape_, a + i * x, b + i * y, to + i * x);
        }
        if constexpr (work == Work::kAverageGrad) {
          k.avg_pool_grad(shape_, padding_, a + i * y, nullptr, to + i * x);
        }
      }
    });
  }

 private:
  PoolShape shape_;
  int64_t blocks_;
  PoolPadding padding_;
};

std::optional<std::string> declines_lanes(const KernelRequest& request) {
  if (auto reason = declines_type(request)) return reason;
  if (request.in[0].rank() > 4) return "knows one or two spatial axes";
  if (request.has_out(1)) return "finds no indices";
  return std::nullopt;
}

template <Work work>
void add_lanes(KernelRegistry& kernels, const char* domain, const char* op,
               PoolGeometry (*decode)(const KernelRequest&)) {
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "pool.lanes";
  kernel.speed = Speed::kBest;
  kernel.layouts = Layouts::kLanes;
  kernel.declines = declines_lanes;
  kernel.create = [decode](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    const PoolGeometry g = decode(request);
    if (request.out[0].dtype == DType::kFloat32) {
      return std::make_unique<LanesKernel<float, work>>(g);
    }
    return std::make_unique<LanesKernel<double, work>>(g);
  };
  kernels.add(std::move(kernel));
}

}  // namespace

void register_pool_lanes(KernelRegistry& kernels) {
  add_lanes<Work::kMax>(kernels, "", "MaxPool", PoolGeometry::forward);
  add_lanes<Work::kMax>(kernels, "", "GlobalMaxPool", PoolGeometry::forward);
  add_lanes<Work::kAverage>(kernels, "", "AveragePool", PoolGeometry::forward);
  add_lanes<Work::kAverage>(kernels, "", "GlobalAveragePool", PoolGeometry::forward);
  add_lanes<Work::kMaxGrad>(kernels, kDomain, "MaxPoolGrad", PoolGeometry::max_grad);
  add_lanes<Work::kAverageGrad>(kernels, kDomain, "AveragePoolGrad", PoolGeometry::avg_grad);
}

}  // namespace sardonyx::ops::pool
