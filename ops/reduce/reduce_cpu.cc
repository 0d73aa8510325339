// Fast sums and means of float and double, plain and in lanes of 16 images.
//
// The axes, as stored, are merged into x[r0][k0][r1][k1] with y[k0][k1] = sum over r0 and r1; what
// does not merge so far is declined. A unit of work is one k0 and up to kTile of k1; it is added by
// one thread from front to back, so the result doesn't depend on the number of threads.
#include <algorithm>
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"
#include "ops/reduce/axes.h"
#include "ops/reduce/reduce.h"

namespace sardonyx::ops {

void register_reduce_reference(KernelRegistry& kernels);  // reduce_ref.cc

namespace {

using reduce::kTile;

constexpr int64_t kLanes = 16;
// Few long sums are cut into this many pieces, added at the end.
constexpr int64_t kPieces = 16;
constexpr int64_t kWorthCutting = 1 << 16;

struct Nest {
  int64_t r0 = 1, k0 = 1, r1 = 1, k1 = 1;
};

// nullopt: more than four groups of axes.
std::optional<Nest> nest_of(const std::vector<int64_t>& shape, const std::vector<bool>& removed) {
  std::vector<std::pair<bool, int64_t>> groups;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    if (!groups.empty() && groups.back().first == removed[axis]) {
      groups.back().second *= shape[axis];
    } else {
      groups.emplace_back(removed[axis], shape[axis]);
    }
  }
  Nest nest;
  int64_t* const slots[] = {&nest.r0, &nest.k0, &nest.r1, &nest.k1};
  // [removed][kept] reads as r1, k1: one block of columns. [removed][kept][removed] needs r0.
  size_t slot = groups.size() > 2 ? 0 : 2;
  if (!groups.empty() && !groups[0].first) slot = 1;
  for (const auto& [is_removed, size] : groups) {
    if (slot >= 4) return std::nullopt;
    *slots[slot++] = size;
  }
  return nest;
}

// y (+)= scale * total
template <class T>
void finish(const CpuContext& context, double scale, const double* total, int64_t count, T* y) {
  for (int64_t j = 0; j < count; ++j) {
    const double value = total[j] * scale;
    y[j] = static_cast<T>(context.accumulate ? y[j] + value : value);
  }
}

double scale_of(const KernelRequest& request) {
  if (request.node->op == "ReduceSum") return 1;
  const auto all = static_cast<double>(request.in[0].numel());
  const auto means = static_cast<double>(request.out[0].numel());
  return all == 0 ? std::numeric_limits<double>::quiet_NaN() : means / all;
}

int64_t grain_of(int64_t elements_per_unit) {
  return std::max<int64_t>(1, kCheapGrain / std::max<int64_t>(elements_per_unit, 1));
}

template <class T>
const reduce::Loops<T>& loops() {
  return best_copy(reduce::baseline::loops<T>(), reduce::avx2::loops<T>(),
                   reduce::avx512::loops<T>());
}

class SumKernel final : public Kernel {
 public:
  SumKernel(const Nest& nest, const KernelRequest& request)
      : nest_(nest), dtype_(request.in[0].dtype), scale_(scale_of(request)) {
    const int64_t all = nest.r0 * nest.k0 * nest.r1;
    cut_ = nest.k1 == 1 && nest.k0 < kPieces && all >= kWorthCutting;
  }

