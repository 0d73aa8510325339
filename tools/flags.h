// Declares the flags that several commands share; what they mean is runtime/config.h.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/config.h"
#include "runtime/open_sizes.h"

namespace sardonyx::tools {

// A count of anything: more is a slip of the finger.
inline constexpr int64_t kMostCount = 1'000'000'000;
inline constexpr int64_t kMostThreads = 1024;

// Throws UsageError unless the text is a whole number in [least, most].
int64_t whole_number(const char* flag, const std::string& text, int64_t least, int64_t most);

// Throws UsageError unless the text is a number.
double real_number(const char* flag, const std::string& text);

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
void add_experiment_flags(CLI::App& app, runtime::Flags& flags);
void add_trace_flag(CLI::App& app, runtime::Flags& flags);  // among the file flags of train
void add_tune_flag(CLI::App& app, runtime::Flags& flags);   // among the run flags of train
void add_json_flag(CLI::App& app, runtime::Flags& flags);
// --input: sizes of one sample, by input; stays empty where the file says them.
CLI::Option* add_sample_flag(CLI::App& app, runtime::SampleSizes& sizes);

// Numbers, strictly: "0x10", "1e3" or what is out of range is a usage error that says so. `T`:
// int64_t, int or std::optional<int64_t>.
template <class T>
CLI::Option* add_whole(CLI::App& app, const char* name, T& target, int64_t least, int64_t most,
                       const char* help) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &target, least, most](const std::string& text) {
            target = static_cast<T>(whole_number(name, text, least, most));
          },
          help)
      ->type_name("N");
}
// `T`: double or std::optional<double>.
template <class T>
CLI::Option* add_real(CLI::App& app, const char* name, T& target, const char* help) {
  return app
      .add_option_function<std::string>(
          name, [name, &target](const std::string& text) { target = real_number(name, text); },
          help)
      ->type_name("X");
}
// At least one byte, with K, M, G or T if wanted (runtime::parse_bytes), or none: not set.
CLI::Option* add_bytes(CLI::App& app, const char* name, std::optional<int64_t>& bytes,
                       const char* help);
CLI::Option* add_seed(CLI::App& app, uint64_t& seed, const char* help);

// What check, inspect and bench take beside the model: batch, device, loss, optimizer, parameters.
void add_graph_flags(CLI::App& app, runtime::Flags& flags);

void add_example(CLI::App& app, const std::string& text);

}  // namespace sardonyx::tools
