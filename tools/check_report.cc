#include "tools/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/support/text.h"
#include "runtime/optimizer_flags.h"
#include "runtime/text.h"
#include "tools/json_text.h"

namespace sardonyx::tools {

namespace {

using passes::ParameterRow;
using support::escaped;
using support::printable;
using Role = ParameterRow::Role;
using Json = nlohmann::ordered_json;

constexpr size_t kShownRows = 24;

const char* role_name(Role role) {
  static constexpr const char* kNames[] = {"trainable", "state", "constant"};
  return kNames[static_cast<int>(role)];
}

int64_t elements(const CheckReport& report, Role role) {
  int64_t sum = 0;
  for (const ParameterRow& row : report.parameters) {
    if (row.role == role && row.type.is_static()) sum += row.type.numel();
  }
  return sum;
}

int64_t tensors(const CheckReport& report, Role role) {
  return std::count_if(report.parameters.begin(), report.parameters.end(),
                       [&](const ParameterRow& row) { return row.role == role; });
}

std::string table(const CheckReport& report, bool all) {
  if (report.parameters.empty()) return "";
  // Trainable ones first: they are what the reader looks for.
  std::vector<const ParameterRow*> rows;
  for (const ParameterRow& row : report.parameters) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const ParameterRow* a, const ParameterRow* b) {
    return static_cast<int>(a->role) < static_cast<int>(b->role);
  });
  const size_t shown = all ? rows.size() : std::min(rows.size(), kShownRows);
  size_t name_width = 4, type_width = 4;
  for (size_t i = 0; i < shown; ++i) {
    name_width = std::max(name_width, escaped(rows[i]->name).size());
    type_width = std::max(type_width, rows[i]->type.str().size());
  }
  name_width = std::min<size_t>(name_width, 60);
  std::string text = fmt::format("\n  {:<{}}  {:<{}}  {:<9}  {}\n", "name", name_width, "type",
                                 type_width, "role", "reason");
  for (size_t i = 0; i < shown; ++i) {
    text += printable(fmt::format("  {:<{}}  {:<{}}  {:<9}  {}\n", escaped(rows[i]->name),
                                  name_width, rows[i]->type.str(), type_width,
                                  role_name(rows[i]->role), rows[i]->reason));
  }
  if (shown < rows.size()) {
    text += fmt::format("  ... and {} more; --all shows them\n", rows.size() - shown);
  }
  return text;
}

std::string batch_norm_text(const CheckReport& report) {
  std::string text = fmt::format("  {} BatchNormalization", report.batch_norms);
  if (report.batch_norms > 0) {
    text += fmt::format(
        " ({} in training form): trained with batch statistics, evaluated with running ones",
        report.batch_norms_in_training_form);
    if (!report.folded_batch_norms.empty()) text += "\n  others";
  }
  if (!report.folded_batch_norms.empty()) {
    text += fmt::format(": {} (docs/exporters.md)", report.folded_batch_norms);
  } else if (report.batch_norms == 0 && report.convolutions > 0 && report.producer != "sardonyx") {
    text += " (if your network has some, the export folded them: docs/exporters.md)";
  }
  text += fmt::format("\n  {} Dropout{}\n", report.dropouts,
                      report.dropouts > 0 ? ": active in training only" : "");
  for (const std::string& momentum : report.unusual_momenta) {
    text += fmt::format("  momentum of {} (ONNX: the share of the old running value)\n", momentum);
  }
  return text;
}

bool needs_operators(const CheckReport& report) {
  using Kind = passes::UnsupportedNode::Kind;
  return std::any_of(
      report.unsupported.begin(), report.unsupported.end(),
      [](const passes::UnsupportedNode& node) { return node.kind == Kind::kUnknownOperator; });
}

std::string batch_text(const CheckReport& report) {
  if (report.set_batch_problem.empty()) {
    return fmt::format("  the batch {} is baked in; --set-batch takes any other\n",
                       report.baked_rows);
  }
  std::string text = fmt::format(
      "  the batch {0} is baked in: every (micro-)batch must have {0} rows, so add --drop-last\n",
      report.baked_rows);
  // What is wrong with the file in any case is said elsewhere.
  if (report.set_batch_problem.empty() || report.set_batch_problem == report.problem) return text;
  const std::string& why = report.set_batch_problem;
  return text + printable("  --set-batch doesn't work here: " + why.substr(0, why.find('\n'))) +
         "\n";
}

