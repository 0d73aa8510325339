#include "tests/fuzz/mutate_model.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <random>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::fuzz {
namespace {

using google::protobuf::RepeatedField;
using google::protobuf::RepeatedPtrField;
using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;
using Nodes = RepeatedPtrField<NodeProto>;

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // 0 .. count - 1; 0 for none.
  int below(int64_t count) {
    return count <= 0 ? 0 : static_cast<int>(engine_() % static_cast<uint64_t>(count));
  }
  bool one_in(int n) { return below(n) == 0; }
  template <class List>
  auto& pick(List& list) {
    return *std::next(std::begin(list), below(std::ssize(list)));
  }
  // Sizes, counts and indices: mostly such as a small model has.
  int64_t number() {
    static constexpr std::array<int64_t, 14> kEdges = {
        -1,      INT64_MIN,          INT64_MAX, INT32_MAX, INT32_MIN, int64_t{1} << 31,
        1 << 16, (1LL << 32) + 1,    1LL << 40, 1LL << 61, -2,        255,
        1000000, (1LL << 62) / 3 * 2};
    return one_in(4) ? pick(kEdges) : below(10) - 1;
  }
  float real() {
    static constexpr std::array<float, 10> kEdges = {0,     -0.0F, 1,        -1,        1e-30F,
                                                     1e30F, 0.5F,  INFINITY, -INFINITY, NAN};
    return one_in(2) ? pick(kEdges) : static_cast<float>(below(2000) - 1000) / 256;
  }

 private:
  std::mt19937_64 engine_;
};

// The lists of nodes that can be changed: the graph, the bodies of functions, and of If and Loop.
void collect(GraphProto& graph, std::vector<Nodes*>& found) {
  found.push_back(graph.mutable_node());
  for (NodeProto& node : *graph.mutable_node()) {
    for (AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) collect(*attribute.mutable_g(), found);
    }
  }
}

class Mutation {
 public:
  Mutation(onnx::ModelProto& model, Dice& dice) : model_(model), dice_(dice) {
    collect(*model.mutable_graph(), lists_);
    for (auto& function : *model.mutable_functions()) lists_.push_back(function.mutable_node());
    // Most of the time the graph itself.
    nodes_ = dice.one_in(4) ? dice.pick(lists_) : lists_.front();
  }

  void apply() {
    static constexpr std::array kSteps = {
        &Mutation::attribute,     &Mutation::attribute, &Mutation::attribute,
        &Mutation::rewire,        &Mutation::rewire,    &Mutation::insert,
        &Mutation::insert,        &Mutation::insert,    &Mutation::other_operator,
        &Mutation::tensor,        &Mutation::tensor,    &Mutation::tensor,
        &Mutation::integers,      &Mutation::integers,  &Mutation::shape,
        &Mutation::shape,         &Mutation::erase,     &Mutation::duplicate,
        &Mutation::rename,        &Mutation::outputs,   &Mutation::versions,
        &Mutation::call_function, &Mutation::external,  &Mutation::settings,
        &Mutation::settings,      &Mutation::resize};
    (this->*dice_.pick(kSteps))();
  }

 private:
  NodeProto* node() { return nodes_->empty() ? nullptr : &dice_.pick(*nodes_); }

  std::vector<std::string> names() {
    std::vector<std::string> found{""};
    for (const auto& input : model_.graph().input()) found.push_back(input.name());
    for (const auto& weight : model_.graph().initializer()) found.push_back(weight.name());
    for (const NodeProto& node : *nodes_) {
      found.insert(found.end(), node.output().begin(), node.output().end());
    }
    return found;
  }
  std::string name() {
    const auto known = names();
    return dice_.one_in(40) ? "nobody" : dice_.pick(known);
  }
  std::string fresh() { return "f" + std::to_string(dice_.below(1 << 30)); }

