// Forward kernels of RNN, GRU and LSTM, and what those of the gradient (recurrent_grad_cpu.cc)
// share with them. All are one walk over the steps; they differ in what multiplies matrices and in
// the loops of cells.h.
//
// A sample that is shorter than the others hands its states on unchanged where it has no data, in
// reverse its initial ones: the last moment then holds the last states of all.
#include <algorithm>
#include <optional>

#include "ops/core/refusals.h"
#include "ops/recurrent/recurrent.h"

namespace sardonyx::ops {

namespace recurrent {

namespace {

using matrix::Trans;
using matrix::Write;

template <class T>
matrix::Multiply<T> product_of(Library library) {
  if constexpr (std::is_same_v<T, float>) {
    if (library == Library::kDnnl) return matrix::dnnl_product();
  } else {
    if (library == Library::kEigen) return matrix::eigen_product();
  }
  return matrix::plain_product<T>();
}

// The functions that usual_loops has for this cell.
bool is_usual(const Recurrence& r, const Squash* squash) {
  if (squash->clip != __builtin_inf()) return false;
  if (r.cell == Cell::kRnn) {
    return squash[0].function == Function::kTanh || squash[0].function == Function::kRelu;
  }
  const bool lstm = r.cell == Cell::kLstm;
  return squash[0].function == Function::kSigmoid && squash[1].function == Function::kTanh &&
         (!lstm || (squash[2].function == Function::kTanh && r.forget == Forget::kOwn));
}

template <class T>
DirectionLoops<T> loops_of(const Recurrence& r, const CellLoops<T>& loops, Function function) {
  switch (r.cell) {
    case Cell::kRnn:
      if (function == Function::kRelu) return {loops.relu, loops.relu_back, nullptr, nullptr};
      return {loops.rnn, loops.rnn_back, nullptr, nullptr};
    case Cell::kGru:
      if (r.reset == Reset::kAfter) return {loops.gru, loops.gru_back, nullptr, nullptr};
      return {loops.gru, loops.gru_back, loops.reset, loops.reset_back};
    case Cell::kLstm:
      break;
  }
  return {loops.lstm, loops.lstm_back, nullptr, nullptr};
}

}  // namespace

template <class T>
Machine<T> Machine<T>::of(Library library, const Recurrence& r, bool peeped) {
  Machine machine{r, recurrent_parts(r), product_of<T>(library), {}};
  for (int64_t d = 0; d < r.directions; ++d) {
    const Squash* squash = r.squashes(d);
    const bool usual = library != Library::kReference && !peeped && is_usual(r, squash);
    machine.loops.push_back(
        loops_of(r, usual ? usual_loops<T>() : any_loops<T>(), squash->function));
  }
  return machine;
}

template struct Machine<float>;
template struct Machine<double>;

StridedCopy time_first(const Recurrence& r, DType dtype) {
  const int64_t line = r.steps * r.inputs;
  return {{{r.steps, r.rows, r.inputs}, {r.inputs, line, 1}, {r.rows * r.inputs, r.inputs, 1}},
          dtype};
}

StridedCopy batch_first(const Recurrence& r, DType dtype) {
  const int64_t line = r.rows * r.inputs;
  return {{{r.rows, r.steps, r.inputs}, {r.inputs, line, 1}, {r.steps * r.inputs, r.inputs, 1}},
          dtype};
}

void add_kernels(KernelRegistry& kernels, const char* domain, const char* op,
                 std::unique_ptr<Kernel> (*create)(Library, const KernelRequest&)) {
  const auto add = [&](Library library, const char* name, Speed speed, Refusal refusal) {
    KernelDef def;
    def.domain = domain;
    def.op = op;
    def.name = name;
    def.speed = speed;
    def.declines = {std::move(refusal)};
    def.create = [library, create](const KernelRequest& request) {
      return create(library, request);
    };
    kernels.add(std::move(def));
  };
  add(Library::kReference, "recurrent.ref", Speed::kReference, unless_float());
  if (matrix::dnnl_product() != nullptr) {
    add(Library::kDnnl, "recurrent.onednn", Speed::kOptimised, unless_float32());
  }
  add(Library::kEigen, "recurrent.eigen", Speed::kOptimised,
      {"takes double only",
       [](const KernelRequest& request) { return request.in[0].dtype != DType::kFloat64; }});
}

namespace {

template <class T>
class Forward final : public Kernel {
 public:
  Forward(Library library, const KernelRequest& request)
      : m_(Machine<T>::of(
            library, Recurrence::of(*request.node, request.in_shape(kX), request.in_shape(kR)[2]),
            request.has_in(kP))),
        r_(m_.r),
        trace_slot_(trace_slot(r_.cell)) {
    if (r_.order == Order::kBatchFirst) {
      to_time_first_.emplace(time_first(r_, request.in[kX].dtype));
      x_at_ = places_.take(r_.steps * r_.rows * r_.inputs * sizeof(T));
    }
    bias_at_ = places_.take(r_.slopes() * sizeof(T));
    if (!request.has_out(trace_slot_)) trace_at_ = places_.take(r_.trace_numel() * sizeof(T));
  }

