#include "passes/pass_manager.h"

#include <chrono>

#include "graph/names.h"
#include "graph/support/error.h"
#include "graph/verify.h"
#include "ops/core/op.h"

namespace sardonyx::passes {

#define PASS(name, doc) bool name(graph::Graph& graph, PassContext& context);
#include "passes/passes.def"
#undef PASS

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
#define PASS(name, doc) {#name, name, doc},
#include "passes/passes.def"
#undef PASS
  };
  return passes;
}

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : all_passes()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

namespace {

const Pass& pass_or_throw(std::string_view name) {
  if (const Pass* pass = find_pass(name)) return *pass;
  std::vector<std::string> names;
  for (const Pass& pass : all_passes()) names.emplace_back(pass.name);
  std::string hint;
  for (const std::string& near : graph::near_names(name, names)) {
    hint += (hint.empty() ? "; did you mean " : ", ") + near;
  }
  throw Error("there is no pass '{}'{}", name, hint);
}

}  // namespace

void run_pipeline(graph::Graph& graph, PassContext& context, const Pipeline& pipeline,
                  const Instruments& instruments) {
  int done = 0;
  for (const PipelineEntry& entry : pipeline) {
    if (instruments.stop_after >= 0 && done >= instruments.stop_after) return;
    const Pass& pass = pass_or_throw(entry.pass);
    const auto start = std::chrono::steady_clock::now();
    const bool changed = with_context([&] { return fmt::format("running pass {}", pass.name); },
                                      [&] {
                                        const bool result = pass.run(graph, context);
                                        if (instruments.verify) {
                                          graph::verify(graph, ops::aliases_of);
                                        }
                                        return result;
                                      });
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (instruments.timings != nullptr) {
      instruments.timings->push_back({pass.name, took.count(), changed});
    }
    if (instruments.dump && (changed || !instruments.only_changed)) {
      instruments.dump(pass.name, graph);
    }
    ++done;
  }
}

}  // namespace sardonyx::passes
