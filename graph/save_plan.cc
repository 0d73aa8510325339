#include "graph/save_plan.h"

#include <onnx/onnx_pb.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "graph/external_data.h"
#include "graph/support/error.h"
#include "graph/support/mapped_file.h"
#include "graph/support/text.h"
#include "graph/tensor_encode.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {
namespace {

using support::in_quotes;
using wire::Message;
using wire::Reader;
using wire::Span;
using wire::Type;
namespace field = wire::field;

// Graph inputs of IR versions below this one must list every initializer.
constexpr int64_t kFirstIrWithFreeInitializers = 4;

std::string dims_field(const std::vector<int64_t>& shape) {
  std::string dims;
  for (int64_t d : shape) {
    std::string dim;
    wire::append_tag(dim, 1, Type::kVarint);
    wire::append_varint(dim, static_cast<uint64_t>(d));
    wire::append_bytes(dims, 1, dim);
  }
  return dims;
}

// A ValueInfoProto as an entry of the graph's inputs.
std::string input_field(const std::string& name, const Tensor& value) {
  std::string tensor, type, info, out;
  wire::append_tag(tensor, 1, Type::kVarint);
  wire::append_varint(tensor, static_cast<uint64_t>(value.dtype()));
  wire::append_bytes(tensor, 2, dims_field(value.shape()));
  wire::append_bytes(type, 1, tensor);
  wire::append_bytes(info, 1, name);
  wire::append_bytes(info, 2, type);
  wire::append_bytes(out, 11, info);
  return out;
}

int64_t count_floats(std::span<const std::byte> file, Span attribute) {
  size_t bytes = 0;
  Reader reader(file, attribute);
  while (reader.next()) {
    const uint32_t number = reader.field().number;
    if (number == field::kAttributeF || number == field::kAttributeFloats) {
      bytes += reader.field().body.size();
    }
  }
  return static_cast<int64_t>(bytes / sizeof(float));
}

std::vector<AttributePlace> read_attributes(std::span<const std::byte> file, Span message,
                                            uint32_t number) {
  std::vector<AttributePlace> attributes;
  Reader reader(file, message);
  while (reader.next()) {
    if (!reader.field().is(number, Type::kBytes)) continue;
    AttributePlace& attribute = attributes.emplace_back();
    attribute.span = reader.field().body;
    Reader inner(file, attribute.span);
    while (inner.next()) {
      const wire::Field& f = inner.field();
      if (f.is(field::kAttributeName, Type::kBytes)) attribute.name = inner.text();
      if (f.is(field::kAttributeReference, Type::kBytes)) attribute.reference = inner.text();
      if (f.is(field::kAttributeT, Type::kBytes)) attribute.tensor = f.body;
    }
  }
  return attributes;
}

// How many attributes inside the message take their value from this one of the function.
int count_references(std::span<const std::byte> file, Message kind, Span message,
                     const std::string& name) {
  int count = 0;
  Reader reader(file, message);
  while (reader.next()) {
    const wire::Field& f = reader.field();
    if (f.type != Type::kBytes) continue;
    if (kind == Message::kAttribute && f.number == field::kAttributeReference) {
      count += reader.text() == name ? 1 : 0;
    }
    const Message child = wire::child_of(kind, f.number);
    if (child != Message::kLeaf) count += count_references(file, child, f.body, name);
  }
  return count;
}

std::set<std::string> outputs_behind(std::span<const std::byte> file, Span node, int keep) {
  std::set<std::string> names;
  int output = -1;
  Reader reader(file, node);
  while (reader.next()) {
    if (!reader.field().is(field::kNodeOutput, Type::kBytes)) continue;
    if (++output >= keep) names.emplace(reader.text());
  }
  return names;
}

std::string value_info_name(std::span<const std::byte> file, Span info) {
  std::string name;
  Reader reader(file, info);
  while (reader.next()) {
    if (reader.field().is(field::kValueInfoName, Type::kBytes)) name = reader.text();
  }
  return name;
}

// To these sizes, over axes of size 1; nothing where that isn't what it takes.
std::optional<Tensor> repeated(const Tensor& value, const std::vector<int64_t>& shape) {
  if (value.shape() == shape || value.shape().size() != shape.size()) return {};
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (value.shape()[i] != shape[i] && (value.shape()[i] != 1 || shape[i] < 1)) return {};
    elements *= shape[i];
  }
  Tensor whole(value.dtype(), shape);
  const size_t element = value.bytes().size() / static_cast<size_t>(value.numel());
  for (int64_t to = 0; to < elements; ++to) {
    int64_t from = 0, rest = to, stride = 1;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i]) {
      if (value.shape()[i] == 1) continue;
      from += rest % shape[i] * stride;
      stride *= shape[i];
    }
    std::memcpy(whole.mutable_bytes().data() + static_cast<size_t>(to) * element,
                value.bytes().data() + static_cast<size_t>(from) * element, element);
  }
  return whole;
}

