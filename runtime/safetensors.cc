#include "runtime/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "graph/support/error.h"
#include "graph/support/mapped_file.h"
#include "graph/support/text.h"
#include "runtime/data/file.h"
#include "runtime/json_name.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

using graph::DType;
using graph::Tensor;
using support::in_quotes;
using Json = nlohmann::json;  // names found in logarithmic time, however many

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // as the format's own library
constexpr const char* kMetadata = "__metadata__";

constexpr std::array<std::pair<DType, const char*>, 12> kTypes = {{{DType::kFloat64, "F64"},
                                                                   {DType::kFloat32, "F32"},
                                                                   {DType::kFloat16, "F16"},
                                                                   {DType::kBFloat16, "BF16"},
                                                                   {DType::kInt64, "I64"},
                                                                   {DType::kInt32, "I32"},
                                                                   {DType::kInt16, "I16"},
                                                                   {DType::kInt8, "I8"},
                                                                   {DType::kUint64, "U64"},
                                                                   {DType::kUint32, "U32"},
                                                                   {DType::kUint16, "U16"},
                                                                   {DType::kUint8, "U8"}}};
constexpr const char* kBool = "BOOL";

std::string type_text(DType dtype) {
  if (dtype == DType::kBool) return kBool;
  for (const auto& [type, text] : kTypes) {
    if (type == dtype) return text;
  }
  CHECK(false, "safetensors has no type for {}", graph::dtype_name(dtype));
}

DType type_from_text(const std::string& text) {
  if (text == kBool) return DType::kBool;
  std::vector<std::string> known = {kBool};
  for (const auto& [type, name] : kTypes) {
    if (text == name) return type;
    known.emplace_back(name);
  }
  throw Error("element type {} is not known; there is {}", in_quotes(text), join(known));
}

}  // namespace

void write_safetensors(const std::vector<TensorInfo>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<Tensor(size_t)>& value,
                       const std::function<void(std::string_view)>& put) {
  // Wide elements first keeps every tensor aligned in the mapped file.
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return graph::dtype_size(tensors[a].dtype) > graph::dtype_size(tensors[b].dtype);
  });
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t offset = 0;
  for (const size_t i : order) {
    const TensorInfo& tensor = tensors[i];
    const auto bytes = array_bytes(tensor.shape, graph::dtype_size(tensor.dtype));
    CHECK(bytes, "the size of {} overflows", tensor.name);
    header[to_json_name(tensor.name)] = {{"dtype", type_text(tensor.dtype)},
                                         {"shape", tensor.shape},
                                         {"data_offsets", {offset, offset + *bytes}}};
    offset += *bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string begin(kLengthBytes, '\0');
  std::memcpy(begin.data(), &length, kLengthBytes);
  put(begin + text);
  for (const size_t i : order) {
    const Tensor tensor = value(i);
    CHECK(tensor.dtype() == tensors[i].dtype && tensor.shape() == tensors[i].shape,
          "{} is {}, announced otherwise", tensors[i].name, tensor.type().str());
    put(as_text(tensor.bytes()));
  }
}

namespace {

// Names that come twice, and nesting that the format doesn't have, are refused while parsing: the
// parser itself would keep the last of equal names and any depth.
Json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> names(2);
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth > 2) throw Error("its header is nested too deeply");
    if (event == Event::object_start && depth == 1) names[1].clear();
    if (event != Event::key) return true;
    const auto name = parsed.get<std::string>();
    if (!names[std::min(depth, 2) - 1].insert(name).second) {
      throw Error("its header names {} twice", in_quotes(name));
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& error) {
    const auto* at = dynamic_cast<const Json::parse_error*>(&error);
    throw Error("its header is not JSON{}", at ? fmt::format(" (byte {})", at->byte) : "");
  }
}

struct Piece {
  TensorInfo info;
  uint64_t begin = 0, end = 0;
};

// A list of whole numbers from 0 to 2^63 - 1.
std::vector<int64_t> numbers(const Json& json, const char* what) {
  std::vector<int64_t> values;
  bool good = json.is_array();
  for (size_t i = 0; good && i < json.size(); ++i) {
    good = json[i].is_number_unsigned() && json[i].get<uint64_t>() <= INT64_MAX;
    if (good) values.push_back(json[i].get<int64_t>());
  }
  if (!good) throw Error("its {} is no list of whole numbers from 0", what);
  return values;
}

