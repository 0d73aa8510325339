// Runs lists of passes with the instruments: verify after each, dump, time, stop after N.
#pragma once

#include <functional>
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

// Internal errors, and with SARDONYX_LOG=debug all, gain "while running pass NAME". Throws Error
// for an unknown pass, with near names, and where options.skip names one that is needed.
void run_pipeline(graph::Graph& graph, PassContext& context, const Pipeline& pipeline,
                  const Instruments& instruments = {});

}  // namespace sardonyx::passes