// Training in float leaves a double alone whose float is as before: it keeps its further digits.
void keep_digits(Tensor& saved, const Tensor& trained, const Tensor& before) {
  const std::span<const float> now = trained.data<float>();
  const Tensor rounded = before.cast(DType::kFloat32);
  const std::span<const float> was = rounded.data<float>();
  const std::span<const double> digits = before.data<double>();
  const std::span<double> out = saved.mutable_data<double>();
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::bit_cast<uint32_t>(now[i]) == std::bit_cast<uint32_t>(was[i])) out[i] = digits[i];
  }
}

// Of a call, which may have no name.
std::string label_of(const BodyPlace& body, int32_t call) {
  for (const auto& [label, node] : body.calls) {
    if (node == call) return label;
  }
  return "";
}

std::string origin_label(const Origin& origin) {
  return in_quotes(origin.path.empty() ? origin.tensor : origin.path + "/" + origin.tensor);
}

}  // namespace

SavePlan::SavePlan(const Model& model, ExternalFiles& external)
    : model_(model), external_(external), index_(model), edit_(model.bytes()) {
  for (const auto& function : model.skeleton().functions()) function_names_.insert(function.name());
}

void SavePlan::add(const NewValue& value) {
  const Origin& origin = value.origin;
  saving_ = origin_label(origin);
  with_context([&] { return "saving the value of " + saving_; },
               [&] {
                 CHECK(value.value.defined());
                 if (!origin.split_use.empty()) return split(value);
                 switch (origin.kind) {
                   case Origin::Kind::kInitializer:
                     return set_initializer(value);
                   case Origin::Kind::kConstantNode:
                     return set_constant(value);
                   case Origin::Kind::kGraphInput:
                     return add_initializer(origin.tensor, value.value);
                   case Origin::Kind::kNodeOutput:
                   case Origin::Kind::kNone:
                     throw Error("it is no initializer, Constant or input of the file");
                 }
               });
}

void SavePlan::add(const NodeEdit& change) {
  change_node(edit_, change);
  changes_.push_back(change);
}

const BodyPlace& SavePlan::body_of(const NodeEdit& change) const {
  const BodyPlace* body =
      change.function < 0 ? &index_.main : &index_.functions.at(change.function);
  for (int32_t call : index_.resolve(*body, change.path)) body = &index_.body_behind(*body, call);
  return *body;
}

void SavePlan::change_node(FileEdit& edit, const NodeEdit& change) const {
  const Span place = body_of(change).nodes.at(change.node).span;
  if (change.remove) {
    drop_infos(edit, change, outputs_behind(model_.bytes(), place, 0));
    return edit.drop(place.begin);
  }
  NodeChange& node = edit.node(place.begin);
  for (const auto& [name, value] : change.ints) node.int_attributes[name] = value;
  node.keep_inputs = change.keep_inputs;
  node.keep_outputs = change.keep_outputs;
  if (change.keep_outputs < 0) return;
  drop_infos(edit, change, outputs_behind(model_.bytes(), place, change.keep_outputs));
}

// It would be about nothing.
void SavePlan::drop_infos(FileEdit& edit, const NodeEdit& change,
                          const std::set<std::string>& names) const {
  const BodyPlace& body = body_of(change);
  const bool is_graph = change.function < 0 || !change.path.empty();
  const uint32_t value_info = is_graph ? field::kGraphValueInfo : field::kFunctionValueInfo;
  Reader reader(model_.bytes(), body.span);
  while (reader.next()) {
    if (!reader.field().is(value_info, Type::kBytes)) continue;
    const Span info = reader.field().body;
    if (names.contains(value_info_name(model_.bytes(), info))) edit.drop(info.begin);
  }
}

void SavePlan::drop_initializer(const std::string& name) {
  const auto tensor = index_.main.initializers.find(name);
  if (tensor == index_.main.initializers.end() || external_.is_external(tensor->second.begin))
    return;
  for (const auto& input : model_.skeleton().graph().input()) {
    if (input.name() == name) return;
  }
  edit_.drop(tensor->second.begin);
  drop_infos(edit_, NodeEdit(), {name});
}

