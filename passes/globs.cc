#include "passes/globs.h"

#include <algorithm>

#include "graph/names.h"
#include "graph/support/error.h"

namespace sardonyx::passes {

void require_match(const std::string& flag, const std::string& glob,
                   const std::vector<std::string>& names, const std::string& what) {
  const auto matches = [&](const std::string& name) { return graph::glob_match(glob, name); };
  if (std::ranges::any_of(names, matches)) return;
  std::string hint, plain = glob;
  std::erase_if(plain, [](char c) { return c == '*' || c == '?'; });
  for (const std::string& near : graph::near_names(plain, names)) {
    hint += (hint.empty() ? "; near names: " : ", ") + near;
  }
  throw Error("{} '{}' matches no {}{}", flag, glob, what, hint);
}

}  // namespace sardonyx::passes
