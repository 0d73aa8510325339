// A pass: one function on the graph, with a contract. Everything around it (verify, dump, time,
// stop) belongs to the manager, so passes contain none of it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx_import.h"
#include "graph/support/error.h"
#include "passes/options.h"
#include "passes/target.h"
#include "passes/tuner.h"

namespace sardonyx::passes {

// What --no-decay can leave out.
struct ParameterPart {
  bool bias = false;
  bool norm = false;  // scale or bias of a normalisation, slope of an activation
};

// One line of `sardonyx check`'s table.
struct ParameterRow {
  enum class Role : uint8_t { kTrainable, kState, kConstant };
  std::string name;
  graph::TensorType type;
  Role role = Role::kConstant;
  std::string
      reason;  // "reaches the loss through Conv conv1", "integer", "frozen by --freeze bn*", ...
  graph::Origin origin;
  ParameterPart part = {};  // of a trainable
  bool frozen = false;      // by the user: --freeze, or not on an explicit list
};

// A node that can't be run, and why. All of them are collected before anything is refused, and only
// those that something wanted needs are.
struct UnsupportedNode {
  enum class Kind : uint8_t { kUnknownOperator, kFault };
  std::string node;    // Node::label()
  std::string op;      // "ai.example::Foo"
  std::string reason;  // "not known (...)"; of a fault: the whole message, "while" lines included
  std::string output;  // name of its first output: labels may repeat, names of values don't
  Kind kind = Kind::kUnknownOperator;
};
UnsupportedNode unsupported(const graph::Node& node, UnsupportedNode::Kind kind,
                            std::string reason);

// Unknown operators: a sentence and one line per operator and reason, with the first nodes of each.
// Faults: the message of a single one, or all of them.
std::string list_unsupported(const std::vector<UnsupportedNode>& missing);

// What list_unsupported says, as an error: it needs no line about the pass that found out.
class UnsupportedError : public Error {
 public:
  explicit UnsupportedError(const std::vector<UnsupportedNode>& missing)
      : Error(list_unsupported(missing)) {}
};

// With --sync-bn: the sums over replicas that a micro-batch's statistics need, by sync_statistics.
struct SharedStatistics {
  std::vector<std::string> sums;    // values that are there once a sum is, in the order of the sums
  std::vector<size_t> sums_before;  // of each gradient: sums that are started before it is complete
  std::set<std::string> states;     // running statistics that agree on all replicas as they move
  bool any() const { return !sums.empty(); }
};

// What is computed again instead of kept, by the estimates of recompute.
struct Recomputed {
  int64_t results = 0;
  int64_t saved_bytes = 0;     // at the worst moment
  double work = 0;             // share of the step's
  std::vector<int64_t> rungs;  // bytes at the worst moment, of each RecomputeOptions::rung
};

// What passes hand to each other beside the graph. Values are named, not pointed to: passes may
// rebuild them.
struct PassContext {
  PipelineOptions options;
  const Target* target = nullptr;
  Tuner* tuner = nullptr;                                   // null: the static table decides
  const std::vector<graph::Function>* functions = nullptr;  // bodies of model-local functions

  std::vector<std::string_view> done;  // passes that have run on the graph: by the manager
  std::vector<std::string> notices;    // one line each, for the user
  std::vector<std::string> remarks;    // likewise, for who looks at the plan: what passes saved
  // By the passes up to fold_constants; an error only where something wanted needs them.
  std::vector<UnsupportedNode> unsupported;
  // Each If and the branch that it takes, by the name of its first result (several nodes may have
  // one name): by infer_shapes.
  struct TakenBranch {
    std::string node, branch;
  };
  std::map<std::string, TakenBranch> branches;
  std::vector<ParameterRow> parameters;  // by mark_trainable
  std::vector<std::pair<std::string, std::string>>
      gradients;  // parameter, gradient: by build_backward, in order of completion
  // Running statistic, its next value: by apply_mode. With several replicas, the name of a number
  // that is 1 where the step has samples: by accumulate_gradients.
  std::vector<std::pair<std::string, std::string>> statistics;
  std::string replicas_with_samples;
  SharedStatistics shared_statistics;
  // That a micro-batch must have, by apply_mode; over all replicas where they share statistics.
  int64_t least_rows = 1;
  Recomputed recomputed;              // by recompute
  std::string loss_sum, loss_weight;  // by append_loss
  std::string correct, correct_top5;  // rows with the right class (class losses), by append_loss
  std::string logits;                 // what the loss reads, by append_loss
  // Inputs that passes added, the norm of the gradient, and its factor, which is NaN in a step that
  // changes no state: a file may use these names itself.
  std::string labels, learning_rate, grad_norm, grad_scale;  // by append_loss, append_optimizer

  // The names of the loss sum, its weight and the count of correct rows, as far as there are any:
  // what is added up over micro-batches and replicas beside the gradients.
  std::vector<std::string*> sums();

  void notice(std::string line) { notices.push_back(std::move(line)); }

  // Runs `body`, a callable; an Error of it becomes a fault of `node`, which must still exist then.
  // Returns whether there was none.
  template <class Body>
  bool collect_fault(const graph::Node& node, Body&& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      unsupported.push_back(passes::unsupported(node, UnsupportedNode::Kind::kFault, error.what()));
      return false;
    }
  }
};

// All of context.unsupported that `wanted` depends on, and an UnsupportedError with them, if any.
std::vector<UnsupportedNode> needed_and_unsupported(const PassContext& context,
                                                    const std::vector<graph::Value*>& wanted);
void require_supported(const PassContext& context, const std::vector<graph::Value*>& wanted);

// Returns whether it changed the graph.
using PassFunction = bool (*)(graph::Graph&, PassContext&);

// kOptional: a graph without it computes the same, or something that can be looked at.
enum class Need : uint8_t { kNeeded, kOptional };

struct Pass {
  std::string_view name;
  PassFunction run = nullptr;
  std::string_view doc;  // what it ensures
  Need need = Need::kNeeded;
  std::vector<std::string_view> before = {};  // passes on whose work it builds
};

// All passes of passes.def, in its order. nullptr when the name is unknown.
const std::vector<Pass>& all_passes();
const Pass* find_pass(std::string_view name);

}  // namespace sardonyx::passes
