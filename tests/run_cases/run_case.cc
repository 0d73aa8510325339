// What a child does: files that the case wants made, limits, then its kind.
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/run_cases/kinds.h"

namespace sardonyx::cases {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

void make_files(const json& steps, const fs::path& folder) {
  for (const json& step : steps) {
    if (step.contains("write")) {
      const std::string bytes(step.at("bytes").get<size_t>(), '\0');
      std::ofstream(folder / step["write"].get<std::string>(), std::ios::binary) << bytes;
    } else if (step.contains("symlink")) {
      fs::create_symlink(step.at("to").get<std::string>(),
                         folder / step["symlink"].get<std::string>());
    } else {
      throw Mismatch("run_cases knows no preparation {}", step.dump());
    }
  }
}

void generate(const json& recipe, const fs::path& scripts, const fs::path& folder) {
  std::string command = fmt::format("python3 '{}'", (scripts / recipe.at("script")).string());
  for (const json& argument : recipe.at("args")) {
    command += fmt::format(" '{}'", argument.get<std::string>());
  }
  command += fmt::format(" '{}'", (folder / recipe.at("output")).string());
  if (std::system(command.c_str()) != 0) throw Mismatch("'{}' failed", command);
}

void (*kind_of(const std::string& name))(Task&) {
  static const std::map<std::string, void (*)(Task&)> kinds = {
      {"forward", run_forward}, {"gradient", run_gradient},   {"train", run_train},
      {"error", run_error},     {"inspect", run_inspect},     {"data", run_data},
      {"fixture", run_fixture}, {"node_test", run_node_test}, {"node_gradient", run_node_gradient},
      {"planted", run_planted},
  };
  const auto it = kinds.find(name);
  if (it == kinds.end()) throw Mismatch("run_cases knows no kind '{}'", name);
  return it->second;
}

}  // namespace

Verdict run_case(const Case& which, const fs::path& scratch, const Variant& variant,
                 const std::function<void()>& begin) {
  const bool described = fs::exists(which.folder / "case.json");
  const json spec = described ? read_json(which.folder / "case.json") : json::object();
  fs::create_directories(scratch);
  fs::path folder = which.folder;
  const bool copies = spec.contains("prepare") || spec.contains("generate") ||
                      (spec.contains("facts") && spec["facts"].contains("save"));
  if (copies) {
    folder = scratch / "case";
    fs::copy(which.folder, folder, fs::copy_options::recursive);
    make_files(spec.value("prepare", json::array()), folder);
    if (spec.contains("generate")) {
      generate(spec["generate"], which.folder.parent_path() / "make", folder);
    }
  }
  begin();
  // Relative paths of the case must not depend on where the program runs.
  if (spec.contains("run_from")) fs::current_path(scratch);
  Task task{which, folder, scratch, spec, variant, {}};
  Verdict verdict;
  try {
    kind_of(which.kind)(task);
  } catch (const NothingToCheck& nothing) {
    verdict.status = Status::kSkip;
    verdict.reason = nothing.what();
  } catch (const Mismatch& mismatch) {
    verdict.status = Status::kFail;
    verdict.reason = mismatch.what();
  } catch (const Error& error) {
    verdict.status = Status::kFail;
    verdict.reason = fmt::format("refused: {}", error.what());
  }
  verdict.notes = std::move(task.notes);
  verdict.points = task.points;
  return verdict;
}

}  // namespace sardonyx::cases
