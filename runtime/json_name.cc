#include "runtime/json_name.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::runtime {

namespace {

constexpr std::string_view kHex = "hex:";

bool is_utf8(std::string_view name) {
  try {
    nlohmann::json(name).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

}  // namespace

std::string to_json_name(std::string_view name) {
  // Formats built on JSON keep names with underscores in front for themselves ("__metadata__").
  if (is_utf8(name) && !name.starts_with(kHex) && !name.starts_with("__")) return std::string(name);
  std::string text(kHex);
  for (const char c : name) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string from_json_name(const std::string& name) {
  if (!name.starts_with(kHex)) return name;
  std::string bytes;
  for (size_t i = kHex.size(); i < name.size(); i += 2) {
    uint8_t byte = 0;
    const char* begin = name.data() + i;
    const char* end = begin + std::min<size_t>(2, name.size() - i);
    const auto [stop, error] = std::from_chars(begin, end, byte, 16);
    if (error != std::errc() || stop != begin + 2) {
      throw Error("the name {} has no bytes in hexadecimal behind 'hex:'",
                  support::in_quotes(name));
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace sardonyx::runtime
