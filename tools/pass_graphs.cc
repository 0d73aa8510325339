#include "tools/pass_graphs.h"

#include <algorithm>
#include <vector>

#include "passes/pipelines.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::tools {

namespace {

constexpr const char *kImport = "import", *kEnd = "end";

int runs_in_pipeline(const std::string& pass) {
  const passes::Pipeline& pipeline = passes::training_pipeline();
  return static_cast<int>(std::ranges::count(pipeline, pass, &passes::PipelineEntry::pass));
}

[[noreturn]] void refuse(const std::string& name) {
  std::vector<std::string> names = {kImport, kEnd};
  for (const passes::PipelineEntry& entry : passes::training_pipeline()) {
    if (std::ranges::find(names, entry.pass) == names.end()) names.emplace_back(entry.pass);
  }
  throw runtime::UsageError("--diff '{}': no pass of the training pipeline{}; there is {}", name,
                            runtime::did_you_mean(name, names), runtime::join(names));
}

}  // namespace

PassGraphs::PassGraphs(const std::string& names) {
  const std::vector<std::string> parts = runtime::split(names, ',');
  if (parts.size() != 2) {
    throw runtime::UsageError(
        "--diff '{}': with --training it takes two passes, as in canonicalize,build_backward",
        names);
  }
  a_ = wanted(parts[0]);
  b_ = wanted(parts[1]);
}

PassGraphs::Wanted PassGraphs::wanted(const std::string& name) {
  Wanted wanted{name, name, 1, nullptr};
  if (name == kImport || name == kEnd) return wanted;
  const size_t colon = name.find(':');
  if (colon != std::string::npos) {
    const auto run = runtime::parse_whole(name.substr(colon + 1));
    wanted.pass = name.substr(0, colon);
    wanted.run = run && *run >= 1 && *run <= 9 ? static_cast<int>(*run) : 0;
  }
  if (wanted.run < 1 || wanted.run > runs_in_pipeline(wanted.pass)) refuse(name);
  return wanted;
}

passes::Instruments PassGraphs::instruments() {
  passes::Instruments instruments;
  instruments.only_changed = false;
  instruments.dump = [this](std::string_view pass, const graph::Graph& graph) {
    note(pass, graph);
  };
  return instruments;
}

void PassGraphs::note(std::string_view pass, const graph::Graph& graph) {
  // With a memory budget the pipeline runs again and again; the last plan counts.
  if (pass == passes::training_pipeline().front().pass) runs_.clear();
  const int run = ++runs_[std::string(pass)];
  for (Wanted* wanted : {&a_, &b_}) {
    if (wanted->pass == pass && wanted->run == run) wanted->graph = graph.clone();
  }
}

void PassGraphs::begin_and_end(const graph::Graph& imported, const graph::Graph& planned) {
  for (Wanted* wanted : {&a_, &b_}) {
    if (wanted->name == kImport) wanted->graph = imported.clone();
    if (wanted->name == kEnd) wanted->graph = planned.clone();
    if (wanted->graph == nullptr) {
      throw runtime::UsageError("--diff: the pass {} was left out", wanted->name);
    }
  }
}

}  // namespace sardonyx::tools
