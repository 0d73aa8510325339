// The protobuf wire format of ONNX files, read in place: tags, varints, lengths, and which field of
// which message holds another message.
//
// Every length is checked against the bytes that are there before it is used; messages nest at most
// 100 deep. It exists beside the protobuf library because it skips payloads without touching them,
// and because saving edits a file's bytes where they stand (Rope), which a parse and re-serialise
// would not keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::graph::wire {

inline constexpr int kDeepestNesting = 100;

enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A range of bytes of the file.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  friend bool operator==(const Span&, const Span&) = default;
};

struct Field {
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t value = 0;  // varint and fixed types
  size_t begin = 0;    // of the tag
  Span body;           // kBytes: the content without its length; else the bytes of the value

  size_t end() const { return body.end; }
  bool is(uint32_t n, Type t) const { return number == n && type == t; }
};

// The fields of one message, in file order. Throws Error with the byte position on anything
// malformed.
class Reader {
 public:
  Reader(std::span<const std::byte> file, Span message)
      : file_(file), at_(message.begin), end_(message.end) {}
  explicit Reader(std::span<const std::byte> file) : Reader(file, {0, file.size()}) {}
  bool next();
  const Field& field() const { return field_; }
  std::string_view text() const;  // body of the current field

 private:
  std::span<const std::byte> file_;
  size_t at_;
  size_t end_;
  Field field_;
};

// Reads one varint and moves `at` behind it. Throws Error when it is cut short or longer than 64
// bits.
uint64_t read_varint(std::span<const std::byte> file, size_t& at, size_t end);

// The messages of onnx.proto in which tensors can occur, or which can nest.
enum class Message : uint8_t {
  kLeaf,  // holds nothing of interest
  kModel,
  kTrainingInfo,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kFunction,
  kValueInfo,
  kType,
  kSequenceType,
  kMapType,
};

// The message that stands in field `number` of `parent`; kLeaf for plain values and small messages.
Message child_of(Message parent, uint32_t number);

// Field numbers that this library reads or writes.
namespace field {
inline constexpr uint32_t kModelGraph = 7, kModelFunctions = 25;
inline constexpr uint32_t kGraphNode = 1, kGraphInitializer = 5, kGraphValueInfo = 13;
inline constexpr uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOpType = 4,
                          kNodeAttribute = 5, kNodeDomain = 7, kNodeOverload = 8;
inline constexpr uint32_t kAttributeName = 1, kAttributeF = 2, kAttributeI = 3, kAttributeT = 5,
                          kAttributeG = 6, kAttributeFloats = 7, kAttributeType = 20,
                          kAttributeReference = 21;
inline constexpr uint32_t kTensorDims = 1, kTensorDataType = 2, kTensorSegment = 3,
                          kTensorFloatData = 4, kTensorInt32Data = 5, kTensorStringData = 6,
                          kTensorInt64Data = 7, kTensorName = 8, kTensorRawData = 9,
                          kTensorDoubleData = 10, kTensorUint64Data = 11, kTensorExternalData = 13,
                          kTensorDataLocation = 14;
inline constexpr uint32_t kFunctionName = 1, kFunctionNode = 7, kFunctionDomain = 10,
                          kFunctionAttributeProto = 11, kFunctionValueInfo = 12,
                          kFunctionOverload = 13;
inline constexpr uint32_t kValueInfoName = 1;
}  // namespace field

void append_varint(std::string& out, uint64_t value);
void append_tag(std::string& out, uint32_t number, Type type);
// Tag, length and bytes.
void append_bytes(std::string& out, uint32_t number, std::string_view bytes);

// A byte string made of pieces of the original file and of new bytes, for writing without a copy in
// memory.
class Rope {
 public:
  void add_view(std::string_view bytes);  // must outlive the rope
  void add(std::string bytes);
  void add(Rope&& other);
  size_t size() const { return size_; }
  const std::vector<std::string_view>& pieces() const { return pieces_; }
  std::string str() const;

 private:
  std::vector<std::string_view> pieces_;
  std::vector<std::unique_ptr<std::string>> owned_;  // pointers: views into them survive a move
  size_t size_ = 0;
};

}  // namespace sardonyx::graph::wire
