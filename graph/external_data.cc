#include "graph/external_data.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using support::escaped;
using support::in_quotes;

std::optional<uint64_t> read_number(const TensorMessage& tensor, const char* key,
                                    const std::string& location) {
  const std::string* text = tensor.external_entry(key);
  if (text == nullptr) return std::nullopt;
  uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, problem] = std::from_chars(text->data(), end, value);
  if (text->empty() || problem != std::errc() || stop != end) {
    throw Error("{}: external data in {} has {} {}, expected a number from 0 to 2^64-1",
                tensor_label(tensor), in_quotes(location), key, in_quotes(*text));
  }
  return value;
}

void check_stays_below(const TensorMessage& tensor, const std::string& location) {
  const auto refuse = [&](const char* why) {
    throw Error("{}: external data location {} {}; expected a path below the model's folder",
                tensor_label(tensor), in_quotes(location), why);
  };
  if (location.find('\0') != std::string::npos) refuse("holds a zero byte");
  const fs::path path(location);
  if (path.is_absolute()) refuse("is an absolute path");
  int depth = 0;
  for (const fs::path& part : path) {
    if (part == "..") --depth;
    if (part != ".." && part != "." && !part.empty()) ++depth;
    if (depth < 0) refuse("leads outside the model's folder (..)");
  }
}

bool is_below(const fs::path& path, const fs::path& folder) {
  auto at = path.begin();
  for (const fs::path& part : folder) {
    if (part.empty()) continue;  // a trailing slash
    if (at == path.end() || *at != part) return false;
    ++at;
  }
  return true;
}

fs::path resolve(const TensorMessage& tensor, const std::string& location, const fs::path& folder) {
  const fs::path wanted = folder / location;
  const auto fail = [&](const std::string& why) {
    throw Error("{}: external data file {} {}", tensor_label(tensor), in_quotes(wanted.string()),
                why);
  };
  std::error_code problem;
  const fs::path file = fs::canonical(wanted, problem);
  if (problem == std::errc::no_such_file_or_directory) {
    fail("does not exist; it belongs beside the model file");
  }
  if (problem) fail("cannot be opened: " + problem.message());
  const fs::path root = fs::canonical(folder, problem);
  if (problem) fail("cannot be opened: " + problem.message());
  if (!is_below(file, root)) {
    fail("is a link that leads outside the model's folder, to " + in_quotes(file.string()) +
         "; copy the file there instead");
  }
  if (fs::is_directory(file, problem)) fail("is a directory, expected a file");
  if (!fs::is_regular_file(file, problem)) fail("is not a regular file");
  return file;
}

}  // namespace

ExternalRange external_range(const TensorMessage& tensor, const fs::path& folder) {
  const std::string label = tensor_label(tensor);
  const int foreign = foreign_bits(tensor.data_type);
  const DType dtype = foreign > 0 ? DType::kUint8 : checked_dtype(tensor);
  const uint64_t bits = foreign > 0 ? foreign : 8 * dtype_size(dtype);
  const auto elements = static_cast<uint64_t>(checked_elements(tensor));
  if (dtype == DType::kString) throw Error("{}: strings cannot be external data", label);
  const std::string* location = tensor.external_entry("location");
  if (location == nullptr || location->empty()) {
    throw Error("{}: is external data without a location", label);
  }
  check_stays_below(tensor, *location);

  ExternalRange range;
  range.location = *location;
  range.offset = read_number(tensor, "offset", *location).value_or(0);
  const std::optional<uint64_t> length = read_number(tensor, "length", *location);
  const std::string needs =
      foreign > 0 ? fmt::format("shape {} of {} bits", shape_str(tensor.dims), bits)
                  : fmt::format("shape {} of {}", shape_str(tensor.dims), dtype_name(dtype));
  uint64_t all_bits = 0;
  if (__builtin_mul_overflow(elements, bits, &all_bits)) {
    throw Error("{}: {} needs more than 2^64 bits", label, needs);
  }
  range.size = all_bits / 8 + (all_bits % 8 != 0 ? 1 : 0);
  if (length && *length != range.size) {
    throw Error("{}: external data in {} has length {}, but {} needs {} bytes", label,
                in_quotes(*location), *length, needs, range.size);
  }
  uint64_t end = 0;
  if (__builtin_add_overflow(range.offset, range.size, &end)) {
    throw Error("{}: external data in {}: offset {} plus {} bytes overflows", label,
                in_quotes(*location), range.offset, range.size);
  }
  range.file = resolve(tensor, *location, folder);
  std::error_code problem;
  const uint64_t size = fs::file_size(range.file, problem);
  if (problem)
    throw Error("{}: external data file {}: {}", label, in_quotes(*location), problem.message());
  if (end > size) {
    throw Error("{}: needs {} bytes at offset {} of external data file {}, which holds {} bytes{}",
                label, range.size, range.offset, in_quotes(*location), size,
                range.offset == 0 ? "; the file is truncated" : "");
  }
  return range;
}

}  // namespace sardonyx::graph
