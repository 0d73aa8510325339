// Kernels of RecurrentGrad: back through time, step by step, to the gradient with respect to the
// sums of all steps ("slopes", [T,N,slopes]); from those each other gradient is one product or sum
// over all steps.
//
// Where a sample has no data its slopes are zero and its gradients pass the step unchanged.
#include <algorithm>
#include <optional>

#include "ops/recurrent/recurrent.h"

namespace sardonyx::ops::recurrent {

namespace {

using matrix::Trans;
using matrix::Write;

// out[k] = sum over rows of a[row, k], or of a[row, k] b[row, k]; columns are added up in groups
// that fit the registers.
template <class T>
void sum_rows(matrix::Rows<const T> a, matrix::Rows<const T> b, int64_t rows, int64_t columns,
              T* out, ThreadPool& pool) {
  constexpr int64_t kGroup = 32;
  parallel_for(pool, (columns + kGroup - 1) / kGroup, 1 + 16384 / (kGroup * (rows + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t group = begin; group < end; ++group) {
                   const int64_t first = group * kGroup;
                   const int64_t count = std::min(kGroup, columns - first);
                   double sum[kGroup] = {};
                   for (int64_t i = 0; i < rows; ++i) {
                     const T* row = a.data + i * a.stride + first;
                     const T* factor = b.data == nullptr ? nullptr : b.data + i * b.stride + first;
                     for (int64_t k = 0; k < count; ++k) {
                       sum[k] += factor == nullptr
                                     ? static_cast<double>(row[k])
                                     : static_cast<double>(row[k]) * static_cast<double>(factor[k]);
                     }
                   }
                   for (int64_t k = 0; k < count; ++k) out[first + k] = static_cast<T>(sum[k]);
                 }
               });
}

template <class T>
class Backward final : public Kernel {
 public:
  Backward(Library library, const KernelRequest& request)
      : m_(Machine<T>::of(
            library,
            Recurrence::of(*request.node, request.in_shape(kGradX), request.in_shape(kGradR)[2]),
            request.has_in(kGradP))),
        r_(m_.r) {
    const int64_t x_bytes = r_.steps * r_.rows * r_.inputs * sizeof(T);
    if (r_.order == Order::kBatchFirst) {
      to_time_first_.emplace(time_first(r_, request.in[kGradX].dtype));
      to_batch_first_.emplace(batch_first(r_, request.in[kGradX].dtype));
      x_at_ = places_.take(x_bytes);
      if (request.has_out(kDx)) dx_at_ = places_.take(x_bytes);
    }
    slopes_at_ = places_.take(r_.steps * r_.rows * r_.slopes() * sizeof(T));
    d_hidden_at_ = places_.take(r_.rows * r_.hidden * sizeof(T));
    d_cell_at_ = places_.take(r_.rows * r_.hidden * sizeof(T));
  }

  size_t workspace_bytes() const override { return places_.size(); }

  void run(CpuContext& context) const override {
    if (r_.rows == 0) return put_zeros(context);
    const T* x = context.in<T>(kGradX);
    T* dx = context.out<T>(kDx);
    if (to_time_first_) {
      to_time_first_->run(*context.pool, x, context.workspace.data() + x_at_);
      x = part(context, x_at_);
      if (dx != nullptr) dx = part(context, dx_at_);
    }
    for (int64_t d = 0; d < r_.directions; ++d) {
      take_last(context, d);
      for (int64_t i = r_.steps; i-- > 0;) step(context, d, r_.backwards(d) ? r_.steps - 1 - i : i);
      put_initial(context, d);
      put_products(context, d, x, dx);
      put_sums(context, d);
    }
    if (dx != nullptr && to_batch_first_) {
      to_batch_first_->run(*context.pool, dx, context.out<T>(kDx));
    }
  }

