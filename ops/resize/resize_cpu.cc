// Kernels: both directions are one sparse linear map per map of cells (resize_taps.cc), applied to
// every [outer] and [inner]. resize.ref sums in double; resize.gather in the type itself, 16
// neighbours (the images of a lane block) at a time.
#include <algorithm>

#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"
#include "ops/resize/resize.h"

namespace sardonyx::ops {

namespace {

using resize::ResizeGeometry;
using resize::Taps;

constexpr int64_t kWide = 16;

enum class Direction : uint8_t { kForward, kGradient };

class TapsKernel : public Kernel {
 protected:
  TapsKernel(Direction direction, const KernelRequest& request)
      : dtype_(request.in[0].dtype), empty_(0) {
    const bool forward = direction == Direction::kForward;
    const ResizeGeometry g =
        forward ? ResizeGeometry::forward(request) : ResizeGeometry::gradient(request);
    outer_ = g.outer;
    inner_ = g.inner;
    from_cells_ = 1;
    for (const int64_t size : forward ? g.in_box : g.out_box) from_cells_ *= size;
    taps_ = forward ? g.y_from_x() : g.dx_from_dy();
    if (forward) empty_ = g.settings.extrapolation;
  }

  // Calls f(first tap, end of taps, from, to) for every cell of every map.
  template <class T, class F>
  void each_cell(CpuContext& context, F&& f) const {
    const T* from = context.in<T>(0);
    T* to = context.out<T>(0);
    const int64_t cells = taps_.cells();
    const int64_t grain = 1 + kCheapGrain / (4 * inner_ + 1);
    parallel_for(*context.pool, inner_ == 0 ? 0 : outer_ * cells, grain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t cell = i % cells;
                     f(taps_.begin[cell], taps_.begin[cell + 1],
                       from + i / cells * from_cells_ * inner_, to + i * inner_);
                   }
                 });
  }

  DType dtype_;
  double empty_;  // value of a cell without taps
  int64_t outer_ = 1, inner_ = 1, from_cells_ = 1;
  Taps taps_;
};

class Reference final : public TapsKernel {
 public:
  Reference(Direction direction, const KernelRequest& request) : TapsKernel(direction, request) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      each_cell<T>(context, [&](int64_t first, int64_t end, const T* from, T* to) {
        for (int64_t j = 0; j < inner_; ++j) {
          double sum = first == end ? empty_ : 0;
          for (int64_t t = first; t < end; ++t) {
            sum += taps_.weight[t] * static_cast<double>(from[taps_.index[t] * inner_ + j]);
          }
          to[j] = static_cast<T>(sum);
        }
      });
    });
  }
};

class Gather final : public TapsKernel {
 public:
  Gather(Direction direction, const KernelRequest& request) : TapsKernel(direction, request) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      each_cell<T>(context, [&](int64_t first, int64_t end, const T* from, T* to) {
        int64_t j = 0;
        for (; j + kWide <= inner_; j += kWide) columns<kWide>(first, end, from + j, to + j);
        for (; j < inner_; ++j) columns<1>(first, end, from + j, to + j);
      });
    });
  }

 private:
  template <int64_t kColumns, class T>
  void columns(int64_t first, int64_t end, const T* from, T* to) const {
    T sums[kColumns];
    std::fill_n(sums, kColumns, first == end ? static_cast<T>(empty_) : T{0});
    for (int64_t t = first; t < end; ++t) {
      const T weight = static_cast<T>(taps_.weight[t]);
      const T* cells = from + taps_.index[t] * inner_;
      for (int64_t k = 0; k < kColumns; ++k) sums[k] += weight * cells[k];
    }
    std::copy_n(sums, kColumns, to);
  }
};

template <class K>
void add_kernel(KernelRegistry& kernels, KernelDef def, Direction direction) {
  def.create = [direction](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    return std::make_unique<K>(direction, request);
  };
  kernels.add(std::move(def));
}

void add_kernels(KernelRegistry& kernels, const char* domain, const char* op, Direction direction) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "resize.ref";
  def.declines = {unless_float()};
  add_kernel<Reference>(kernels, def, direction);
  def.name = "resize.gather";
  def.speed = Speed::kPlain;
  add_kernel<Gather>(kernels, def, direction);
  def.name = "resize.lanes";
  def.speed = Speed::kOptimised;
  def.layouts = Layouts::kLanes;
  def.declines = {unless_float(),
                  unless_in_lanes(1),
                  {"leaves the batch axis alone", [direction](const KernelRequest& request) {
                     return (direction == Direction::kForward ? ResizeGeometry::forward(request)
                                                              : ResizeGeometry::gradient(request))
                                .first == 0;
                   }}};
  add_kernel<Gather>(kernels, std::move(def), direction);
}

}  // namespace

void register_resize_cpu(KernelRegistry& kernels) {
  add_kernels(kernels, "", "Resize", Direction::kForward);
  add_kernels(kernels, "", "Upsample", Direction::kForward);
  add_kernels(kernels, kDomain, "ResizeGrad", Direction::kGradient);
}

}  // namespace sardonyx::ops
