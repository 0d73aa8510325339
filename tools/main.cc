// The program `sardonyx`: picks the command, turns exceptions into exit codes.
//
//   0 done   1 the user's input is wrong   2 usage   3 internal error   130, 143 stopped by a
//   signal   141 nobody read standard output to its end
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>

#include "graph/support/text.h"
#include "runtime/text.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/flag_names.h"
#include "tools/json_text.h"
#include "tools/streams.h"

namespace sardonyx::tools {
namespace {

constexpr Command kCommands[] = {
    {"train", "trains a model and saves it", setup_train},
    {"eval", "loss and accuracy of a model on data", setup_eval},
    {"check", "can this model be trained, and what will be", setup_check},
    {"inspect", "shows a model's graph, or the training graph as it will run", setup_inspect},
    {"model", "writes a built-in model", setup_model},
    {"bench", "times training steps on synthetic data", setup_bench},
    {"opt", "runs named passes on a graph and prints it", setup_opt},
    {"ops", "lists the operators: versions, gradients, kernels", setup_ops},
    {"env", "versions, devices and environment switches", setup_env},
};

// 141: as if SIGPIPE had ended the program (128 + 13), which others in a pipeline expect.
enum Exit : int { kDone = 0, kInput = 1, kUsage = 2, kInternal = 3, kReaderGone = 141 };

std::string overview() {
  std::string text = "sardonyx trains ONNX models.\n\nusage: sardonyx COMMAND [FLAGS]\n\n";
  for (const Command& command : kCommands) {
    text += fmt::format("  {:<9} {}\n", command.name, command.summary);
  }
  return text +
         "\n`sardonyx COMMAND --help` explains the flags of one. A first run:\n"
         "  sardonyx model lenet -o lenet.onnx\n"
         "  sardonyx train lenet.onnx --data fashion-mnist --epochs 5 --lr 0.1 --save "
         "trained.onnx\n";
}

const Command* find_command(const std::string& name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

// Whether stdout is to hold JSON only; known before the flags are parsed, since that may fail, too.
bool json_is_wanted = false;

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], before = argv[i - 1];
    if (word == "--json" || word == "--format=json") return true;
    if (word == "json" && before == "--format") return true;
  }
  return false;
}

// The reason is for people; scripts that asked for JSON get it as their last document, too.
int fail(Exit code, const std::string& message, const std::string& text) {
  put(stderr, support::printable(text + "\n"));
  if (json_is_wanted) {
    const nlohmann::ordered_json json = {{"error", message}, {"exit_code", static_cast<int>(code)}};
    put(stdout, json_text(json) + "\n");
  }
  return code;
}

int fail(Exit code, const std::string& message) { return fail(code, message, "error: " + message); }

int usage_failure(const Command& command, const std::string& message) {
  return fail(kUsage, fmt::format("{}\n  see `sardonyx {} --help`", message, command.name));
}

// CLI11 names what is left over; a flag among it gets near names.
std::string explain_extras(const CLI::App& app, const std::string& fallback) {
  for (const std::string& word : app.remaining()) {
    if (!word.starts_with("-")) return fmt::format("'{}' is one argument too many", word);
    std::vector<std::string> flags;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    }
    const std::string flag = word.substr(0, word.find('='));
    return fmt::format("there is no flag {}{}", flag, flag_hint(flag, flags));
  }
  return fallback;
}

// "Could not convert: --lr = abc" in words.
std::string explain_conversion(const std::string& text) {
  const size_t colon = text.find(": "), equals = text.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos) return text;
  return fmt::format("{} '{}': expected a number", text.substr(colon + 2, equals - colon - 2),
                     text.substr(equals + 3));
}

// "--lr: 1 required X missing" in words.
std::string explain_missing(const std::string& text) {
  const size_t colon = text.find(": ");
  if (colon == std::string::npos || !text.ends_with(" missing")) return text;
  return fmt::format("{}: expected a value behind it", text.substr(0, colon));
}

// No value is the empty text: a shell variable that isn't set.
void check_empty(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], before = argv[i - 1];
    if (word.starts_with("--") && word.ends_with("=")) {
      throw runtime::UsageError("{} '': expected a value", word.substr(0, word.size() - 1));
    }
    if (!word.empty()) continue;
    if (i > 1 && before.starts_with("-")) {
      throw runtime::UsageError("{} '': expected a value", before);
    }
    throw runtime::UsageError("argument {} is empty", i);
  }
}

int run(const Command& command, int argc, char** argv) {
  CLI::App app(command.summary, std::string("sardonyx ") + command.name);
  app.get_formatter()->column_width(34);
  try {
    const Action action = command.setup(app);
    check_empty(argc, argv);
    app.parse(argc, argv);
    return action();
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return kDone;
  } catch (const CLI::ExtrasError& error) {
    return usage_failure(command, explain_extras(app, error.what()));
  } catch (const CLI::ConversionError& error) {
    return usage_failure(command, explain_conversion(error.what()));
  } catch (const CLI::ArgumentMismatch& error) {
    return usage_failure(command, explain_missing(error.what()));
  } catch (const CLI::ParseError& error) {
    return usage_failure(command, error.what());
  } catch (const runtime::UsageError& error) {
    return usage_failure(command, error.what());
  }
}

int dispatch(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", overview());
    return kDone;
  }
  if (name == "--version") {
    fmt::print("sardonyx {}\n", SARDONYX_VERSION);
    return kDone;
  }
  if (name.empty()) {
    put(stderr, overview());
    return kUsage;
  }
  if (const Command* command = find_command(name)) return run(*command, argc - 1, argv + 1);
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return fail(kUsage, fmt::format("there is no command '{}'{}; there is {}", name,
                                  runtime::did_you_mean(name, names), runtime::join(names)));
}

int guarded(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const Error& error) {
    return fail(kInput, error.what());
  } catch (const InternalError& error) {
    return fail(kInternal, error.what(),
                fmt::format("{}\n  this is a fault of Sardonyx; please report it", error.what()));
  } catch (const std::bad_alloc&) {
    return fail(kInput, "out of memory; a smaller --batch or --micro-batch needs less");
  } catch (const std::length_error&) {
    return fail(kInput, "a size is too large for memory; a smaller --batch needs less");
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(kInput,
                fmt::format("{}: cannot be read: {}", support::escaped(error.path1().string()),
                            error.code().message()));
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return kDone;  // close_stdout() tells it
    return fail(kInput, error.what());
  } catch (const std::exception& error) {
    return fail(kInternal, error.what(), fmt::format("internal error: {}", error.what()));
  }
}

// Whatever was printed has arrived, or the exit code says that it hasn't.
int close_stdout(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return code;
  // Who reads the first line only, as `head` does, knows that there is more.
  if (reader_gone()) return code == kDone ? kReaderGone : code;
  const int failed = fail(kInput, "standard output can't be written: the disk may be full");
  return code == kDone ? failed : code;
}

}  // namespace

int program(int argc, char** argv) {
  // A full disk, a limit on file sizes or a reader that left shall be an error of write(), not the
  // end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  open_standard_streams();
  json_is_wanted = asks_for_json(argc, argv);
  return close_stdout(guarded(argc, argv));
}

}  // namespace sardonyx::tools

int main(int argc, char** argv) { return sardonyx::tools::program(argc, argv); }
