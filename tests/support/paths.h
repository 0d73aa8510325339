// Where the source tree and the build stand. One file knows the paths, so that every other object
// of the tests is the same in every checkout and comes out of the compiler cache.
#pragma once

#include <filesystem>

namespace sardonyx::tests {

std::filesystem::path source_folder();
std::filesystem::path build_folder();

}  // namespace sardonyx::tests
