#include "graph/wire.h"

#include <utility>

#include "graph/support/error.h"

namespace sardonyx::graph::wire {

uint64_t read_varint(std::span<const std::byte> file, size_t& at, size_t end) {
  const size_t begin = at;
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at >= end) throw Error("truncated or corrupt: the number at byte {} is cut short", begin);
    const auto byte = static_cast<uint64_t>(file[at++]);
    value |= (byte & 0x7f) << (shift < 64 ? shift : 0);
    if ((byte & 0x80) == 0) return value;
  }
  throw Error("corrupt: the number at byte {} is longer than 64 bits", begin);
}

bool Reader::next() {
  if (at_ >= end_) return false;
  field_.begin = at_;
  const uint64_t tag = read_varint(file_, at_, end_);
  if (tag > UINT32_MAX || (tag >> 3) == 0) {
    throw Error("corrupt: no field of a protobuf message starts at byte {}", field_.begin);
  }
  field_.number = static_cast<uint32_t>(tag >> 3);
  const auto need = [&](uint64_t size) {
    if (size > end_ - at_) {
      throw Error("truncated or corrupt: field {} at byte {} needs {} bytes, but {} are left",
                  field_.number, field_.begin, size, end_ - at_);
    }
  };
  const auto fixed = [&](size_t size) {
    need(size);
    field_.body = {at_, at_ + size};
    field_.value = 0;
    for (size_t i = 0; i < size; ++i) {
      field_.value |= static_cast<uint64_t>(file_[at_ + i]) << (8 * i);
    }
    at_ += size;
  };
  switch (tag & 7) {
    case 0:
      field_.type = Type::kVarint;
      field_.body.begin = at_;
      field_.value = read_varint(file_, at_, end_);
      field_.body.end = at_;
      return true;
    case 1:
      field_.type = Type::kFixed64;
      fixed(8);
      return true;
    case 2: {
      field_.type = Type::kBytes;
      const uint64_t size = read_varint(file_, at_, end_);
      need(size);
      field_.value = 0;
      field_.body = {at_, at_ + static_cast<size_t>(size)};
      at_ = field_.body.end;
      return true;
    }
    case 5:
      field_.type = Type::kFixed32;
      fixed(4);
      return true;
    default:
      throw Error("corrupt: field {} at byte {} has the wire type {}, which ONNX files don't use",
                  field_.number, field_.begin, tag & 7);
  }
}

std::string_view Reader::text() const {
  return {reinterpret_cast<const char*>(file_.data()) + field_.body.begin, field_.body.size()};
}

Message child_of(Message parent, uint32_t number) {
  switch (parent) {
    case Message::kModel:
      if (number == 7) return Message::kGraph;
      if (number == 20) return Message::kTrainingInfo;
      if (number == 25) return Message::kFunction;
      return Message::kLeaf;
    case Message::kTrainingInfo:
      return number == 1 || number == 2 ? Message::kGraph : Message::kLeaf;
    case Message::kGraph:
      if (number == 1) return Message::kNode;
      if (number == 5) return Message::kTensor;
      if (number == 15) return Message::kSparseTensor;
      return number >= 11 && number <= 13 ? Message::kValueInfo : Message::kLeaf;
    case Message::kNode:
      return number == 5 ? Message::kAttribute : Message::kLeaf;
    case Message::kAttribute:
      if (number == 5 || number == 10) return Message::kTensor;
      if (number == 6 || number == 11) return Message::kGraph;
      if (number == 22 || number == 23) return Message::kSparseTensor;
      return number == 14 || number == 15 ? Message::kType : Message::kLeaf;
    case Message::kSparseTensor:
      return number == 1 || number == 2 ? Message::kTensor : Message::kLeaf;
    case Message::kFunction:
      if (number == 7) return Message::kNode;
      if (number == 11) return Message::kAttribute;
      return number == 12 ? Message::kValueInfo : Message::kLeaf;
    case Message::kValueInfo:
      return number == 2 ? Message::kType : Message::kLeaf;
    case Message::kType:
      if (number == 4 || number == 9) return Message::kSequenceType;
      return number == 5 ? Message::kMapType : Message::kLeaf;
    case Message::kSequenceType:
      return number == 1 ? Message::kType : Message::kLeaf;
    case Message::kMapType:
      return number == 2 ? Message::kType : Message::kLeaf;
    case Message::kTensor:
    case Message::kLeaf:
      return Message::kLeaf;
  }
  return Message::kLeaf;
}

void append_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void append_tag(std::string& out, uint32_t number, Type type) {
  append_varint(out, uint64_t{number} << 3 | static_cast<uint64_t>(type));
}

void append_bytes(std::string& out, uint32_t number, std::string_view bytes) {
  append_tag(out, number, Type::kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

void Rope::add_view(std::string_view bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  // Neighbours in the file become one piece.
  if (!pieces_.empty() && pieces_.back().data() + pieces_.back().size() == bytes.data()) {
    pieces_.back() = {pieces_.back().data(), pieces_.back().size() + bytes.size()};
  } else {
    pieces_.push_back(bytes);
  }
}

void Rope::add(std::string bytes) {
  owned_.push_back(std::make_unique<std::string>(std::move(bytes)));
  add_view(*owned_.back());
}

void Rope::add(Rope&& other) {
  for (std::string_view piece : other.pieces_) add_view(piece);
  for (auto& bytes : other.owned_) owned_.push_back(std::move(bytes));
  other = Rope();
}

std::string Rope::str() const {
  std::string out;
  out.reserve(size_);
  for (std::string_view piece : pieces_) out += piece;
  return out;
}

}  // namespace sardonyx::graph::wire
