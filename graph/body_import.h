// The nodes of a main graph or of a function body -> Graph: names, order, attributes, origins.
// Internal to the importer (onnx_import.cc).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/faults.h"
#include "graph/function_calls.h"
#include "graph/graph.h"
#include "graph/model.h"
#include "graph/onnx_proto.h"

namespace google::protobuf {
template <class T>
class RepeatedPtrField;
}

namespace sardonyx::graph {

class BodyImporter {
 public:
  enum class Place : uint8_t { kMainGraph, kFunction };

  // `where`: "" for the main graph, "in function 'f': " as the beginning of every fault.
  BodyImporter(const Model& model, const FunctionIndex& functions, Graph& graph, Place place,
               std::string where, Faults& faults)
      : model_(model),
        functions_(functions),
        graph_(graph),
        place_(place),
        where_(std::move(where)),
        faults_(faults) {}

  // Announces a name that nodes may read. Reports a name that is empty or taken.
  bool define(const std::string& name, std::string_view what);
  bool is_defined(std::string_view name) const { return producers_.contains(name); }

  // Checks the nodes: names, cycles, domains, attributes. To be called once, after every define().
  void check(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);
  // Adds the nodes to the graph, sorted. Only without faults, and after the values of define() were
  // added.
  void build(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);
  bool was_sorted() const { return was_sorted_; }
  // What check() found that a file should not have, but that does no harm.
  const std::vector<std::string>& notices() const { return notices_; }

 private:
  using Attributes = std::map<std::string, Attribute, std::less<>>;

  void define_outputs(const onnx::NodeProto& node, int32_t index);
  void check_domain(const onnx::NodeProto& node);
  void read_attributes(const onnx::NodeProto& node, Attributes& attributes);
  std::vector<int32_t> find_reads(const onnx::NodeProto& node, const Attributes& attributes);
  void report_undefined(const onnx::NodeProto& node, const std::string& name, std::string_view how);
  void tell_shadows(const onnx::NodeProto& node, int32_t index);
  void report_cycle(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                    const std::vector<int32_t>& cycle);

  const Model& model_;
  const FunctionIndex& functions_;
  Graph& graph_;
  Place place_;
  std::string where_;
  Faults& faults_;
  // Name -> node that makes it, -1 for inputs and initializers. The texts belong to the skeleton.
  std::unordered_map<std::string_view, int32_t> producers_;
  std::map<std::string, std::string> missing_domains_;  // domain -> first node that needs it
  std::vector<Attributes> attributes_;
  std::vector<int32_t> order_;
  bool was_sorted_ = true;
  std::vector<std::string> notices_;
  int suggestions_ = 0;
};

}  // namespace sardonyx::graph
