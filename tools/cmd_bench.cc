// sardonyx bench: timed training steps on synthetic data that stand in memory, then one more round
// with every step of the plan measured, and one that is traced if asked for. Those two rounds
// aren't part of the reported times.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "graph/support/log.h"
#include "runtime/data/prefetch.h"
#include "runtime/devices/peak.h"
#include "runtime/feed.h"
#include "runtime/metrics.h"
#include "runtime/optimizer_flags.h"
#include "runtime/run_times.h"
#include "runtime/shared_processor.h"
#include "runtime/single_rows.h"
#include "runtime/stop_signal.h"
#include "runtime/text.h"
#include "runtime/trace.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/json_text.h"
#include "tools/output_files.h"
#include "tools/tuning_report.h"

namespace sardonyx::tools {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// When the program was loaded: what comes before main() counts too.
const Clock::time_point g_loaded = Clock::now();
constexpr int kWarmupSteps = 2;
constexpr size_t kShownNodes = 24;

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

struct BenchFlags {
  runtime::Flags shared;
  int64_t steps = 20, repetitions = 5;
};

struct NodeTime {
  std::string node, kernel;
  double ms = 0, flops = 0;  // per step
  double flops_per_second() const { return 1e3 * flops / ms; }
};

struct Measured {
  std::vector<NodeTime> nodes;               // slowest first
  runtime::CommunicationTime communication;  // per step
  double peak = 0;                           // operations per second of the threads behind `nodes`
};

// One batch in memory, and the steps over it.
class Bench {
 public:
  explicit Bench(const BenchFlags& flags) : flags_(flags) {
    session_ = runtime::Session::open(flags.shared.model, tuning_until_signal(flags.shared));
    feed_ = runtime::find_feed(*session_, flags.shared);
    setup_ = runtime::batch_setup(flags.shared, feed_.baked_rows());
    runtime::join_singles(*session_, {setup_.batch}, setup_.cut);
    cut_ = runtime::cut_batch(setup_.batch, setup_.cut);
    runtime::Flags data_flags = flags.shared;
    data_flags.data = fmt::format("synthetic:{}", setup_.batch);
    const runtime::FedData data =
        runtime::open_data(*session_, feed_, data_flags, runtime::largest_micro_batch(cut_),
                           runtime::DataUse::kEvaluateTrain);
    runtime::PrefetchOptions once;
    once.batches = 1;
    loader_ = std::make_unique<runtime::Prefetcher>(
        data.train, runtime::Sampler(data.train->size(), {setup_.batch}), once);
    input_ = std::make_shared<const runtime::StepInput>(
        runtime::StepInput{runtime::session_batch(feed_, *data.train, *loader_->next()), cut_,
                           runtime::learning_rate(flags.shared)});
    for (const std::string& line : session_->notices()) support::notice("{}", line);
  }

  // Plans, and measures with --tune; a signal ends that, and what was measured is kept. Returns the
  // signal, or 0.
  int prepare() {
    if (!flags_.shared.tune) return 0;
    const runtime::StopSignal signal;
    session_->prepare_training({cut_});
    const int received = runtime::StopSignal::received();
    if (received != 0) {
      fmt::print(stderr, "stopped by {}; {}\n", runtime::StopSignal::name(received),
                 session_->tuner()->summary());
    }
    return received;
  }

  runtime::TuningGain gain() { return session_->tuning_gain(cut_); }

  // As the trainer does, which knows the next batch while a step runs.
  void step() { session_->train_step(input_, runtime::NonFinite::kStop, input_); }

  double seconds_per_step() {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < flags_.steps; ++i) step();
    return seconds_since(start) / static_cast<double>(flags_.steps);
  }

  Measured measure() {
    const int replicas = session_->replicas();
    runtime::RunTimes times(replicas, session_->threads() / replicas);
    session_->set_recorder(&times);
    for (int64_t i = 0; i < flags_.steps; ++i) step();
    session_->set_recorder(nullptr);
    Measured measured;
    measured.nodes = nodes_of(times);
    measured.communication = times.communication(flags_.steps);
    measured.peak = probe_peak();
    return measured;
  }

  void trace() {
    runtime::TraceFile file(*session_, flags_.shared.trace);
    for (int64_t i = 0; i < flags_.steps; ++i) step();
    file.close();
  }

  runtime::Session& session() { return *session_; }
  int64_t rows() const { return setup_.batch; }
  const char* unit() const { return feed_.first().type.rank() == 4 ? "images" : "samples"; }