 private:
  int64_t row_block() const { return r_.rows * r_.width(); }
  static T* part(const CpuContext& context, size_t at) {
    return reinterpret_cast<T*>(context.workspace.data() + at);
  }
  const T* trace(const CpuContext& context, int64_t d) const {
    return context.in<T>(kTrace) + d * (r_.steps + 1) * row_block();
  }
  // The moments of all steps, or those before them, as one block.
  const T* moments(const CpuContext& context, int64_t d, Moment moment) const {
    return trace(context, d) + (r_.backwards(d) == (moment == Moment::kOwn) ? 0 : row_block());
  }

  void take_last(const CpuContext& context, int64_t d) const {
    const auto take = [&](const T* last, T* to) {
      for (int64_t n = 0; n < r_.rows; ++n, to += r_.hidden) {
        if (last == nullptr) {
          std::fill_n(to, r_.hidden, T(0));
        } else {
          std::copy_n(last + r_.state_at(d, n), r_.hidden, to);
        }
      }
    };
    take(context.in<T>(kDlastH), part(context, d_hidden_at_));
    take(context.in<T>(kDlastC), part(context, d_cell_at_));
  }

  void step(const CpuContext& context, int64_t d, int64_t t) const {
    const auto* lengths = context.in<int32_t>(kGradLengths);
    const T* dy = context.in<T>(kDy);
    T *d_hidden = part(context, d_hidden_at_), *d_cell = part(context, d_cell_at_);
    T* slopes = part(context, slopes_at_) + t * r_.rows * r_.slopes();
    const auto each_row = [&](StepLoop<T> loop, const T* more) {
      parallel_for(*context.pool, r_.rows, m_.grain(), [&](int64_t begin, int64_t end) {
        StepCall<T> call = m_.call(d, context.in<T>(kGradP));
        for (int64_t n = begin; n < end; ++n) {
          call.slopes = slopes + n * r_.slopes();
          if (lengths != nullptr && t >= lengths[n]) {
            std::fill_n(call.slopes, r_.slopes(), T(0));
            continue;
          }
          call.before = trace(context, d) + r_.moment_before(d, t) * row_block() + n * r_.width();
          // Only read on the way back.
          call.now =
              const_cast<T*>(trace(context, d) + r_.moment(d, t) * row_block() + n * r_.width());
          call.d_hidden = d_hidden + n * r_.hidden;
          call.d_cell = d_cell + n * r_.hidden;
          if (more != nullptr) {
            const T* dy_row = more + r_.y_at(t, d, n);
            for (int64_t k = 0; k < r_.hidden; ++k) call.d_hidden[k] += dy_row[k];
          }
          loop(call);
        }
      });
    };
    const auto back = [&](const Part& part, Write write, matrix::Rows<T> to) {
      const T* weights = context.in<T>(kGradR) + (d * r_.gates() + part.weights) * r_.hidden;
      matrix::multiply<T>(m_.product, {r_.rows, r_.hidden, part.count, Trans::kNo, Trans::kNo},
                          {slopes + part.column, r_.slopes()}, {weights, r_.hidden}, write, to,
                          *context.pool);
    };
    each_row(m_.loops[d].step_back, dy);
    for (const Part& part : m_.parts) {
      if (part.moment == Moment::kBefore) continue;
      back(part, Write::kOverwrite, {slopes + part.operand, r_.slopes()});
      each_row(m_.loops[d].reset_back, nullptr);
    }
    for (const Part& part : m_.parts) {
      if (part.moment == Moment::kBefore) back(part, Write::kAdd, {d_hidden, r_.hidden});
    }
  }

  void put_initial(const CpuContext& context, int64_t d) const {
    const auto put = [&](const T* from, T* to) {
      if (to == nullptr) return;
      for (int64_t n = 0; n < r_.rows; ++n) {
        std::copy_n(from + n * r_.hidden, r_.hidden, to + r_.state_at(d, n));
      }
    };
    put(part(context, d_hidden_at_), context.out<T>(kDinitialH));
    put(part(context, d_cell_at_), context.out<T>(kDinitialC));
  }

