// What the help and docs/commands.md promise: examples run, and the keys of every JSON stand in the
// tables.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace sardonyx::tools {
namespace {

using Json = nlohmann::json;
using Keys = std::set<std::string>;
using testing::Outcome;
using testing::Program;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// The commands that stand behind "Example:", without "sardonyx", as Program takes them.
std::vector<std::string> examples(const std::string& help) {
  std::string text = help.substr(help.find("Example:\n") + 9);
  replace_all(text, "\\\n", "");
  replace_all(text, "'", "");
  std::istringstream lines(text);
  std::vector<std::string> commands;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find("sardonyx ");
    if (begin != std::string::npos) commands.push_back(line.substr(begin + 9));
  }
  return commands;
}

// With data that need no files, and without steps.
std::string tried(std::string command) {
  for (const char* set : {"fashion-mnist", "cifar10"}) replace_all(command, set, "synthetic:64");
  while (command.find("  ") != std::string::npos) replace_all(command, "  ", " ");
  if (command.starts_with("train ")) command += " --dry-run --summary";
  return command;
}

TEST(Docs, the_example_of_every_command_works) {
  const Program program;
  const auto make = [&](const std::string& arguments) {
    const Outcome made = program.run("model " + arguments);
    ASSERT_EQ(made.code, 0) << made.err;
  };
  make("lenet --init kaiming -o trained.onnx");
  make("resnet18 --width 8 --input 3x32x32 --init kaiming -o resnet.onnx");
  make("resnet18 --width 8 --input 3x32x32 --init kaiming -o net.onnx");
  for (const char* name :
       {"model", "train", "eval", "check", "inspect", "bench", "opt", "ops", "env"}) {
    const std::vector<std::string> commands =
        examples(program.run(std::string(name) + " --help").out);
    EXPECT_FALSE(commands.empty()) << name;
    for (const std::string& command : commands) {
      const Outcome outcome = program.run(tried(command));
      EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.err;
    }
  }
}

// In backticks in the first column of the table whose head names the command.
Keys documented(const std::string& command) {
  std::istringstream page(testing::read_file(tests::source_folder() / "docs/commands.md"));
  Keys keys;
  bool here = false;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| ")) here = here && line.starts_with("|");
    if (line.starts_with("| `" + command)) {
      here = true;
      continue;
    }
    if (!here || !line.starts_with("| `")) continue;
    std::istringstream column(line.substr(0, line.find(" | ", 2)));
    std::string part;
    for (bool inside = false; std::getline(column, part, '`'); inside = !inside) {
      if (inside) keys.insert(part);
    }
  }
  return keys;
}

// `absent`: what is only there at times.
void expect_documented(const std::string& command, const Json& json, const Keys& absent) {
  Keys found = absent;
  for (const auto& [key, value] : json.items()) found.insert(key);
  EXPECT_EQ(documented(command), found) << command;
}

TEST(Docs, the_keys_of_env_ops_eval_and_bench_stand_in_the_tables) {
  const Program program;
  ASSERT_EQ(program.run("model lenet --input 1x16x16 --init kaiming -o lenet.onnx").code, 0);
  const auto last = [&](const std::string& arguments) {
    const std::string out = program.run(arguments).out;
    const size_t before = out.find_last_of('\n', out.size() - 2);
    return Json::parse(before == std::string::npos || out[0] == '[' ? out : out.substr(before + 1));
  };
  expect_documented("env --json", Json::parse(program.run("env --json").out), {});
  expect_documented("ops --json", last("ops Conv --json")[0], {});
  expect_documented("eval --json", last("eval lenet.onnx --data synthetic:64 --json"), {});
  expect_documented("bench --json", last("bench lenet.onnx --batch 8 --steps 1 --json"),
                    {"communication_ms", "hidden_share", "communication_adding_ms",
                     "communication_blocked_ms", "tuning"});
}

}  // namespace
}  // namespace sardonyx::tools
