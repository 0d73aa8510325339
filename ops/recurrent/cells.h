// One step of one sample: loops over the hidden numbers of RNN, GRU and LSTM, forward and back.
//
// The loops are templates over a Math that says which functions stand between the numbers and what
// they are computed in: any of them, in double (recurrent_loops.cc), or the usual ones as vectors
// (recurrent_isa.cc, so nothing here may need an inline function of the C++ library). Rows are
// those of a trace (recurrent.h).
#pragma once

#include <cstdint>

namespace sardonyx::ops::recurrent {

enum class Function : uint8_t {
  kAffine,
  kRelu,
  kLeakyRelu,
  kThresholdedRelu,
  kTanh,
  kScaledTanh,
  kSigmoid,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus,
};
// linear_before_reset 0: r meets the state before the weights of gate h do, else after.
enum class Reset : uint8_t { kBefore, kAfter };
// input_forget 1: f is 1 - i.
enum class Forget : uint8_t { kOwn, kCoupled };

// A function of a gate; its argument is first cut off at -clip and clip.
struct Squash {
  Function function = Function::kTanh;
  double alpha = 0, beta = 0;
  double clip = __builtin_inf();
};

template <class T>
struct StepCall {
  int64_t hidden;
  const Squash* squash;  // of the direction
  Reset reset;
  Forget forget;
  const T* peephole;  // [3 hidden] for i, o, f; nullptr: none
  const T* before;    // trace row with the states before the step
  T* now;             // trace row of the step; back: only read
  // Back: in the gradient of the states after the step, out that of those before it, as far as it
  // doesn't come through a product with R.
  T *d_hidden, *d_cell;
  T* slopes;  // the gradient with respect to the sums
};

template <class T>
using StepLoop = void (*)(const StepCall<T>& call);

template <class T>
struct CellLoops {
  StepLoop<T> rnn, rnn_back;      // usual_loops: with Tanh
  StepLoop<T> relu, relu_back;    // usual_loops: RNN with Relu
  StepLoop<T> reset, reset_back;  // GRU, Reset::kBefore: around the product with the gate h
  StepLoop<T> gru, gru_back;
  StepLoop<T> lstm, lstm_back;
};

// A Math has Number, made_of(call), f(x), g(x), h(x), their slopes f_slope(x, f(x)), ...,
// coupled(), and peep(k, c): what the k-th peephole makes of the cell state c.

template <class T, class Math>
void rnn_step(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T* sum = call.now;
  T* state = call.now + n;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) state[k] = static_cast<T>(math.f(static_cast<C>(sum[k])));
}

template <class T, class Math>
void rnn_step_back(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum = call.now, *state = call.now + n;
  T *slope = call.slopes, *dh = call.d_hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const C x = static_cast<C>(sum[k]);
    slope[k] = static_cast<T>(static_cast<C>(dh[k]) * math.f_slope(x, static_cast<C>(state[k])));
    dh[k] = T(0);
  }
}

// q = r h
template <class T, class Math>
void gru_reset(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum_r = call.now + n, *before = call.before + 4 * n;
  T* q = call.now + 3 * n;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    q[k] = static_cast<T>(math.f(static_cast<C>(sum_r[k])) * static_cast<C>(before[k]));
  }
}

// From the gradient of q, which stands where the slopes of q do.
template <class T, class Math>
void gru_reset_back(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum_r = call.now + n, *before = call.before + 4 * n, *dq = call.slopes + 3 * n;
  T *slope_r = call.slopes + n, *dh = call.d_hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const C x = static_cast<C>(sum_r[k]), r = math.f(x), d = static_cast<C>(dq[k]);
    slope_r[k] = static_cast<T>(d * static_cast<C>(before[k]) * math.f_slope(x, r));
    dh[k] = static_cast<T>(static_cast<C>(dh[k]) + d * r);
  }
}

// h' = (1 - z) g + z h, where the sum of g is complete, or still needs r q.
template <class T, class Math, Reset kReset>
void gru_step(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum_z = call.now, *sum_r = call.now + n, *sum_h = call.now + 2 * n;
  const T *q = call.now + 3 * n, *before = call.before + 4 * n;
  T* state = call.now + 4 * n;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const C z = math.f(static_cast<C>(sum_z[k]));
    C x = static_cast<C>(sum_h[k]);
    if (kReset == Reset::kAfter) {
      x += math.f(static_cast<C>(sum_r[k])) * static_cast<C>(q[k]);
    }
    state[k] = static_cast<T>((C(1) - z) * math.g(x) + z * static_cast<C>(before[k]));
  }
}

