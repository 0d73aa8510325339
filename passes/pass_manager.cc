#include "passes/pass_manager.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/ranges.h>

#include "graph/names.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/verify.h"
#include "ops/core/op.h"

namespace sardonyx::passes {

#define PASS(name, ...) bool name(graph::Graph& graph, PassContext& context);
#define OPTIONAL_PASS(name, ...) PASS(name, __VA_ARGS__)
#include "passes/passes.def"
#undef OPTIONAL_PASS
#undef PASS

std::vector<std::string*> PassContext::sums() {
  std::vector<std::string*> names{&loss_sum, &loss_weight, &correct};
  std::erase_if(names, [](const std::string* name) { return name->empty(); });
  return names;
}

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
#define PASS(name, doc, ...) {#name, name, doc, Need::kNeeded, {__VA_ARGS__}},
#define OPTIONAL_PASS(name, doc, ...) {#name, name, doc, Need::kOptional, {__VA_ARGS__}},
#include "passes/passes.def"
#undef OPTIONAL_PASS
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

// Whether no output can be computed as things are, so that only what can't be run is worth saying.
bool needed_everywhere(const PassContext& context, const graph::Graph& graph) {
  return !context.unsupported.empty() &&
         std::ranges::all_of(graph.outputs(), [&](graph::Value* output) {
           return !needed_and_unsupported(context, {output}).empty();
         });
}

// What can't be run is often the cause of what a later pass trips over: where all outputs need it,
// it alone is said, else both are. An error about nothing else was found before this pass and
// doesn't name it.
template <class Body>
bool with_pass(const Pass& pass, const PassContext& context, const graph::Graph& graph,
               Body&& body) {
  const auto running = [&] { return fmt::format("running pass {}", pass.name); };
  try {
    return body();
  } catch (const UnsupportedError&) {
    throw;
  } catch (Error& error) {
    // The user's mistake is in the file: which pass met it first concerns only those who write
    // passes.
    if (support::log_shows(support::LogLevel::kDebug)) error.add_context(running());
    if (context.unsupported.empty()) throw;
    if (needed_everywhere(context, graph)) require_supported(context, graph.outputs());
    throw Error("{}\n  perhaps because {}", error.what(), list_unsupported(context.unsupported));
  } catch (InternalError& error) {
    error.add_context(running());
    throw;
  }
}

void collect_before(const Pass& pass, std::set<std::string_view>& names) {
  for (const std::string_view name : pass.before) {
    if (names.insert(name).second) collect_before(pass_or_throw(name), names);
  }
}

// All passes come behind those on whose work they build.
void check_order(const Pipeline& pipeline, const PassContext& context) {
  std::set<std::string_view> done(context.done.begin(), context.done.end());
  for (const PipelineEntry& entry : pipeline) {
    const Pass& pass = pass_or_throw(entry.pass);
    require_before(pass.name, passes_before(pass), done);
    done.insert(pass.name);
  }
}

}  // namespace

std::vector<std::string_view> passes_before(const Pass& pass) {
  std::set<std::string_view> names;
  collect_before(pass, names);
  std::vector<std::string_view> sorted;
  for (const Pass& each : all_passes()) {
    if (names.contains(each.name)) sorted.push_back(each.name);
  }
  return sorted;
}

void require_before(std::string_view name, std::vector<std::string_view> needed,
                    const std::set<std::string_view>& done) {
  std::erase_if(needed, [&](std::string_view pass) { return done.contains(pass); });
  if (needed.empty()) return;
  throw Error("'{}' can't stand there: it works on what {} leave{}; give --passes {},{}", name,
              fmt::join(needed, ", "), needed.size() == 1 ? "s" : "", fmt::join(needed, ","), name);
}

void check_skips(const std::vector<std::string>& skip) {
  for (const std::string& name : skip) {
    if (pass_or_throw(name).need == Need::kOptional) continue;
    std::vector<std::string_view> optional;
    for (const Pass& pass : all_passes()) {
      if (pass.need == Need::kOptional) optional.push_back(pass.name);
    }
    throw Error("--skip-pass {}: nothing meaningful is left without it; can be left out: {}", name,
                fmt::join(optional, ", "));
  }
}

void run_pipeline(graph::Graph& graph, PassContext& context, const Pipeline& pipeline,
                  const Instruments& instruments) {
  check_skips(context.options.skip);
  check_order(pipeline, context);
  int done = 0;
  for (const PipelineEntry& entry : pipeline) {
    if (instruments.stop_after >= 0 && done >= instruments.stop_after) return;
    const Pass& pass = pass_or_throw(entry.pass);
    const auto& skip = context.options.skip;
    if (std::find(skip.begin(), skip.end(), pass.name) != skip.end()) continue;
    const auto start = std::chrono::steady_clock::now();
    const auto run = [&] {
      const bool result = pass.run(graph, context);
      if (instruments.verify) graph::verify(graph, ops::aliases_of, ops::views_of);
      return result;
    };
    const bool changed = with_pass(pass, context, graph, run);
    context.done.push_back(pass.name);
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
