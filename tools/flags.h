// Declares the flags that several commands share; what they mean is runtime/config.h.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/config.h"

namespace sardonyx::tools {

// The model file, as first positional argument.
void add_model_argument(CLI::App& app, runtime::Flags& flags);

// Each also declares the flags of its group that are known but not built.
void add_data_flags(CLI::App& app, runtime::Flags& flags);
void add_batch_flags(CLI::App& app, runtime::Flags& flags);
void add_device_flags(CLI::App& app, runtime::Flags& flags);
void add_loss_flags(CLI::App& app, runtime::Flags& flags);
void add_optimizer_flags(CLI::App& app, runtime::Flags& flags);
void add_parameter_flags(CLI::App& app, runtime::Flags& flags);
void add_run_flags(CLI::App& app, runtime::Flags& flags);
void add_length_flags(CLI::App& app, runtime::Flags& flags);
void add_file_flags(CLI::App& app, runtime::Flags& flags);
void add_json_flag(CLI::App& app, runtime::Flags& flags);

// What check, inspect and bench take beside the model: batch, device, loss, optimizer, parameters.
void add_graph_flags(CLI::App& app, runtime::Flags& flags);

void add_example(CLI::App& app, const std::string& text);

}  // namespace sardonyx::tools
