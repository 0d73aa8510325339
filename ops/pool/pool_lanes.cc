// Pooling on the kernels of ops/core/lanes.h, one or two spatial axes.
//
// pool.lanes takes operands in lanes of 16 images; threads share the blocks, and lanes behind the
// last image hold anything. pool.turned takes plain operands: maps are independent, so it turns 16
// of them at a time into lanes within the cache, which is faster than loops over short windows.
#include <algorithm>

#include "ops/core/lane_shapes.h"
#include "ops/core/refusals.h"
#include "ops/pool/pool.h"

namespace sardonyx::ops::pool {

namespace {

using lanes::kLanes;
using lanes::LaneKernels;
using lanes::PoolPadding;
using lanes::PoolShape;
using lanes::SpatialAxis;

PoolShape lane_shape(const PoolGeometry& g) {
  auto s = lanes::windowed<PoolShape>(g.window);
  s.c = static_cast<int>(g.channels);
  s.pad_bottom = entry_of(g.window.pad_end, SpatialAxis::kHeight, 0);
  s.pad_right = entry_of(g.window.pad_end, SpatialAxis::kWidth, 0);
  return s;
}

enum class Work : uint8_t { kMax, kAverage, kMaxGrad, kAverageGrad };

PoolPadding lane_padding(const PoolGeometry& g) {
  return g.pad_cells == PadCells::kCounted ? PoolPadding::kCounted : PoolPadding::kNotCounted;
}

// One block: a and b are the inputs in their order.
template <class T, Work work>
void run_block(const PoolShape& shape, PoolPadding padding, const T* a, const T* b, T* to) {
  const LaneKernels<T>& k = lanes::lane_kernels<T>();
  if constexpr (work == Work::kMax) k.max_pool(shape, a, to);
  if constexpr (work == Work::kAverage) k.avg_pool(shape, padding, a, to);
  if constexpr (work == Work::kMaxGrad) k.max_pool_grad(shape, a, b, to);
  if constexpr (work == Work::kAverageGrad) k.avg_pool_grad(shape, padding, a, nullptr, to);
}

// Cells per map of the two inputs and the output.
struct Cells {
  Cells(Work work, const PoolShape& s) {
    const ptrdiff_t x = ptrdiff_t{s.h} * s.w, y = ptrdiff_t{s.p} * s.q;
    const bool forward = work == Work::kMax || work == Work::kAverage;
    a = forward || work == Work::kMaxGrad ? x : y;
    b = work == Work::kMaxGrad ? y : 0;
    to = forward ? y : x;
  }
  ptrdiff_t a, b, to;
};

template <class T, Work work>
class LanesKernel final : public Kernel {
 public:
  explicit LanesKernel(const PoolGeometry& g)
      : shape_(lane_shape(g)), padding_(lane_padding(g)), blocks_(lanes::blocks_of(g.batch)) {}

  void run(CpuContext& context) const override {
    const Cells cells(work, shape_);
    const ptrdiff_t depth = ptrdiff_t{shape_.c} * kLanes;
    const T* a = context.in<T>(0);
    const T* b = context.in<T>(1);
    T* to = context.out<T>(0);
    parallel_for(*context.pool, blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run_block<T, work>(shape_, padding_, a + i * depth * cells.a,
                           b == nullptr ? nullptr : b + i * depth * cells.b,
                           to + i * depth * cells.to);
      }
    });
  }

 private:
  PoolShape shape_;
  PoolPadding padding_;
  int64_t blocks_;
};

// A set of maps in lanes stays in the second-level cache.
constexpr ptrdiff_t kMostTurnedBytes = 2 << 20;

template <class T, Work work>
class TurnedKernel final : public Kernel {
 public:
  explicit TurnedKernel(const PoolGeometry& g)
      : shape_(lane_shape(g)),
        padding_(lane_padding(g)),
        cells_(work, shape_),
        maps_(g.planes()),
        threads_(std::max(library_threads, 1)) {
    shape_.c = 1;
  }
  size_t workspace_bytes() const override { return threads_ * scratch_numel() * sizeof(T); }

