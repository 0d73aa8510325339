// Where the first value came from that isn't finite: the failed step once more, node by node, from
// the parameters before it.
#include <cmath>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "runtime/finite.h"
#include "runtime/session.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

using passes::MicroBatch;

namespace {

struct Cause {
  std::string what;
  double value;
};

// Why the graph left the step out.
Cause cause_of(const StepResult& result) {
  if (!std::isfinite(result.loss_sum)) return {"the loss", result.loss_sum};
  if (!std::isfinite(result.weight)) return {"the weight of the loss", result.weight};
  if (!std::isfinite(result.grad_norm)) return {"the gradient", result.grad_norm};
  return {fmt::format("1 / {}, by the weight of the loss,", result.weight), HUGE_VAL};
}

}  // namespace

// Leaving steps out doesn't help then.
void Session::check_step_began_finite(const StepResult& result) const {
  const std::string bad = first_non_finite_state();
  if (bad.empty()) return;
  const auto [cause, value] = cause_of(result);
  const std::string what =
      fmt::format("step {}: {} is not finite ({}), and {} held such values before it", step_ + 1,
                  cause, number_str(value), support::in_quotes(bad));
  if (step_ == 0) throw Error("{}: they are in the model that the run begins with", what);
  throw Error(
      "{}: an earlier update overflowed, and leaving out steps can't mend that.\n  go on from the "
      "newest checkpoint (--resume), or begin anew, with a smaller --lr, a longer --warmup or a "
      "smaller --clip-norm",
      what);
}

void Session::report_non_finite(const Batch& batch, const std::vector<std::vector<Run>>& runs,
                                const StepResult& result) {
  const auto [what, value] = cause_of(result);
  throw Error(
      "step {}: {} is not finite ({}); stopped before the update, all parameters are those of "
      "step {}.\n  first non-finite value: {}\n  a smaller --lr, --warmup or clean data usually "
      "help",
      step_ + 1, what, number_str(value), step_, first_non_finite(batch, runs));
}

std::string Session::first_non_finite(const Batch& batch,
                                      const std::vector<std::vector<Run>>& runs) {
  // Micro-batches that share statistics can only be replayed together.
  std::vector<std::vector<std::pair<size_t, size_t>>> rounds;  // of replica and micro-batch
  for (size_t r = 0; r < runs.size(); ++r) {
    for (size_t i = 0; i < runs[r].size(); ++i) {
      if (shares_statistics()) {
        rounds.resize(runs[r].size());
        rounds[i].emplace_back(r, i);
      } else if (runs[r][i].rows > 0) {
        rounds.push_back({{r, i}});
      }
    }
  }
  for (const auto& round : rounds) {
    std::vector<Run> together;
    for (const auto& [r, i] : round) together.push_back(runs[r][i]);
    Found found;
    for (; found.run < together.size(); ++found.run) {
      found.text = first_non_finite_sample(batch, together[found.run]);
      if (!found.text.empty()) break;
    }
    if (found.text.empty()) found = first_non_finite_node(batch, together);
    if (found.text.empty()) continue;
    const auto& [r, i] = round[found.run];
    return fmt::format("{} (replica {}, micro-batch {} of {})", found.text, r, i + 1,
                       runs[r].size());
  }
  return "what all micro-batches and replicas add up to";
}

std::string Session::first_non_finite_sample(const Batch& batch, const Run& run) const {
  if (run.rows == 0) return "";
  for (const auto& [name, tensor] : batch.inputs) {
    if (!graph::is_floating(tensor.dtype()) || tensor.numel() == 0) continue;
    const int64_t per_row = tensor.numel() / rows_of(batch);
    for (int64_t i = run.first_row * per_row; i < (run.first_row + run.rows) * per_row; ++i) {
      if (!std::isfinite(tensor.as_double(i))) {
        const int64_t row = i / per_row;
        const auto known = static_cast<size_t>(row) < batch.samples.size();
        return fmt::format(
            "the data: {} holds {}{}",
            known ? fmt::format("sample {} of the data set (from 0)", batch.samples[row])
                  : fmt::format("sample {} of the batch", row),
            number_str(tensor.as_double(i)),
            name.empty() ? "" : fmt::format(" for input {}", support::in_quotes(name)));
      }
    }
  }
  return "";
}

// As the first of several micro-batches it only writes accumulators: alone it may be finite, and an
// update would be taken. Of what several runs find, the earliest step counts: from there it spreads
// through their statistics.
Session::Found Session::first_non_finite_node(const Batch& batch,
                                              const std::vector<Run>& together) {
  std::map<int64_t, std::unique_ptr<Loaded>> loaded;  // by rows
  for (const Run& run : together) {
    if (loaded.contains(run.rows)) continue;
    const PlanKey key{Kind::kTrain, run.rows > 0 ? MicroBatch::kFirst : MicroBatch::kNoneFirst,
                      run.loaded->context.options.batch, "", 0};
    passes::PassContext context = context_for(key);
    context.options.block = 0;  // an observer sees whole values in the usual layout
    context.options.lanes = 0;
    loaded[run.rows] = load(key, std::move(context));
  }
  struct Seen {
    size_t steps = 0, first = SIZE_MAX;
    std::string text;
  };
  std::vector<Seen> seen(together.size());
  const auto replay = [&](size_t i, const Links& links) {
    Run run = together[i];
    run.loaded = loaded.at(run.rows).get();
    run.loaded->executors[i]->set_observer(
        [&own = seen[i]](const passes::Step& step, const std::vector<const void*>& outputs) {
          ++own.steps;
          for (size_t o = 0; o < outputs.size() && own.text.empty(); ++o) {
            if (outputs[o] == nullptr || all_finite(outputs[o], step.output_types[o])) continue;
            own.text = fmt::format("output {} of node {}", o, step.node->label());
            own.first = own.steps;
          }
        });
    execute(run, static_cast<int>(i), links, batch, 0.0);
  };
  if (together.size() == 1) {
    replay(0, {});
  } else {
    replicas_->run("replaying", [&](int replica, const Links& links) {
      replay(static_cast<size_t>(replica), links);
    });
  }
  Found found;
  size_t first = SIZE_MAX;
  for (size_t i = 0; i < together.size(); ++i) {
    if (together[i].rows == 0 || seen[i].first >= first) continue;
    first = seen[i].first;
    found = {i, seen[i].text};
  }
  return found;
}

}  // namespace sardonyx::runtime
