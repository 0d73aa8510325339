#include "tests/support/op_tester.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ops/core/infer.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_graph.h"
#include "tests/support/op_tester_odd.h"

namespace sardonyx::test {

namespace {

constexpr int kLanes = 16;

bool is_run_float(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

ops::KernelRequest request_in_lanes(const OpGraph& g) {
  ops::KernelRequest request = ops::KernelRequest::of(*g.node);
  const auto relayout = [&](std::vector<ops::TensorType>& types,
                            const std::vector<ops::Value*>& values) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (ops::carries_batch(*g.node, values[i])) types[i].layout = graph::Layout::lanes(kLanes);
    }
  };
  relayout(request.in, g.node->inputs());
  relayout(request.out, g.node->outputs());
  return request;
}

// Runs one kernel on one request in all the ways that are allowed and compares.
class KernelCheck {
 public:
  KernelCheck(const ops::KernelDef& kernel, ops::KernelRequest request, const OpGraph& g,
              const std::vector<Tensor>& want, Tolerance tolerance, std::string where)
      : kernel_(kernel),
        request_(std::move(request)),
        g_(g),
        want_(want),
        tolerance_(tolerance),
        where_(std::move(where)) {}

  std::vector<std::string> faults() {
    const RunResult once = run("1 thread", {.threads = 1}, want_);
    run("3 threads", {.threads = 3}, want_);
    const RunResult again = run_kernel(kernel_, request_, g_.inputs, {.threads = 1});
    for (size_t i = 0; i < once.outputs.size(); ++i) {
      if (once.outputs[i].defined() && !once.outputs[i].identical(again.outputs[i])) {
        faults_.push_back(fmt::format("{}: output {} differs from run to run", where_, i));
      }
    }
    for (const auto& pair : kernel_.in_place) {
      if (same_size(pair)) {
        run(fmt::format("output {} in place of input {}", pair.first, pair.second),
            {.threads = 3, .shared = {pair}}, want_);
      }
    }
    auto aliases = ops::aliases_of(*g_.node);
    std::erase_if(aliases, [&](const auto& pair) { return !same_size(pair); });
    if (!aliases.empty()) {
      run("aliased", {.threads = 3, .shared = aliases}, want_);
    }
    if (kernel_.accumulates && request_.out[0].dtype != DType::kBool) {  // truths have no sum
      const Tensor start = start_numbers(request_.out[0]);
      std::vector<Tensor> want = want_;
      want[0] = sum_of(want[0], start);
      run("accumulating", {.threads = 3, .start = start}, want);
    }
    return std::move(faults_);
  }

 private:
  bool same_size(std::pair<int, int> pair) const {
    return request_.has_out(pair.first) && request_.has_in(pair.second) &&
           request_.out[pair.first].bytes() == request_.in[pair.second].bytes();
  }

  RunResult run(const std::string& how, const RunOptions& options,
                const std::vector<Tensor>& want) {
    RunResult result = run_kernel(kernel_, request_, g_.inputs, options);
    for (const std::string& fault : result.faults) {
      faults_.push_back(fmt::format("{}, {}: {}", where_, how, fault));
    }
    for (size_t i = 0; i < want.size(); ++i) {
      if (!want[i].defined()) continue;
      if (const auto d = difference(result.outputs[i], want[i], tolerance_)) {
        faults_.push_back(fmt::format("{}, {}: output {} {}", where_, how, i, *d));
      }
    }
    return result;
  }