  size_t workspace_bytes() const override {
    return cut_ ? static_cast<size_t>(kPieces * nest_.k0) * sizeof(double) : 0;
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      if (nest_.k1 > 1) return columns<T>(context);
      cut_ ? cut_rows<T>(context) : rows<T>(context);
    });
  }

 private:
  // Sum for one k0 over r0 in [r_begin, r_end) and r1 in [begin, end).
  template <class T>
  double row_total(const T* x, int64_t k0, int64_t r_begin, int64_t r_end, int64_t begin,
                   int64_t end) const {
    double total = 0;
    for (int64_t r = r_begin; r < r_end; ++r) {
      total += loops<T>().row_sum(x + (r * nest_.k0 + k0) * nest_.r1 + begin, end - begin);
    }
    return total;
  }

  template <class T>
  void rows(CpuContext& context) const {
    parallel_for(*context.pool, nest_.k0, grain_of(nest_.r0 * nest_.r1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t k = begin; k < end; ++k) {
                     const double total = row_total(context.in<T>(0), k, 0, nest_.r0, 0, nest_.r1);
                     finish(context, scale_, &total, 1, context.out<T>(0) + k);
                   }
                 });
  }

  template <class T>
  void cut_rows(CpuContext& context) const {
    auto* part = reinterpret_cast<double*>(context.workspace.data());
    const bool by_r0 = nest_.r0 >= kPieces;
    parallel_for(*context.pool, kPieces * nest_.k0, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t k = unit / kPieces, piece = unit % kPieces;
        const int64_t of = by_r0 ? nest_.r0 : nest_.r1;
        const int64_t from = of * piece / kPieces, to = of * (piece + 1) / kPieces;
        part[unit] = by_r0 ? row_total(context.in<T>(0), k, from, to, 0, nest_.r1)
                           : row_total(context.in<T>(0), k, 0, nest_.r0, from, to);
      }
    });
    for (int64_t k = 0; k < nest_.k0; ++k) {
      double total = 0;
      for (int64_t piece = 0; piece < kPieces; ++piece) total += part[k * kPieces + piece];
      finish(context, scale_, &total, 1, context.out<T>(0) + k);
    }
  }

  template <class T>
  void columns(CpuContext& context) const {
    const int64_t tiles = (nest_.k1 + kTile - 1) / kTile;
    parallel_for(*context.pool, nest_.k0 * tiles,
                 grain_of(nest_.r0 * nest_.r1 * std::min<int64_t>(nest_.k1, kTile)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t unit = begin; unit < end; ++unit) {
                     tile<T>(context, unit / tiles, unit % tiles * kTile);
                   }
                 });
  }

  template <class T>
  void tile(CpuContext& context, int64_t k0, int64_t first) const {
    double total[kTile] = {};
    const int64_t cols = std::min<int64_t>(kTile, nest_.k1 - first);
    for (int64_t r = 0; r < nest_.r0; ++r) {
      const int64_t at = (r * nest_.k0 + k0) * nest_.r1 * nest_.k1 + first;
      loops<T>().column_sums(context.in<T>(0) + at, nest_.r1, nest_.k1, cols, total);
    }
    finish(context, scale_, total, cols, context.out<T>(0) + k0 * nest_.k1 + first);
  }

  Nest nest_;
  DType dtype_;
  double scale_;
  bool cut_ = false;
};

// Axis 0 in lanes and removed: x[block][k0][r1][k1][16], and y[k0][k1] is plain. The lanes of the
// last block that hold no image are left out.
class LaneSumKernel final : public Kernel {
 public:
  LaneSumKernel(Nest nest, const KernelRequest& request)
      : nest_(nest),
        dtype_(request.in[0].dtype),
        scale_(scale_of(request)),
        blocks_(request.in[0].dims[0].value / kLanes),
        valid_(request.in[0].dims[0].value % kLanes) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      const int64_t tiles = (nest_.k1 * kLanes + kTile - 1) / kTile;
      const int64_t per_unit =
          (blocks_ + 1) * nest_.r1 * std::min(nest_.k1 * kLanes, int64_t{kTile});
      parallel_for(*context.pool, nest_.k0 * tiles, grain_of(per_unit),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t unit = begin; unit < end; ++unit) {
                       tile<T>(context, unit / tiles, unit % tiles * kTile);
                     }
                   });
    });
  }

 private:
  template <class T>
  void tile(CpuContext& context, int64_t k0, int64_t first) const {
    double total[kTile] = {};
    const int64_t row = nest_.k1 * kLanes;
    const int64_t cols = std::min<int64_t>(kTile, row - first);
    const int64_t block = nest_.k0 * nest_.r1 * row;
    const T* x = context.in<T>(0) + k0 * nest_.r1 * row + first;
    if (nest_.r1 == 1) {  // the blocks are the rows
      loops<T>().column_sums(x, blocks_, block, cols, total);
    } else {
      for (int64_t b = 0; b < blocks_; ++b) {
        loops<T>().column_sums(x + b * block, nest_.r1, row, cols, total);
      }
    }
    if (valid_ > 0) {
      loops<T>().valid_column_sums(x + blocks_ * block, nest_.r1, row, cols, valid_, total);
    }
    double sums[kTile / kLanes];
    for (int64_t j = 0; j < cols / kLanes; ++j) {
      sums[j] = 0;
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[j] += total[j * kLanes + lane];
    }
    finish(context, scale_, sums, cols / kLanes,
           context.out<T>(0) + k0 * nest_.k1 + first / kLanes);
  }

  Nest nest_;
  DType dtype_;
  double scale_;
  int64_t blocks_, valid_;
};

