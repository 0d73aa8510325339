// sardonyx inspect: the graph of a file, or with --training the graph as it will run. Without
// --training nothing but the file is looked at: no operator, no device.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "graph/dot.h"
#include "graph/onnx_export.h"
#include "graph/onnx_write.h"
#include "graph/print.h"
#include "graph/support/log.h"
#include "graph/support/text.h"
#include "runtime/feed.h"
#include "runtime/single_rows.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/diff_report.h"
#include "tools/flags.h"
#include "tools/graph_json.h"
#include "tools/graph_onnx.h"
#include "tools/html_page.h"
#include "tools/output_files.h"
#include "tools/pass_graphs.h"
#include "tools/tuning_report.h"

namespace sardonyx::tools {

namespace {

struct InspectFlags {
  runtime::Flags shared;
  std::string format, file, diff;  // format "": text
  bool diff_first = false;         // --diff stands in front of the model
  std::optional<int64_t> max_elements;
  runtime::SampleSizes sample;  // empty: as the file says
  bool json = false, training = false, summary = false;
  std::vector<const CLI::Option*> of_training;  // those that say how a training graph is made

  graph::PrintOptions printing() const { return {max_elements.value_or(16), true, false}; }
};

std::string function_text(const graph::Function& function, const graph::PrintOptions& options) {
  return support::printable(fmt::format("\n# function {}::{}", function.domain, function.name)) +
         "\n" + graph::print(*function.body, options);
}

void tell_data_files(const DataFiles& files) {
  for (const auto& file : files) {
    support::notice("the values of initializers are in {}, beside the file", file.string());
  }
}

// "" when it has been written.
std::string file_text(const InspectFlags& flags) {
  const auto model = graph::Model::open(flags.shared.model);
  const graph::ImportedModel imported = graph::import_model(model);
  if (flags.format == "json") return model_json(*model, imported);
  if (flags.format == "html") return html_page(model_json(*model, imported));
  for (const std::string& line : imported.notices) support::notice("{}", line);
  if (flags.format == "dot") return graph::to_dot(*imported.graph);
  if (flags.format == "onnx") {
    tell_data_files(write_imported(*model, imported, flags.file));
    return "";
  }
  const graph::PrintOptions options = flags.printing();
  std::string text = graph::print(*imported.graph, options);
  for (const graph::Function& function : imported.functions) {
    text += function_text(function, options);
  }
  return text;
}

struct Planned {
  std::unique_ptr<runtime::Session> session;
  std::unique_ptr<passes::Plan> plan;
};

Planned make_plan(const InspectFlags& flags, passes::Instruments instruments = {}) {
  runtime::SessionOptions options = runtime::session_options(flags.shared);
  options.instruments = std::move(instruments);
  Planned planned{runtime::Session::open(flags.shared.model, std::move(options)), nullptr};
  runtime::Session& session = *planned.session;
  if (!flags.sample.empty()) session.describe_sample(flags.sample);
  auto setup = runtime::batch_setup(flags.shared, runtime::baked_rows(session));
  runtime::join_singles(session, {setup.batch}, setup.cut);
  planned.plan = session.draft_plan(runtime::largest_micro_batch(setup));
  return planned;
}

std::string training_text(const InspectFlags& flags) {
  const auto [session, plan] = make_plan(flags);
  const runtime::MeasuringTuner* tuner = session->tuner();
  if (flags.format == "json" && flags.summary) return summary_json(session->model(), *plan, tuner);
  if (flags.format == "json" || flags.format == "html") {
    const std::string json = plan_json(session->model(), *plan, session->notices(), tuner);
    return flags.format == "html" ? html_page(json) : json;
  }
  const bool drawn = flags.format == "dot" || flags.format == "onnx";
  if (drawn && tuner != nullptr) support::notice("{}", tuner->summary());
  for (const std::string& line : session->notices()) support::notice("{}", line);
  if (flags.format == "dot") return graph::to_dot(*plan->graph);
  if (flags.format == "onnx") {
    tell_data_files(write_training_graph(session->model(), *plan, flags.file));
    return "";
  }
  std::string text = passes::summary(*plan);
  if (tuner != nullptr) text += tuning_text(*tuner, TuningRows::kAll) + "\n";
  if (flags.summary) return text;
  return text + "\n" + graph::print(*plan->graph, flags.printing()) + "\n" + passes::print(*plan);
}

// No flag is ignored: each stands beside what it is for.
void check_flags(const InspectFlags& flags) {
  if (flags.shared.tune && !flags.training) {
    throw runtime::UsageError(
        "--tune goes with --training: it chooses the kernels of the training plan");
  }
  for (const CLI::Option* option : flags.of_training) {
    if (flags.training || option->count() == 0) continue;
    throw runtime::UsageError(
        "{} goes with --training: without it the graph is shown as it stands in the file",
        option->get_name());
  }
  runtime::check_choice("--format", flags.format, {"text", "json", "dot", "html", "onnx"});
  if (flags.max_elements && flags.format != "text") {
    throw runtime::UsageError("--max-elements is for --format text, not {}", flags.format);
  }
  if (flags.summary && !flags.training) {
    throw runtime::UsageError("--summary is that of a plan: it goes with --training");
  }
  if (flags.summary && flags.max_elements) {
    throw runtime::UsageError("--max-elements is for constants, of which --summary prints none");
  }
  if (flags.summary && flags.format != "text" && flags.format != "json") {
    throw runtime::UsageError("--summary is text or json; --format {} draws the graph",
                              flags.format);
  }
  if (flags.format == "onnx" && flags.file.empty()) {
    throw runtime::UsageError("--format onnx writes a file: name it with -o FILE");
  }
}

void check_diff_flags(const InspectFlags& flags) {
  if (flags.diff.empty()) return;
  if (flags.format != "text" && flags.format != "json") {
    throw runtime::UsageError("--diff is text or json, not {}", flags.format);
  }
  if (flags.summary) throw runtime::UsageError("--diff and --summary: one of them");
  if (flags.max_elements) {
    throw runtime::UsageError("--max-elements is for the text of a graph, not for --diff");
  }
}

void emit(const InspectFlags& flags, const std::string& text) {
  if (flags.format == "onnx") return;  // it is there already
  if (flags.file.empty()) {
    fmt::print("{}", text);
  } else {
    graph::write_file_atomically(flags.file, text);
  }
}

// 0: they are the same, 1: they aren't, as diff has it.
int show_difference(const InspectFlags& flags) {
  std::string a = flags.shared.model, b = flags.diff;
  if (flags.diff_first && !flags.training) std::swap(a, b);
  GraphDiff found;
  if (flags.training) {
    PassGraphs graphs(flags.diff);
    const Planned planned = make_plan(flags, graphs.instruments());
    graphs.begin_and_end(planned.session->imported(), *planned.plan->graph);
    std::tie(a, b) = graphs.names();
    found = diff(graphs.a(), graphs.b());
  } else {
    const auto model_a = graph::Model::open(a), model_b = graph::Model::open(b);
    found = diff(*model_a, graph::import_model(model_a), *model_b, graph::import_model(model_b));
  }
  emit(flags, flags.format == "json" ? diff_json(found, a, b) : diff_text(found, a, b));
  return found.equal() ? 0 : 1;
}

// --json is another spelling of --format json.
void settle_format(InspectFlags& flags) {
  if (flags.json && !flags.format.empty() && flags.format != "json") {
    throw runtime::UsageError("--json is --format json, and --format {} was given, too",
                              support::escaped(flags.format));
  }
  if (flags.format.empty()) flags.format = flags.json ? "json" : "text";
}

int inspect(InspectFlags& flags) {
  settle_format(flags);
  check_flags(flags);
  check_diff_flags(flags);
  runtime::session_options(flags.shared);
  std::vector<OutputFile> outputs = {{"-o", flags.file}};
  if (flags.format == "onnx") {
    outputs.push_back({"-o (its data)", graph::data_file_of(flags.file).string()});
  }
  check_outputs(outputs, flags.shared);
  if (!flags.diff.empty()) return show_difference(flags);
  emit(flags, flags.training ? training_text(flags) : file_text(flags));
  return 0;
}

}  // namespace

Action setup_inspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  add_model_argument(app, flags->shared);
  app.add_flag("--training", flags->training, "the training graph and its plan");
  app.add_flag("--summary", flags->summary, "with --training: steps, memory and savings only");
  app.add_option("--format", flags->format,
                 "text (default), json, dot, html: a page to look at, or onnx: a file for viewers");
  app.add_flag("--json", flags->json, "--format json");
  app.add_option(
         "--diff", flags->diff,
         "what differs between two files, as `A --diff B` or `--diff A B`; with --training: "
         "between the graphs after two passes, A,B")
      ->type_name("FILE|A,B");
  app.parse_complete_callback([&app, flags] {
    const CLI::Option* diff = app.get_option("--diff");
    const auto first = std::ranges::find_if(app.parse_order(), [&](const CLI::Option* option) {
      return option == diff || option->get_positional();
    });
    flags->diff_first = first != app.parse_order().end() && *first == diff;
  });
  app.add_option("-o", flags->file, "a file instead of stdout");
  add_whole(app, "--max-elements", flags->max_elements, -1, INT64_MAX,
            "larger constants print as {...}; -1: all print (default 16)");
  add_tune_flag(app, flags->shared);
  const size_t own = app.get_options().size();
  add_sample_flag(app, flags->sample);
  add_graph_flags(app, flags->shared);
  const std::vector<CLI::Option*> options = app.get_options();
  flags->of_training.assign(options.begin() + static_cast<ptrdiff_t>(own), options.end());
  add_example(app,
              "sardonyx inspect lenet.onnx --training --batch 256 --format html -o lenet.html");
  return [flags] { return inspect(*flags); };
}

}  // namespace sardonyx::tools
