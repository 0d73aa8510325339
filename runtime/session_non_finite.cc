// Where the first value came from that isn't finite: the failed step once more, node by node, from
// the parameters before it.
#include <cmath>

#include "graph/support/error.h"
#include "passes/pipelines.h"
#include "runtime/finite.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

using graph::Tensor;
using passes::MicroBatch;

void Session::report_non_finite(const Batch& batch, const std::vector<std::vector<Run>>& runs,
                                const StepResult& result) {
  throw Error(
      "step {}: the {} is not finite ({}); stopped before the update, all parameters are those of "
      "step {}.\n  first non-finite value: {}\n  a smaller --lr, --warmup or clean data usually "
      "help",
      step_ + 1, std::isfinite(result.loss_sum) ? "gradient" : "loss",
      std::isfinite(result.loss_sum) ? result.grad_norm : result.loss_sum, step_,
      first_non_finite(batch, runs));
}

std::string Session::first_non_finite(const Batch& batch,
                                      const std::vector<std::vector<Run>>& runs) {
  for (size_t r = 0; r < runs.size(); ++r) {
    for (size_t i = 0; i < runs[r].size(); ++i) {
      const std::string node = first_non_finite_node(batch, runs[r][i].first_row, runs[r][i].rows);
      if (node.empty()) continue;
      return fmt::format("{} (replica {}, micro-batch {} of {})", node, r, i + 1, runs[r].size());
    }
  }
  return "the sum over micro-batches and replicas";
}

// As the first of several micro-batches it only writes accumulators: alone it may be finite, and an
// update would be taken.
std::string Session::first_non_finite_node(const Batch& batch, int64_t first_row, int64_t rows) {
  if (rows == 0) return "";
  for (const auto& [name, tensor] : batch.inputs) {
    if (!graph::is_floating(tensor.dtype()) || tensor.numel() == 0) continue;
    const int64_t per_row = tensor.numel() / rows_of(batch);
    for (int64_t i = first_row * per_row; i < (first_row + rows) * per_row; ++i) {
      if (!std::isfinite(tensor.as_double(i))) {
        return fmt::format("the data: sample {} of the batch holds {}", i / per_row,
                           tensor.as_double(i));
      }
    }
  }
  for (const auto& entry : states_.entries()) {
    if (entry.role != graph::StateRole::kParameter) continue;
    const Tensor value = state(entry.name);
    if (!all_finite(value.aligned_data(), value.type())) return "parameter '" + entry.name + "'";
  }
  Loaded loaded;
  loaded.context = context_for({Kind::kTrain, MicroBatch::kFirst, rows, ""});
  loaded.context.options.block = 0;
  loaded.context.options.lanes = 0;
  std::unique_ptr<graph::Graph> graph = imported_.graph->clone();
  passes::run_pipeline(*graph, loaded.context, passes::training_pipeline());
  loaded.plan = passes::lower(std::move(graph), loaded.context, states_);
  load(loaded);
  std::string found;
  loaded.executors[0]->set_observer(
      [&](const passes::Step& step, const std::vector<const void*>& outputs) {
        for (size_t i = 0; i < outputs.size() && found.empty(); ++i) {
          if (outputs[i] != nullptr && !all_finite(outputs[i], step.output_types[i])) {
            found = fmt::format("output {} of node {}", i, step.node->label());
          }
        }
      });
  execute({&loaded, first_row, rows}, 0, nullptr, batch, 0.0);
  return found;
}

}  // namespace sardonyx::runtime
