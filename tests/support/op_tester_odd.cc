#include "tests/support/op_tester_odd.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <map>

#include "graph/support/error.h"
#include "ops/core/kernel.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCases = 6;                   // of an operator
constexpr size_t kSmall = size_t{1} << 20;  // bytes of all results that are computed
constexpr std::chrono::seconds kMostTime{5};
constexpr int64_t kOdd[] = {-1, 0, int64_t{1} << 31, int64_t{1} << 62};

bool is_small(const ops::Node& node) {
  size_t bytes = 0;
  for (const ops::Value* output : node.outputs()) {
    if (output == nullptr) continue;
    if (!output->type.is_static()) return false;
    bytes += output->type.bytes();
  }
  return bytes <= kSmall;
}

// "" when the case is refused or computed.
std::string fault_of(const OpCase& c, const std::string& what) {
  const Clock::time_point start = Clock::now();
  try {
    const OpGraph g = build(c, input_values(c, DType::kFloat64, -1));
    if (is_small(*g.node)) ops::evaluate(*g.node, g.inputs);
  } catch (const Error&) {
    // refused
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", what, error.what());
  }
  return Clock::now() - start > kMostTime ? what + ": takes forever" : "";
}

// The attributes that the documentation calls an int, and those that the case has.
std::vector<std::string> integer_attributes(const OpCase& c) {
  std::vector<std::string> names;
  const ops::OpDef* op = ops::OpRegistry::get().find(c.domain, c.op);
  for (const ops::AttributeDef& attribute : op->attributes) {
    const bool from_file = attribute.writer == ops::Writer::kFile;
    if (from_file && attribute.doc.starts_with("int")) names.push_back(attribute.name);
  }
  return names;
}

// One number for all entries of a list.
void set_odd(OpCase& c, const std::string& name, int64_t value) {
  const auto given = c.attributes.find(name);
  const auto* list =
      given == c.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&given->second);
  if (list != nullptr) {
    c.attributes[name] = std::vector<int64_t>(list->size(), value);
  } else {
    c.attributes[name] = value;
  }
}

OpInput with_shape(const OpInput& input, std::vector<int64_t> shape) {
  OpInput odd = input;
  const Tensor old = input.value.defined() ? input.value : Tensor(DType::kFloat32, {});
  odd.value = Tensor(old.dtype(), shape);
  odd.shape = std::move(shape);
  return odd;
}

}  // namespace

std::vector<std::string> odd_faults(const OpCase& op_case) {
  // No file can have the operators of rules and passes.
  if (op_case.domain == ops::kDomain) return {};
  static std::map<std::string, int> tried;
  if (++tried[ops::op_label(op_case.domain, op_case.op)] > kCases) return {};
  std::vector<std::string> faults;
  const auto note = [&](const OpCase& odd, const std::string& what) {
    std::string fault = fault_of(odd, what);
    if (!fault.empty()) faults.push_back(std::move(fault));
  };
  for (const std::string& name : integer_attributes(op_case)) {
    for (const int64_t value : kOdd) {
      OpCase odd = op_case;
      set_odd(odd, name, value);
      note(odd, fmt::format("{} = {}", name, value));
    }
  }
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {0}, {0, 0}, {2, 0, 3}, {0, 0, 0, 0}};
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (op_case.inputs[i].absent) continue;
    for (const auto& shape : shapes) {
      OpCase odd = op_case;
      odd.inputs[i] = with_shape(op_case.inputs[i], shape);
      note(odd, fmt::format("input {} of shape {}", i, graph::shape_str(shape)));
    }
  }
  return faults;
}

}  // namespace sardonyx::test
