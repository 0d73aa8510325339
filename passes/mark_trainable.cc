// mark_trainable: decides what is a parameter, a state or a constant, and says why (semantics.md,
// section 3).
//
// A parameter is a float constant from which a gradient path leads to the loss, minus what can't be
// one: numbers that only scale or bound, constants applied to the data before the first layer,
// statistics. Globs of the user and an explicit list override the defaults.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/gradient_flow.h"
#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "passes/backward.h"
#include "passes/globs.h"
#include "passes/node_facts.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using Role = ParameterRow::Role;

constexpr size_t kShownRows = 8, kShownInputs = 3, kShownPairs = 3;  // in a message

struct Verdict {
  Role role = Role::kConstant;
  std::string reason;
  bool frozen = false;
};

class Marker {
 public:
  Marker(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), options_(context.options.trainable) {
    find_preprocessed();
    find_blockers();
    reaching_ = values_reaching(graph, targets());
    has_weight_initializers_ = find_weight_initializers();
  }

  void run() {
    check_globs();
    const std::vector<Value*> constants = graph_.constants();
    for (Value* value : constants) {
      // Constants that folding or normalisation made are no tensors of the file.
      if (value->origin.kind != graph::Origin::Kind::kNone && !is_folded(*value)) mark(value);
    }
    if (context_.options.mode == Mode::kTrain && !context_.loss_sum.empty()) {
      check_wishes();
      refuse_none();
      refuse_other_types();
      hint_at_copies();
    }
  }

 private:
  static bool is_folded(const Value& value) {
    return value.origin.kind == graph::Origin::Kind::kNodeOutput;
  }

  std::vector<Value*> targets() const {
    if (!context_.loss_sum.empty()) return {graph_.find(context_.loss_sum)};
    return graph_.outputs();
  }

  // Values that are the model's input up to casts, transposes and arithmetic with constants.
  void find_preprocessed() {
    for (const Value* input : graph_.inputs()) preprocessed_.insert(input);
    for (const Node& node : graph_.nodes()) {
      const ops::OpDef* op = ops::OpRegistry::get().find(node);
      if (op == nullptr || !op->preprocessing) continue;
      bool from_input = false, others_constant = true;
      for (int i = 0; i < node.num_inputs(); ++i) {
        const Value* value = node.input(i);
        if (value == nullptr || ops::port_of(*op, i)->type_only) continue;
        const bool data = preprocessed_.contains(value);
        from_input |= data;
        others_constant &= data || (value->is_constant() && !matches(options_.train, *value));
      }
      if (!from_input || !others_constant) continue;
      for (const Value* value : node.outputs()) preprocessed_.insert(value);
    }
  }

