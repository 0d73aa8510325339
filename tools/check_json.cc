#include "tools/check_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/check_advice.h"
#include "tools/json_text.h"
#include "tools/train_command.h"

namespace sardonyx::tools {

namespace {

using passes::ParameterRow;
using Role = ParameterRow::Role;
using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json unsupported(const CheckReport& report) {
  Json list = Json::array();
  for (size_t i = 0; i < report.unsupported.size(); ++i) {
    const passes::UnsupportedNode& node = report.unsupported[i];
    list.push_back({{"node", node.node},
                    {"op", node.op},
                    {"reason", node.reason},
                    {"needed_for", need_name(report.needs[i])}});
  }
  return list;
}

Json unsupported_groups(const CheckReport& report) {
  Json list = Json::array();
  for (const UnsupportedGroup& group : grouped(report.unsupported, report.needs)) {
    list.push_back({{"op", group.op},
                    {"count", group.count},
                    {"nodes", group.nodes},
                    {"reason", group.reason},
                    {"needed_for", need_name(group.need)},
                    {"near", group.near}});
  }
  return list;
}

Json parameters(const CheckReport& report) {
  Json list = Json::array();
  for (const ParameterRow& row : report.parameters) {
    list.push_back({{"name", row.name},
                    {"type", row.type.str()},
                    {"role", role_word(row.role)},
                    {"reason", row.reason}});
  }
  return list;
}

Json groups(const CheckReport& report) {
  Json list = Json::array();
  for (const ParameterGroup& group : report.groups) {
    list.push_back({{"role", role_word(group.role)},
                    {"kind", group.kind},
                    {"tensors", group.tensors},
                    {"elements", group.elements},
                    {"names", group.patterns}});
  }
  return list;
}

int64_t trainable_elements(const CheckReport& report) {
  int64_t sum = 0;
  for (const ParameterGroup& group : report.groups) {
    if (group.role == Role::kTrainable) sum += group.elements;
  }
  return sum;
}

Json memory(const MemoryFacts& memory) {
  Json json = {{"state_bytes", memory.planned.state_bytes},
               {"arena_bytes", memory.planned.arena_bytes},
               {"liveness_bound_bytes", memory.planned.liveness_bound_bytes},
               {"peak", memory.peak},
               {"budget_bytes", memory.budget_bytes},
               {"budget_owner", memory.budget_owner}};
  json["largest_batch"] = Json();
  if (memory.largest) {
    json["largest_batch"] = {{"rows", memory.largest->rows},
                             {"bytes", memory.largest->bytes},
                             {"more", memory.largest->more}};
  }
  return json;
}

void add_data(Json& json, const CheckReport& report, const runtime::Flags& flags) {
  const DataNeeds needs = data_needs(report, flags);
  json["loss"] = flags.loss_output.empty() ? Json(flags.loss) : Json();
  json["loss_assumed"] = report.loss_assumed;
  json["output"] = text_or_null(needs.output);
  json["classes"] = needs.classes > 0 ? Json(needs.classes) : Json();
  json["class_names"] = report.class_names;
  json["samples"] = needs.samples;
  json["labels"] = text_or_null(needs.labels);
  json["placeholders"] = report.trainable() ? Json::array({"DATA.npz"}) : Json::array();
}

}  // namespace

std::string report_json(const CheckReport& report, const runtime::Flags& flags) {
  Json json = {
      {"schema", "sardonyx.check/1"}, {"model", report.model}, {"trainable", report.trainable()}};
  if (!report.trainable()) json["error"] = report.problem;
  json["problem"] = text_or_null(report.problem);
  json["producer"] = report.producer;
  json["opset"] = report.opset;
  json["nodes"] = report.nodes;
  json["unsupported"] = unsupported(report);
  json["unsupported_groups"] = unsupported_groups(report);
  json["parameters"] = parameters(report);
  json["parameter_groups"] = groups(report);
  json["trainable_elements"] = trainable_elements(report);
  json["tied"] = report.tied;
  json["inputs"] = report.inputs;
  json["outputs"] = report.outputs;
  json["open_sizes"] = Json::array();
  for (const runtime::OpenInput& input : report.open) {
    json["open_sizes"].push_back(runtime::open_axes_str(input));
  }
  json["baked_batch"] = report.baked_rows > 0 ? Json(report.baked_rows) : Json();
  json["set_batch"] = report.set_batch_known ? Json(report.set_batch_problem.empty()) : Json();
  json["set_batch_problem"] = text_or_null(report.set_batch_problem);
  json["batch"] = report.batch;
  json["rows"] = report.rows;
  json["replicas"] = report.replicas;
  json["batch_normalizations"] = report.batch_norms;
  json["batch_normalizations_in_training_form"] = report.batch_norms_in_training_form;
  json["folded_batch_normalizations"] = text_or_null(report.folded_batch_norms);
  json["dropouts"] = report.dropouts;
  json["dropout_advice"] = text_or_null(report.dropout_advice);
  json["unusual_momenta"] = report.unusual_momenta;
  if (report.memory) json["memory"] = memory(*report.memory);
  json["near_misses"] = report.near_misses;
  json["notices"] = report.notices;
  json["fits"] = !report.too_large;
  add_data(json, report, flags);
  json["next_step"] = text_or_null(next_step(report, flags));
  json["command"] = report.trainable() ? Json(train_command(report, flags)) : Json();
  return json_text(json) + "\n";
}

}  // namespace sardonyx::tools
