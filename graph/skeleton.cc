#include "graph/skeleton.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <string_view>

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

using wire::Message;
using wire::Span;
using wire::Type;

// Twice in a row, as fixed64: begin, end. Far beyond the numbers of onnx.proto.
constexpr uint32_t kPlaceField = 500'000'001;

bool is_payload(uint32_t field) {
  switch (field) {
    case wire::field::kTensorFloatData:
    case wire::field::kTensorInt32Data:
    case wire::field::kTensorInt64Data:
    case wire::field::kTensorRawData:
    case wire::field::kTensorDoubleData:
    case wire::field::kTensorUint64Data:
      return true;
    default:
      return false;
  }
}

void append_place(std::string& out, Span place) {
  for (uint64_t value : {uint64_t{place.begin}, uint64_t{place.end}}) {
    wire::append_tag(out, kPlaceField, Type::kFixed64);
    for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i));
  }
}

class Copier {
 public:
  explicit Copier(std::span<const std::byte> file) : file_(file) {}

  void copy(Message kind, Message parent, Span message, int depth) {
    if (depth > wire::kDeepestNesting) {
      throw Error(
          "nested too deep: the message at byte {} lies inside more than {} others, the limit",
          message.begin, wire::kDeepestNesting);
    }
    wire::Reader reader(file_, message);
    while (reader.next()) {
      const wire::Field& field = reader.field();
      if (field.number == kPlaceField) continue;
      if (field.type != Type::kBytes) {
        append({field.begin, field.end()});
      } else if (const Message child = wire::child_of(kind, field.number);
                 child != Message::kLeaf) {
        copy_child(child, kind, field, depth);
      } else if (kind != Message::kTensor || !is_payload(field.number) ||
                 field.body.size() <= kLargestKeptPayload) {
        append({field.begin, field.end()});
      }
    }
    if (kind == Message::kTensor || (kind == Message::kGraph && parent == Message::kAttribute)) {
      append_place(out_, message);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void append(Span span) {
    out_.append(reinterpret_cast<const char*>(file_.data()) + span.begin, span.size());
  }

  void copy_child(Message child, Message parent, const wire::Field& field, int depth) {
    wire::append_tag(out_, field.number, Type::kBytes);
    const size_t start = out_.size();
    copy(child, parent, field.body, depth + 1);
    std::string length;
    wire::append_varint(length, out_.size() - start);
    out_.insert(start, length);
  }

  std::span<const std::byte> file_;
  std::string out_;
};

template <class Proto>
std::optional<Span> find_place(const Proto& message) {
  const auto& unknown = message.unknown_fields();
  std::optional<uint64_t> begin;
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() != kPlaceField ||
        field.type() != google::protobuf::UnknownField::TYPE_FIXED64) {
      continue;
    }
    if (begin) return Span{static_cast<size_t>(*begin), static_cast<size_t>(field.fixed64())};
    begin = field.fixed64();
  }
  return std::nullopt;
}

}  // namespace

std::string skeleton_bytes(std::span<const std::byte> file) {
  Copier copier(file);
  copier.copy(Message::kModel, Message::kLeaf, {0, file.size()}, 0);
  return copier.take();
}

void parse_skeleton(std::span<const std::byte> file, onnx::ModelProto& model) {
  const std::string bytes = skeleton_bytes(file);
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  // Small messages below the deepest one that the walk counts.
  stream.SetRecursionLimit(2 * wire::kDeepestNesting);
  if (bytes.size() > INT32_MAX || !model.ParseFromCodedStream(&stream) ||
      !stream.ConsumedEntireMessage()) {
    throw Error("corrupt: protobuf cannot parse it as an ONNX model");
  }
}

std::optional<Span> place_of(const onnx::TensorProto& tensor) { return find_place(tensor); }
std::optional<Span> place_of(const onnx::GraphProto& graph) { return find_place(graph); }

}  // namespace sardonyx::graph