Tensor SavePlan::in_type(const Tensor& value, DType dtype) {
  Tensor cast = value.cast(dtype);
  if (dtype == value.dtype() || !is_floating(dtype)) return cast;
  int64_t count = 0, first = -1;
  for (int64_t i = 0; i < value.numel(); ++i) {
    if (std::isfinite(cast.as_double(i)) || !std::isfinite(value.as_double(i))) continue;
    if (count++ == 0) first = i;
  }
  if (count > 0) {
    notices_.push_back(fmt::format(
        "{} of {} is too large for {}, the type it has in the file, which holds infinity there now"
        " ({} of its {} numbers are); train with smaller numbers (scaled data, a lower rate), or"
        " export the model in float",
        value.as_double(first), saving_, dtype_name(dtype), count, value.numel()));
  }
  return cast;
}

Tensor SavePlan::old_value(const TensorMessage& message) const {
  if (!message.external) return decode_inline(message, model_.bytes(), nullptr);
  const ExternalRange range = external_range(message, model_.folder());
  auto file = support::MappedFile::open(range.file);
  const auto bytes = file->bytes().subspan(range.offset, range.size);
  return tensor_from_raw(checked_dtype(message), message.dims, bytes, std::move(file));
}

void SavePlan::set_tensor(FileEdit& edit, Span place, const Tensor& value) {
  const TensorMessage message = read_tensor_message(model_.bytes(), place);
  if (const auto whole = repeated(value, message.dims)) {
    return set_tensor(edit, place, *whole);
  }
  if (message.dims != value.shape()) {
    throw Error("the new value has shape {}, but the file's tensor has {}",
                shape_str(value.shape()), shape_str(message.dims));
  }
  Tensor cast = in_type(value, checked_dtype(message));
  if (cast.dtype() == DType::kFloat64 && value.dtype() == DType::kFloat32) {
    keep_digits(cast, value, old_value(message));
  }
  if (message.external && &edit == &edit_) return external_.set(place.begin, std::move(cast));
  TensorEdit& change = edit.tensor(place.begin);
  change.value = std::move(cast);
  // The data file has one place for it, whose bytes the other calls may still read.
  if (message.external) change.payload = Payload::kIntoTheModel;
}

void SavePlan::set_initializer(const NewValue& value) {
  const Calls calls = index_.resolve(value.origin.path);
  const auto& initializers = index_.body_of(calls).initializers;
  const auto tensor = initializers.find(value.origin.tensor);
  if (tensor == initializers.end()) throw Error("the file has no initializer of this name");
  set_tensor(edit_for(calls), tensor->second, value.value);
}

bool SavePlan::set_attribute(FileEdit& edit, const AttributePlace& attribute, const Tensor& value) {
  if (attribute.tensor.size() > 0) {
    set_tensor(edit, attribute.tensor, value);
    return true;
  }
  const int64_t found = count_floats(model_.bytes(), attribute.span);
  if (found == 0) return false;
  if (found != value.numel()) {
    throw Error("the new value has {} elements, but the file's has {}", value.numel(), found);
  }
  edit.set_floats(attribute.span.begin, in_type(value, DType::kFloat32));
  return true;
}

void SavePlan::set_constant(const NewValue& value) {
  const Calls calls = index_.resolve(value.origin.path);
  const NodePlace& node = index_.node_at(calls, value.origin.node);
  for (const auto& attribute : read_attributes(model_.bytes(), node.span, field::kNodeAttribute)) {
    if (!attribute.name.starts_with("value")) continue;
    if (!attribute.reference.empty()) {
      return set_function_attribute(calls, attribute.reference, value.value);
    }
    if (set_attribute(edit_for(calls), attribute, value.value)) return;
  }
  throw Error("node {} of the file is no Constant with a float value", value.origin.node);
}

void SavePlan::set_function_attribute(const Calls& calls, const std::string& name,
                                      const Tensor& value) {
  Calls own = calls;
  while (!own.empty() && own.back() < 0) own.pop_back();  // out of the graphs inside nodes
  if (own.empty()) throw Error("it refers to a function's attribute outside of any function");
  const Calls outer(own.begin(), own.end() - 1);
  const NodePlace& call = index_.node_at(outer, own.back());
  const Span function = index_.functions[call.callee].span;
  if (count_references(model_.bytes(), Message::kFunction, function, name) > 1) {
    throw Error(
        "it is the attribute {} of function {}, which several nodes there read, and one attribute "
        "can't hold a value for each; train without it (--freeze), or inline the functions",
        in_quotes(name), in_quotes(model_.skeleton().functions(call.callee).name()));
  }
  for (const auto& given : read_attributes(model_.bytes(), call.span, field::kNodeAttribute)) {
    if (given.name != name) continue;
    if (!given.reference.empty()) return set_function_attribute(outer, given.reference, value);
    if (set_attribute(edit_for(outer), given, value)) return;
  }
  for (const auto& preset :
       read_attributes(model_.bytes(), function, field::kFunctionAttributeProto)) {
    if (preset.name == name && set_attribute(edit_for(own), preset, value)) return;
  }
  throw Error("neither the call nor the function gives a value to the attribute {}",
              in_quotes(name));
}