  size_t workspace_bytes() const override { return places_.size(); }

  void run(CpuContext& context) const override {
    const auto* lengths = context.in<int32_t>(kLengths);
    if (lengths != nullptr) check_lengths(lengths, r_.rows, r_.steps, context.first_sample);
    const T* x = context.in<T>(kX);
    if (to_time_first_) {
      to_time_first_->run(*context.pool, x, context.workspace.data() + x_at_);
      x = part(context, x_at_);
    }
    T* trace = context.out<T>(trace_slot_);
    if (trace == nullptr) trace = part(context, trace_at_);
    for (int64_t d = 0; d < r_.directions; ++d) {
      T* rows = trace + d * (r_.steps + 1) * row_block();
      put_initial(context, d, rows + r_.first_moment(d) * row_block());
      put_bias(context, d, rows + (r_.backwards(d) ? 0 : row_block()));
      put_inputs(context, d, x, rows + (r_.backwards(d) ? 0 : row_block()));
      for (int64_t i = 0; i < r_.steps; ++i) {
        const int64_t t = r_.backwards(d) ? r_.steps - 1 - i : i;
        step(context, d, t, lengths, rows);
      }
      put_outputs(context, d, lengths, rows);
    }
  }

 private:
  int64_t row_block() const { return r_.rows * r_.width(); }
  static T* part(const CpuContext& context, size_t at) {
    return reinterpret_cast<T*>(context.workspace.data() + at);
  }

  void put_initial(const CpuContext& context, int64_t d, T* rows) const {
    const T *h = context.in<T>(kInitialH), *c = context.in<T>(kInitialC);
    std::fill_n(rows, row_block(), T(0));
    for (int64_t n = 0; n < r_.rows; ++n) {
      T* row = rows + n * r_.width();
      if (h != nullptr) std::copy_n(h + r_.state_at(d, n), r_.hidden, row + r_.state());
      if (c != nullptr) std::copy_n(c + r_.state_at(d, n), r_.hidden, row + r_.carried());
    }
  }

  // The sums of all steps begin with the biases; r q gets its own of R.
  void put_bias(const CpuContext& context, int64_t d, T* rows) const {
    T* bias = part(context, bias_at_);
    std::fill_n(bias, r_.slopes(), T(0));
    if (const T* b = context.in<T>(kB)) {
      b += d * 2 * r_.gates();
      const T* recurrent = b + r_.gates();
      const bool apart = r_.cell == Cell::kGru && r_.reset == Reset::kAfter;
      const int64_t together = apart ? 2 * r_.hidden : r_.gates();
      for (int64_t k = 0; k < together; ++k) bias[k] = b[k] + recurrent[k];
      if (apart) {
        std::copy_n(b + together, r_.hidden, bias + together);
        std::copy_n(recurrent + together, r_.hidden, bias + r_.gates());
      }
    }
    parallel_for(*context.pool, r_.steps * r_.rows, m_.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::copy_n(bias, r_.slopes(), rows + i * r_.width());
      }
    });
  }

