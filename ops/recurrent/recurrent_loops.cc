// The loops of cells.h: with any function, computed in double, and the choice of the copy of
// recurrent_isa.cc that this processor should run.
#include <algorithm>
#include <cmath>

#include "ops/core/activation_formulas.h"
#include "ops/core/isa.h"
#include "ops/recurrent/recurrent.h"

namespace sardonyx::ops::recurrent {

namespace baseline {
template <class T>
const CellLoops<T>& loops();
}
namespace avx2 {
template <class T>
const CellLoops<T>& loops();
}
namespace avx512 {
template <class T>
const CellLoops<T>& loops();
}

namespace {

double value_of(const Squash& s, double x) {
  switch (s.function) {
    case Function::kAffine:
      return s.alpha * x + s.beta;
    case Function::kRelu:
      return formulas::Relu::of(x, x, s.alpha, s.beta);
    case Function::kLeakyRelu:
      return formulas::LeakyRelu::of(x, x, s.alpha, s.beta);
    case Function::kThresholdedRelu:
      return formulas::ThresholdedRelu::of(x, x, s.alpha, s.beta);
    case Function::kTanh:
      return std::tanh(x);
    case Function::kScaledTanh:
      return s.alpha * std::tanh(s.beta * x);
    case Function::kSigmoid:
      return formulas::sigmoid(x);
    case Function::kHardSigmoid:
      return formulas::HardSigmoid::of(x, x, s.alpha, s.beta);
    case Function::kElu:
      return formulas::Elu::of(x, x, s.alpha, 1.0);
    case Function::kSoftsign:
      return formulas::Softsign::of(x, x, s.alpha, s.beta);
    case Function::kSoftplus:
      return formulas::softplus(x);
  }
  return 0;
}

// At kinks as the operators of these names have it.
double slope_of(const Squash& s, double x, double y) {
  switch (s.function) {
    case Function::kAffine:
      return s.alpha;
    case Function::kRelu:
      return formulas::ReluGrad::of(y, 1.0, s.alpha, s.beta);
    case Function::kLeakyRelu:
      return formulas::LeakyReluGrad::of(x, 1.0, s.alpha, s.beta);
    case Function::kThresholdedRelu:
      return formulas::ThresholdedReluGrad::of(x, 1.0, s.alpha, s.beta);
    case Function::kTanh:
      return formulas::TanhGrad::of(y, 1.0, s.alpha, s.beta);
    case Function::kScaledTanh: {
      const double t = std::tanh(s.beta * x);
      return s.alpha * s.beta * (1 - t) * (1 + t);
    }
    case Function::kSigmoid:
      return formulas::SigmoidGrad::of(y, 1.0, s.alpha, s.beta);
    case Function::kHardSigmoid:
      return formulas::HardSigmoidGrad::of(y, 1.0, s.alpha, s.beta);
    case Function::kElu:
      return formulas::EluGrad::of(x, 1.0, s.alpha, 1.0);
    case Function::kSoftsign:
      return 1 / ((1 + std::abs(x)) * (1 + std::abs(x)));
    case Function::kSoftplus:
      return formulas::sigmoid(x);
  }
  return 0;
}

// NaN comes through.
double clipped(const Squash& s, double x) {
  return x < -s.clip ? -s.clip : x > s.clip ? s.clip : x;
}
double value(const Squash& s, double x) { return value_of(s, clipped(s, x)); }
double slope(const Squash& s, double x, double y) {
  return x < -s.clip || x > s.clip ? 0 : slope_of(s, x, y);
}

template <class T>
struct AnyMath {
  using Number = double;
  static AnyMath made_of(const StepCall<T>& call) {
    return {call.squash, call.peephole, call.forget};
  }
  double f(double x) const { return value(squash[0], x); }
  double f_slope(double x, double y) const { return slope(squash[0], x, y); }
  double g(double x) const { return value(squash[1], x); }
  double g_slope(double x, double y) const { return slope(squash[1], x, y); }
  double h(double x) const { return value(squash[2], x); }
  double h_slope(double x, double y) const { return slope(squash[2], x, y); }
  double peep(int64_t k, double c) const {
    return peephole == nullptr ? 0 : static_cast<double>(peephole[k]) * c;
  }
  bool coupled() const { return forget == Forget::kCoupled; }

  const Squash* squash;
  const T* peephole;
  Forget forget;
};

template <class T>
void any_gru(const StepCall<T>& call) {
  (call.reset == Reset::kAfter ? gru_step<T, AnyMath<T>, Reset::kAfter>
                               : gru_step<T, AnyMath<T>, Reset::kBefore>)(call);
}
template <class T>
void any_gru_back(const StepCall<T>& call) {
  (call.reset == Reset::kAfter ? gru_step_back<T, AnyMath<T>, Reset::kAfter>
                               : gru_step_back<T, AnyMath<T>, Reset::kBefore>)(call);
}

template <class T>
constexpr CellLoops<T> kAnyLoops = {rnn_step<T, AnyMath<T>>,
                                    rnn_step_back<T, AnyMath<T>>,
                                    rnn_step<T, AnyMath<T>>,
                                    rnn_step_back<T, AnyMath<T>>,
                                    gru_reset<T, AnyMath<T>>,
                                    gru_reset_back<T, AnyMath<T>>,
                                    any_gru<T>,
                                    any_gru_back<T>,
                                    lstm_step<T, AnyMath<T>>,
                                    lstm_step_back<T, AnyMath<T>>};

}  // namespace

template <class T>
const CellLoops<T>& any_loops() {
  return kAnyLoops<T>;
}
template const CellLoops<float>& any_loops<float>();
template const CellLoops<double>& any_loops<double>();

template <class T>
const CellLoops<T>& usual_loops() {
  return best_copy(baseline::loops<T>(), avx2::loops<T>(), avx512::loops<T>());
}
template const CellLoops<float>& usual_loops<float>();
template const CellLoops<double>& usual_loops<double>();

}  // namespace sardonyx::ops::recurrent
