#include "tests/support/paths.h"

namespace sardonyx::tests {

std::filesystem::path source_folder() { return SARDONYX_SOURCE_DIR; }
std::filesystem::path build_folder() { return SARDONYX_BUILD_DIR; }

}  // namespace sardonyx::tests
