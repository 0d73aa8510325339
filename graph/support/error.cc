#include "graph/support/error.h"

#include <cstring>

namespace sardonyx::support {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  const char* base = std::strrchr(file, '/');
  throw InternalError(fmt::format("internal error: CHECK({}) failed at {}:{}{}{}", expression,
                                  base != nullptr ? base + 1 : file, line,
                                  message.empty() ? "" : ": ", message));
}

}  // namespace sardonyx::support
