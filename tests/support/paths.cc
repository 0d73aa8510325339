#include "tests/support/paths.h"

#include <cstdlib>

namespace sardonyx::tests {

std::filesystem::path source_folder() {
  // Of programs that were built elsewhere.
  if (const char* folder = std::getenv("SARDONYX_SOURCE")) return folder;
  return SARDONYX_SOURCE_DIR;
}
std::filesystem::path build_folder() { return SARDONYX_BUILD_DIR; }

}  // namespace sardonyx::tests