  // One product for all steps.
  void put_inputs(const CpuContext& context, int64_t d, const T* x, T* rows) const {
    const T* w = context.in<T>(kW) + d * r_.gates() * r_.inputs;
    matrix::multiply<T>(
        m_.product, {r_.steps * r_.rows, r_.gates(), r_.inputs, Trans::kNo, Trans::kYes},
        {x, r_.inputs}, {w, r_.inputs}, Write::kAdd, {rows, r_.width()}, *context.pool);
  }

  void step(const CpuContext& context, int64_t d, int64_t t, const int32_t* lengths,
            T* rows) const {
    const T* before = rows + r_.moment_before(d, t) * row_block();
    T* now = rows + r_.moment(d, t) * row_block();
    const T* weights = context.in<T>(kR) + d * r_.gates() * r_.hidden;
    const auto add = [&](const Part& part) {
      const T* operand = (part.moment == Moment::kBefore ? before : now) + part.operand;
      matrix::multiply<T>(m_.product, {r_.rows, part.count, r_.hidden, Trans::kNo, Trans::kYes},
                          {operand, r_.width()}, {weights + part.weights * r_.hidden, r_.hidden},
                          Write::kAdd, {now + part.column, r_.width()}, *context.pool);
    };
    const auto each_row = [&](StepLoop<T> loop) {
      parallel_for(*context.pool, r_.rows, m_.grain(), [&](int64_t begin, int64_t end) {
        StepCall<T> call = m_.call(d, context.in<T>(kP));
        for (int64_t n = begin; n < end; ++n) {
          call.before = before + n * r_.width();
          call.now = now + n * r_.width();
          if (lengths == nullptr || t < lengths[n]) {
            loop(call);
          } else {
            std::copy(call.before + r_.carried(), call.before + r_.width(),
                      call.now + r_.carried());
          }
        }
      });
    };
    for (const Part& part : m_.parts) {
      if (part.moment == Moment::kOwn) each_row(m_.loops[d].reset);
      add(part);
    }
    each_row(m_.loops[d].step);
  }

  void put_outputs(const CpuContext& context, int64_t d, const int32_t* lengths,
                   const T* rows) const {
    if (T* y = context.out<T>(kY)) {
      parallel_for(*context.pool, r_.steps * r_.rows, m_.grain(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t t = i / r_.rows, n = i % r_.rows;
          T* to = y + r_.y_at(t, d, n);
          if (lengths != nullptr && t >= lengths[n]) {
            std::fill_n(to, r_.hidden, T(0));
          } else {
            std::copy_n(rows + r_.moment(d, t) * row_block() + n * r_.width() + r_.state(),
                        r_.hidden, to);
          }
        }
      });
    }
    const T* last = rows + r_.last_moment(d) * row_block();
    for (int64_t n = 0; n < r_.rows; ++n, last += r_.width()) {
      if (T* h = context.out<T>(kLastH)) {
        std::copy_n(last + r_.state(), r_.hidden, h + r_.state_at(d, n));
      }
      if (r_.cell != Cell::kLstm) continue;
      if (T* c = context.out<T>(kLastC)) {
        std::copy_n(last + r_.carried(), r_.hidden, c + r_.state_at(d, n));
      }
    }
  }

  Machine<T> m_;
  const Recurrence& r_;
  int trace_slot_;
  std::optional<StridedCopy> to_time_first_;
  Places places_;
  size_t x_at_ = 0, bias_at_ = 0, trace_at_ = 0;
};

std::unique_ptr<Kernel> make_forward(Library library, const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  dispatch_float(request.in[kX].dtype,
                 [&]<class T>() { kernel = std::make_unique<Forward<T>>(library, request); });
  return kernel;
}

}  // namespace

}  // namespace recurrent

void register_recurrent_cpu(KernelRegistry& kernels) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    recurrent::add_kernels(kernels, "", op, recurrent::make_forward);
  }
  recurrent::add_kernels(kernels, kDomain, recurrent::kGradient, recurrent::make_backward);
}

}  // namespace sardonyx::ops
