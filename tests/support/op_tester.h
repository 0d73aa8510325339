// The harness of tests/ops: a struct adds a case, `check_op` tries everything on it.
//
//   check_op({.claim = "add_row", .op = "Add", .inputs = {random({3, 4}), random({1, 4})}});
//
// builds the one-node graph in double and in float and checks
//   * the reference kernel in double against `expected` (if given);
//   * every CPU kernel that doesn't decline, float and double, 1 and 3 threads, plain and lanes of
//     16 (with poisoned padding lanes), in-place pairs, accumulation, aliases: against the
//     reference; no write out of bounds or into inputs; the same bits run after run;
//   * the gradient rule, evaluated node by node, against central differences in double;
//   * where `batch`: other numbers of rows (none, 19) and the batch role of every output.
// All tensors should be small (some 100 elements): the gradient costs two forwards per element.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/core/gradient.h"
#include "ops/core/kernel.h"
#include "tests/support/tensors.h"

namespace sardonyx::test {

enum class Role : uint8_t {
  kData,       // computed or fed; axis 0 is the batch where OpCase::batch
  kParameter,  // a state value: not constant, doesn't carry the batch
  kConstant,   // bytes known to shape rules, gradient rules and kernels
};

struct OpInput {
  Tensor value;  // undefined: random of `shape`, unless `absent`
  std::vector<int64_t> shape;
  double low = -1, high = 1;
  uint64_t seed = 0;  // 0: from the slot
  Role role = Role::kData;
  bool absent = false;      // an optional input left out
  bool keep_dtype = false;  // else float32 and float64 follow the element type of the run
};

OpInput random(std::vector<int64_t> shape, double low = -1, double high = 1, uint64_t seed = 0);
OpInput given(Tensor value);                    // data
OpInput parameter(OpInput input);               // the same as a state value
OpInput constant(Tensor value);                 // the same bytes, known before the run
OpInput constant_ints(std::vector<int64_t> v);  // int64[n]: axes, shapes, ...
OpInput exactly(OpInput input);                 // keeps its element type in both runs
OpInput left_out();

// What the gradient test expects besides the central differences.
enum class Numeric : uint8_t { kCompare, kSkip };  // kSkip: at a kink

struct OpCase {
  std::string claim = "";  // shown in every message
  std::string domain = "";
  std::string op = "";
  std::vector<OpInput> inputs = {};
  graph::Attributes attributes = {};
  int num_outputs = 1;
  std::vector<bool> wanted_outputs = {};  // default: all
  std::vector<Tensor> expected = {};      // undefined entries are not compared
  Tolerance expected_tolerance = {1e-6, 1e-6};
  Tolerance float_tolerance = {1e-5, 1e-6};
  Tolerance double_tolerance = {1e-12, 1e-12};
  Tolerance narrow_tolerance = {0x1p-8, 1e-6};  // in bfloat16, rounded once
  Tolerance gradient_tolerance = {1e-6, 1e-7};

  // Inputs to differentiate. Default: every float input without a Port::no_gradient reason, when
  // the operator has a gradient rule.
  std::optional<std::vector<int>> differentiate = std::nullopt;
  // Outputs whose gradient reaches the node; default: all float outputs.
  std::optional<std::vector<int>> seeds = std::nullopt;
  std::vector<Tensor> dy = {};                  // default: random
  std::vector<Tensor> expected_gradients = {};  // per input; undefined entries are not compared
  Numeric numeric = Numeric::kCompare;
  std::vector<int> zero_gradients = {};  // inputs whose gradient may be zero everywhere

  bool batch = false;       // axis 0 of the data inputs is the batch
  bool fixed_rows = false;  // the number of rows stands in a constant or attribute: don't vary it
  bool empty_batch = true;  // a batch of no rows must work too

  // For tests of the harness itself.
  std::vector<ops::KernelDef> extra_kernels = {};
  std::function<void(ops::GradientContext&)> gradient_rule = {};
  // Kernels (by name) that must have run at least once: catches a kernel that declines everything.
  // (Of the CPU in check_op, of CUDA in check_cuda.)
  std::vector<std::string> must_run = {};
};

// Adds a test failure for everything that is wrong.
void check_op(const OpCase& op_case);
// Set where the same cases shall try other kernels than the CPU's (tests/cuda/kernel_tester.cc):
// check_op then asks this alone what is wrong.
extern std::vector<std::string> (*other_faults)(const OpCase& op_case);
// The same as a list of messages.
std::vector<std::string> op_faults(const OpCase& op_case);

// "C2: MESSAGE" of the Error that inferring the case's node throws (without the number when it
// isn't about a constraint); "" when it doesn't.
std::string infer_error(const OpCase& op_case);
// Type of output 0 as inferred (float run), printed: "float[N:3,4]".
std::string inferred_type(const OpCase& op_case, int output = 0);
// Outputs of the reference kernel (double run).
std::vector<Tensor> reference(const OpCase& op_case);

}  // namespace sardonyx::test