  // For each value in front of an unknown operator on a way to a target: that node.
  void find_blockers() {
    if (context_.unsupported.empty()) return;
    std::unordered_set<const Value*> needed;
    for (const Value* target : targets()) needed.insert(target);
    const auto& nodes = graph_.nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const Node* blocker = nullptr;
      bool on_path = false;
      for (const Value* value : node->outputs()) {
        if (value == nullptr || !needed.contains(value)) continue;
        on_path = true;
        if (const auto known = blockers_.find(value); known != blockers_.end()) {
          blocker = known->second;
        }
      }
      if (!on_path) continue;
      if (ops::OpRegistry::get().find(*node) == nullptr) blocker = &*node;
      for (const Value* value : node->inputs()) {
        needed.insert(value);
        if (blocker != nullptr) blockers_.insert_or_assign(value, blocker);
      }
    }
  }

  bool only_preprocesses(const Value& value) const {
    for (const graph::Use& use : value.uses()) {
      const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
      if (op == nullptr || !op->preprocessing || use.node->num_inputs() < 2 ||
          !preprocessed_.contains(use.node->output(0))) {
        return false;
      }
    }
    return !value.uses().empty();
  }

  void mark(Value* value) {
    const Verdict verdict = judge(*value);
    ParameterRow row{value->name, value->type, verdict.role, verdict.reason, value->origin};
    if (verdict.role == Role::kTrainable) row.part = part_of(*value);
    row.frozen = verdict.frozen;
    context_.parameters.push_back(std::move(row));
    if (verdict.role == Role::kTrainable) graph_.make_state(value, graph::StateRole::kParameter);
    if (verdict.role == Role::kState) graph_.make_state(value, graph::StateRole::kStatistic);
  }

  Verdict judge(const Value& value) {
    if (!graph::is_floating(value.type.dtype)) {
      return {Role::kConstant,
              fmt::format("integer or other type ({})", graph::dtype_name(value.type.dtype))};
    }
    for (const graph::Use& use : value.uses()) {
      if (slot_of(use) == ops::ParameterSlot::kStatistic) {
        return {Role::kState, "running statistic of " + use.node->label()};
      }
    }
    // An output of the graph counts as reached even when no node reads it.
    if (value.uses().empty()) return {Role::kConstant, why_unreached(value)};
    if (options_.exactly) return judge_by_list(value);
    if (!reaching_.contains(&value)) return {Role::kConstant, why_unreached(value)};
    if (matches(options_.freeze, value)) return {Role::kConstant, "frozen by --freeze", true};
    if (matches(options_.train, value)) return {Role::kTrainable, "named by --train"};
    return judge_by_default(value);
  }

  Verdict judge_by_list(const Value& value) {
    for (const std::string& name : *options_.exactly) {
      if (name != value.name) continue;
      return reaching_.contains(&value) ? Verdict{Role::kTrainable, "named by the caller"}
                                        : Verdict{Role::kConstant, why_unreached(value)};
    }
    return {Role::kConstant, "frozen: not on the caller's list", true};
  }

  Verdict judge_by_default(const Value& value) const {
    if (only_preprocesses(value)) {
      return {Role::kConstant,
              "preprocessing constant: applied to the data before the first layer"};
    }
    if (value.type.rank() == 0) return {Role::kConstant, "scalar (rank 0); --train trains it"};
    if (value.type.numel() == 1 && !fills_parameter_slot(value)) {
      return {Role::kConstant, "one-element scalar outside a parameter slot; --train trains it"};
    }
    if (is_filler(value)) {
      return {Role::kConstant,
              "one number throughout, in a Constant node while weights are initializers: the "
              "exporter's; --train trains it"};
    }
    if (is_done_again(value)) {
      return {Role::kConstant,
              "does nothing, and the factor and the addend behind it do what it could: the "
              "exporter's, of a GroupNorm; --train trains it"};
    }
    if (is_mask(value.data)) {
      return {Role::kConstant, "mask: holds zeros and minus infinities alone"};
    }
    if (is_row_per_sample(value)) {
      return {
          Role::kConstant,
          "one equal row for each sample of the batch in the file; --set-batch trains it as one "
          "row, --train as many"};
    }
    const graph::Use& use = value.uses().front();
    return {Role::kTrainable, "reaches the loss through " + use.node->label()};
  }

  // What an exporter writes where the network has no tensor, but the operator needs one: the scale
  // of a normalisation without any, the state that a recurrent layer begins with.
  bool is_filler(const Value& value) const {
    const bool lone = value.origin.kind == graph::Origin::Kind::kConstantNode &&
                      value.origin.path.empty() && value.type.numel() > 0;
    if (!lone || !has_weight_initializers_) return false;
    return is_one_number(value);
  }

  static bool is_one_number(const Value& value) {
    if (value.type.numel() <= 0 || !value.data.defined()) return false;
    const std::span<const std::byte> bytes = value.data.bytes();
    const size_t element = bytes.size() / static_cast<size_t>(value.type.numel());
    return std::memcmp(bytes.data(), bytes.data() + element, bytes.size() - element) == 0;
  }

  // The ones and zeros of an InstanceNormalization that stands for a GroupNorm: behind it, in
  // another shape, what it gives is multiplied by the scale of the network, and its bias is added.
  static bool is_done_again(const Value& value) {
    if (value.uses().size() != 1) return false;
    const auto [norm, slot] = value.uses().front();
    if (norm->op != "InstanceNormalization" || !norm->domain.empty() || slot < 1) return false;
    if (!is_one_number(value) || value.data.as_double(0) != (slot == 1 ? 1 : 0)) return false;
    const Node* reshape = only_reader(norm->output(0), "Reshape");
    const Node* mul = reshape == nullptr ? nullptr : only_reader(reshape->output(0), "Mul");
    return mul != nullptr && meets_tensor(*mul) && (slot == 1 || [&] {
             const Node* add = only_reader(mul->output(0), "Add");
             return add != nullptr && meets_tensor(*add);
           }());
  }

  static const Node* only_reader(const Value* value, std::string_view op) {
    if (value->uses().size() != 1) return nullptr;
    const Node* node = value->uses().front().node;
    return node->domain.empty() && node->op == op ? node : nullptr;
  }

  // Whether one operand is a tensor of the file that training would change.
  static bool meets_tensor(const Node& node) {
    return std::ranges::any_of(node.inputs(), [](const Value* value) {
      return (value->is_constant() || value->is_state()) && value->type.numel() > 1;
    });
  }

  bool find_weight_initializers() const {
    return std::ranges::any_of(reaching_, [](const Value* value) {
      return value->origin.kind == graph::Origin::Kind::kInitializer && value->type.rank() > 1 &&
             graph::is_floating(value->type.dtype);
    });
  }

  // Zeros and minus infinities alone. Read where they stand in the file, aligned or not.
  template <class T>
  static bool only_hides(std::span<const std::byte> bytes) {
    bool hides = false;
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T number;
      std::memcpy(&number, bytes.data() + at, sizeof(T));
      const bool hidden = std::isinf(number) && number < 0;
      if (!hidden && number != 0) return false;
      hides |= hidden;
    }
    return hides;
  }

  static bool is_mask(const graph::Tensor& tensor) {
    if (tensor.dtype() == graph::DType::kFloat32) return only_hides<float>(tensor.bytes());
    return tensor.dtype() == graph::DType::kFloat64 && only_hides<double>(tensor.bytes());
  }

  // An exporter with a fixed batch writes a class token like this: expanded. What the places in the
  // batch would learn apart says nothing about the samples that come to stand there.
  bool is_row_per_sample(const Value& value) const {
    const auto meets_samples = [&](const graph::Use& use) {
      const Value* result = use.node->output(0);
      return slot_of(use) == ops::ParameterSlot::kNone && result != nullptr &&
             result->type.rank() == value.type.rank() && ops::carries_batch(graph_, result) &&
             result->type.dims[0].value == value.type.dims[0].value;
    };
    return value.type.rank() >= 2 && value.type.dims[0].value > 1 && has_equal_rows(value.data) &&
           std::ranges::all_of(value.uses(), meets_samples);
  }

  static bool has_equal_rows(const graph::Tensor& tensor) {
    if (!tensor.defined() || tensor.numel() == 0) return false;
    const std::span<const std::byte> bytes = tensor.bytes();
    const size_t row = bytes.size() / static_cast<size_t>(tensor.shape()[0]);
    return std::memcmp(bytes.data(), bytes.data() + row, bytes.size() - row) == 0;
  }

  // A weight, bias or scale input, or the bias of a single-output head.
  static bool fills_parameter_slot(const Value& value) {
    return std::ranges::any_of(value.uses(), [](const graph::Use& use) {
      return slot_of(use) != ops::ParameterSlot::kNone || product_added_to(use) != nullptr;
    });
  }

  // By its first use, seen through other shapes of it.
  static ParameterPart part_of(const Value& value) {
    if (value.uses().empty()) return {};
    const graph::Use& use = value.uses().front();
    const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
    if (op != nullptr && op->view && use.index == 0) return part_of(*use.node->output(0));
    const ops::ParameterSlot slot = slot_of(use);
    const bool bias = slot == ops::ParameterSlot::kBias || product_added_to(use) != nullptr;
    return {bias, slot != ops::ParameterSlot::kNone && takes_scale(*use.node)};
  }

  std::string why_unreached(const Value& value) const {
    if (value.uses().empty()) return "unused: no node reads it";
    for (const graph::Use& use : value.uses()) {
      const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
      const ops::Port* port = op == nullptr ? nullptr : ops::port_of(*op, use.index);
      if (port != nullptr && !port->no_gradient.empty()) {
        return fmt::format("constant: {} of {}", port->no_gradient, use.node->label());
      }
    }
    if (const auto blocker = blockers_.find(&value); blocker != blockers_.end()) {
      return fmt::format("blocked: {} isn't supported", blocker->second->label());
    }
    if (const Node* step = zero_ahead(value)) {
      return fmt::format("no gradient path from the loss reaches it: that of node {} is zero ({})",
                         step->label(), ops::OpRegistry::get().at(*step).gradient.reason);
    }
    return "no gradient path from the loss reaches it";
  }

  // The first node on a way to the loss whose gradient is zero; nullptr: there is none.
  const Node* zero_ahead(const Value& value) const {
    std::vector<const Value*> open = {&value};
    std::unordered_set<const Value*> seen = {&value};
    while (!open.empty()) {
      const Value* next = open.back();
      open.pop_back();
      for (const graph::Use& use : next->uses()) {
        const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
        const bool zero = op != nullptr && op->gradient.kind == ops::Gradient::Kind::kZero;
        for (const Value* result : use.node->outputs()) {
          if (zero && reaching_.contains(result)) return use.node;
          if (!zero && result != nullptr && seen.insert(result).second) open.push_back(result);
        }
      }
    }
    return nullptr;
  }

  // A part of a split tensor goes by the name in the file, too.
  static bool matches(const std::vector<std::string>& globs, const Value& value) {
    for (const std::string& glob : globs) {
      if (graph::glob_match(glob, value.name)) return true;
      if (is_split(value) && graph::glob_match(glob, value.origin.tensor)) return true;
    }
    return false;
  }

  static bool is_split(const Value& value) { return !value.origin.split_use.empty(); }

  void check_globs() const {
    std::vector<std::string> names;
    for (const Value* value : graph_.constants()) {
      if (value->origin.kind != graph::Origin::Kind::kNone && !is_folded(*value)) {
        names.push_back(value->name);
        if (is_split(*value)) names.push_back(value->origin.tensor);
      }
    }
    const auto check = [&](const std::vector<std::string>& globs, const char* flag) {
      for (const std::string& glob : globs) {
        const Value* value = graph_.find(glob);
        if (value != nullptr && std::ranges::find(names, glob) == names.end()) {
          throw Error("{} '{}': that is {}, no tensor of the model", flag, glob, kind_of(*value));
        }
        require_match(flag, glob, names, "tensor of the model");
      }
    };
    check(options_.freeze, "--freeze");
    check(options_.train, "--train");
    if (options_.exactly) check(*options_.exactly, "trainable tensor");
  }

  static std::string kind_of(const Value& value) {
    if (value.producer != nullptr) return "what node " + value.producer->label() + " computes";
    return value.kind == graph::ValueKind::kInput ? "an input" : "computed before the first step";
  }

  // A glob that finds something else beside what it is for (conv1.* and a statistic) is no mistake;
  // one that finds nothing else is.
  void check_wishes() {
    for (const std::string& glob : options_.train) {
      const auto missed = missed_by(
          glob, [](const ParameterRow& row) { return row.role == Role::kTrainable || row.frozen; });
      if (missed.empty()) continue;
      std::string table;
      for (size_t i = 0; i < std::min(missed.size(), kShownRows); ++i)
        table += row_text(*missed[i]);
      throw Error("--train '{}' finds nothing that can be trained:{}{}", glob, table,
                  and_more(missed.size()));
    }
    for (const std::string& glob : options_.freeze) {
      const auto missed = missed_by(glob, [](const ParameterRow& row) { return row.frozen; });
      if (missed.empty()) continue;
      context_.notice(fmt::format(
          "--freeze '{}' freezes nothing: '{}'{} isn't trained anyway ({})", glob, missed[0]->name,
          missed.size() == 1 ? "" : fmt::format(", like {} more,", missed.size() - 1),
          missed[0]->reason));
    }
  }

  // What the glob matches; nothing where that has a tensor for which `meant` holds.
  template <class Meant>
  std::vector<const ParameterRow*> missed_by(const std::string& glob, Meant&& meant) const {
    std::vector<const ParameterRow*> missed;
    for (const ParameterRow& row : context_.parameters) {
      if (!matches({glob}, *graph_.find(row.name))) continue;
      if (meant(row)) return {};
      missed.push_back(&row);
    }
    return missed;
  }

  static std::string row_text(const ParameterRow& row) {
    return fmt::format("\n  {}  {}: {}", row.name, row.type.str(), row.reason);
  }

  static std::string and_more(size_t rows) {
    return rows > kShownRows ? fmt::format("\n  ... and {} more", rows - kShownRows) : "";
  }

  void refuse_none() const {
    std::string table;
    size_t rows = 0;
    for (const ParameterRow& row : context_.parameters) {
      if (row.role == Role::kTrainable) return;
      if (!graph::is_floating(row.type.dtype) || ++rows > kShownRows) continue;
      table += row_text(row);
    }
    table += and_more(rows) + inputs_without_values();
    if (table.empty()) table = "\n  (the model holds no float tensors at all)";
    throw Error("nothing to train: no trainable parameter among the model's float tensors:{}",
                table);
  }

  // A file that was exported without its weights has all of them here.
  std::string inputs_without_values() const {
    std::string first;
    size_t count = 0;
    for (const Value* input : graph_.inputs()) {
      if (input->origin.kind != graph::Origin::Kind::kGraphInput ||
          ops::carries_batch(graph_, input) || ++count > kShownInputs) {
        continue;
      }
      first += fmt::format("{}{}  {}", count > 1 ? ", " : "", input->name, input->type.str());
    }
    if (count == 0) return "";
    return fmt::format(
        "\n  {} graph input{} without values (exported without weights?): {}{}; export the model "
        "with its weights, or give them values with --init pytorch, kaiming, xavier or normal:STD",
        count, count == 1 ? "" : "s", first,
        count > kShownInputs ? fmt::format(" and {} more", count - kShownInputs) : "");
  }

  // An update is computed in the type of the loss.
  void refuse_other_types() const {
    const graph::DType dtype = graph_.find(context_.loss_sum)->type.dtype;
    for (const ParameterRow& row : context_.parameters) {
      if (row.role != Role::kTrainable || row.type.dtype == dtype) continue;
      const graph::Use& use = graph_.find(row.name)->uses().front();
      const bool wide = row.type.dtype == graph::DType::kFloat64 || dtype == graph::DType::kFloat64;
      throw Error(
          "parameter '{}' ({} of node {}) is {}, but the loss is computed in {}, and so are the "
          "updates; export the model in {}, or leave it as it is with --freeze '{}'",
          row.name, ops::input_label(*use.node, use.index), use.node->label(), row.type.str(),
          graph::dtype_name(dtype), wide ? "one type, train in double with --dtype f64" : "float32",
          row.name);
    }
  }

  // Tied weights that an exporter tore apart look like this. Fresh networks hold many equal
  // vectors of zeros and ones, which say nothing.
  void hint_at_copies() {
    std::multimap<uint64_t, const Value*> seen;
    std::string copies;
    size_t pairs = 0;
    for (const Value* value : graph_.states()) {
      if (value->role != graph::StateRole::kParameter || is_uniform(value->data)) continue;
      const uint64_t key = first_bytes(value->data);
      const auto [begin, end] = seen.equal_range(key);
      const auto twin = std::find_if(
          begin, end, [&](const auto& other) { return other.second->data.identical(value->data); });
      if (twin != end && ++pairs <= kShownPairs) {
        copies += fmt::format("; '{}' and '{}'", twin->second->name, value->name);
      }
      seen.emplace(key, value);
    }
    if (copies.empty()) return;
    if (pairs > kShownPairs) copies += fmt::format("; and {} more pairs", pairs - kShownPairs);
    context_.notice("equal weights under two names are trained apart" + copies);
  }

  static uint64_t first_bytes(const graph::Tensor& tensor) {
    uint64_t key = 0;
    std::memcpy(&key, tensor.bytes().data(), std::min(tensor.bytes().size(), sizeof key));
    return key;
  }

  static bool is_uniform(const graph::Tensor& tensor) {
    if (!tensor.defined() || tensor.numel() < 2) return true;
    const std::span<const std::byte> bytes = tensor.bytes();
    const size_t element = bytes.size() / static_cast<size_t>(tensor.numel());
    return std::memcmp(bytes.data(), bytes.data() + element, bytes.size() - element) == 0;
  }

  Graph& graph_;
  PassContext& context_;
  const TrainableOptions& options_;
  std::unordered_set<const Value*> preprocessed_;
  std::unordered_set<const Value*> reaching_;
  bool has_weight_initializers_ = false;
  std::unordered_map<const Value*, const Node*> blockers_;
};

void mark_statistics(Graph& graph) {
  const std::vector<Value*> constants = graph.constants();
  for (Value* value : constants) {
    const bool statistic = std::ranges::any_of(value->uses(), [](const graph::Use& use) {
      return slot_of(use) == ops::ParameterSlot::kStatistic;
    });
    if (statistic) graph.make_state(value, graph::StateRole::kStatistic);
  }
}

}  // namespace

bool mark_trainable(Graph& graph, PassContext& context) {
  // Gradient mode: exactly what will be differentiated must survive folding, and what training
  // moves.
  if (context.options.loss.kind == "none" && !context.options.gradient.wrt.empty()) {
    for (const std::string& name : context.options.gradient.wrt) {
      Value* value = graph.find(name);
      if (value != nullptr && value->is_constant() && graph::is_floating(value->type.dtype)) {
        graph.make_state(value, graph::StateRole::kParameter);
      }
    }
    if (context.options.mode == Mode::kTrain) mark_statistics(graph);
    return true;
  }
  Marker(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
