// sardonyx check: one screen that says whether a model can be trained, what will be trained and
// why, what stands in the way, and the command that does it. Exit code 1 when it can't.
#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "runtime/feed.h"
#include "runtime/single_rows.h"
#include "runtime/text.h"
#include "tools/check_report.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/folded_batch_norm.h"
#include "tools/streams.h"

namespace sardonyx::tools {

namespace {

struct CheckFlags {
  runtime::Flags shared;
  bool all = false;
};

// For a file with a fixed number of rows: the session with --set-batch if that works or was asked
// for.
std::unique_ptr<runtime::Session> try_set_batch(const runtime::Flags& flags, CheckReport& report) {
  runtime::SessionOptions options = runtime::session_options(flags);
  options.pipeline.set_batch = true;
  auto session = runtime::Session::open(flags.model, std::move(options));
  report.set_batch_problem = session->examine(report.baked_rows + 1).error;
  report.set_batch = report.set_batch_problem.empty() || flags.set_batch;
  return report.set_batch ? std::move(session) : nullptr;
}

CheckReport examine(const CheckFlags& flags) {
  runtime::Flags as_in_file = flags.shared;
  as_in_file.set_batch = false;
  auto session = runtime::Session::open(flags.shared.model, runtime::session_options(as_in_file));
  CheckReport report;
  report.model = flags.shared.model;
  report.producer = session->model().skeleton().producer_name();
  report.folded_batch_norms = describe(folded_batch_norm(session->model().skeleton()));
  describe_graph(session->imported(), report);
  report.baked_rows = runtime::baked_rows(*session);
  if (report.baked_rows > 0) {
    if (auto any = try_set_batch(flags.shared, report)) session = std::move(any);
  }
  auto setup = runtime::batch_setup(flags.shared, runtime::baked_rows(*session));
  runtime::join_singles(*session, {setup.batch}, setup.cut);
  report.batch = setup.batch;
  report.rows = runtime::largest_micro_batch(setup);
  runtime::Examination found = session->examine(report.rows);
  report.parameters = std::move(found.parameters);
  report.unsupported = std::move(found.unsupported);
  report.scores = found.scores;
  report.problem = found.error;
  if (report.problem.empty()) {
    try {
      report.memory = session->draft_plan(report.rows)->memory;
    } catch (const Error& error) {
      report.problem = error.what();
    }
  }
  report.notices = session->notices();
  return report;
}

}  // namespace

Action setup_check(CLI::App& app) {
  auto flags = std::make_shared<CheckFlags>();
  add_model_argument(app, flags->shared);
  app.add_flag("--all", flags->all, "every row of the table of parameters");
  add_json_flag(app, flags->shared);
  add_graph_flags(app, flags->shared);
  add_example(app, "sardonyx check resnet.onnx --batch 32");
  return [flags] {
    const CheckReport report = examine(*flags);
    fmt::print("{}", flags->shared.json ? report_json(report)
                                        : report_text(report, flags->shared, flags->all));
    if (report.trainable()) return 0;
    // The report may have gone to a file; whoever sees the exit code gets the reason.
    put(stderr,
        support::printable(fmt::format("error: {} can't be trained{}\n", report.model,
                                       report.problem.empty() ? "" : ": " + report.problem)));
    return 1;
  };
}

}  // namespace sardonyx::tools
