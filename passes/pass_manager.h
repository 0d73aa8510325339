// Runs lists of passes with the instruments: verify after each, dump, time, stop after N.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace sardonyx::passes {

struct PipelineEntry {
  std::string_view pass;
  std::string_view reason;  // why it stands here
};
using Pipeline = std::vector<PipelineEntry>;

struct PassTiming {
  std::string_view pass;
  double milliseconds = 0;
  bool changed = false;
};

struct Instruments {
  // Called after each pass (when `only_changed`, after those that changed the graph) with the
  // pass's name.
  std::function<void(std::string_view, const graph::Graph&)> dump;
  bool only_changed = true;
  bool verify = true;
  int stop_after = -1;  // number of passes to run; -1: all
  std::vector<PassTiming>* timings = nullptr;
};

// Throws Error for an unknown pass, with near names, and for one without which nothing meaningful
// is left.
void check_skips(const std::vector<std::string>& skip);

// Those on whose work `pass` builds, directly or not, in the order of passes.def.
std::vector<std::string_view> passes_before(const Pass& pass);
// Throws Error, with what to give, unless all that `name` needs is done.
void require_before(std::string_view name, std::vector<std::string_view> needed,
                    const std::set<std::string_view>& done);

// Internal errors, and with SARDONYX_LOG=debug all, gain "while running pass NAME". Throws Error
// for an unknown pass, with near names, where options.skip names one that is needed, and where one
// stands in front of what it builds on.
void run_pipeline(graph::Graph& graph, PassContext& context, const Pipeline& pipeline,
                  const Instruments& instruments = {});

}  // namespace sardonyx::passes
