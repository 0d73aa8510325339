// The drawing behind plot.h, for plot.cc only.
#pragma once

#include <string>

namespace sardonyx::runtime {

// A page that shows the picture in the middle of the window.
std::string svg_page(const std::string& title, const std::string& svg);
// Text for between tags and in attributes.
std::string xml_escaped(const std::string& text);

}  // namespace sardonyx::runtime