  void run(CpuContext& context) const override {
    const int64_t sets = lanes::blocks_of(maps_);
    const auto pieces = static_cast<int>(std::min<int64_t>({sets, threads_, context.pool->size()}));
    if (pieces == 0) return;
    context.pool->run(pieces, [&](int piece) {
      T* scratch = reinterpret_cast<T*>(context.workspace.data()) + piece * scratch_numel();
      for (int64_t i = sets * piece / pieces; i < sets * (piece + 1) / pieces; ++i) {
        run_set(context, i * kLanes, scratch);
      }
    });
  }

 private:
  ptrdiff_t scratch_numel() const { return (cells_.a + cells_.b + cells_.to) * kLanes; }

  // Maps first ... first + 15 (or fewer at the end).
  void run_set(CpuContext& context, int64_t first, T* a) const {
    const LaneKernels<T>& k = lanes::lane_kernels<T>();
    const auto valid = static_cast<int>(std::min<int64_t>(kLanes, maps_ - first));
    T* b = a + cells_.a * kLanes;
    T* to = b + cells_.b * kLanes;
    const auto load = [&](int input, ptrdiff_t cells, T* turned) {
      k.to_lanes(context.in<T>(input) + first * cells, cells, valid, static_cast<int>(cells),
                 turned);
    };
    load(0, cells_.a, a);
    if (cells_.b > 0) load(1, cells_.b, b);
    run_block<T, work>(shape_, padding_, a, b, to);
    k.from_lanes(to, valid, static_cast<int>(cells_.to), context.out<T>(0) + first * cells_.to,
                 cells_.to);
  }

  PoolShape shape_;
  PoolPadding padding_;
  Cells cells_;
  int64_t maps_;
  int threads_;
};

using Decode = PoolGeometry (*)(const KernelRequest&);

template <template <class, Work> class K, Work work>
std::unique_ptr<Kernel> make(const PoolGeometry& g, DType dtype) {
  if (dtype == DType::kFloat32) return std::make_unique<K<float, work>>(g);
  return std::make_unique<K<double, work>>(g);
}

Refusal beyond_cache(Work work, Decode decode) {
  return {"sixteen maps must fit into the second-level cache", [=](const KernelRequest& request) {
            const Cells cells(work, lane_shape(decode(request)));
            const auto size = static_cast<ptrdiff_t>(graph::dtype_size(request.out[0].dtype));
            return (cells.a + cells.b + cells.to) * kLanes * size > kMostTurnedBytes;
          }};
}

template <Work work>
void add_kernels(KernelRegistry& kernels, const char* domain, const char* op, Decode decode) {
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "pool.lanes";
  kernel.speed = Speed::kBest;
  kernel.layouts = Layouts::kLanes;
  kernel.declines = {unless_float(), beyond_axes(2), finding_indices()};
  kernel.create = [decode](const KernelRequest& r) {
    return make<LanesKernel, work>(decode(r), r.out[0].dtype);
  };
  kernels.add(kernel);

  kernel.name = "pool.turned";
  kernel.speed = Speed::kOptimised;
  kernel.layouts = Layouts::kPlain;
  kernel.declines.push_back(beyond_cache(work, decode));
  kernel.create = [decode](const KernelRequest& r) {
    return make<TurnedKernel, work>(decode(r), r.out[0].dtype);
  };
  kernels.add(std::move(kernel));
}

}  // namespace

void register_pool_lanes(KernelRegistry& kernels) {
  add_kernels<Work::kMax>(kernels, "", "MaxPool", PoolGeometry::forward);
  add_kernels<Work::kMax>(kernels, "", "GlobalMaxPool", PoolGeometry::forward);
  add_kernels<Work::kAverage>(kernels, "", "AveragePool", PoolGeometry::forward);
  add_kernels<Work::kAverage>(kernels, "", "GlobalAveragePool", PoolGeometry::forward);
  add_kernels<Work::kMaxGrad>(kernels, kDomain, "MaxPoolGrad", PoolGeometry::max_grad);
  add_kernels<Work::kAverageGrad>(kernels, kDomain, "AveragePoolGrad", PoolGeometry::avg_grad);
}

}  // namespace sardonyx::ops::pool