std::string facts(const CheckReport& report) {
  std::string text = "\nfacts\n";
  for (const std::string& input : report.inputs) {
    text += printable(fmt::format("  takes {}\n", input));
  }
  for (const std::string& output : report.outputs) {
    text += printable(fmt::format("  gives {}\n", output));
  }
  if (report.baked_rows > 0) {
    text += batch_text(report);
  } else {
    text += "  any batch size\n";
  }
  if (report.trainable() && !report.unsupported.empty()) {
    text += fmt::format("  {} nodes that can't be run feed side outputs only and are left alone\n",
                        report.unsupported.size());
  }
  text += batch_norm_text(report);
  if (report.memory) {
    const passes::MemoryReport& memory = *report.memory;
    text += fmt::format(
        "  memory for {} rows: {} = parameters and states {} + everything else {} (bound {}, peak "
        "at "
        "{})\n",
        report.rows,
        runtime::bytes_str(static_cast<double>(memory.state_bytes + memory.arena_bytes)),
        runtime::bytes_str(static_cast<double>(memory.state_bytes)),
        runtime::bytes_str(static_cast<double>(memory.arena_bytes)),
        runtime::bytes_str(static_cast<double>(memory.liveness_bound_bytes)),
        memory.peak_node.empty() ? "-" : memory.peak_node);
  }
  return text;
}

// The named data set whose images these are, else a file of arrays. Fashion-MNIST is found where
// its package puts it.
std::string data_for(const CheckReport& report) {
  const std::vector<int64_t>& shape = report.sample_shape;
  const int64_t classes =
      report.scores.rank() >= 2 && report.scores.dims[1].known() ? report.scores.dims[1].value : -1;
  if (shape == std::vector<int64_t>{1, 28, 28} && classes == 10) return "fashion-mnist";
  if (shape == std::vector<int64_t>{3, 32, 32} && classes == 10) return "cifar10 --data-dir DIR";
  if (shape == std::vector<int64_t>{3, 32, 32} && classes == 100) return "cifar100 --data-dir DIR";
  return "npz:DATA.npz";
}

// What the command can't know.
std::string to_fill_in(const CheckReport& report) {
  const std::string data = data_for(report);
  if (data.starts_with("cifar")) return " (DIR: the folder of its binary version, *.bin)";
  if (data.starts_with("npz:")) return " (DATA.npz: your arrays, see docs/data.md)";
  return "";
}

// One column of floats is a value to be predicted, not a class.
bool single_column(const graph::TensorType& scores) {
  return scores.rank() == 1 ||
         (scores.rank() == 2 && scores.dims[1].known() && scores.dims[1].value == 1);
}

std::string optimizer_flags(const runtime::Flags& flags) {
  std::string text;
  if (flags.optimizer != "sgd") text += " --optimizer " + flags.optimizer;
  if (flags.momentum != 0) text += fmt::format(" --momentum {:.6g}", flags.momentum);
  if (flags.dampening != 0) text += fmt::format(" --dampening {:.6g}", flags.dampening);
  if (flags.nesterov) text += " --nesterov";
  if (flags.weight_decay) text += fmt::format(" --weight-decay {:.6g}", *flags.weight_decay);
  if (!flags.betas.empty()) text += " --betas " + flags.betas;
  if (flags.eps) text += fmt::format(" --eps {:.6g}", *flags.eps);
  for (const std::string& group : flags.groups) text += fmt::format(" --group '{}'", group);
  if (!flags.no_decay.empty()) text += " --no-decay " + runtime::join(flags.no_decay, ",");
  if (flags.clip_norm != 0) text += fmt::format(" --clip-norm {:.6g}", flags.clip_norm);
  if (flags.clip_value != 0) text += fmt::format(" --clip-value {:.6g}", flags.clip_value);
  if (flags.ema != 0) text += fmt::format(" --ema {:.6g}", flags.ema);
  if (!flags.schedule.empty()) text += " --schedule " + flags.schedule;
  if (!flags.warmup.empty()) text += " --warmup " + flags.warmup;
  if (flags.dtype != "f32") text += " --dtype " + flags.dtype;
  return text;
}

