// sardonyx check: one screen that says whether a model can be trained, what will be trained and
// why, what stands in the way, and the command that does it. Exit code 1 when it can't.
#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "passes/weight_inputs.h"
#include "runtime/feed.h"
#include "runtime/open_sizes.h"
#include "runtime/single_rows.h"
#include "runtime/text.h"
#include "tools/assumed_sizes.h"
#include "tools/check_advice.h"
#include "tools/check_json.h"
#include "tools/check_report.h"
#include "tools/check_text.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/folded_batch_norm.h"
#include "tools/streams.h"

namespace sardonyx::tools {

namespace {

struct CheckFlags {
  runtime::Flags shared;
  runtime::SampleSizes sample;  // empty: as the file says
  bool all = false;
};

using SessionPtr = std::unique_ptr<runtime::Session>;

constexpr int64_t kMostSearchedNodes = 5000;  // a plan of more takes seconds

// `sample`: empty: as the file says.
SessionPtr open_session(const runtime::Flags& flags, const runtime::SampleSizes& sample) {
  SessionPtr session = runtime::Session::open(flags.model, runtime::session_options(flags));
  if (!sample.empty()) session->describe_sample(sample);
  return session;
}

// What `train` would refuse before it reads any data.
std::string refused_by_train(const runtime::Session& session, const runtime::Flags& flags) {
  try {
    runtime::find_feed(session, flags);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// What would be in the way with the rows that the file demands.
std::string fault_in_its_own_form(runtime::Session& session, const runtime::Flags& flags) {
  const std::string fault = session.examine(runtime::baked_rows(session)).error;
  return fault.empty() ? refused_by_train(session, flags) : fault;
}

// Other rows than the file's: those that will be asked for, if they are others.
int64_t rows_to_try(const runtime::Flags& flags, int64_t baked) {
  const int64_t rows = runtime::largest_micro_batch(runtime::batch_setup(flags, -1));
  return rows == baked ? baked + 1 : rows;
}

// For a file with a fixed number of rows: the session with --set-batch if that works or was asked
// for. `session`: without it. What is in the way in any case is no reason against --set-batch.
SessionPtr try_set_batch(runtime::Session& session, const CheckFlags& check,
                         const runtime::Flags& unbounded, const AssumedSizes& assumed,
                         CheckReport& report) {
  runtime::Flags flags = unbounded;
  flags.set_batch = true;
  const int64_t rows = rows_to_try(flags, report.baked_rows);
  // With open sizes nothing is proven.
  const std::string problem = open_session(flags, assumed.sample)->examine(rows).error;
  const bool sized = assumed.open.empty() || assumed.work;
  const bool otherwise_fine =
      sized && (problem.empty() || fault_in_its_own_form(session, flags).empty());
  report.set_batch_known = otherwise_fine;
  report.set_batch = (sized && problem.empty()) || check.shared.set_batch;
  if (otherwise_fine && !problem.empty()) {
    const bool told = problem.find("--set-batch: ") != std::string::npos;
    report.set_batch_problem = told ? problem : fmt::format("with {} rows, {}", rows, problem);
  }
  // A fresh one: notices of the trial speak of its rows.
  return report.set_batch ? open_session(flags, check.sample) : nullptr;
}

// `prepared`: with the sizes that are known by now.
void describe_feed(const runtime::Feed& feed, const graph::Graph& prepared, CheckReport& report) {
  for (const auto& [name, type] : feed.inputs) {
    const graph::Value* input = prepared.find(name);
    const auto open = std::ranges::find(report.open, name, &runtime::OpenInput::name);
    if (open != report.open.end()) input = nullptr;
    report.fed.emplace_back(name, input == nullptr ? type : input->type);
  }
  report.fed_labels = feed.labels;
}

// What `train --save` would refuse before the first step.
std::string refused_by_save(const runtime::Session& session, const graph::Graph& examined) {
  try {
    session.check_save(examined);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

int64_t bytes_of(const passes::MemoryReport& memory) {
  return static_cast<int64_t>(memory.state_bytes + memory.arena_bytes);
}

void find_largest(runtime::Session& session, const CheckReport& report, MemoryFacts& memory) {
  const int64_t state_bytes = static_cast<int64_t>(memory.planned.state_bytes);
  const int64_t bytes = bytes_of(memory.planned);
  if (report.demands_rows()) {
    const bool fits = bytes <= memory.budget_bytes;
    memory.largest = LargestBatch{fits ? report.rows : 0, fits ? bytes : 0, false};
    return;
  }
  if (report.nodes > kMostSearchedNodes) return;
  memory.largest = largest_batch(memory.budget_bytes, state_bytes, report.rows, bytes,
                                 [&](int64_t rows) -> std::optional<int64_t> {
                                   try {
                                     return bytes_of(session.draft_plan(rows)->memory);
                                   } catch (const Error&) {
                                     return std::nullopt;  // a size that no kernel counts to
                                   }
                                 });
}

// Planned without the budget, whose plans are a search of their own: what is computed again only
// because of it isn't counted on.
MemoryFacts plan_memory(runtime::Session& session, const runtime::Flags& flags,
                        const CheckReport& report) {
  MemoryFacts memory;
  const auto plan = session.draft_plan(report.rows);
  memory.planned = plan->memory;
  memory.states = passes::states_in_words(*plan);
  memory.peak = peak_in_words(*plan);
  if (flags.memory_budget) {
    memory.budget_bytes = *flags.memory_budget / report.replicas;
    memory.budget_owner = "--memory-budget allows";
  } else {
    const runtime::MemoryLimit limit = session.room_per_replica();
    memory.budget_bytes = static_cast<int64_t>(limit.bytes);
    memory.budget_owner = limit.owner;
  }
  return memory;
}

// More than there is: what is trained then is the largest batch that fits, if there is any.
void refuse_size(CheckReport& report, const std::string& problem) {
  const auto& largest = report.memory->largest;
  report.too_large = largest && largest->rows > 0;
  if (!report.too_large) throw Error(problem);
}

void add_memory(runtime::Session& session, const CheckFlags& check, CheckReport& report) {
  const runtime::Flags& flags = check.shared;
  report.memory = plan_memory(session, flags, report);
  report.notices = session.notices();  // the search's would speak of its own batches
  MemoryFacts& memory = *report.memory;
  find_largest(session, report, memory);
  if (bytes_of(memory.planned) <= memory.budget_bytes) return;
  if (!flags.memory_budget) {
    const auto bytes = [](int64_t count) { return runtime::bytes_str(static_cast<double>(count)); };
    refuse_size(report, fmt::format("a step of {} rows takes {}, but {} {}", report.rows,
                                    bytes(bytes_of(memory.planned)), memory.budget_owner,
                                    bytes(memory.budget_bytes)));
    return;
  }
  runtime::Flags bounded = flags;
  bounded.set_batch = report.set_batch;
  try {
    const SessionPtr limited = open_session(bounded, check.sample);
    memory.planned = limited->draft_plan(report.rows)->memory;
  } catch (const Error& error) {
    refuse_size(report, error.what());
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// What is found with sizes that work counts, also its notices. What is in the way with others alike
// has nothing to do with sizes, and stays the problem. With open ones scores are known better, if
// the preparation comes to an end.
void examine_with(const AssumedSizes& assumed, const runtime::Session& session,
                  runtime::Flags flags, CheckReport& report, runtime::Examination& found) {
  if (assumed.work) {
    flags.set_batch = report.set_batch;
    const SessionPtr sized = open_session(flags, assumed.sample);
    runtime::Examination other = sized->examine(report.rows);
    if (found.error.empty()) {
      other.scores = found.scores;
    } else {
      forget_sizes(other.scores, assumed.open);
    }
    found = std::move(other);
    report.notices = sized->notices();
    return;
  }
  report.notices = session.notices();
  if (found.error.empty() || first_line(assumed.error) == first_line(found.error)) return;
  found.error = runtime::open_sizes(session.imported(), session.options().pipeline);
  report.undecided = true;
}

// A file without weights may be fine with new ones.
bool can_be_filled(const runtime::Session& session, const CheckFlags& check, runtime::Flags flags,
                   const CheckReport& report) {
  if (!flags.init.empty() || passes::weight_inputs(session.imported()).empty()) return false;
  flags.init = "pytorch";
  const SessionPtr filled = open_session(flags, check.sample);
  return filled->examine(report.rows).error.empty() &&
         open_weight(filled->imported(), report.open).empty() &&
         refused_by_train(*filled, flags).empty();
}

// Behind nodes that can't be run nobody has looked for it.
bool lacks_output(const runtime::Session& session, const graph::Graph& prepared,
                  const std::string& name) {
  return !name.empty() && prepared.find(name) == nullptr &&
         session.imported().find(name) == nullptr;
}

std::string list_outputs(const CheckReport& report) {
  std::string text;
  for (const std::string& output : report.outputs) text += "\n  " + output;
  return text;
}

// The first input's, where flags give it.
void describe_sample(const runtime::SampleSizes& sizes, const std::vector<graph::Value*>& inputs,
                     CheckReport& report) {
  const auto given = inputs.empty() ? sizes.end() : sizes.find(inputs[0]->name);
  if (given == sizes.end()) return;
  report.sample_shape = given->second;
  report.sample_ranked = true;
}

CheckReport examine(const CheckFlags& check) {
  const runtime::Flags& flags = check.shared;
  runtime::Flags unbounded = flags;
  unbounded.memory_budget.reset();
  runtime::Flags as_in_file = unbounded;
  as_in_file.set_batch = false;
  SessionPtr session = open_session(as_in_file, check.sample);
  CheckReport report;
  report.model = flags.model;
  report.producer = session->model().skeleton().producer_name();
  report.replicas = session->replicas();
  report.baked_rows = runtime::baked_rows(*session);
  const int64_t any_rows = runtime::largest_micro_batch(runtime::batch_setup(flags, -1));
  const AssumedSizes assumed = assume_sizes(*session, as_in_file, check.sample,
                                            report.baked_rows > 0 ? report.baked_rows : any_rows);
  if (report.baked_rows > 0) {
    SessionPtr any = try_set_batch(*session, check, unbounded, assumed, report);
    if (any != nullptr) session = std::move(any);
  }
  describe_graph(session->imported(), report);
  report.sample = check.sample;
  report.open = assumed.open;
  describe_sample(session->options().pipeline.sample_shapes, session->data_inputs(), report);
  const FoldedBatchNorm folded = folded_batch_norm(session->model().skeleton());
  report.folded_batch_norms = describe(folded);
  report.folded_count = folded.convolutions;
  const bool trained = report.batch_norms_in_training_form > 0;
  if (report.dropouts == 0 && report.names_dropout && !trained) {
    report.dropout_advice = dropout_advice(report.producer);
  }
  auto setup = runtime::batch_setup(flags, runtime::baked_rows(*session));
  runtime::join_singles(*session, {setup.batch}, setup.cut);
  report.batch = setup.batch;
  report.rows = runtime::largest_micro_batch(setup);
  runtime::Examination found = session->examine(report.rows);
  if (!report.open.empty()) {
    examine_with(assumed, *session, unbounded, report, found);
  }
  report.parameters = std::move(found.parameters);
  report.unsupported = std::move(found.unsupported);
  report.scores = found.scores;
  report.class_names = runtime::names_of_classes(*session, flags, found.scores);
  report.problem = found.error;
  if (!report.problem.empty() && lacks_output(*session, *found.graph, flags.output)) {
    report.problem = fmt::format("there is no output '{}'; the outputs are:{}", flags.output,
                                 list_outputs(report));
  }
  if (report.problem.empty()) report.problem = open_weight(session->imported(), report.open);
  if (report.problem.empty()) report.problem = refused_by_train(*session, flags);
  if (report.problem.empty()) {
    describe_feed(runtime::find_feed(*session, flags), *found.graph, report);
  }
  if (report.problem.empty()) report.problem = refused_by_save(*session, *found.graph);
  if (report.problem.empty() && report.open.empty()) {
    try {
      add_memory(*session, check, report);
    } catch (const Error& error) {
      report.problem = error.what();
    }
  }
  if (!report.problem.empty()) {
    runtime::Flags filled = unbounded;
    filled.set_batch = report.set_batch;
    report.can_be_filled = can_be_filled(*session, check, filled, report);
  }
  report.needs = needs(*found.graph, report.unsupported,
                       flags.loss_output.empty() ? flags.output : flags.loss_output);
  describe_parameters(session->imported(), report);
  find_near_misses(session->imported(), *found.graph, flags, report);
  if (!report.memory && report.open.empty()) report.notices = session->notices();
  return report;
}

// Without --loss one column is taken for values: as classes there would be one only.
CheckReport examine_with_loss(CheckFlags& check) {
  runtime::Flags& flags = check.shared;
  CheckReport report = examine(check);
  const bool open = !flags.given.contains("--loss") && flags.loss_output.empty();
  const bool column = report.scores.ranked ? one_value_per_row(report.scores)
                                           : report.output_types.size() == 1 &&
                                                 one_value_per_row(report.output_types[0].second);
  if (open && column) {
    flags.loss = "mse";
    report = examine(check);
  }
  report.loss_assumed = open;
  return report;
}

}  // namespace

Action setup_check(CLI::App& app) {
  auto flags = std::make_shared<CheckFlags>();
  add_model_argument(app, flags->shared);
  app.add_flag("--all", flags->all, "every tensor with its reason, and all lists in full");
  add_sample_flag(app, flags->sample);
  add_json_flag(app, flags->shared);
  add_graph_flags(app, flags->shared);
  add_example(app, "sardonyx check resnet.onnx --batch 32");
  return [flags, &app] {
    if (app.get_option("--loss")->count() > 0) flags->shared.given.insert("--loss");
    const CheckReport report = examine_with_loss(*flags);
    fmt::print("{}", flags->shared.json ? report_json(report, flags->shared)
                                        : report_text(report, flags->shared,
                                                      flags->all ? Rows::kAll : Rows::kGrouped));
    if (report.trainable()) return 0;
    // The report may have gone to a file; whoever sees the exit code gets the reason, once.
    if (errors_go_with_output()) return 1;
    put(stderr, support::printable(fmt::format(
                    "error: {} {}: {}\n", report.model,
                    report.undecided ? "can't be judged" : "can't be trained", headline(report))));
    return 1;
  };
}

}  // namespace sardonyx::tools
