// Kernels: both directions are a linear map along each axis of the boxes (resize_taps.cc). A row of
// the result is made in two steps: the rows that its leading axes name are blended, then the cells
// along the last axis. resize.ref sums in double; resize.rows and resize.lanes in the type itself,
// 16 neighbours (the images of a lane block) at a time.
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
enum class Sums : uint8_t { kDouble, kOwn };

ResizeGeometry geometry(Direction direction, const KernelRequest& request) {
  return direction == Direction::kForward ? ResizeGeometry::forward(request)
                                          : ResizeGeometry::gradient(request);
}

// A row of the source, counted in rows of its box, and its share.
struct RowTap {
  int64_t row;
  double weight;
};

class ResizeKernel final : public Kernel {
 public:
  ResizeKernel(Direction direction, Sums sums, const KernelRequest& request)
      : sums_(sums), dtype_(request.in[0].dtype) {
    const ResizeGeometry g = geometry(direction, request);
    outer_ = g.outer;
    inner_ = g.inner;
    const bool forward = direction == Direction::kForward;
    leading_ = forward ? g.y_from_x() : g.dx_from_dy();
    last_ = std::move(leading_.back());
    leading_.pop_back();
    for (const Taps& axis : leading_) {
      rows_ *= axis.cells();
      from_rows_ *= axis.from_size;
    }
    if (forward) empty_ = g.settings.extrapolation;
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      if (sums_ == Sums::kDouble) {
        run_as<T, double>(context);
      } else {
        run_as<T, T>(context);
      }
    });
  }

 private:
  template <class T, class Sum>
  void run_as(CpuContext& context) const {
    const int64_t from_size = last_.from_size * inner_, to_size = last_.cells() * inner_;
    const int64_t grain = 1 + kCheapGrain / (4 * to_size + 1);
    parallel_for(*context.pool, outer_ * rows_, grain, [&](int64_t begin, int64_t end) {
      std::vector<RowTap> taps;
      std::vector<Sum> blend(from_size);
      for (int64_t i = begin; i < end; ++i) {
        const T* from = context.in<T>(0) + i / rows_ * from_rows_ * from_size;
        T* to = context.out<T>(0) + i * to_size;
        find_rows(i % rows_, taps);
        if (taps.empty()) {
          std::fill_n(to, to_size, static_cast<T>(empty_));
        } else if (taps.size() == 1 && taps[0].weight == 1) {
          along_last<Sum>(from + taps[0].row * from_size, to);
        } else {
          blend_rows(taps, from, blend);
          along_last<Sum>(blend.data(), to);
        }
      }
    });
  }

  // The source rows of a row of the result: the weights of its leading axes, multiplied.
  void find_rows(int64_t row, std::vector<RowTap>& taps) const {
    taps.assign(1, {0, 1});
    std::vector<RowTap> longer;
    int64_t stride = 1;
    for (size_t a = leading_.size(); a-- > 0; stride *= leading_[a].from_size) {
      const Taps& axis = leading_[a];
      const int64_t cell = row % axis.cells();
      row /= axis.cells();
      longer.clear();
      for (int64_t t = axis.begin[cell]; t < axis.begin[cell + 1]; ++t) {
        for (const RowTap& tap : taps) {
          longer.push_back({tap.row + axis.index[t] * stride, tap.weight * axis.weight[t]});
        }
      }
      taps.swap(longer);
    }
  }

  template <class T, class Sum>
  static void blend_rows(const std::vector<RowTap>& taps, const T* from, std::vector<Sum>& blend) {
    const auto size = static_cast<int64_t>(blend.size());
    std::ranges::fill(blend, Sum{0});
    for (const RowTap& tap : taps) {
      const Sum weight = static_cast<Sum>(tap.weight);
      const T* row = from + tap.row * size;
      for (int64_t j = 0; j < size; ++j) blend[j] += weight * static_cast<Sum>(row[j]);
    }
  }

  template <class Sum, class From, class T>
  void along_last(const From* from, T* to) const {
    for (int64_t cell = 0; cell < last_.cells(); ++cell, to += inner_) {
      int64_t j = 0;
      for (; j + kWide <= inner_; j += kWide) columns<Sum, kWide>(cell, from + j, to + j);
      for (; j < inner_; ++j) columns<Sum, 1>(cell, from + j, to + j);
    }
  }

  template <class Sum, int64_t kColumns, class From, class T>
  void columns(int64_t cell, const From* from, T* to) const {
    const int64_t first = last_.begin[cell], end = last_.begin[cell + 1];
    Sum sums[kColumns];
    std::fill_n(sums, kColumns, first == end ? static_cast<Sum>(empty_) : Sum{0});
    for (int64_t t = first; t < end; ++t) {
      const Sum weight = static_cast<Sum>(last_.weight[t]);
      const From* cells = from + last_.index[t] * inner_;
      for (int64_t k = 0; k < kColumns; ++k) sums[k] += weight * static_cast<Sum>(cells[k]);
    }
    for (int64_t k = 0; k < kColumns; ++k) to[k] = static_cast<T>(sums[k]);
  }

  Sums sums_;
  DType dtype_;
  double empty_ = 0;           // value of a cell without taps
  std::vector<Taps> leading_;  // of all axes of the box but the last
  Taps last_;
  int64_t outer_ = 1, rows_ = 1, from_rows_ = 1, inner_ = 1;
};

void add_kernels(KernelRegistry& kernels, const char* domain, const char* op, Direction direction) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.declines = {unless_float()};
  const auto add = [&](const char* name, Sums sums) {
    def.name = name;
    def.create = [=](const KernelRequest& request) -> std::unique_ptr<Kernel> {
      return std::make_unique<ResizeKernel>(direction, sums, request);
    };
    kernels.add(def);
  };
  add("resize.ref", Sums::kDouble);
  def.speed = Speed::kPlain;
  add("resize.rows", Sums::kOwn);
  def.speed = Speed::kOptimised;
  def.layouts = Layouts::kLanes;
  def.declines = {unless_float(),
                  unless_in_lanes(1),
                  {"leaves the batch axis alone", [direction](const KernelRequest& request) {
                     return geometry(direction, request).first == 0;
                   }}};
  add("resize.lanes", Sums::kOwn);
}

}  // namespace

void register_resize_cpu(KernelRegistry& kernels) {
  add_kernels(kernels, "", "Resize", Direction::kForward);
  add_kernels(kernels, "", "Upsample", Direction::kForward);
  add_kernels(kernels, kDomain, "ResizeGrad", Direction::kGradient);
}

}  // namespace sardonyx::ops
