#include "passes/prime_rows.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::Value;

constexpr int64_t kMostScanned = int64_t{1} << 20;

class Numbers {
 public:
  explicit Numbers(const Graph& graph) {
    for (const Value& value : graph.values()) {
      for (const graph::Dim& dim : value.type.dims) note(dim.value);
      if (value.is_constant()) note_all(value.data);
    }
    for (const Node& node : graph.nodes()) {
      for (const auto& [name, attribute] : node.attributes) {
        if (const auto* number = std::get_if<int64_t>(&attribute)) note(*number);
        if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute)) {
          std::ranges::for_each(*list, [this](int64_t n) { note(n); });
        }
        if (const auto* tensor = std::get_if<Tensor>(&attribute)) note_all(*tensor);
      }
    }
  }

  // The first that is larger than all of them and than `least`, and divides none.
  int64_t prime_above(int64_t least) const {
    const auto is_prime = [](int64_t n) {
      for (int64_t d = 2; d * d <= n; ++d) {
        if (n % d == 0) return false;
      }
      return true;
    };
    const auto divides_any = [&](int64_t n) {
      return std::ranges::any_of(endless_, [n](int64_t x) { return x % n == 0; });
    };
    int64_t prime = std::max(largest_, least) + 1;
    while (!is_prime(prime) || divides_any(prime)) ++prime;
    return prime;
  }

 private:
  void note(int64_t number) {
    if (number > -kNoLimit && number < kNoLimit) {
      largest_ = std::max(largest_, std::abs(number));
    } else {
      endless_.insert(number);
    }
  }

  void note_all(const Tensor& tensor) {
    if (!tensor.defined() || !graph::is_integer(tensor.dtype()) || tensor.numel() > kMostScanned) {
      return;
    }
    for (const int64_t number : tensor.to_ints()) note(number);
  }

  int64_t largest_ = 100;
  std::unordered_set<int64_t> endless_;
};

}  // namespace

int64_t prime_above_numbers(const Graph& graph, int64_t least) {
  return Numbers(graph).prime_above(least);
}

}  // namespace sardonyx::passes
