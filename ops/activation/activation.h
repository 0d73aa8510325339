// The loops of the room, y[i] = f(a[i], b[i]; p, q), the operators that are such a loop, and the
// attributes that become p and q. Private to ops/activation.
#pragma once

#include <cstdint>
#include <span>

namespace sardonyx::graph {
struct Node;
}

namespace sardonyx::ops::activation {

enum class Loop : uint8_t {
  // a = x
  kRelu,
  kSigmoid,
  kTanh,
  kLeakyRelu,  // p = alpha
  kElu,        // p = alpha, q = gamma (1 but for Selu)
  kCelu,       // p = alpha
  kSoftplus,
  kSoftsign,
  kErf,
  kGelu,   // p = 1: by tanh
  kSwish,  // p = alpha
  kMish,
  kHardSwish,
  kHardSigmoid,      // p = alpha, q = beta
  kThresholdedRelu,  // p = alpha
  kShrink,           // p = lambd, q = bias
  kClip,             // p = min, q = max
  kSwiGlu,           // a = gate, b = what it is multiplied with; p = alpha
  // b = dy; a = x, or y where said
  kReluGrad,       // a = y
  kSigmoidGrad,    // a = y
  kTanhGrad,       // a = y
  kLeakyReluGrad,  // a = x (or y, which has the sign of x)
  kEluGrad,
  kCeluGrad,
  kSoftsignGrad,
  kErfGrad,
  kGeluGrad,
  kSwishGrad,
  kMishGrad,
  kHardSwishGrad,
  kHardSigmoidGrad,  // a = y
  kThresholdedReluGrad,
  kShrinkGrad,
  kClipGrad,
  kCount,
};

// An attribute that an operator and its gradient operator have; without a name it is a constant.
struct Parameter {
  const char* name = nullptr;
  double fallback = 0;
  const char* doc = "";
};

inline constexpr Parameter kLeakyAlpha = {"alpha", 0.01, "slope below zero"};
inline constexpr Parameter kOne = {nullptr, 1};
inline constexpr Parameter kEluAlpha = {"alpha", 1.0, "scale below zero"};
inline constexpr Parameter kSeluAlpha = {"alpha", 1.67326319217681884765625, "scale below zero"};
inline constexpr Parameter kSeluGamma = {"gamma", 1.05070102214813232421875, "scale of everything"};
inline constexpr Parameter kCeluAlpha = {"alpha", 1.0, "scale of x and y below zero"};
inline constexpr Parameter kSwishAlpha = {"alpha", 1.0, "scale of x under the sigmoid"};
inline constexpr Parameter kHardSigmoidAlpha = {"alpha", 0.2, "slope"};
inline constexpr Parameter kHardSigmoidBeta = {"beta", 0.5, "value at zero"};
inline constexpr Parameter kThreshold = {"alpha", 1.0, "threshold"};
inline constexpr Parameter kShrinkLambd = {"lambd", 0.5, "bound of what becomes zero"};
inline constexpr Parameter kShrinkBias = {"bias", 0.0, "what numbers beyond it lose"};

// Gelu's string attribute: "none" by erf, "tanh" by tanh.
inline constexpr const char* kApproximate = "approximate";

struct Entry {
  const char* domain;
  const char* op;
  Loop loop;
  Parameter p = {}, q = {};
};
std::span<const Entry> entries();  // entries.cc

struct Numbers {
  double p = 0, q = 0;
};
// As the attributes say. Those of Clip are operands, so not these.
Numbers numbers_of(const Entry& entry, const graph::Node& node);

inline bool is_clip(Loop loop) { return loop == Loop::kClip || loop == Loop::kClipGrad; }
// Reads b.
inline bool is_binary(Loop loop) { return loop >= Loop::kSwiGlu; }

// `y` may be `a` or `b`.
template <class T>
using LoopFunction = void (*)(const T* a, const T* b, T* y, int64_t n, T p, T q);

template <class T>
struct Loops {
  LoopFunction<T> of[static_cast<int>(Loop::kCount)];
};

// The copies of activation_isa.cc.
namespace baseline {
template <class T>
const Loops<T>& loops();
}
namespace avx2 {
template <class T>
const Loops<T>& loops();
}
namespace avx512 {
template <class T>
const Loops<T>& loops();
}

}  // namespace sardonyx::ops::activation
