// The page of `inspect --format html`: the files of tools/page/ in one piece, with the document
// inside. It asks for nothing else, so it opens from a file, offline.
#pragma once

#include <string>
#include <string_view>

namespace sardonyx::tools {

// `json`: what graph_json.h makes.
std::string html_page(std::string_view json);

}  // namespace sardonyx::tools