 private:
  // Of the threads of one replica, whose nodes are measured, while all others compute as well.
  double probe_peak() const {
    return runtime::probed_peak_flops(session_->threads(), session_->options().pipeline.dtype) /
           session_->replicas();
  }

  // The pieces of an accumulated step are added up.
  std::vector<NodeTime> nodes_of(const runtime::RunTimes& times) const {
    std::map<std::pair<std::string, std::string>, NodeTime> sums;
    const auto steps = static_cast<double>(flags_.steps);
    for (const passes::Plan* plan : session_->training_plans()) {
      for (const runtime::StepTime& time : times.steps(*plan)) {
        const std::string label = time.step->node->label(), kernel = time.step->def->name;
        NodeTime& sum = sums[{label, kernel}];
        sum.node = label;
        sum.kernel = kernel;
        sum.ms += 1e3 * time.seconds / steps;
        sum.flops += time.flops / steps;
      }
    }
    std::vector<NodeTime> nodes;
    for (auto& [key, time] : sums) nodes.push_back(std::move(time));
    std::sort(nodes.begin(), nodes.end(),
              [](const NodeTime& a, const NodeTime& b) { return a.ms > b.ms; });
    return nodes;
  }

  const BenchFlags& flags_;
  std::unique_ptr<runtime::Session> session_;
  runtime::Feed feed_;
  runtime::BatchSetup setup_;
  runtime::Cut cut_;
  std::unique_ptr<runtime::Prefetcher> loader_;  // owns the rows of input_
  std::shared_ptr<const runtime::StepInput> input_;
};

Json record(Bench& bench, double step_seconds, double startup) {
  const passes::MemoryReport memory = bench.session().memory();
  const auto replicas = static_cast<size_t>(bench.session().replicas());
  return {{"images_per_s", static_cast<double>(bench.rows()) / step_seconds},
          {"step_ms", 1e3 * step_seconds},
          {"peak_rss_bytes", runtime::peak_rss_bytes()},
          {"planned_bytes", bench.session().planned_bytes()},
          {"liveness_bound_bytes", replicas * (memory.state_bytes + memory.liveness_bound_bytes)},
          {"startup_s", startup}};
}

Json nodes_json(const Measured& measured) {
  Json list = Json::array();
  for (const NodeTime& node : measured.nodes) {
    Json entry = {{"node", node.node}, {"kernel", node.kernel}, {"ms", node.ms}};
    const bool counted = node.flops > 0;
    entry["gflops"] = counted ? Json(1e-9 * node.flops_per_second()) : Json();
    entry["of_peak"] = counted ? Json(node.flops_per_second() / measured.peak) : Json();
    list.push_back(std::move(entry));
  }
  return list;
}

void print_nodes(const Measured& measured) {
  const std::vector<NodeTime>& nodes = measured.nodes;
  double sum = 0;
  for (const NodeTime& node : nodes) sum += node.ms;
  fmt::print("\n{:>9} {:>6} {:>9} {:>8}  {:<26} {}\n", "ms/step", "share", "GFLOP/s", "of peak",
             "kernel", "node");
  double shown = 0;
  for (size_t i = 0; i < std::min(nodes.size(), kShownNodes); ++i) {
    const NodeTime& node = nodes[i];
    shown += node.ms;
    const std::string speed =
        node.flops > 0 ? fmt::format("{:>9.1f} {:>7.1f}%", 1e-9 * node.flops_per_second(),
                                     100 * node.flops_per_second() / measured.peak)
                       : "";
    fmt::print("{:>9.4f} {:>5.1f}% {:>18}  {:<26} {}\n", node.ms, 100 * node.ms / sum, speed,
               node.kernel, node.node);
  }
  if (nodes.size() > kShownNodes) {
    fmt::print("{:>9.4f} {:>5.1f}% {:>18}  {} more (--json lists all)\n", sum - shown,
               100 * (sum - shown) / sum, "", nodes.size() - kShownNodes);
  }
  fmt::print("{:>9.4f} in all steps of the plan; peak: {:.1f} GFLOP/s of multiply-adds\n", sum,
             1e-9 * measured.peak);
}

