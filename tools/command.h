// What a subcommand is to main.cc: a name, a line of help, and a function that declares its flags
// and says what to do with them. A command's file is only asked when its name was typed, so that
// the start costs nothing for the others.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace sardonyx::tools {

// Runs the command after its flags were parsed; returns the exit code. Throws what the layers
// throw.
using Action = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;
  Action (*setup)(CLI::App& app);
};

Action setup_bench(CLI::App& app);
Action setup_check(CLI::App& app);
Action setup_env(CLI::App& app);
Action setup_eval(CLI::App& app);
Action setup_inspect(CLI::App& app);
Action setup_model(CLI::App& app);
Action setup_ops(CLI::App& app);
Action setup_opt(CLI::App& app);
Action setup_train(CLI::App& app);

}  // namespace sardonyx::tools
