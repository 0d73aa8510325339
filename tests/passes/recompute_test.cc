// Properties of the sequence of drops that recompute follows: each rung needs less by estimate, the
// estimate is what a count from scratch gives, and it is made in near-linear time.
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "graph/parse.h"
#include "passes/drop_chain.h"
#include "passes/node_facts.h"
#include "passes/pass_manager.h"
#include "passes/pipelines.h"
#include "tests/support/branched_chain.h"

namespace sardonyx::passes {
namespace {

std::unique_ptr<graph::Graph> training_graph(int nodes, uint64_t seed) {
  auto graph = graph::parse(tests::branched_chain(nodes, seed));
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  const NullTarget target(1);
  PassContext context;
  context.options.batch = 4;
  context.options.skip = {"recompute"};
  context.target = &target;
  run_pipeline(*graph, context, training_pipeline());
  return graph;
}

using Runs = DropChain::Runs;

RecomputeOptions all() {
  RecomputeOptions options;
  options.rung = 0;
  return options;
}

int64_t rounded(const graph::Value& value) {
  return (static_cast<int64_t>(value.type.bytes()) + 63) / 64 * 64;
}

// Bytes at the worst moment, with what is computed again alive at the node it stands before.
class Count {
 public:
  Count(graph::Graph& graph, const std::vector<DropChain::Drop>& drops) : graph_(graph) {
    for (const graph::Node& node : graph.nodes()) position_.emplace(&node, position_.size());
    for (const auto& drop : drops) again_[drop.value] = position_.at(drop.before);
  }

  int64_t most() {
    alive_.assign(position_.size() + 2, 0);
    for (const graph::Value& value : graph_.values()) {
      const graph::Value* root = viewed(&value);
      if (root->kind == graph::ValueKind::kResult) add_uses(root, value);
    }
    for (const auto& [root, ends] : ends_) {
      if (is_of_state(root)) continue;
      const auto again = again_.find(root);
      const size_t made = position_.at(root->producer);
      if (again == again_.end()) {
        live(*root, made, std::max(made, ends.last));
      } else {
        live(*root, made, std::max(made, ends.last_forward));
        live(*root, again->second, ends.last);
      }
    }
    int64_t now = 0, most = 0;
    for (const int64_t change : alive_) most = std::max(most, now += change);
    return most;
  }

 private:
  struct Ends {
    size_t last_forward = 0, last = 0;
  };

  void add_uses(const graph::Value* root, const graph::Value& value) {
    Ends& ends = ends_[root];
    if (outlives_plan(graph_, &value)) ends.last = position_.size();
    for (const graph::Use& use : value.uses()) {
      const size_t at = position_.at(use.node);
      ends.last = std::max(ends.last, at);
      if (use.node->forward_node.empty() && !behind_backward(at)) {
        ends.last_forward = std::max(ends.last_forward, at);
      }
      const auto again = again_.find(use.node->output(0));
      if (again != again_.end()) ends.last = std::max(ends.last, again->second);
    }
  }

  bool behind_backward(size_t at) {
    if (backward_ == 0) {
      for (const graph::Node& node : graph_.nodes()) {
        if (!node.forward_node.empty()) {
          backward_ = position_.at(&node);
          break;
        }
      }
    }
    return at >= backward_;
  }

  bool is_of_state(const graph::Value* value) const {
    return std::ranges::any_of(graph_.bindings(),
                               [&](const graph::Binding& b) { return b.next == value; });
  }

  void live(const graph::Value& value, size_t from, size_t to) {
    alive_[from] += rounded(value);
    alive_[to + 1] -= rounded(value);
  }

  graph::Graph& graph_;
  std::map<const graph::Node*, size_t> position_;
  std::map<const graph::Value*, size_t> again_;
  std::map<const graph::Value*, Ends> ends_;
  std::vector<int64_t> alive_;
  size_t backward_ = 0;
};

TEST(DropChain, each_rung_needs_less_and_the_estimate_is_that_of_a_count_from_scratch) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto graph = training_graph(60 + static_cast<int>(seed) * 7, seed);
    const DropChain chain(*graph, all(), seed % 2 == 0 ? Runs::kShort : Runs::kLong);
    EXPECT_EQ(chain.kept_bytes(), Count(*graph, {}).most());
    ASSERT_GE(chain.rungs().size(), 3u);
    EXPECT_LT(chain.rungs().back().bytes, chain.kept_bytes() * 6 / 10);
    int64_t before = chain.kept_bytes() + 1;
    for (const DropChain::Rung& rung : chain.rungs()) {
      const std::vector<DropChain::Drop> drops = chain.drops(rung);
      EXPECT_EQ(drops.size(), rung.drops);
      EXPECT_LT(rung.bytes, before);
      EXPECT_EQ(Count(*graph, drops).most(), rung.bytes) << "seed " << seed;
      before = rung.bytes;
    }
  }
}

TEST(DropChain, the_same_graph_has_the_same_rungs_and_without_a_rung_only_what_is_cheap) {
  const auto graph = training_graph(200, 3);
  const DropChain a = DropChain::lowest(*graph, all()), b = DropChain::lowest(*graph, all());
  const DropChain cheap = DropChain::lowest(*graph, {});
  ASSERT_EQ(a.rungs().size(), b.rungs().size());
  EXPECT_EQ(a.rungs().back().bytes, b.rungs().back().bytes);
  EXPECT_EQ(a.drops(a.rungs().back()).size(), b.drops(b.rungs().back()).size());
  ASSERT_EQ(cheap.rungs().size(), 1u);
  EXPECT_EQ(cheap.rungs()[0].bytes, a.rungs()[0].bytes);
}

TEST(DropChain, the_runs_that_get_lower_are_taken) {
  const auto graph = training_graph(200, 3);
  const int64_t lowest = DropChain::lowest(*graph, all()).rungs().back().bytes;
  EXPECT_EQ(lowest, std::min(DropChain(*graph, all(), Runs::kShort).rungs().back().bytes,
                             DropChain(*graph, all(), Runs::kLong).rungs().back().bytes));
}

// With quadratic steps this would take minutes, so the wide limit holds on a busy machine too.
TEST(DropChain, ten_thousand_nodes_take_near_linear_time) {
  const auto graph = training_graph(10000, 1);
  const auto start = std::chrono::steady_clock::now();
  const DropChain chain = DropChain::lowest(*graph, all());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(chain.rungs().back().bytes, chain.kept_bytes() / 4);
  EXPECT_LT(seconds, 20);
  RecordProperty("seconds", std::to_string(seconds));
  RecordProperty("nodes", std::to_string(graph->nodes().size()));
}

}  // namespace
}  // namespace sardonyx::passes
