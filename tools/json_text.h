// JSON as commands print it: one line of UTF-8 that a terminal simply shows, whatever the names in
// the user's file are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace sardonyx::tools {

// Without a line end. Bytes that aren't UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace sardonyx::tools
