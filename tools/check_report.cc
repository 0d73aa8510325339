#include "tools/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "graph/support/text.h"
#include "ops/core/gradient_flow.h"
#include "runtime/text.h"

namespace sardonyx::tools {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using passes::ParameterRow;
using Role = ParameterRow::Role;

constexpr size_t kNamed = 3;  // examples in a line
constexpr std::string_view kThrough = "reaches the loss through ";
constexpr std::string_view kStatistic = "running statistic of ";

// "conv1 (Conv)" and "Conv -> y" are labels of a Conv.
std::string operator_of(std::string_view label) {
  const size_t arrow = label.find(" -> "), open = label.rfind(" (");
  if (label.ends_with(')') && open != std::string_view::npos) {
    return std::string(label.substr(open + 2, label.size() - open - 3));
  }
  return std::string(label.substr(0, arrow));
}

constexpr int kLayers = 8;  // of nodes between one and what it is there for

// Moves or cuts what the first operand holds.
bool only_moves(const Node& node) {
  static constexpr const char* kOps[] = {"Slice",   "Transpose", "Unsqueeze", "Squeeze", "Reshape",
                                         "Flatten", "Identity",  "Cast",      "Concat",  "Split"};
  return std::ranges::any_of(kOps, [&](const char* op) { return node.is("", op); });
}

// The operator that computes with a tensor: what exporters cut weights with isn't it.
std::string computing_operator(const Value& value, int layers) {
  for (const graph::Use& use : value.uses()) {
    if (!ops::gradient_flows(*use.node, use.index)) continue;
    if (!only_moves(*use.node)) return std::string(ops::op_label(use.node->domain, use.node->op));
    if (layers == 0 || use.node->output(0) == nullptr) continue;
    std::string behind = computing_operator(*use.node->output(0), layers - 1);
    if (!behind.empty()) return behind;
  }
  return "";
}

// What stands before a node's name in a reason, so that equal reasons meet.
std::string kind_of(const ParameterRow& row, const Graph& imported) {
  const std::string_view reason = row.reason;
  const Value* value = reason.starts_with(kThrough) ? imported.find(row.name) : nullptr;
  if (value != nullptr) {
    const std::string op = computing_operator(*value, kLayers);
    if (!op.empty()) return op;
  }
  for (const std::string_view begin : {kThrough, kStatistic}) {
    if (reason.starts_with(begin)) return operator_of(reason.substr(begin.size()));
  }
  if (reason.ends_with("--train trains it")) return "single numbers";
  std::string kind(reason.substr(0, std::min(reason.find(" ("), reason.find("; "))));
  if (const size_t colon = kind.find(": "); colon != std::string::npos) {
    // "blocked: NODE isn't supported" and "constant: WHY of NODE" name a node, "unused: ..." none.
    const std::string word = kind.substr(0, colon);
    if (word == "blocked") return "behind an unsupported operator";
    if (word == "constant") return kind.substr(colon + 2, kind.rfind(" of ") - colon - 2);
    return word;
  }
  return kind.starts_with("integer") ? "integers" : kind;
}

// "layer1.0.conv2.weight" as "layer*.*.conv*.weight".
std::string pattern_of(const std::string& name) {
  std::string pattern;
  bool digits = false;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) {
      pattern += c;
    } else if (!digits) {
      pattern += '*';
    }
    digits = digit;
  }
  return pattern;
}

struct Names {
  std::string example;
  int64_t count = 0;
};