std::vector<bool> removed_axes(const KernelRequest& request) {
  return reduce::reduced_axes(*request.node, request.constant(1), request.in[0].rank());
}

std::optional<Nest> plain_nest(const KernelRequest& request) {
  return nest_of(request.in_shape(0), removed_axes(request));
}

bool sums_lanes(const KernelRequest& request) { return removed_axes(request).at(0); }

// Axis 0 kept: the lanes are one more kept axis. Axis 0 removed: the nest of the other axes.
std::optional<Nest> lanes_nest(const KernelRequest& request) {
  std::vector<int64_t> shape = request.in_shape(0);
  std::vector<bool> removed = removed_axes(request);
  if (!sums_lanes(request)) {
    shape[0] = (shape[0] + kLanes - 1) / kLanes;
    shape.push_back(kLanes);
    removed.push_back(false);
    return nest_of(shape, removed);
  }
  shape[0] = 1;
  std::optional<Nest> nest = nest_of(shape, removed);
  if (!nest || nest->r0 > 1) return std::nullopt;
  if (nest->r1 == 1) {  // only kept axes: all are columns
    nest->k1 *= nest->k0;
    nest->k0 = 1;
  }
  return nest;
}

Refusal beyond_two_groups(std::optional<Nest> (*nest)(const KernelRequest&)) {
  return {"takes at most two groups of removed axes",
          [nest](const KernelRequest& request) { return !nest(request); }};
}

std::vector<Refusal> lanes_refusals() {
  return {unless_float(),
          {"the input must carry the batch",
           [](const KernelRequest& request) { return request.in[0].layout.plain(); }},
          {"the output must carry the batch where its rows are kept",
           [](const KernelRequest& request) {
             return sums_lanes(request) != request.out[0].layout.plain();
           }},
          beyond_two_groups(lanes_nest)};
}

void add(KernelRegistry& kernels, const char* op) {
  KernelDef plain;
  plain.op = op;
  plain.name = "reduce.sum";
  plain.speed = Speed::kOptimised;
  plain.accumulates = true;
  plain.declines = {unless_float(), beyond_two_groups(plain_nest)};
  plain.create = [](const KernelRequest& request) {
    return std::make_unique<SumKernel>(*plain_nest(request), request);
  };
  KernelDef lanes = plain;
  lanes.name = "reduce.lanes";
  lanes.layouts = Layouts::kLanes;
  lanes.declines = lanes_refusals();
  lanes.create = [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    const Nest nest = *lanes_nest(request);
    if (sums_lanes(request)) return std::make_unique<LaneSumKernel>(nest, request);
    return std::make_unique<SumKernel>(nest, request);
  };
  kernels.add(std::move(plain));
  kernels.add(std::move(lanes));
}

}  // namespace

void register_reduce_cpu(KernelRegistry& kernels) {
  register_reduce_reference(kernels);
  add(kernels, "ReduceSum");
  add(kernels, "ReduceMean");
}

}  // namespace sardonyx::ops