  // One that a file may use; the file then says from which opset.
  const ops::OpDef& any_op() {
    static const std::vector<const ops::OpDef*> kAll = [] {
      std::vector<const ops::OpDef*> all = ops::OpRegistry::get().all();
      std::erase_if(all, [](const ops::OpDef* op) { return op->domain == "sardonyx"; });
      return all;
    }();
    const ops::OpDef& op = *dice_.pick(kAll);
    const int since = op.since.empty() ? 1 : op.since.front();
    auto& opsets = *model_.mutable_opset_import();
    const auto found = std::find_if(opsets.begin(), opsets.end(),
                                    [&](const auto& opset) { return opset.domain() == op.domain; });
    auto& opset = found == opsets.end() ? *opsets.Add() : *found;
    opset.set_domain(op.domain);
    if (opset.version() < since) opset.set_version(op.domain.empty() ? since + dice_.below(3) : 1);
    return op;
  }

  // A short list of integers or a number: shapes, axes, limits, slopes.
  std::string new_constant() {
    TensorProto& made = *model_.mutable_graph()->add_initializer();
    made.set_name(fresh());
    if (dice_.one_in(3)) {
      made.set_data_type(TensorProto::FLOAT);
      made.add_float_data(dice_.real());
      return made.name();
    }
    made.set_data_type(TensorProto::INT64);
    const int count = 1 + dice_.below(4);
    if (count > 1 || dice_.one_in(2)) made.add_dims(count);
    for (int i = 0; i < count; ++i) made.add_int64_data(dice_.number());
    return made.name();
  }

  void set_value(AttributeProto& attribute) {
    switch (dice_.below(6)) {
      case 0:
      case 1:
        attribute.set_type(AttributeProto::INT);
        attribute.set_i(dice_.number());
        break;
      case 2:
        attribute.set_type(AttributeProto::FLOAT);
        attribute.set_f(dice_.real());
        break;
      case 3: {
        static const std::vector<std::string> kWords = {
            "SAME_UPPER", "SAME_LOWER", "VALID",   "NOTSET", "reflect", "edge",
            "constant",   "wrap",       "nearest", "linear", "cubic",   "mean",
            "sum",        "none",       "max",     "add",    "tanh",    "asymmetric",
            "floor",      "half_pixel", "",        "NHWC",   "mul"};
        attribute.set_type(AttributeProto::STRING);
        attribute.set_s(dice_.pick(kWords));
        break;
      }
      default:
        attribute.set_type(AttributeProto::INTS);
        attribute.clear_ints();
        for (int i = dice_.below(6); i > 0; --i) attribute.add_ints(dice_.number());
    }
  }

  void add_attribute(NodeProto& to) {
    const auto* op = ops::OpRegistry::get().find(to.domain(), to.op_type());
    AttributeProto& attribute = *to.add_attribute();
    attribute.set_name(op == nullptr || op->attributes.empty() ? "axis"
                                                               : dice_.pick(op->attributes).name);
    set_value(attribute);
  }

  void attribute() {
    NodeProto* at = node();
    if (at == nullptr) return;
    if (at->attribute_size() == 0 || dice_.one_in(4)) return add_attribute(*at);
    AttributeProto& attribute = dice_.pick(*at->mutable_attribute());
    const bool other_kind = dice_.one_in(8);
    if (other_kind) return set_value(attribute);
    if (dice_.one_in(8)) {
      attribute = at->attribute(at->attribute_size() - 1);
      return at->mutable_attribute()->RemoveLast();
    }
    if (dice_.one_in(12)) attribute.set_ref_attr_name(fresh());
    switch (attribute.type()) {
      case AttributeProto::INT:
        attribute.set_i(dice_.number());
        break;
      case AttributeProto::FLOAT:
        attribute.set_f(dice_.real());
        break;
      case AttributeProto::INTS:
        change(*attribute.mutable_ints(), dice_.number());
        break;
      case AttributeProto::FLOATS:
        change(*attribute.mutable_floats(), dice_.real());
        break;
      case AttributeProto::TENSOR:
        change(*attribute.mutable_t());
        break;
      default:
        set_value(attribute);
    }
  }