Piece parse_piece(const std::string& name, const Json& json, uint64_t data_bytes) {
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets") || !json["dtype"].is_string()) {
    throw Error("its entry is not exactly a dtype, a shape and data_offsets");
  }
  Piece piece;
  piece.info = {from_json_name(name), type_from_text(json["dtype"].get<std::string>()),
                numbers(json["shape"], "shape")};
  const std::vector<int64_t> offsets = numbers(json["data_offsets"], "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw Error("its data_offsets are no begin and end");
  }
  piece.begin = static_cast<uint64_t>(offsets[0]);
  piece.end = static_cast<uint64_t>(offsets[1]);
  if (piece.end > data_bytes) {
    throw Error("its data end at byte {}, the file has {} bytes of data", piece.end, data_bytes);
  }
  const auto bytes = array_bytes(piece.info.shape, graph::dtype_size(piece.info.dtype));
  if (bytes != piece.end - piece.begin) {
    throw Error("{}[{}] takes {} bytes, its data are {}", json["dtype"].get<std::string>(),
                fmt::format("{}", fmt::join(piece.info.shape, ",")),
                bytes ? std::to_string(*bytes) : "too many", piece.end - piece.begin);
  }
  return piece;
}

std::map<std::string, std::string> parse_metadata(const Json& json) {
  std::map<std::string, std::string> metadata;
  if (!json.is_object()) throw Error("its {} is no object", kMetadata);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) throw Error("its {} {} is no text", kMetadata, in_quotes(key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

void check_cover(const std::vector<Piece>& pieces, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const Piece& piece : pieces) {
    if (piece.begin < covered) {
      throw Error("tensor {} begins at byte {} of the data, inside the one before it",
                  in_quotes(piece.info.name), piece.begin);
    }
    if (piece.begin > covered) {
      throw Error("bytes {} to {} of the data belong to no tensor", covered, piece.begin);
    }
    covered = piece.end;
  }
  if (covered < data_bytes) {
    throw Error("bytes {} to {} of the data belong to no tensor", covered, data_bytes);
  }
}

// The header's text, behind its length.
std::string_view header_text(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    throw Error("it is cut short: {} bytes, a safetensors file has at least {}", bytes.size(),
                kLengthBytes + 2);
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLargestHeader) {
    throw Error(
        "its header claims to have {} bytes, at most {} are allowed: is it a safetensors "
        "file?",
        length, kLargestHeader);
  }
  if (length > bytes.size() - kLengthBytes) {
    throw Error("it is cut short: the header has {} bytes, {} are there", length,
                bytes.size() - kLengthBytes);
  }
  const std::string_view text = as_text(bytes.subspan(kLengthBytes, length));
  if (!text.starts_with('{')) throw Error("its header doesn't begin with '{'");
  return text;
}

}  // namespace

Safetensors parse_safetensors(std::span<const std::byte> bytes,
                              std::shared_ptr<const void> keep_alive) {
  const std::string_view text = header_text(bytes);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + text.size());
  const Json header = parse_header(text);
  Safetensors result;
  std::vector<Piece> pieces;
  std::set<std::string> names;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      result.metadata = parse_metadata(entry);
      continue;
    }
    with_context([&, &n = name] { return "reading tensor " + in_quotes(n); },
                 [&, &n = name, &e = entry] {
                   pieces.push_back(parse_piece(n, e, data.size()));
                   if (names.insert(pieces.back().info.name).second) return;
                   throw Error("its name is there twice, once as 'hex:'");
                 });
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(pieces, data.size());
  for (const Piece& piece : pieces) {
    result.tensors.emplace_back(
        piece.info.name,
        Tensor::borrow(piece.info.dtype, piece.info.shape,
                       data.subspan(piece.begin, piece.end - piece.begin), keep_alive));
  }
  return result;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  const auto file = support::MappedFile::open(path);
  return with_context([&] { return "reading " + support::escaped(path.string()); },
                      [&] { return parse_safetensors(file->bytes(), file); });
}

}  // namespace sardonyx::runtime
