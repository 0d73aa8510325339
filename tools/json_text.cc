#include "tools/json_text.h"

#include <nlohmann/json.hpp>

#include "graph/support/text.h"

namespace sardonyx::tools {

std::string json_text(const nlohmann::ordered_json& json) {
  using Json = nlohmann::ordered_json;
  return support::printable_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace sardonyx::tools
