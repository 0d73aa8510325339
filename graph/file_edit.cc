#include "graph/file_edit.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/support/error.h"
#include "graph/tensor_encode.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {
namespace {

using wire::Field;
using wire::Message;
using wire::Reader;
using wire::Rope;
using wire::Span;
using wire::Type;
namespace field = wire::field;

bool is_payload(uint32_t number) { return payload_field_name(number) != "an unknown field"; }

std::string text_field(uint32_t number, std::string_view text) {
  std::string out;
  wire::append_bytes(out, number, text);
  return out;
}

std::string external_entry(const std::string& key, const std::string& value) {
  return text_field(field::kTensorExternalData, text_field(1, key) + text_field(2, value));
}

std::string int_attribute(const std::string& name, int64_t value) {
  std::string out = text_field(field::kAttributeName, name);
  wire::append_tag(out, field::kAttributeI, Type::kVarint);
  wire::append_varint(out, static_cast<uint64_t>(value));
  wire::append_tag(out, field::kAttributeType, Type::kVarint);
  wire::append_varint(out, 2);  // INT
  return text_field(field::kNodeAttribute, out);
}

std::string attribute_name(std::span<const std::byte> file, Span attribute) {
  std::string name;
  Reader reader(file, attribute);
  while (reader.next()) {
    if (reader.field().is(field::kAttributeName, Type::kBytes)) name = reader.text();
  }
  return name;
}

}  // namespace

bool FileEdit::touches(Span span) const {
  const auto place = places_.lower_bound(span.begin);
  return place != places_.end() && *place < std::max(span.end, span.begin + 1);
}

void FileEdit::add_span(Rope& out, size_t begin, size_t end) const {
  out.add_view({reinterpret_cast<const char*>(file_.data()) + begin, end - begin});
}

void FileEdit::add_child(Rope& out, const Field& f, Message kind) const {
  Rope content = apply(kind, f.body);
  std::string head;
  wire::append_tag(head, f.number, Type::kBytes);
  wire::append_varint(head, content.size());
  out.add(std::move(head));
  out.add(std::move(content));
}

Rope FileEdit::apply(Message kind, Span message) const {
  Rope out;
  if (!touches(message)) {
    add_span(out, message.begin, message.end);
    return out;
  }
  const auto find = [&](const auto& edits) {
    const auto at = edits.find(message.begin);
    return at == edits.end() ? nullptr : &at->second;
  };
  if (kind == Message::kTensor) {
    if (const auto* edit = find(tensors_)) return tensor_with(*edit, message);
  } else if (kind == Message::kAttribute) {
    if (const auto* floats = find(floats_)) return attribute_with(*floats, message);
  } else if (kind == Message::kNode) {
    if (const auto* change = find(nodes_)) return node_with(*change, message);
  } else if (kind == Message::kFunction) {
    if (const auto* name = find(function_names_)) return function_with(*name, message);
  }
  Reader reader(file_, message);
  while (reader.next()) {
    const Field& f = reader.field();
    if (dropped_.contains(f.body.begin)) continue;
    const Message child = f.type == Type::kBytes ? wire::child_of(kind, f.number) : Message::kLeaf;
    if (child != Message::kLeaf && touches(f.body)) {
      add_child(out, f, child);
    } else {
      add_span(out, f.begin, f.end());
    }
  }
  if (kind == Message::kModel || kind == Message::kGraph) {
    if (const auto* fields = find(additions_)) out.add_view(*fields);
  }
  return out;
}

