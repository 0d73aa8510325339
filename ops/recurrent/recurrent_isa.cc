// The usual cells as vector loops, compiled once per instruction set: RNN with Tanh or Relu, GRU
// and LSTM with Sigmoid and Tanh, nothing clipped, coupled or peeped.
#include "ops/core/vector_math_isa.h"
#include "ops/recurrent/cells.h"

namespace sardonyx::ops::recurrent::SARDONYX_ISA {

namespace {

using ops::SARDONYX_ISA::sigmoid_of;
using ops::SARDONYX_ISA::tanh_of;

template <class T>
struct Usual {
  using Number = T;
  static Usual made_of(const StepCall<T>&) { return {}; }
  static T f(T x) { return sigmoid_of(x); }
  static T f_slope(T, T y) { return y * (T(1) - y); }
  static T g(T x) { return tanh_of(x); }
  static T g_slope(T, T y) { return T(1) - y * y; }
  static T h(T x) { return tanh_of(x); }
  static T h_slope(T, T y) { return T(1) - y * y; }
  static T peep(int64_t, T) { return T(0); }
  static constexpr bool coupled() { return false; }
};

template <class T>
struct UsualTanh {
  using Number = T;
  static UsualTanh made_of(const StepCall<T>&) { return {}; }
  static T f(T x) { return tanh_of(x); }
  static T f_slope(T, T y) { return T(1) - y * y; }
};

template <class T>
struct UsualRelu {
  using Number = T;
  static UsualRelu made_of(const StepCall<T>&) { return {}; }
  static T f(T x) { return x < T(0) ? T(0) : x; }
  static T f_slope(T, T y) { return y <= T(0) ? T(0) : T(1); }
};

template <class T>
void gru(const StepCall<T>& call) {
  (call.reset == Reset::kAfter ? gru_step<T, Usual<T>, Reset::kAfter>
                               : gru_step<T, Usual<T>, Reset::kBefore>)(call);
}
template <class T>
void gru_back(const StepCall<T>& call) {
  (call.reset == Reset::kAfter ? gru_step_back<T, Usual<T>, Reset::kAfter>
                               : gru_step_back<T, Usual<T>, Reset::kBefore>)(call);
}

template <class T>
constexpr CellLoops<T> kLoops = {rnn_step<T, UsualTanh<T>>,
                                 rnn_step_back<T, UsualTanh<T>>,
                                 rnn_step<T, UsualRelu<T>>,
                                 rnn_step_back<T, UsualRelu<T>>,
                                 gru_reset<T, Usual<T>>,
                                 gru_reset_back<T, Usual<T>>,
                                 gru<T>,
                                 gru_back<T>,
                                 lstm_step<T, Usual<T>>,
                                 lstm_step_back<T, Usual<T>>};

}  // namespace

template <class T>
const CellLoops<T>& loops() {
  return kLoops<T>;
}
template const CellLoops<float>& loops<float>();
template const CellLoops<double>& loops<double>();

}  // namespace sardonyx::ops::recurrent::SARDONYX_ISA
