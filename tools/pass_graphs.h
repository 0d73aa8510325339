// The graph as two passes of the training pipeline left it, for `inspect --training --diff A,B`.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "graph/graph.h"
#include "passes/pass_manager.h"

namespace sardonyx::tools {

class PassGraphs {
 public:
  // "A,B", each a pass of the training pipeline ("NAME:2" where one runs twice and its second run
  // is meant), "import", which is in front of all, or "end": the graph of the plan. Throws
  // UsageError.
  explicit PassGraphs(const std::string& names);
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;

  // They keep the graphs, and must not outlive this object.
  passes::Instruments instruments();
  // Throws UsageError when a pass was left out (--skip-pass).
  void begin_and_end(const graph::Graph& imported, const graph::Graph& planned);

  std::pair<std::string, std::string> names() const { return {a_.name, b_.name}; }
  const graph::Graph& a() const { return *a_.graph; }
  const graph::Graph& b() const { return *b_.graph; }

 private:
  struct Wanted {
    std::string name, pass;
    int run = 1;  // which of its runs
    std::unique_ptr<graph::Graph> graph;
  };
  static Wanted wanted(const std::string& name);
  void note(std::string_view pass, const graph::Graph& graph);

  Wanted a_, b_;
  std::map<std::string, int, std::less<>> runs_;
};

}  // namespace sardonyx::tools