std::string command(const CheckReport& report, const runtime::Flags& flags) {
  std::string text =
      fmt::format("sardonyx train {} --data {} --epochs 10 --batch {} --lr {:.6g}", report.model,
                  data_for(report), report.batch, runtime::learning_rate(flags));
  text += optimizer_flags(flags);
  if (report.set_batch) {
    text += " --set-batch";
  } else if (report.baked_rows > 0) {
    text += " --drop-last";
  }
  if (flags.accumulate) text += fmt::format(" --accumulate {}", *flags.accumulate);
  if (flags.micro_batch) text += fmt::format(" --micro-batch {}", *flags.micro_batch);
  if (flags.loss != "cross_entropy") {
    text += " --loss " + flags.loss;
  } else if (flags.loss_output.empty() && single_column(report.scores)) {
    text += " --loss mse";
  }
  if (!flags.output.empty()) text += " --output " + flags.output;
  if (!flags.loss_output.empty()) text += " --loss-output " + flags.loss_output;
  for (const std::string& glob : flags.freeze) text += fmt::format(" --freeze '{}'", glob);
  for (const std::string& glob : flags.train) text += fmt::format(" --train '{}'", glob);
  if (!flags.init.empty()) text += " --init " + flags.init;
  if (flags.reinit) text += " --reinit";
  return text + " --save trained.onnx";
}

}  // namespace

void describe_graph(const graph::Graph& graph, CheckReport& report) {
  for (const graph::Value* input : graph.inputs()) {
    report.inputs.push_back(fmt::format("{}  {}", input->name, input->type.str()));
  }
  for (const graph::Value* output : graph.outputs()) {
    report.outputs.push_back(fmt::format("{}  {}", output->name, output->type.str()));
  }
  if (!graph.inputs().empty()) {
    const auto& dims = graph.inputs()[0]->type.dims;
    for (size_t i = 1; i < dims.size(); ++i) report.sample_shape.push_back(dims[i].value);
  }
  for (const graph::Node& node : graph.nodes()) {
    ++report.nodes;
    report.dropouts += node.is("", "Dropout");
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

std::string report_text(const CheckReport& report, const runtime::Flags& flags, bool all) {
  std::string text = fmt::format("{}: {}\n", printable(report.model),
                                 report.trainable() ? "trainable" : "can't be trained as it is");
  if (!report.problem.empty()) text += "\n" + printable(report.problem + "\n");
  if (!report.parameters.empty()) {
    text += fmt::format(
        "\n{} parameters in {} tensors, {} running statistics, {} other constants\n",
        runtime::count_str(elements(report, Role::kTrainable)), tensors(report, Role::kTrainable),
        tensors(report, Role::kState), tensors(report, Role::kConstant));
  }
  text += table(report, all) + facts(report);
  if (!report.notices.empty()) text += "\nnotices\n";
  for (const std::string& notice : report.notices) text += printable(fmt::format("  {}\n", notice));
  if (report.trainable()) {
    text += fmt::format("\ntrain it with{}\n  {}\n", to_fill_in(report),
                        printable(command(report, flags)));
  } else if (needs_operators(report)) {
    text +=
        "\nnext step: `sardonyx ops` lists the operators there are; export the network without the "
        "missing ones, or train on an output in front of them with --output\n";
  }
  return text;
}

std::string report_json(const CheckReport& report) {
  Json json = {{"model", report.model}, {"trainable", report.trainable()}};
  json["problem"] = report.problem.empty() ? Json() : Json(report.problem);
  json["unsupported"] = Json::array();
  for (const passes::UnsupportedNode& node : report.unsupported) {
    json["unsupported"].push_back({{"node", node.node}, {"op", node.op}, {"reason", node.reason}});
  }
  json["parameters"] = Json::array();
  for (const ParameterRow& row : report.parameters) {
    json["parameters"].push_back({{"name", row.name},
                                  {"type", row.type.str()},
                                  {"role", role_name(row.role)},
                                  {"reason", row.reason}});
  }
  json["trainable_elements"] = elements(report, Role::kTrainable);
  json["inputs"] = report.inputs;
  json["outputs"] = report.outputs;
  json["baked_batch"] = report.baked_rows > 0 ? Json(report.baked_rows) : Json();
  json["set_batch"] = report.baked_rows > 0 ? Json(report.set_batch) : Json();
  json["rows"] = report.rows;
  json["batch_normalizations"] = report.batch_norms;
  json["batch_normalizations_in_training_form"] = report.batch_norms_in_training_form;
  json["folded_batch_normalizations"] =
      report.folded_batch_norms.empty() ? Json() : Json(report.folded_batch_norms);
  json["dropouts"] = report.dropouts;
  if (report.memory) {
    json["memory"] = {{"state_bytes", report.memory->state_bytes},
                      {"arena_bytes", report.memory->arena_bytes},
                      {"liveness_bound_bytes", report.memory->liveness_bound_bytes}};
  }
  json["notices"] = report.notices;
  return json_text(json) + "\n";
}

}  // namespace sardonyx::tools