  const ops::KernelDef& kernel_;
  ops::KernelRequest request_;
  const OpGraph& g_;
  const std::vector<Tensor>& want_;
  Tolerance tolerance_;
  std::string where_;
  std::vector<std::string> faults_;
};

std::vector<const ops::KernelDef*> kernels_of(const OpCase& c) {
  std::vector<const ops::KernelDef*> result = ops::KernelRegistry::get().find(c.domain, c.op);
  for (const ops::KernelDef& kernel : c.extra_kernels) result.push_back(&kernel);
  return result;
}

// All kernels in a run with `dtype` floats and `rows` rows (-1: as given).
std::vector<std::string> kernel_faults(const OpCase& c, DType dtype, int64_t rows,
                                       std::set<std::string>& ran) {
  std::vector<std::string> faults;
  OpGraph exact = build(c, input_values(c, DType::kFloat64, rows));
  OpGraph g = build(c, input_values(c, dtype, rows));
  std::vector<std::pair<std::string, ops::KernelRequest>> requests;
  requests.emplace_back("plain", ops::KernelRequest::of(*g.node));
  if (c.batch) requests.emplace_back("lanes", request_in_lanes(g));
  for (auto& [layout, request] : requests) {
    leave_accumulator_out(*g.node, g.inputs, request);
    leave_accumulator_out(*exact.node, exact.inputs, request);
  }
  const std::vector<Tensor> want = ops::evaluate(*exact.node, exact.inputs);
  for (const auto& [layout, request] : requests) {
    for (const ops::KernelDef* kernel : kernels_of(c)) {
      if (ops::declines(*kernel, request)) continue;
      ran.insert(kernel->name);
      const std::string where =
          fmt::format("{} {} {}{}", kernel->name, graph::dtype_name(dtype), layout,
                      rows < 0 ? "" : fmt::format(" with {} rows", rows));
      try {
        KernelCheck check(*kernel, request, g, want, tolerance_for(c, dtype), where);
        for (std::string& fault : check.faults()) faults.push_back(std::move(fault));
      } catch (const std::exception& error) {
        faults.push_back(fmt::format("{}: throws {}", where, error.what()));
      }
    }
  }
  return faults;
}

Tensor joined(const Tensor& a, const Tensor& b) {
  std::vector<double> values = a.to_doubles();
  for (double v : b.to_doubles()) values.push_back(v);
  std::vector<int64_t> shape = a.shape();
  shape.at(0) += b.shape().at(0);
  return doubles(shape, values);
}

// Two blocks of rows, computed apart, must give the whole as the role says.
std::vector<std::string> role_faults(const OpCase& c) {
  const auto* op = ops::OpRegistry::get().find(c.domain, c.op);
  std::vector<std::string> faults;
  if (op == nullptr || op->batch == nullptr) return faults;
  const OpGraph whole = build(c, input_values(c, DType::kFloat64, kOtherRows));
  std::vector<Tensor> parts[2];
  for (int part = 0; part < 2; ++part) {
    std::vector<Tensor> inputs = whole.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!ops::carries_batch(*whole.node, whole.node->inputs()[i])) continue;
      inputs[i] = part == 0 ? rows_of(inputs[i], 0, 8) : rows_of(inputs[i], 8, kOtherRows);
    }
    const OpGraph g = build(c, inputs);
    parts[part] = ops::evaluate(*g.node, g.inputs);
  }
  const std::vector<Tensor> want = ops::evaluate(*whole.node, whole.inputs);
  for (int i = 0; i < static_cast<int>(want.size()); ++i) {
    const ops::BatchRole role = op->batch(*whole.node, i);
    if (!want[i].defined() || role == ops::BatchRole::kCouples) continue;
    const bool carries = ops::carries_batch(*whole.node, whole.node->output(i));
    if (carries != (role == ops::BatchRole::kRows)) {
      faults.push_back(fmt::format("batch role of output {}: its type is {}", i,
                                   whole.node->output(i)->type.str()));
      continue;
    }
    const Tensor got =
        carries ? joined(parts[0][i], parts[1][i]) : sum_of(parts[0][i], parts[1][i]);
    if (const auto d = difference(got, want[i], {1e-10, 1e-10})) {
      faults.push_back(fmt::format("batch role of output {}: {}", i, *d));
    }
  }
  return faults;
}

OpInput with_role(OpInput input, Role role) {
  input.role = role;
  return input;
}

}  // namespace

Tolerance tolerance_for(const OpCase& c, DType run) {
  if (run == DType::kBFloat16) return c.narrow_tolerance;
  return run == DType::kFloat64 ? c.double_tolerance : c.float_tolerance;
}

Tensor start_numbers(const ops::TensorType& type) {
  return random_tensor(type.dtype, type.shape(), 1, 4, 77);
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  std::vector<double> sum = a.to_doubles();
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += b.as_double(static_cast<int64_t>(i));
  return doubles(a.shape(), sum);
}

void leave_accumulator_out(const ops::Node& node, std::vector<Tensor>& inputs,
                           ops::KernelRequest& request) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  const int slot = op == nullptr ? -1 : op->accumulate_input;
  if (slot < 0 || slot >= static_cast<int>(inputs.size())) return;
  inputs[slot] = Tensor();
  request.in[slot] = ops::TensorType();
  request.constants[slot] = nullptr;
}

std::vector<std::string> expected_faults(const OpCase& c) {
  std::vector<std::string> faults;
  const std::vector<Tensor> got = reference(c);
  for (size_t i = 0; i < c.expected.size(); ++i) {
    if (!c.expected[i].defined()) continue;
    if (const auto d = difference(got.at(i), c.expected[i], c.expected_tolerance)) {
      faults.push_back(fmt::format("reference: output {} {}", i, *d));
    }
  }
  return faults;
}

OpInput random(std::vector<int64_t> shape, double low, double high, uint64_t seed) {
  OpInput input;
  input.shape = std::move(shape);
  input.low = low;
  input.high = high;
  input.seed = seed;
  return input;
}

OpInput given(Tensor value) {
  OpInput input;
  input.value = std::move(value);
  return input;
}

OpInput parameter(OpInput input) { return with_role(std::move(input), Role::kParameter); }
OpInput constant(Tensor value) { return with_role(given(std::move(value)), Role::kConstant); }