  template <class T>
  void change(RepeatedField<T>& list, T value) {
    if (list.empty() || dice_.one_in(5)) return list.Add(value);
    if (dice_.one_in(5)) return list.RemoveLast();
    dice_.pick(list) = value;
  }

  void rewire() {
    NodeProto* at = node();
    if (at == nullptr) return;
    if (at->input_size() == 0 || dice_.one_in(6)) return at->add_input(name());
    if (dice_.one_in(8)) return at->mutable_input()->RemoveLast();
    dice_.pick(*at->mutable_input()) = name();
  }

  // A node of any operator between a value and one who reads it.
  void insert() {
    NodeProto* reader = node();
    if (reader == nullptr || reader->input_size() == 0) return;
    const ops::OpDef& op = any_op();
    const int slot = dice_.below(reader->input_size());
    NodeProto made;
    made.set_domain(op.domain);
    made.set_op_type(op.name);
    made.add_input(reader->input(slot));
    const auto ports = std::ssize(op.inputs);
    for (int64_t i = 1; i < ports && !dice_.one_in(4); ++i) {
      made.add_input(dice_.one_in(2) ? new_constant() : name());
    }
    made.add_output(fresh());
    if (op.outputs.size() > 1 && dice_.one_in(3)) made.add_output(fresh());
    if (!dice_.one_in(3)) add_attribute(made);
    reader->set_input(slot, made.output(0));
    *nodes_->Add() = std::move(made);  // importers sort nodes
  }

  void other_operator() {
    NodeProto* at = node();
    if (at == nullptr) return;
    const ops::OpDef& op = any_op();
    at->set_op_type(op.name);
    at->set_domain(op.domain);
  }

