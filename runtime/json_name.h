// Names as JSON can hold them. A name from an ONNX file may be any bytes, JSON only takes UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace sardonyx::runtime {

// The name itself, or "hex:" and its bytes when it isn't UTF-8 or begins with "hex:" or "__".
std::string to_json_name(std::string_view name);
// The inverse. Throws Error when "hex:" isn't followed by bytes.
std::string from_json_name(const std::string& name);

}  // namespace sardonyx::runtime
