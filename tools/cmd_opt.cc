// sardonyx opt: runs named passes, and stages of the lowering behind them, and prints the graph (at
// the end of the stages the plan). Reads an ONNX file or the text form; a
// golden file of the tests works too: its head names the passes, what stands below "-----" is left
// alone.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "graph/onnx_import.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "passes/lower.h"
#include "runtime/text.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/flags.h"

namespace sardonyx::tools {

namespace {

struct OptFlags {
  runtime::Flags shared;
  std::string passes, mode = "train";
  int64_t max_elements = 16;
  bool all_dumps = false, list = false;
};

struct Input {
  std::unique_ptr<graph::Graph> graph;
  std::vector<graph::Function> functions;
  std::string passes;  // of a golden's head
};

Input read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error("{}: can't be read", path);
  Input input;
  std::string text;
  for (std::string line; std::getline(file, line) && line != "-----";) {
    if (line.starts_with("# passes: ")) input.passes = line.substr(10);
    text += line + "\n";
  }
  input.graph = with_context([&] { return "reading " + path; }, [&] { return graph::parse(text); });
  return input;
}

Input read(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".txt") return read_text(path);
  graph::ImportedModel model = graph::import_model(graph::Model::open(path));
  for (const std::string& line : model.notices) support::notice("{}", line);
  return {std::move(model.graph), std::move(model.functions), ""};
}

passes::PipelineOptions pipeline_options(const OptFlags& flags) {
  const runtime::Flags& shared = flags.shared;
  const char* cuts = shared.accumulate        ? "--accumulate"
                     : shared.micro_batch     ? "--micro-batch"
                     : !shared.shares.empty() ? "--shares"
                                              : nullptr;
  if (cuts != nullptr) {
    throw runtime::UsageError("{} cuts a batch, and opt looks at one graph: give its --batch",
                              cuts);
  }
  const runtime::SessionOptions session = runtime::session_options(shared);
  passes::PipelineOptions options = session.pipeline;
  options.reduce.replicas = static_cast<int>(session.devices.size());
  runtime::check_choice("--mode", flags.mode, {"train", "eval"});
  options.mode = flags.mode == "eval" ? passes::Mode::kEval : passes::Mode::kTrain;
  options.batch = shared.batch.value_or(1);
  return options;
}

// Of the flag; what the head of a file names is input.
void check_passes(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const passes::Pass& pass : passes::all_passes()) known.emplace_back(pass.name);
  for (const passes::LoweringStage& stage : passes::lowering_stages()) {
    known.emplace_back(stage.name);
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw runtime::UsageError("--passes: there is no pass '{}'{}; opt --list has all", name,
                              runtime::did_you_mean(name, known));
  }
}

void list_passes() {
  for (const passes::Pass& pass : passes::all_passes()) {
    fmt::print("{:<22} {}\n", pass.name, pass.doc);
  }
  for (const passes::LoweringStage& stage : passes::lowering_stages()) {
    fmt::print("{:<22} {}\n", stage.name, stage.doc);
  }
}

int run(const OptFlags& flags) {
  if (flags.list) {
    list_passes();
    return 0;
  }
  if (flags.shared.model.empty()) throw runtime::UsageError("MODEL is missing");
  const passes::NullTarget target(std::max(1, flags.shared.threads));
  passes::PassContext context;
  context.options = pipeline_options(flags);
  context.target = &target;
  Input input = read(flags.shared.model);
  context.functions = &input.functions;
  const graph::PrintOptions printing{flags.max_elements, true, false};
  passes::Instruments instruments;
  passes::LoweringDump dump_stage;
  if (flags.all_dumps) {
    const auto dump = [](std::string_view step, const std::string& text) {
      fmt::print("# after {}\n{}\n", step, text);
    };
    instruments.dump = [&, dump](std::string_view pass, const graph::Graph& graph) {
      dump(pass, graph::print(graph, printing));
    };
    dump_stage = [&, dump](std::string_view stage, const passes::Lowering& lowering) {
      dump(stage, passes::print(lowering, printing));
    };
  }
  std::string text = flags.passes.empty() ? input.passes : flags.passes;
  std::erase(text, ' ');
  if (!flags.passes.empty()) check_passes(runtime::split(text, ','));
  passes::Lowering lowering;
  lowering.graph = std::move(input.graph);
  passes::StateTable states;
  passes::run_named(lowering, context, states, runtime::split(text, ','), instruments, dump_stage);
  for (const std::string& line : context.notices) support::notice("{}", line);
  if (!flags.all_dumps) fmt::print("{}", passes::print(lowering, printing));
  return 0;
}

}  // namespace

Action setup_opt(CLI::App& app) {
  auto flags = std::make_shared<OptFlags>();
  app.add_option("MODEL", flags->shared.model, "an ONNX file, or a graph as text (.txt)")
      ->option_text(" ");
  app.add_option("--passes", flags->passes,
                 "names, separated by commas; behind the passes form_regions, "
                 "assign_layouts, select_kernels, plan_memory");
  app.add_flag("--list", flags->list, "the passes there are");
  app.add_flag("--print-changes", flags->all_dumps, "the graph after each pass that changed it");
  app.add_option("--mode", flags->mode, "train or eval");
  add_whole(app, "--max-elements", flags->max_elements, -1, INT64_MAX,
            "larger constants print as {...}; -1: all print (default 16)");
  add_graph_flags(app, flags->shared);
  add_example(app,
              "sardonyx opt lenet.onnx --passes canonicalize,bind_batch,infer_shapes --batch 8");
  return [flags] { return run(*flags); };
}

}  // namespace sardonyx::tools