void print_medians_json(Bench& bench, Json medians, const Measured& measured) {
  medians["median"] = true;
  medians["batch"] = bench.rows();
  medians["device"] = bench.session().device_name();
  medians["peak_gflops"] = 1e-9 * measured.peak;
  if (bench.session().replicas() > 1) {
    const runtime::CommunicationTime& time = measured.communication;
    medians["communication_ms"] = 1e3 * time.in_flight;
    medians["hidden_share"] = time.hidden();
    medians["communication_adding_ms"] = 1e3 * time.adding;
    medians["communication_blocked_ms"] = 1e3 * time.blocked;
  }
  if (bench.session().tuner() != nullptr) {
    medians["tuning"] = tuning_json(*bench.session().tuner(), TuningRows::kChanged);
  }
  medians["ops"] = nodes_json(measured);
  fmt::print("{}\n", json_text(medians));
}

void print_medians(Bench& bench, const Json& medians, const Measured& measured) {
  const auto bytes = [&](const char* key) {
    return runtime::bytes_str(medians[key].get<double>());
  };
  fmt::print("median: {:.3f} ms/step, {} {}/s, batch {}, {}\n", medians["step_ms"].get<double>(),
             runtime::count_str(std::llround(medians["images_per_s"].get<double>())), bench.unit(),
             bench.rows(), bench.session().device_name());
  fmt::print("memory: planned {} (bound {}), peak {}; first step done after {:.3f} s\n",
             bytes("planned_bytes"), bytes("liveness_bound_bytes"), bytes("peak_rss_bytes"),
             medians["startup_s"].get<double>());
  if (bench.session().replicas() > 1) {
    const runtime::CommunicationTime& time = measured.communication;
    fmt::print(
        "communication: {:.3f} ms per step, {:.1f} % hidden ({:.3f} ms adding, {:.3f} ms "
        "blocked)\n",
        1e3 * time.in_flight, 100 * time.hidden(), 1e3 * time.adding, 1e3 * time.blocked);
  }
  print_nodes(measured);
}

void notice_shared(const runtime::Session& session, const runtime::ProcessorTime& time) {
  // Shorter runs say too little.
  if (time.ran + time.waited < 1) return;
  const std::string text =
      runtime::shared_processor_text(session.threads(), session.replicas(), time);
  if (!text.empty()) support::notice("{}", text);
}

int run(const BenchFlags& flags) {
  runtime::session_options(flags.shared);
  check_outputs({{"--trace", flags.shared.trace}}, flags.shared);
  Bench bench(flags);
  if (const int signal = bench.prepare(); signal != 0) return 128 + signal;
  bench.step();
  const double startup = seconds_since(g_loaded);
  if (bench.session().tuner() != nullptr && !flags.shared.json) {
    fmt::print("{}\n", tuning_text(*bench.session().tuner(), TuningRows::kChanged));
    fmt::print("{}\n", gain_text(bench.gain()));
  }
  for (int i = 1; i < kWarmupSteps; ++i) bench.step();
  const runtime::ProcessorClock clock(bench.session().thread_ids());
  std::vector<double> seconds;
  for (int64_t i = 0; i < flags.repetitions; ++i) {
    seconds.push_back(bench.seconds_per_step());
    const Json line = record(bench, seconds.back(), startup);
    if (flags.shared.json) {
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("repetition {}: {:.3f} ms/step, {} {}/s\n", i + 1, 1e3 * seconds.back(),
                 runtime::count_str(std::llround(line["images_per_s"].get<double>())),
                 bench.unit());
    }
    std::fflush(stdout);
  }
  notice_shared(bench.session(), clock.elapsed());
  Json medians = record(bench, median(seconds), startup);
  const Measured measured = bench.measure();
  if (!flags.shared.trace.empty()) bench.trace();
  if (flags.shared.json) {
    print_medians_json(bench, std::move(medians), measured);
  } else {
    print_medians(bench, medians, measured);
  }
  return 0;
}

}  // namespace

Action setup_bench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  add_model_argument(app, flags->shared);
  add_whole(app, "--steps", flags->steps, 1, kMostCount, "per repetition (default 20)");
  add_whole(app, "--repetitions", flags->repetitions, 1, kMostCount,
            "how often they are timed (default 5)");
  add_json_flag(app, flags->shared);
  add_trace_flag(app, flags->shared);
  add_tune_flag(app, flags->shared);
  add_graph_flags(app, flags->shared);
  add_example(app, "sardonyx bench lenet.onnx --batch 256 --threads 2");
  return [flags] { return run(*flags); };
}

}  // namespace sardonyx::tools