  // What the weights get from no rows.
  void put_zeros(const CpuContext& context) const {
    const auto put = [&](int output, int64_t numbers) {
      if (T* to = context.out<T>(output)) std::fill_n(to, r_.directions * numbers, T(0));
    };
    put(kDw, r_.gates() * r_.inputs);
    put(kDr, r_.gates() * r_.hidden);
    put(kDb, 2 * r_.gates());
    put(kDp, 3 * r_.hidden);
  }

  void put_products(const CpuContext& context, int64_t d, const T* x, T* dx) const {
    const int64_t rows = r_.steps * r_.rows;
    const T* slopes = part(context, slopes_at_);
    if (dx != nullptr) {
      const T* w = context.in<T>(kGradW) + d * r_.gates() * r_.inputs;
      matrix::multiply<T>(m_.product, {rows, r_.inputs, r_.gates(), Trans::kNo, Trans::kNo},
                          {slopes, r_.slopes()}, {w, r_.inputs},
                          d == 0 ? Write::kOverwrite : Write::kAdd, {dx, r_.inputs}, *context.pool);
    }
    if (T* dw = context.out<T>(kDw)) {
      matrix::multiply<T>(m_.product, {r_.gates(), r_.inputs, rows, Trans::kYes, Trans::kNo},
                          {slopes, r_.slopes()}, {x, r_.inputs}, Write::kOverwrite,
                          {dw + d * r_.gates() * r_.inputs, r_.inputs}, *context.pool);
    }
    T* dr = context.out<T>(kDr);
    if (dr == nullptr) return;
    for (const Part& part : m_.parts) {
      matrix::multiply<T>(
          m_.product, {part.count, r_.hidden, rows, Trans::kYes, Trans::kNo},
          {slopes + part.column, r_.slopes()},
          {moments(context, d, part.moment) + part.operand, r_.width()}, Write::kOverwrite,
          {dr + (d * r_.gates() + part.weights) * r_.hidden, r_.hidden}, *context.pool);
    }
  }

  void put_sums(const CpuContext& context, int64_t d) const {
    const int64_t rows = r_.steps * r_.rows;
    const T* slopes = part(context, slopes_at_);
    const auto sum = [&](int64_t column, matrix::Rows<const T> factor, int64_t count, T* to) {
      sum_rows<T>({slopes + column, r_.slopes()}, factor, rows, count, to, *context.pool);
    };
    if (T* db = context.out<T>(kDb)) {
      T *of_w = db + d * 2 * r_.gates(), *of_r = of_w + r_.gates();
      sum(0, {nullptr, 0}, r_.gates(), of_w);
      std::copy_n(of_w, r_.gates(), of_r);
      if (r_.cell == Cell::kGru && r_.reset == Reset::kAfter) {
        sum(r_.gates(), {nullptr, 0}, r_.hidden, of_r + 2 * r_.hidden);
      }
    }
    if (T* dp = context.out<T>(kDp)) {
      dp += d * 3 * r_.hidden;
      constexpr Moment kSeen[] = {Moment::kBefore, Moment::kOwn, Moment::kBefore};  // by i, o, f
      for (int64_t gate = 0; gate < 3; ++gate) {
        const T* cell = moments(context, d, kSeen[gate]) + r_.carried();
        sum(gate * r_.hidden, {cell, r_.width()}, r_.hidden, dp + gate * r_.hidden);
      }
    }
  }

  Machine<T> m_;
  const Recurrence& r_;
  std::optional<StridedCopy> to_time_first_, to_batch_first_;
  Places places_;
  size_t x_at_ = 0, dx_at_ = 0, slopes_at_ = 0, d_hidden_at_ = 0, d_cell_at_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_backward(Library library, const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  dispatch_float(request.in[kGradX].dtype,
                 [&]<class T>() { kernel = std::make_unique<Backward<T>>(library, request); });
  return kernel;
}

}  // namespace sardonyx::ops::recurrent