std::vector<std::string> most_frequent(const std::map<std::string, Names>& patterns) {
  std::vector<std::pair<std::string, Names>> sorted(patterns.begin(), patterns.end());
  std::ranges::stable_sort(
      sorted, [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  std::vector<std::string> result;
  for (const auto& [pattern, names] : sorted) {
    // A pattern of one is that name.
    result.push_back(names.count == 1 ? names.example
                                      : fmt::format("{} ({})", pattern, names.count));
  }
  return result;
}

std::vector<ParameterGroup> groups_of(const std::vector<ParameterRow>& rows,
                                      const Graph& imported) {
  struct Group {
    ParameterGroup totals;
    std::map<std::string, Names> patterns;
  };
  std::map<std::pair<Role, std::string>, Group> groups;
  for (const ParameterRow& row : rows) {
    Group& group = groups[{row.role, kind_of(row, imported)}];
    ++group.totals.tensors;
    if (row.type.is_static()) group.totals.elements += row.type.numel();
    Names& names = group.patterns[pattern_of(row.name)];
    if (++names.count == 1) names.example = row.name;
  }
  std::vector<ParameterGroup> result;
  for (auto& [key, group] : groups) {
    std::tie(group.totals.role, group.totals.kind) = key;
    group.totals.patterns = most_frequent(group.patterns);
    result.push_back(std::move(group.totals));
  }
  std::ranges::stable_sort(result, [](const ParameterGroup& a, const ParameterGroup& b) {
    return a.role != b.role ? a.role < b.role : a.elements > b.elements;
  });
  return result;
}

std::string some(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    text += (i > 0 ? ", " : "") + support::escaped(names[i]);
  }
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  return text;
}

// No factor that anybody would train.
bool is_zero_or_one(const Value* value) {
  if (value == nullptr || !value->data.defined() || value->data.numel() != 1) return false;
  return value->data.as_double(0) == 0 || value->data.as_double(0) == 1;
}

// An exporter's number says nothing, who reads the tensor does: "onnx::Mul_12 of Mul_3 (Mul)".
std::string name_in_words(const Graph& imported, const std::string& name) {
  const size_t last = name.find_last_not_of("0123456789");
  const bool numbered = last == std::string::npos ||
                        (last + 1 < name.size() && (name[last] == '_' || name[last] == ':'));
  const Value* value = imported.find(name);
  if (!numbered || value == nullptr || value->uses().empty()) return name;
  return name + " of " + value->uses().front().node->label();
}

void add_idle_tensors(const Graph& imported, CheckReport& report) {
  std::vector<std::string> single, unreached, unused;
  for (const ParameterRow& row : report.parameters) {
    const std::string_view reason = row.reason;
    if (row.role != Role::kConstant) continue;
    if (reason.ends_with("--train trains it") && !is_zero_or_one(imported.find(row.name))) {
      single.push_back(name_in_words(imported, row.name));
    }
    if (reason.starts_with("no gradient path")) {
      unreached.push_back(name_in_words(imported, row.name));
    }
    if (reason.starts_with("unused") && graph::is_floating(row.type.dtype)) {
      unused.push_back(row.name);
    }
  }
  const auto add = [&](const std::vector<std::string>& names, const char* text) {
    if (names.empty()) return;
    report.near_misses.push_back(fmt::format("{} ({}): {}", text, names.size(), some(names)));
  };
  add(single, "single numbers stay constant, --train NAME trains one");
  add(unreached, "float tensors without a gradient path to the loss");
  add(unused, "float tensors that no node reads");
}

void add_near_operators(CheckReport& report) {
  for (const UnsupportedGroup& group : grouped(report.unsupported, report.needs)) {
    if (group.near.empty()) continue;
    report.near_misses.push_back(fmt::format("there is no operator {}, but {}", group.op,
                                             runtime::join(group.near, " and ")));
  }
}

bool scalar(const graph::TensorType& type) {
  return graph::is_floating(type.dtype) && type.is_static() && type.numel() == 1;
}

// "float[N,10,1,1]" would be scores of 10 classes without its last axes.
bool would_fit_flat(const graph::TensorType& type) {
  if (!graph::is_floating(type.dtype) || !type.ranked || type.rank() < 3) return false;
  return std::all_of(type.dims.begin() + 2, type.dims.end(),
                     [](const graph::Dim& dim) { return dim.value == 1; });
}

void add_outputs(const Graph& imported, const Graph& graph, const runtime::Flags& flags,
                 CheckReport& report) {
  if (!flags.loss_output.empty()) return;
  for (const Value* declared : imported.outputs()) {
    const Value* output = graph.find(declared->name);
    if (output == nullptr) continue;
    const graph::TensorType& type = output->type;
    const std::string name = support::in_quotes(output->name);
    if (!report.trainable() && scalar(type) && type.rank() <= 1 && flags.output.empty()) {
      report.near_misses.push_back(
          fmt::format("output {} {} is one number: if it is the loss, --loss-output takes it", name,
                      type.str()));
    } else if (passes::takes_classes(flags.loss) && would_fit_flat(type)) {
      report.near_misses.push_back(
          fmt::format("output {} {} has axes of size 1 behind its classes, so labels need them "
                      "too; a Flatten at the end of the network drops them",
                      name, type.str()));
    }
  }
}

// A constant with one value per channel: all axes of size 1 but one.
bool per_channel(const Value* value) {
  if (value == nullptr || !value->is_constant() || !value->type.is_static()) return false;
  const auto wide =
      std::ranges::count_if(value->type.dims, [](const graph::Dim& dim) { return dim.value > 1; });
  return wide == 1 && value->type.numel() > 1;
}

// Conv, then Mul and Add of one number per channel.
int64_t scaled_convolutions(const Graph& graph) {
  const auto next = [](const Node& node, const char* op) -> const Node* {
    const Value* value = node.output(0);
    if (value == nullptr || value->uses().size() != 1) return nullptr;
    const Node* reader = value->uses().front().node;
    const bool scales =
        reader->is("", op) && (per_channel(reader->input(0)) || per_channel(reader->input(1)));
    return scales ? reader : nullptr;
  };
  return std::ranges::count_if(graph.nodes(), [&](const Node& node) {
    if (!node.is("", "Conv") && !node.is("", "ConvTranspose")) return false;
    const Node* scaled = next(node, "Mul");
    return scaled != nullptr && next(*scaled, "Add") != nullptr;
  });
}

void add_written_out_batch_norms(const Graph& graph, CheckReport& report) {
  if (!report.folded_batch_norms.empty()) return;
  const int64_t count = scaled_convolutions(graph);
  if (count == 0) return;
  report.near_misses.push_back(fmt::format(
      "{} followed by a Mul and an Add per channel, as a BatchNormalization that was written out: "
      "both are trained, without batch statistics",
      count == 1 ? "1 convolution is" : fmt::format("{} convolutions are", count)));
}

// A label without the operator that a node of the file became.
std::string without_own_operator(const std::string& label) {
  const std::string own = std::string(ops::kDomain) + ".";
  if (label.starts_with(own)) {
    const size_t arrow = label.find(" -> ");
    return arrow == std::string::npos ? label : support::in_quotes(label.substr(arrow + 4));
  }
  return label.substr(0, label.rfind(" (" + own));
}

// "" when nothing near belongs to the file.
std::string in_words(const Node& node, int layers) {
  if (!node.forward_node.empty())
    return "the gradient of " + without_own_operator(node.forward_node);
  if (node.domain != ops::kDomain) return node.label();
  const Value* first = node.input(0);
  if (first != nullptr && first->role == graph::StateRole::kParameter &&
      !ops::aliases_of(node).empty()) {
    return fmt::format("the update of {}", support::in_quotes(first->name));
  }
  if (layers == 0) return "";
  for (const Value* output : node.outputs()) {
    if (output == nullptr) continue;
    for (const graph::Use& use : output->uses()) {
      std::string reader = in_words(*use.node, layers - 1);
      if (!reader.empty()) return reader;
    }
  }
  if (first == nullptr || first->producer == nullptr) return "";
  return in_words(*first->producer, layers - 1);
}

bool speaks_of_dropout(const Node& node) {
  const auto named = [](const std::string& name) {
    return name.find("dropout") != std::string::npos || name.find("Dropout") != std::string::npos;
  };
  return named(node.name) || std::ranges::any_of(node.outputs(), [&](const Value* value) {
           return value != nullptr && named(value->name);
         });
}

// Readers that a gradient comes from; a tensor that is cut into parts has one reader.
int64_t places(const Value& value) {
  int64_t count = 0;
  bool cut = false;
  for (const graph::Use& use : value.uses()) {
    const bool cuts = use.node->is("", "Slice") || use.node->is("", "Split");
    count += ops::gradient_flows(*use.node, use.index) && !(cuts && cut);
    cut |= cuts;
  }
  return count;
}

}  // namespace