Rope FileEdit::tensor_with(const TensorEdit& edit, Span message) const {
  Rope out;
  bool written = false;
  // The payload keeps its form: raw_data, or the typed field, which becomes packed if it was not.
  const auto add_payload = [&](uint32_t number) {
    std::string head;
    const auto bytes = edit.value.bytes();
    if (number == field::kTensorRawData) {
      wire::append_tag(head, number, Type::kBytes);
      wire::append_varint(head, bytes.size());
      out.add(std::move(head));
      out.add_view({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    } else {
      out.add(text_field(number, encode_packed(edit.value, number)));
    }
  };
  auto entries = edit.external_entries;
  const bool becomes_inline = edit.payload == Payload::kIntoTheModel;
  if (becomes_inline) entries.clear();
  Reader reader(file_, message);
  while (reader.next()) {
    const Field& f = reader.field();
    const bool external_only =
        f.number == field::kTensorExternalData || f.number == field::kTensorDataLocation;
    if (becomes_inline && external_only) continue;
    if (edit.value.defined() && is_payload(f.number)) {
      if (!std::exchange(written, true)) add_payload(f.number);
      continue;
    }
    if (f.is(field::kTensorExternalData, Type::kBytes)) {
      const std::string key = read_string_entry(file_, f.body).first;
      if (key == "checksum" && edit.drop_checksum) continue;
      if (const auto entry = entries.find(key); entry != entries.end()) {
        out.add(external_entry(key, entry->second));
        entries.erase(entry);
        continue;
      }
    }
    add_span(out, f.begin, f.end());
  }
  for (const auto& [key, value] : entries) out.add(external_entry(key, value));
  if (becomes_inline && !written) add_payload(field::kTensorRawData);
  return out;
}

Rope FileEdit::attribute_with(const Tensor& floats, Span message) const {
  Rope out;
  bool written = false;
  Reader reader(file_, message);
  while (reader.next()) {
    const Field& f = reader.field();
    const bool scalar = f.number == field::kAttributeF;
    if (!scalar && f.number != field::kAttributeFloats) {
      add_span(out, f.begin, f.end());
      continue;
    }
    if (std::exchange(written, true)) continue;
    std::string bytes(reinterpret_cast<const char*>(floats.bytes().data()), floats.bytes().size());
    if (scalar) {
      std::string head;
      wire::append_tag(head, f.number, Type::kFixed32);
      out.add(head + bytes);
    } else {
      out.add(text_field(f.number, bytes));
    }
  }
  return out;
}

Rope FileEdit::node_with(const NodeChange& change, Span message) const {
  Rope out;
  int input = -1, output = -1;
  auto attributes = change.int_attributes;
  Reader reader(file_, message);
  while (reader.next()) {
    const Field& f = reader.field();
    if (f.is(field::kNodeInput, Type::kBytes)) {
      ++input;
      if (change.keep_inputs >= 0 && input >= change.keep_inputs) continue;
      if (const auto name = change.inputs.find(input); name != change.inputs.end()) {
        out.add(text_field(f.number, name->second));
        continue;
      }
    }
    if (f.is(field::kNodeOutput, Type::kBytes)) {
      ++output;
      if (change.keep_outputs >= 0 && output >= change.keep_outputs) continue;
    }
    if (f.is(field::kNodeOpType, Type::kBytes) && !change.op.empty()) {
      out.add(text_field(f.number, change.op));
      continue;
    }
    if (f.is(field::kNodeAttribute, Type::kBytes)) {
      const std::string name = attribute_name(file_, f.body);
      if (const auto value = attributes.find(name); value != attributes.end()) {
        out.add(int_attribute(name, value->second));
        attributes.erase(value);
        continue;
      }
      if (touches(f.body)) {
        add_child(out, f, Message::kAttribute);
        continue;
      }
    }
    add_span(out, f.begin, f.end());
  }
  for (const auto& [name, value] : attributes) out.add(int_attribute(name, value));
  return out;
}

Rope FileEdit::function_with(const std::string& name, Span message) const {
  Rope out;
  Reader reader(file_, message);
  while (reader.next()) {
    const Field& f = reader.field();
    if (dropped_.contains(f.body.begin)) continue;
    if (f.is(field::kFunctionName, Type::kBytes)) {
      out.add(text_field(f.number, name));
    } else if (const Message child = wire::child_of(Message::kFunction, f.number);
               f.type == Type::kBytes && child != Message::kLeaf && touches(f.body)) {
      add_child(out, f, child);
    } else {
      add_span(out, f.begin, f.end());
    }
  }
  return out;
}

}  // namespace sardonyx::graph
