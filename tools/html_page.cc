#include "tools/html_page.h"

namespace sardonyx::tools {

// CMake writes them from tools/page/*: what stands before the document, and what behind it.
extern const char* const kPageHead;
extern const char* const kPageTail;

std::string html_page(std::string_view json) {
  std::string page = kPageHead;
  // Inside a script element only '<' can begin something else; in JSON it stands in strings only.
  for (const char c : json) {
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  return page + kPageTail;
}

}  // namespace sardonyx::tools
