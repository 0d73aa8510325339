// A long network as text, for what must stay near-linear: rows of eight numbers through layers,
// activations, products and sums with values from further back.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

namespace sardonyx::tests {

inline std::string small_numbers(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string numbers;
  for (int i = 0; i < count; ++i) {
    numbers +=
        fmt::format("{}{:.2f}", i > 0 ? ", " : "", 0.01 * static_cast<double>(random() % 80) - 0.4);
  }
  return numbers;
}

enum class Branches : uint8_t { kNone, kMany };

inline std::string branched_chain(int nodes, uint64_t seed, Branches branches = Branches::kMany) {
  std::mt19937_64 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint64_t>(n)); };
  std::string weights, body;
  const auto value = [](int i) { return i == 0 ? std::string("x") : fmt::format("v{}", i); };
  for (int i = 1; i <= nodes; ++i) {
    const std::string last = value(i - 1), older = value(std::max(0, i - 2 - below(100)));
    const std::string name = i == nodes ? "y" : value(i);
    std::string call;
    if (i % 50 == 1) {
      weights += fmt::format("{}float[8,8] w{} = {{{}}}", i > 1 ? ", " : "", i,
                             small_numbers(64, seed + static_cast<uint64_t>(i)));
      call = fmt::format("MatMul({}, w{})", last, i);
    } else if (i % 10 == 9 && branches == Branches::kMany) {
      call = fmt::format("Add({}, {})", last, older);
    } else if (i % 10 == 4 && branches == Branches::kMany) {
      call = fmt::format("Mul({}, {})", last, older);
    } else {
      call = fmt::format("{}({})", below(2) == 0 ? "Tanh" : "Sigmoid", last);
    }
    body += fmt::format("  {} = {}\n", name, call);
  }
  return fmt::format(
      "<ir_version: 8, opset_import: [\"\" : 13]>\n"
      "g (float[N,8] x) => (float[N,8] y)\n<{}>\n{{\n{}}}\n",
      weights, body);
}

}  // namespace sardonyx::tests
