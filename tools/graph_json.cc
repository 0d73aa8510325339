#include "tools/graph_json.h"

#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_map>

#include "passes/arena.h"
#include "passes/buckets.h"
#include "passes/phases.h"
#include "tools/json_text.h"
#include "tools/tuning_report.h"

namespace sardonyx::tools {

namespace {

using Json = nlohmann::ordered_json;
using graph::Graph;
using graph::Node;
using graph::TensorType;
using graph::Value;

// Constants of more elements are described, not listed.
constexpr int64_t kListedElements = 16;

bool has_numbers(graph::DType dtype) {
  return graph::is_floating(dtype) || graph::is_integer(dtype) || dtype == graph::DType::kBool;
}

Json to_json(const TensorType& type) {
  Json json = {{"dtype", graph::dtype_name(type.dtype)}};
  if (!type.ranked) {
    json["shape"] = nullptr;
    return json;
  }
  Json shape = Json::array();
  for (const graph::Dim& dim : type.dims) {
    if (dim.known()) {
      shape.push_back(dim.value);
    } else if (!dim.symbol.empty()) {
      shape.push_back(dim.symbol);
    } else {
      shape.push_back(nullptr);
    }
  }
  json["shape"] = std::move(shape);
  if (!type.layout.plain()) json["layout"] = type.layout.str();
  if (type.is_static() && has_numbers(type.dtype)) json["bytes"] = type.bytes();
  return json;
}

Json values_of(const graph::Tensor& tensor) {
  Json list = Json::array();
  const bool floats = graph::is_floating(tensor.dtype());
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    if (floats) {
      list.push_back(tensor.as_double(i));
    } else {
      list.push_back(tensor.as_int(i));
    }
  }
  return list;
}

Json to_json(const graph::Tensor& tensor) {
  Json json = to_json(tensor.type());
  if (tensor.numel() > kListedElements) return json;
  if (tensor.dtype() == graph::DType::kString) {
    json["values"] = tensor.strings();
  } else if (has_numbers(tensor.dtype())) {
    json["values"] = values_of(tensor);
  }
  return json;
}

Json to_json(const graph::Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, graph::Tensor>) {
          return to_json(value);
        } else if constexpr (std::is_same_v<T, graph::GraphAttribute>) {
          return {{"subgraph_bytes", value.serialized.size()}, {"reads", value.outer_values}};
        } else if constexpr (std::is_same_v<T, graph::AttributeReference>) {
          return {{"attribute_of_call", value.name}};
        } else {
          return value;
        }
      },
      attribute);
}

Json named(const Value& value) {
  Json json = {{"name", value.name}};
  json.update(to_json(value.type));
  return json;
}

Json named(const std::vector<Value*>& values) {
  Json list = Json::array();
  for (const Value* value : values) list.push_back(named(*value));
  return list;
}

template <class V>
Json names(const std::vector<V*>& values) {
  Json list = Json::array();
  for (const Value* value : values) list.push_back(value != nullptr ? Json(value->name) : Json());
  return list;
}

// Of the node, else of what it gives: a pass may have made the node.
const graph::Origin* origin_of(const Node& node) {
  if (node.origin.kind != graph::Origin::Kind::kNone) return &node.origin;
  for (const Value* value : node.outputs()) {
    if (value != nullptr && value->origin.kind != graph::Origin::Kind::kNone) return &value->origin;
  }
  return nullptr;
}

Json to_json(const graph::Origin& origin) {
  Json json = Json::object();
  if (!origin.path.empty()) json["calls"] = origin.path;
  if (origin.node >= 0) json["node"] = origin.node;
  if (!origin.tensor.empty()) json["name"] = origin.tensor;
  return json;
}

Json to_json(const Node& node) {
  Json json = {{"op", node.op}, {"domain", node.domain}, {"name", node.name}};
  json["inputs"] = names(node.inputs());
  json["outputs"] = names(node.outputs());
  json["attributes"] = Json::object();
  for (const auto& [name, attribute] : node.attributes) {
    json["attributes"][name] = to_json(attribute);
  }
  Json types = Json::array();
  for (const Value* value : node.outputs()) {
    types.push_back(value != nullptr ? to_json(value->type) : Json());
  }
  json["types"] = std::move(types);
  if (!node.forward_node.empty()) json["gradient_of"] = node.forward_node;
  if (const graph::Origin* origin = origin_of(node)) json["origin"] = to_json(*origin);
  return json;
}

Json to_json(const Graph& graph) {
  Json json = {{"name", graph.name}, {"batch_axis", graph.batch_symbol}};
  json["inputs"] = named(graph.inputs());
  json["outputs"] = named(graph.outputs());
  json["constants"] = Json::array();
  for (const Value* constant : graph.constants()) {
    Json entry = {{"name", constant->name}};
    entry.update(to_json(constant->data));
    entry["bytes"] = constant->data.bytes().size();
    json["constants"].push_back(std::move(entry));
  }
  json["states"] = Json::array();
  for (const Value* state : graph.states()) {
    Json entry = named(*state);
    entry["role"] = graph::role_name(state->role);
    if (const Value* next = graph.bound(state)) entry["next"] = next->name;
    json["states"].push_back(std::move(entry));
  }
  json["nodes"] = Json::array();
  for (const Node& node : graph.nodes()) json["nodes"].push_back(to_json(node));
  return json;
}

void add_phases(Json& nodes, const Graph& graph) {
  const std::vector<passes::Phase> phases = passes::phases(graph);
  for (size_t i = 0; i < phases.size(); ++i) nodes[i]["phase"] = passes::phase_name(phases[i]);
}