  TensorProto* any_tensor() {
    std::vector<TensorProto*> found;
    for (TensorProto& weight : *model_.mutable_graph()->mutable_initializer()) {
      found.push_back(&weight);
    }
    for (NodeProto& node : *nodes_) {
      for (AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_t()) found.push_back(attribute.mutable_t());
      }
    }
    return found.empty() ? nullptr : dice_.pick(found);
  }

  // What it says of itself; the bytes stay as they are.
  void change(TensorProto& tensor) {
    switch (dice_.below(5)) {
      case 0:
        return tensor.set_data_type(dice_.below(25));
      case 1:
        return change(*tensor.mutable_dims(), dice_.number());
      case 2: {
        std::string& raw = *tensor.mutable_raw_data();
        raw.resize(static_cast<size_t>(dice_.below(std::ssize(raw) * 2 + 2)));
        return;
      }
      case 3:
        return tensor.mutable_float_data()->Add(dice_.real());
      default: {
        std::string& raw = *tensor.mutable_raw_data();
        if (!raw.empty()) dice_.pick(raw) = static_cast<char>(dice_.below(256));
      }
    }
  }
  void tensor() {
    if (TensorProto* found = any_tensor()) change(*found);
  }

  // Another shape, with bytes for it.
  void resize() {
    TensorProto* found = any_tensor();
    if (found == nullptr || !found->has_raw_data() || found->dims_size() == 0) return;
    const auto numel = [&] {
      int64_t count = 1;
      for (const int64_t dim : found->dims()) count *= std::clamp<int64_t>(dim, 0, 64);
      return std::max<int64_t>(count, 1);
    };
    std::string& raw = *found->mutable_raw_data();
    const int64_t width = std::clamp<int64_t>(std::ssize(raw) / numel(), 1, 8);
    dice_.pick(*found->mutable_dims()) = dice_.below(6);
    const std::string old = raw.empty() ? std::string(1, '\1') : raw;
    raw.clear();
    int64_t count = 1;
    for (const int64_t dim : found->dims()) count *= std::clamp<int64_t>(dim, 0, 64);
    if (count * width > 1 << 16) return;
    while (std::ssize(raw) < count * width) raw += old;
    raw.resize(static_cast<size_t>(count * width));
  }

  // Integer tensors hold shapes, axes, pads and indices.
  void integers() {
    for (int tries = 0; tries < 8; ++tries) {
      TensorProto* found = any_tensor();
      if (found == nullptr) return;
      if (found->data_type() != TensorProto::INT64) continue;
      if (found->int64_data_size() > 0) {
        dice_.pick(*found->mutable_int64_data()) = dice_.number();
        return;
      }
      std::string& raw = *found->mutable_raw_data();
      const int64_t value = dice_.number();
      const int64_t at = dice_.below(std::ssize(raw) / 8) * 8;
      if (at + 8 <= std::ssize(raw)) {
        raw.replace(static_cast<size_t>(at), 8, reinterpret_cast<const char*>(&value), 8);
      }
      return;
    }
  }

  void shape() {
    GraphProto& graph = *model_.mutable_graph();
    auto& list = dice_.one_in(3)   ? *graph.mutable_value_info()
                 : dice_.one_in(3) ? *graph.mutable_output()
                                   : *graph.mutable_input();
    if (list.empty()) return;
    auto& type = *dice_.pick(list).mutable_type();
    if (dice_.one_in(16)) return type.clear_value();
    auto& tensor = *type.mutable_tensor_type();
    if (dice_.one_in(8)) return tensor.set_elem_type(dice_.below(25));
    if (dice_.one_in(16)) return tensor.clear_shape();
    auto& dims = *tensor.mutable_shape()->mutable_dim();
    if (dice_.one_in(8) && !dims.empty()) return dims.RemoveLast();
    auto& dim = dims.empty() || dice_.one_in(8) ? *dims.Add() : dice_.pick(dims);
    if (dice_.one_in(4)) return dim.set_dim_param(dice_.one_in(2) ? "N" : fresh());
    dim.set_dim_value(dice_.number());
  }

  void erase() {
    auto& weights = *model_.mutable_graph()->mutable_initializer();
    if (dice_.one_in(3) && !weights.empty()) {
      return weights.DeleteSubrange(dice_.below(weights.size()), 1);
    }
    if (!nodes_->empty()) nodes_->DeleteSubrange(dice_.below(nodes_->size()), 1);
  }

  void duplicate() {
    if (nodes_->empty()) return;
    NodeProto copy = dice_.pick(*nodes_);
    const bool same_name = dice_.one_in(8);
    for (std::string& output : *copy.mutable_output()) {
      if (!same_name) output = fresh();
    }
    if (NodeProto* reader = node(); copy.output_size() > 0 && reader->input_size() > 0) {
      dice_.pick(*reader->mutable_input()) = copy.output(0);
    }
    *nodes_->Add() = std::move(copy);
  }

  void rename() {
    GraphProto& graph = *model_.mutable_graph();
    const std::string to = dice_.one_in(2) ? name() : fresh();
    if (dice_.one_in(2) && graph.initializer_size() > 0) {
      return dice_.pick(*graph.mutable_initializer()).set_name(to);
    }
    if (NodeProto* at = node(); at != nullptr && at->output_size() > 0) {
      dice_.pick(*at->mutable_output()) = to;
    }
  }

  void outputs() {
    auto& outputs = *model_.mutable_graph()->mutable_output();
    if (outputs.size() > 1 && dice_.one_in(3)) return outputs.RemoveLast();
    if (dice_.one_in(2) || outputs.empty()) *outputs.Add() = onnx::ValueInfoProto();
    dice_.pick(outputs).set_name(name());
  }

  void versions() {
    if (dice_.one_in(3)) return model_.set_ir_version(dice_.one_in(2) ? dice_.number() : 3);
    if (model_.opset_import_size() == 0) model_.add_opset_import();
    dice_.pick(*model_.mutable_opset_import())
        .set_version(dice_.one_in(4) ? dice_.number() : 1 + dice_.below(24));
  }

  // Some nodes become a local function, which may call itself.
  void call_function() {
    NodeProto* at = node();
    if (at == nullptr) return;
    if (model_.functions_size() == 0 || dice_.one_in(2)) {
      auto& made = *model_.add_functions();
      made.set_domain("local");
      made.set_name(fresh());
      for (const std::string& input : at->input()) made.add_input(input);
      for (const std::string& output : at->output()) made.add_output(output);
      *made.add_node() = *at;
      auto& opset = *made.add_opset_import();
      opset.set_version(1 + dice_.below(22));
      if (dice_.one_in(2)) {
        auto& local = *model_.add_opset_import();
        local.set_domain("local");
        local.set_version(1);
        *made.add_opset_import() = local;
      }
    }
    const auto& called = dice_.pick(*model_.mutable_functions());
    at->set_domain(called.domain());
    at->set_op_type(called.name());
  }

  void external() {
    static const std::vector<std::string> kPlaces = {"weights.bin",
                                                     "missing.bin",
                                                     "../weights.bin",
                                                     "/etc/hostname",
                                                     "inside/weights.bin",
                                                     "link.bin",
                                                     "out.bin",
                                                     "inside",
                                                     "inside/../weights.bin",
                                                     "",
                                                     "."};
    TensorProto* found = any_tensor();
    if (found == nullptr) return;
    found->set_data_location(TensorProto::EXTERNAL);
    if (!dice_.one_in(4)) found->clear_raw_data();
    found->clear_external_data();
    const auto add = [&](const char* key, std::string value) {
      auto& entry = *found->add_external_data();
      entry.set_key(key);
      entry.set_value(std::move(value));
    };
    add("location", dice_.one_in(2) ? kPlaces[0] : dice_.pick(kPlaces));
    if (dice_.one_in(2)) add("offset", std::to_string(dice_.one_in(2) ? 64 : dice_.number()));
    if (dice_.one_in(2)) add("length", std::to_string(dice_.number()));
    if (dice_.one_in(8)) add("checksum", "0");
  }

  // How the target `train` runs the model (model_targets.cc).
  void settings() { model_.set_model_version(dice_.below(1 << 16)); }

  onnx::ModelProto& model_;
  Dice& dice_;
  std::vector<Nodes*> lists_;
  Nodes* nodes_ = nullptr;
};

