#include "graph/init.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <numbers>

#include "graph/support/error.h"

namespace sardonyx::graph {

namespace {

// splitmix64: a well-known counter-based mixer; the stream is part of the contract and never
// changes.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// FNV-1a: the same on every platform, unlike std::hash.
uint64_t hash(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return value;
}

class Stream {
 public:
  Stream(uint64_t seed, const std::string& name) : key_(mix(seed) ^ hash(name)) {}
  // In (0, 1): never 0, so that its logarithm exists.
  double unit(uint64_t i) const {
    return (static_cast<double>(mix(key_ + i) >> 12) + 0.5) * 0x1p-52;
  }
  double uniform(uint64_t i, double bound) const { return (2.0 * unit(i) - 1.0) * bound; }
  double normal(uint64_t i) const {
    return std::sqrt(-2.0 * std::log(unit(2 * i))) *
           std::cos(2.0 * std::numbers::pi * unit(2 * i + 1));
  }

 private:
  uint64_t key_;
};

Tensor fill(std::vector<int64_t> shape, const std::function<double(uint64_t)>& value) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  uint64_t i = 0;
  for (float& x : tensor.mutable_data<float>()) x = static_cast<float>(value(i++));
  return tensor;
}

}  // namespace

Init parse_init(const std::string& text, uint64_t seed) {
  Init init;
  init.seed = seed;
  if (text == "kaiming") {
    init.kind = Init::Kind::kKaiming;
  } else if (text == "xavier") {
    init.kind = Init::Kind::kXavier;
  } else if (text == "pytorch") {
    init.kind = Init::Kind::kPytorch;
  } else if (text.starts_with("normal:")) {
    init.kind = Init::Kind::kNormal;
    char* end = nullptr;
    init.std = std::strtod(text.c_str() + 7, &end);
    if (end == text.c_str() + 7 || *end != '\0' || !(init.std >= 0.0) || std::isinf(init.std)) {
      throw Error("--init '{}': expected normal:STD with a standard deviation >= 0", text);
    }
  } else {
    throw Error("--init '{}' is not known; known: normal:STD, kaiming, xavier, pytorch", text);
  }
  return init;
}

Fan fan_of(const std::vector<int64_t>& shape) {
  if (shape.size() < 2) return {};
  double field = 1;
  for (size_t i = 2; i < shape.size(); ++i) field *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

Tensor init_normal(const Init& init, const std::string& name, std::vector<int64_t> shape,
                   double std) {
  const Stream stream(init.seed, name);
  return fill(std::move(shape), [&](uint64_t i) { return std * stream.normal(i); });
}

Tensor init_weight(const Init& init, const std::string& name, std::vector<int64_t> shape, Fan fan) {
  const Stream stream(init.seed, name);
  switch (init.kind) {
    case Init::Kind::kNormal:
      return init_normal(init, name, std::move(shape), init.std);
    case Init::Kind::kKaiming:
      return init_normal(init, name, std::move(shape), std::sqrt(2.0 / fan.in));
    case Init::Kind::kXavier:
      return fill(std::move(shape), [&](uint64_t i) {
        return stream.uniform(i, std::sqrt(6.0 / (fan.in + fan.out)));
      });
    case Init::Kind::kPytorch:
      break;
  }
  return fill(std::move(shape),
              [&](uint64_t i) { return stream.uniform(i, 1.0 / std::sqrt(fan.torch_in())); });
}

Tensor init_weight(const Init& init, const std::string& name, std::vector<int64_t> shape) {
  const Fan fan = fan_of(shape);
  return init_weight(init, name, std::move(shape), fan);
}

Tensor init_bias(const Init& init, const std::string& name, int64_t size, int64_t fan_in) {
  if (init.kind != Init::Kind::kPytorch) return Tensor(DType::kFloat32, {size});
  const Stream stream(init.seed, name);
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  return fill({size}, [&](uint64_t i) { return stream.uniform(i, bound); });
}

}  // namespace sardonyx::graph