Json file_json(const graph::Model& model) {
  const onnx::ModelProto& proto = model.skeleton();
  Json opsets = Json::object();
  for (const auto& opset : proto.opset_import()) {
    opsets[opset.domain().empty() ? "ai.onnx" : opset.domain()] = opset.version();
  }
  return {{"path", model.path().string()},
          {"bytes", model.bytes().size()},
          {"ir_version", proto.ir_version()},
          {"producer", proto.producer_name()},
          {"producer_version", proto.producer_version()},
          {"opsets", std::move(opsets)}};
}

// Positions in the node list.
using Positions = std::unordered_map<const Node*, int>;

Positions positions(const Graph& graph) {
  Positions found;
  for (const Node& node : graph.nodes()) found.emplace(&node, static_cast<int>(found.size()));
  return found;
}

Json to_json(const passes::Step& step, const Positions& positions) {
  return {{"op", step.node->op},
          {"node", step.node->label()},
          {"index", positions.at(step.node)},
          {"kernel", step.def->name},
          {"outputs", names(step.node->outputs())},
          {"flops", step.flops},
          {"workspace_bytes", step.workspace_bytes},
          {"alive_bytes", step.alive_bytes},
          {"accumulate", step.accumulate}};
}

Json to_json(const passes::ArenaSpan& span, const Positions& positions) {
  Json json = {{"offset", span.offset},
               {"bytes", passes::align_up(span.bytes)},
               {"first", span.first},
               {"last", span.last}};
  if (span.workspace_of != nullptr) {
    json["workspace_of"] = positions.at(span.workspace_of);
  } else if (span.region >= 0) {
    json["region"] = span.region;
  } else {
    json["values"] = names(span.values);
  }
  return json;
}

Json to_json(const passes::MemoryReport& memory) {
  return {{"state_bytes", memory.state_bytes},
          {"arena_bytes", memory.arena_bytes},
          {"liveness_bound_bytes", memory.liveness_bound_bytes},
          {"without_reuse_bytes", memory.sum_bytes},
          {"peak_node", memory.peak_node}};
}

Json summary_of(const passes::Plan& plan) {
  return {{"batch", plan.batch},
          {"threads", plan.threads},
          {"steps", plan.steps()},
          {"regions", plan.regions.size()},
          {"blocked_regions", plan.blocked_regions()},
          {"memory", to_json(plan.memory)},
          {"remarks", plan.remarks}};
}

Json to_json(const passes::Plan& plan) {
  const Positions at = positions(*plan.graph);
  Json json = {{"batch", plan.batch}, {"threads", plan.threads}};
  json["memory"] = to_json(plan.memory);
  json["remarks"] = plan.remarks;
  json["buckets"] = Json::array();
  for (const passes::BucketFacts& bucket : passes::buckets(plan)) {
    const Node* ready = bucket.ready_node;
    json["buckets"].push_back({{"name", bucket.name},
                               {"members", bucket.members},
                               {"bytes", bucket.bytes},
                               {"ready_after", bucket.ready_after},
                               {"ready_index", ready == nullptr ? Json() : Json(at.at(ready))},
                               {"region", bucket.region < 0 ? Json() : Json(bucket.region)}});
  }
  json["regions"] = Json::array();
  for (const passes::Region& region : plan.regions) {
    Json entry = {{"blocks", region.blocks},
                  {"block_rows", region.block_rows},
                  {"tail_rows", region.tail_rows},
                  {"local_bytes_per_thread", region.local_bytes}};
    entry["steps"] = Json::array();
    for (const passes::Step& step : region.steps) entry["steps"].push_back(to_json(step, at));
    json["regions"].push_back(std::move(entry));
  }
  json["arena"] = Json::array();
  for (const passes::ArenaSpan& span : plan.arena) json["arena"].push_back(to_json(span, at));
  return json;
}

// Names in a file may be any bytes; JSON is UTF-8.
std::string dump(const Json& json) { return json_text(json) + "\n"; }

}  // namespace

std::string model_json(const graph::Model& model, const graph::ImportedModel& imported) {
  Json json = {{"schema", "sardonyx.inspect/1"}, {"file", file_json(model)}};
  json["graph"] = to_json(*imported.graph);
  json["functions"] = Json::array();
  for (const graph::Function& function : imported.functions) {
    json["functions"].push_back({{"domain", function.domain},
                                 {"name", function.name},
                                 {"inputs", function.inputs},
                                 {"outputs", function.outputs},
                                 {"body", to_json(*function.body)}});
  }
  json["notices"] = imported.notices;
  return dump(json);
}

std::string plan_json(const graph::Model& model, const passes::Plan& plan,
                      const std::vector<std::string>& notices,
                      const runtime::MeasuringTuner* tuner) {
  Json json = {{"schema", "sardonyx.inspect/1"}, {"file", file_json(model)}};
  json["summary"] = summary_of(plan);
  json["graph"] = to_json(*plan.graph);
  add_phases(json["graph"]["nodes"], *plan.graph);
  json["plan"] = to_json(plan);
  json["notices"] = notices;
  if (tuner != nullptr) json["tuning"] = tuning_json(*tuner, TuningRows::kAll);
  return dump(json);
}

std::string summary_json(const graph::Model& model, const passes::Plan& plan,
                         const runtime::MeasuringTuner* tuner) {
  Json json = {{"schema", "sardonyx.inspect/1"}, {"file", file_json(model)}};
  json["summary"] = summary_of(plan);
  if (tuner != nullptr) json["tuning"] = tuning_json(*tuner, TuningRows::kAll);
  return dump(json);
}

}  // namespace sardonyx::tools