void describe_graph(const Graph& graph, CheckReport& report) {
  const auto opset = graph.opsets.find("");
  report.opset = opset == graph.opsets.end() ? 0 : opset->second;
  for (const Value* input : graph.inputs()) {
    report.inputs.push_back(fmt::format("{}  {}", input->name, input->type.str()));
  }
  for (const Value* output : graph.outputs()) {
    report.outputs.push_back(fmt::format("{}  {}", output->name, output->type.str()));
    report.output_types.emplace_back(output->name, output->type);
  }
  if (!graph.inputs().empty()) {
    report.sample_dtype = graph.inputs()[0]->type.dtype;
    report.sample_ranked = graph.inputs()[0]->type.ranked;
    const auto& dims = graph.inputs()[0]->type.dims;
    for (size_t i = 1; i < dims.size(); ++i) report.sample_shape.push_back(dims[i].value);
  }
  for (const Node& node : graph.nodes()) {
    ++report.nodes;
    report.dropouts += node.is("", "Dropout");
    report.names_dropout |= speaks_of_dropout(node);
    report.convolutions += node.is("", "Conv") || node.is("", "ConvTranspose");
    if (!node.is("", "BatchNormalization")) continue;
    ++report.batch_norms;
    const bool training = node.get_int("training_mode", 0) != 0 || node.num_outputs() > 1;
    report.batch_norms_in_training_form += training;
    const double momentum = node.get_float("momentum", 0.9);
    if (momentum < 0.5 || momentum >= 1.0) {
      report.unusual_momenta.push_back(fmt::format("{} is {:.4g}", node.label(), momentum));
    }
  }
}

void describe_parameters(const Graph& imported, CheckReport& report) {
  report.groups = groups_of(report.parameters, imported);
  for (const ParameterRow& row : report.parameters) {
    const Value* value = row.role == Role::kTrainable ? imported.find(row.name) : nullptr;
    const int64_t count = value == nullptr ? 0 : places(*value);
    if (count < 2) continue;
    report.tied.push_back(
        fmt::format("{} is read by {} nodes", support::in_quotes(row.name), count));
  }
}

void find_near_misses(const Graph& imported, const Graph& graph, const runtime::Flags& flags,
                      CheckReport& report) {
  add_near_operators(report);
  add_outputs(imported, graph, flags, report);
  add_idle_tensors(imported, report);
  add_written_out_batch_norms(imported, report);
}

std::string peak_in_words(const passes::Plan& plan) {
  const std::string& label = plan.memory.peak_node;
  for (const Node& node : plan.graph->nodes()) {
    if (node.label() != label) continue;
    const std::string words = in_words(node, kLayers);
    return words.empty() ? "the loss" : words;
  }
  return label;
}

const char* role_word(Role role) {
  static constexpr const char* kWords[] = {"trainable", "state", "constant"};
  return kWords[static_cast<int>(role)];
}

}  // namespace sardonyx::tools