void SavePlan::add_initializer(const std::string& name, const Tensor& value) {
  std::string fields;
  wire::append_bytes(fields, field::kGraphInitializer, encode_tensor(name, value));
  const bool listed = model_.skeleton().ir_version() < kFirstIrWithFreeInitializers;
  bool is_input = false;
  for (const auto& input : model_.skeleton().graph().input()) is_input |= input.name() == name;
  if (listed && !is_input) fields += input_field(name, value);
  edit_.append(index_.main.span.begin, std::move(fields));
}

NodePlace SavePlan::split_node(const Origin& origin, int& slot) const {
  slot = origin.slot;
  if (origin.node >= 0 && origin.slot >= 0) return index_.node_at({}, origin.node);
  // "NAME@NODE:INPUT"; names may hold both signs, the tensor's name is known and the input is a
  // number.
  const std::string& text = origin.split_use;
  const size_t colon = text.rfind(':');
  const size_t start = origin.tensor.size() + 1;
  if (colon != std::string::npos && colon > start) {
    const std::string name = text.substr(start, colon - start);
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data() + colon + 1, end, slot);
    const bool number = problem == std::errc() && stop == end;
    for (const NodePlace& node : index_.main.nodes) {
      if (number && node.name == name) return node;
    }
  }
  throw Error("the file has no node and input {}", in_quotes(text));
}

void SavePlan::split(const NewValue& value) {
  int slot = 0;
  const NodePlace node = split_node(value.origin, slot);
  const auto tensor = index_.main.initializers.find(value.origin.tensor);
  const DType dtype = tensor == index_.main.initializers.end()
                          ? value.value.dtype()
                          : checked_dtype(read_tensor_message(model_.bytes(), tensor->second));
  add_initializer(value.origin.split_use, in_type(value.value, dtype));
  edit_.node(node.span.begin).inputs[slot] = value.origin.split_use;
}

bool SavePlan::called_once(const Calls& calls) const {
  const BodyPlace* body = &index_.main;
  for (int32_t call : calls) {
    if (call >= 0 && index_.call_sites[body->nodes[call].callee] != 1) return false;
    body = &index_.body_behind(*body, call);
  }
  return true;
}

std::string SavePlan::fresh_function_name(const std::string& name) {
  for (int i = 1;; ++i) {
    std::string fresh = fmt::format("{}_{}", name, i);
    if (function_names_.insert(fresh).second) return fresh;
  }
}

// The edits of the body that these calls reach: the file's own when nobody else calls it, else a
// copy that only this call uses.
FileEdit& SavePlan::edit_for(const Calls& calls) {
  if (called_once(calls)) return edit_;
  const Calls outer(calls.begin(), calls.end() - 1);
  // A graph inside a node is part of what holds the node.
  if (calls.back() < 0) return edit_for(outer);
  auto& copy = copies_[calls];
  if (copy != nullptr) return copy->edit;

  const NodePlace& call = index_.node_at(outer, calls.back());
  const std::string& name = model_.skeleton().functions(call.callee).name();
  copy = std::make_unique<Copy>(Copy{fresh_function_name(name), FileEdit(model_.bytes())});
  copy->edit.rename_function(index_.functions[call.callee].span.begin, copy->name);
  edit_for(outer).node(call.span.begin).op = copy->name;
  notices_.push_back(
      fmt::format("function {} is called more than once; the values of call {} were saved in a "
                  "copy of it, {}",
                  in_quotes(name), in_quotes(label_of(index_.body_of(outer), calls.back())),
                  in_quotes(copy->name)));
  return copy->edit;
}

std::vector<FileEdit*> SavePlan::edits() {
  std::vector<FileEdit*> all = {&edit_};
  for (const auto& [calls, copy] : copies_) all.push_back(&copy->edit);
  return all;
}

FileEdit& SavePlan::finish() {
  for (const auto& [calls, copy] : copies_) {
    for (const NodeEdit& change : changes_) change_node(copy->edit, change);
    std::string fields;
    const wire::Rope body = copy->edit.apply(Message::kFunction, index_.body_of(calls).span);
    wire::append_bytes(fields, field::kModelFunctions, body.str());
    edit_.append(0, std::move(fields));
  }
  copies_.clear();
  return edit_;
}

}  // namespace sardonyx::graph