bool read(std::span<const std::byte> bytes, onnx::ModelProto& model) {
  return model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && model.has_graph();
}

}  // namespace

std::string mutate_model(std::span<const std::byte> bytes, uint64_t seed) {
  onnx::ModelProto model;
  if (!read(bytes, model)) return "";
  Dice dice(seed);
  for (int changes = dice.one_in(3) ? 1 + dice.below(4) : 1; changes > 0; --changes) {
    Mutation(model, dice).apply();
  }
  return model.SerializeAsString();
}

std::string cross_models(std::span<const std::byte> one, std::span<const std::byte> other,
                         uint64_t seed) {
  onnx::ModelProto to, from;
  if (!read(one, to) || !read(other, from) || from.graph().node().empty()) return "";
  if (to.graph().node().empty()) return "";
  Dice dice(seed);
  NodeProto node = dice.pick(*from.mutable_graph()->mutable_node());
  NodeProto& reader = dice.pick(*to.mutable_graph()->mutable_node());
  if (reader.input().empty() || node.input().empty() || node.output().empty()) return "";
  const std::string made = "x" + std::to_string(dice.below(1 << 30));
  for (const TensorProto& weight : from.graph().initializer()) {
    for (std::string& input : *node.mutable_input()) {
      if (input != weight.name()) continue;
      TensorProto& copy = *to.mutable_graph()->add_initializer();
      copy = weight;
      copy.set_name(made + "." + input);
      input = copy.name();
    }
  }
  std::string& slot = dice.pick(*reader.mutable_input());
  node.set_input(0, slot);
  for (std::string& output : *node.mutable_output()) output = made + output;
  slot = node.output(0);
  *to.mutable_graph()->add_node() = std::move(node);
  return to.SerializeAsString();
}

}  // namespace sardonyx::fuzz
