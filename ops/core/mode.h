// What `OpDef::apply_mode` sees: the trainer's switch decides between training and evaluation form,
// not the file.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "ops/core/op_builder.h"

namespace sardonyx::ops {

// What a running variance keeps of a batch of N values: their variance, or N / (N - 1) times
// that.
enum class StoredVariance : uint8_t { kPopulation, kSample };
// Over whose rows the statistics of a micro-batch are taken: --sync-bn takes all replicas'.
enum class StatisticsOf : uint8_t { kReplica, kAllReplicas };
// What the pass knows of the graph around the node. All may be empty.
struct ModeSurroundings {
  std::function<bool(const Value*)> frozen;
  std::function<void(Value* state, Value* next)> update;
  std::function<void(std::string)> notice;
  std::function<void(int64_t)> require_rows;
  StoredVariance stored_variance = StoredVariance::kPopulation;
  StatisticsOf statistics_of = StatisticsOf::kReplica;
};

// `replacement` is read where `old` was, under its name; `old`, which nothing reads then, gets
// another one.
void take_over(graph::Graph& graph, Value* old, Value* replacement);

class ModeContext {
 public:
  enum class Dropout : uint8_t { kActive, kOff };

  ModeContext(Node& node, bool training, Dropout dropout, bool respect_file,
              ModeSurroundings surroundings = {})
      : node_(node),
        builder_(*node.graph(), &node),
        training_(training),
        dropout_(dropout),
        respect_file_(respect_file),
        surroundings_(std::move(surroundings)) {}

  Node& node() { return node_; }
  // Writes typed nodes in front of the node; outputs of the node may then be replaced
  // (Graph::replace_uses) and the node is left without uses for eliminate_dead.
  OpBuilder& b() { return builder_; }
  bool training() const { return training_; }
  bool dropout_active() const { return training_ && dropout_ == Dropout::kActive; }
  // --respect-training-mode: the node's own training_mode decides.
  bool respect_file() const { return respect_file_; }
  StoredVariance stored_variance() const { return surroundings_.stored_variance; }
  StatisticsOf statistics_of() const { return surroundings_.statistics_of; }
  // The user has frozen the tensors of the file that the value is computed from.
  bool frozen(const Value* value) const {
    return surroundings_.frozen && surroundings_.frozen(value);
  }
  // After the step `state` is `next`; nothing happens where the value is no state.
  void update(Value* state, Value* next) {
    if (surroundings_.update) surroundings_.update(state, next);
  }
  void notice(std::string line) {
    if (surroundings_.notice) surroundings_.notice(std::move(line));
  }
  // The node can't be trained with fewer rows in a micro-batch (over all replicas, where their
  // statistics are shared).
  void require_rows(int64_t rows) {
    if (surroundings_.require_rows) surroundings_.require_rows(rows);
  }

 private:
  Node& node_;
  OpBuilder builder_;
  bool training_;
  Dropout dropout_;
  bool respect_file_;
  ModeSurroundings surroundings_;
};

}  // namespace sardonyx::ops