OpInput constant_ints(std::vector<int64_t> values) {
  return constant(ints({static_cast<int64_t>(values.size())}, values));
}

OpInput exactly(OpInput input) {
  input.keep_dtype = true;
  return input;
}

OpInput left_out() {
  OpInput input;
  input.absent = true;
  return input;
}

namespace {

DType dtype_in_run(const OpCase& c, int input, DType run) {
  if (run != DType::kBFloat16) return run;
  const ops::OpDef* op = ops::OpRegistry::get().find(c.domain, c.op);
  const auto& narrow = op->narrow_inputs;
  return narrow.empty() || std::count(narrow.begin(), narrow.end(), input) > 0 ? run
                                                                               : DType::kFloat32;
}

}  // namespace

std::vector<Tensor> input_values(const OpCase& c, DType dtype, int64_t rows) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const OpInput& input = c.inputs[i];
    if (input.absent) {
      result.emplace_back();
      continue;
    }
    Tensor value = input.value;
    if (!value.defined()) {
      const uint64_t seed = input.seed != 0 ? input.seed : 1000 + i;
      value = random_tensor(DType::kFloat32, input.shape, input.low, input.high, seed);
    }
    if (rows >= 0 && input.role == Role::kData && value.rank() > 0) {
      value = repeat_rows(value, rows);
    }
    if (is_run_float(value.dtype()) && !input.keep_dtype) {
      value = value.cast(dtype_in_run(c, static_cast<int>(i), dtype));
    }
    result.push_back(std::move(value));
  }
  return result;
}

OpGraph build(const OpCase& c, const std::vector<Tensor>& inputs) {
  OpGraph result{std::make_unique<graph::Graph>(), nullptr, inputs};
  graph::Graph& g = *result.graph;
  if (c.batch) g.batch_symbol = kBatchSymbol;
  std::vector<ops::Value*> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = fmt::format("x{}", i);
    const Role role = c.inputs[i].role;
    if (!inputs[i].defined()) {
      values.push_back(nullptr);
    } else if (role == Role::kConstant) {
      values.push_back(g.add_constant(name, inputs[i]));
    } else if (role == Role::kParameter) {
      values.push_back(g.add_state(name, inputs[i].type(), graph::StateRole::kParameter));
    } else {
      graph::TensorType type = inputs[i].type();
      if (c.batch && type.rank() > 0) type.dims[0].symbol = kBatchSymbol;
      values.push_back(g.add_input(name, type));
    }
  }
  std::vector<std::string> names;
  for (int i = 0; i < c.num_outputs; ++i) {
    const bool wanted = c.wanted_outputs.empty() || c.wanted_outputs.at(i);
    names.push_back(wanted ? fmt::format("y{}", i) : "");
  }
  result.node = g.add_node(c.domain, c.op, values, names);
  result.node->name = c.claim;
  result.node->attributes = c.attributes;
  ops::infer_node(*result.node);
  return result;
}

std::vector<std::string> op_faults(const OpCase& c) {
  std::vector<std::string> faults;
  const auto add = [&](std::vector<std::string> more) {
    for (std::string& fault : more) faults.push_back(c.claim + ": " + std::move(fault));
  };
  try {
    std::set<std::string> ran;
    add(expected_faults(c));
    add(kernel_faults(c, DType::kFloat64, -1, ran));
    add(kernel_faults(c, DType::kFloat32, -1, ran));
    if (c.batch && !c.fixed_rows) {
      add(kernel_faults(c, DType::kFloat32, kOtherRows, ran));
      add(kernel_faults(c, DType::kFloat64, kOtherRows, ran));
      if (c.empty_batch) add(kernel_faults(c, DType::kFloat32, 0, ran));
      add(role_faults(c));
    }
    for (const std::string& name : c.must_run) {
      if (!ran.contains(name)) add({"kernel " + name + " never ran"});
    }
    add(gradient_faults(c));
    add(odd_faults(c));
  } catch (const std::exception& error) {
    add({error.what()});
  }
  return faults;
}

std::vector<std::string> (*other_faults)(const OpCase&) = nullptr;

void check_op(const OpCase& c) {
  const auto faults_of = other_faults != nullptr ? other_faults : op_faults;
  for (const std::string& fault : faults_of(c)) ADD_FAILURE() << fault;
}

std::string infer_error(const OpCase& c) {
  try {
    build(c, input_values(c, DType::kFloat32, -1));
  } catch (const ops::ConstraintError& error) {
    return error.constraint() + ": " + error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string inferred_type(const OpCase& c, int output) {
  return build(c, input_values(c, DType::kFloat32, -1)).node->output(output)->type.str();
}

std::vector<Tensor> reference(const OpCase& c) {
  const OpGraph g = build(c, input_values(c, DType::kFloat64, -1));
  return ops::evaluate(*g.node, g.inputs);
}

}  // namespace sardonyx::test
