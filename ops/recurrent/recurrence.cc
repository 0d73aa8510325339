// The attributes of the recurrent operators, decoded.
#include <algorithm>
#include <optional>

#include "ops/core/constraint.h"
#include "ops/recurrent/recurrent.h"

namespace sardonyx::ops::recurrent {

namespace {

// What activation_alpha and activation_beta mean to a function, and where they stand when a file
// doesn't say; functions without an entry take none of the numbers.
struct Numbers {
  bool takes_alpha = false, takes_beta = false;
  std::optional<double> alpha, beta;
};
struct Named {
  const char* name;
  Function function;
  Numbers numbers = {};
};

constexpr Named kFunctions[] = {
    {"Affine", Function::kAffine, {true, true, 1.0, 0.0}},
    {"Elu", Function::kElu, {true, false, 1.0, {}}},
    {"HardSigmoid", Function::kHardSigmoid, {true, true, 0.2, 0.5}},
    {"LeakyRelu", Function::kLeakyRelu, {true, false, 0.01, {}}},
    {"Relu", Function::kRelu},
    {"ScaledTanh", Function::kScaledTanh, {true, true, {}, {}}},
    {"Sigmoid", Function::kSigmoid},
    {"Softplus", Function::kSoftplus},
    {"Softsign", Function::kSoftsign},
    {"Tanh", Function::kTanh},
    {"ThresholdedRelu", Function::kThresholdedRelu, {true, false, 1.0, {}}},
};

const Named& named(const std::string& name) {
  const auto* found = std::ranges::find_if(
      kFunctions, [&](const Named& function) { return name == function.name; });
  if (found != std::end(kFunctions)) return *found;
  std::string names;
  for (const Named& function : kFunctions) names += fmt::format(" {}", function.name);
  throw ConstraintError("R7", "activation '{}' is not known, expected one of{}", name, names);
}

const std::vector<std::string>& usual_names(Cell cell) {
  static const std::vector<std::string> names[] = {
      {"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  return names[static_cast<int>(cell)];
}

std::vector<std::string> names_of(const Node& node) {
  const std::vector<std::string>& usual = usual_names(cell_of(node));
  const size_t wanted = usual.size() * static_cast<size_t>(directions_of(node));
  std::vector<std::string> names;
  if (const auto it = node.attributes.find("activations"); it != node.attributes.end()) {
    const auto* list = std::get_if<std::vector<std::string>>(&it->second);
    if (list == nullptr) {
      throw Error("attribute 'activations' of node {} has kind {}, expected strings", node.label(),
                  graph::attribute_kind(it->second));
    }
    names = *list;
  }
  if (names.empty()) {
    while (names.size() < wanted) names.insert(names.end(), usual.begin(), usual.end());
  }
  if (names.size() != wanted) {
    throw ConstraintError("R7", "activations has {} names, expected {}: {} for each direction",
                          names.size(), wanted, usual.size());
  }
  return names;
}

// Hands out activation_alpha (activation_beta), in the order of the functions that take it.
class Supply {
 public:
  Supply(const Node& node, const char* attribute)
      : attribute_(attribute), numbers_(node.get_floats(attribute, {})) {}

  double next(const Named& function, std::optional<double> fallback) {
    if (used_ < numbers_.size()) return numbers_[used_++];
    if (fallback) return *fallback;
    throw ConstraintError("R7", "activation {} needs a number in {}, which has {}", function.name,
                          attribute_, numbers_.size());
  }

 private:
  const char* attribute_;
  std::vector<double> numbers_;
  size_t used_ = 0;
};

}  // namespace

Cell cell_of(const Node& node) {
  const std::string name = node.domain == kDomain ? node.get_string(kCell, "") : node.op;
  if (name == "RNN") return Cell::kRnn;
  if (name == "GRU") return Cell::kGru;
  CHECK(name == "LSTM", "{}: cell {}", node.label(), name);
  return Cell::kLstm;
}

int64_t gates_of(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

int trace_slot(Cell cell) { return cell == Cell::kLstm ? 3 : 2; }

int64_t directions_of(const Node& node) {
  const std::string direction = node.get_string("direction", "forward");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction == "bidirectional") return 2;
  throw ConstraintError("R6", "direction is '{}', expected forward, reverse or bidirectional",
                        direction);
}

Order order_of(const Node& node) {
  const int64_t layout = node.get_int("layout", 0);
  if (layout == 0) return Order::kTimeFirst;
  if (layout == 1) return Order::kBatchFirst;
  throw ConstraintError("R9", "layout is {}, expected 0 or 1", layout);
}

std::vector<Squash> squashes_of(const Node& node) {
  Supply alpha(node, "activation_alpha"), beta(node, "activation_beta");
  const double clip = node.get_float("clip", __builtin_inf());
  if (!(clip > 0)) throw ConstraintError("R8", "clip is {}, expected a number above 0", clip);
  std::vector<Squash> result;
  for (const std::string& name : names_of(node)) {
    const Named& function = named(name);
    const Numbers& numbers = function.numbers;
    Squash squash{function.function, 0, 0, clip};
    if (numbers.takes_alpha) squash.alpha = alpha.next(function, numbers.alpha);
    if (numbers.takes_beta) squash.beta = beta.next(function, numbers.beta);
    result.push_back(squash);
  }
  // Clipping is for what comes out of the gates; h takes the cell's state.
  if (cell_of(node) == Cell::kLstm) {
    for (size_t i = 2; i < result.size(); i += 3) result[i].clip = __builtin_inf();
  }
  return result;
}

void check_lengths(const int32_t* lengths, int64_t rows, int64_t steps, int64_t first_sample) {
  for (int64_t n = 0; n < rows; ++n) {
    if (lengths[n] >= 0 && lengths[n] <= steps) continue;
    throw Error("sequence_lens of sample {} is {}, expected 0 to {}: x has {} steps",
                first_sample + n, lengths[n], steps, steps);
  }
}

Recurrence Recurrence::of(const Node& node, const std::vector<int64_t>& x, int64_t hidden) {
  Recurrence r;
  r.cell = cell_of(node);
  r.order = order_of(node);
  r.directions = directions_of(node);
  r.reversed = node.get_string("direction", "forward") == "reverse";
  if (node.get_int("linear_before_reset", 0) != 0) r.reset = Reset::kAfter;
  if (node.get_int("input_forget", 0) != 0) r.forget = Forget::kCoupled;
  r.squash = squashes_of(node);
  r.steps = x[r.order == Order::kTimeFirst ? 0 : 1];
  r.rows = x[r.order == Order::kTimeFirst ? 1 : 0];
  r.inputs = x[2];
  r.hidden = hidden;
  return r;
}

std::vector<Part> recurrent_parts(const Recurrence& r) {
  const int64_t n = r.hidden;
  if (r.cell != Cell::kGru) return {{0, 0, r.gates(), r.state(), Moment::kBefore}};
  const Part gates{0, 0, 2 * n, r.state(), Moment::kBefore};
  if (r.reset == Reset::kAfter) {
    return {gates, {r.gates(), 2 * n, n, r.state(), Moment::kBefore}};
  }
  return {gates, {2 * n, 2 * n, n, r.gates(), Moment::kOwn}};
}

}  // namespace sardonyx::ops::recurrent