template <class T, class Math, Reset kReset>
void gru_step_back(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum_z = call.now, *sum_r = call.now + n, *sum_h = call.now + 2 * n;
  const T *q = call.now + 3 * n, *before = call.before + 4 * n;
  T *slope_z = call.slopes, *slope_r = call.slopes + n, *slope_h = call.slopes + 2 * n;
  T *dq = call.slopes + 3 * n, *dh = call.d_hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const C xz = static_cast<C>(sum_z[k]), z = math.f(xz), d = static_cast<C>(dh[k]);
    const C xr = static_cast<C>(sum_r[k]), r = math.f(xr);
    C x = static_cast<C>(sum_h[k]);
    if (kReset == Reset::kAfter) x += r * static_cast<C>(q[k]);
    const C g = math.g(x);
    const C dx = d * (C(1) - z) * math.g_slope(x, g);
    slope_z[k] = static_cast<T>(d * (static_cast<C>(before[k]) - g) * math.f_slope(xz, z));
    slope_h[k] = static_cast<T>(dx);
    if (kReset == Reset::kAfter) {
      slope_r[k] = static_cast<T>(dx * static_cast<C>(q[k]) * math.f_slope(xr, r));
      dq[k] = static_cast<T>(dx * r);
    }
    dh[k] = static_cast<T>(d * z);
  }
}

// c' = f c + i g, h' = o h(c'), where o may look at c'.
template <class T, class Math>
void lstm_step(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum_i = call.now, *sum_o = call.now + n, *sum_f = call.now + 2 * n;
  const T *sum_c = call.now + 3 * n, *before = call.before + 4 * n;
  T *cell = call.now + 4 * n, *state = call.now + 5 * n;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const C c = static_cast<C>(before[k]);
    const C i = math.f(static_cast<C>(sum_i[k]) + math.peep(k, c));
    const C f =
        math.coupled() ? C(1) - i : math.f(static_cast<C>(sum_f[k]) + math.peep(2 * n + k, c));
    const C next = f * c + i * math.g(static_cast<C>(sum_c[k]));
    const C o = math.f(static_cast<C>(sum_o[k]) + math.peep(n + k, next));
    cell[k] = static_cast<T>(next);
    state[k] = static_cast<T>(o * math.h(next));
  }
}

template <class T, class Math>
void lstm_step_back(const StepCall<T>& call) {
  using C = typename Math::Number;
  const Math math = Math::made_of(call);
  const int64_t n = call.hidden;
  const T *sum_i = call.now, *sum_o = call.now + n, *sum_f = call.now + 2 * n;
  const T *sum_c = call.now + 3 * n, *before = call.before + 4 * n, *cell = call.now + 4 * n;
  T *slope_i = call.slopes, *slope_o = call.slopes + n, *slope_f = call.slopes + 2 * n;
  T *slope_c = call.slopes + 3 * n, *dh = call.d_hidden, *dc = call.d_cell;
#pragma GCC ivdep
  for (int64_t k = 0; k < n; ++k) {
    const C c = static_cast<C>(before[k]), next = static_cast<C>(cell[k]);
    const C xi = static_cast<C>(sum_i[k]) + math.peep(k, c), i = math.f(xi);
    const C xf = static_cast<C>(sum_f[k]) + math.peep(2 * n + k, c);
    const C f = math.coupled() ? C(1) - i : math.f(xf);
    const C xc = static_cast<C>(sum_c[k]), g = math.g(xc);
    const C xo = static_cast<C>(sum_o[k]) + math.peep(n + k, next), o = math.f(xo);
    const C squashed = math.h(next), d = static_cast<C>(dh[k]);
    const C so = d * squashed * math.f_slope(xo, o);
    const C dn =
        static_cast<C>(dc[k]) + d * o * math.h_slope(next, squashed) + math.peep(n + k, so);
    const C sf = math.coupled() ? C(0) : dn * c * math.f_slope(xf, f);
    const C si = dn * (math.coupled() ? g - c : g) * math.f_slope(xi, i);
    slope_i[k] = static_cast<T>(si);
    slope_o[k] = static_cast<T>(so);
    slope_f[k] = static_cast<T>(sf);
    slope_c[k] = static_cast<T>(dn * i * math.g_slope(xc, g));
    dc[k] = static_cast<T>(dn * f + math.peep(k, si) + math.peep(2 * n + k, sf));
    dh[k] = T(0);
  }
}

}  // namespace sardonyx::ops::recurrent
