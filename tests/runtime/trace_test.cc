// Traces of real sessions, read back as the JSON that viewers read: complete, well formed, bounded.
#include "runtime/trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "models/lenet.h"
#include "runtime/data/batch_cut.h"
#include "runtime/run_state.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;
using Json = nlohmann::json;
using sardonyx::testing::error_of;
using sardonyx::testing::read_file;
using sardonyx::testing::TemporaryFolder;

constexpr double kRounding = 0.0015;  // microseconds; times have three digits

Batch batch_of(int64_t rows) {
  std::vector<float> images(static_cast<size_t>(rows * 16 * 16));
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 17) / 17;
  std::vector<int64_t> labels(static_cast<size_t>(rows));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i % 10);
  Batch batch;
  batch.inputs.emplace_back("input", Tensor::of<float>({rows, 1, 16, 16}, images));
  batch.labels = Tensor::of<int64_t>({rows}, labels);
  return batch;
}

// LeNet for 1 x 16 x 16 images; its gradients travel in several buckets.
struct Lenet {
  explicit Lenet(size_t replicas, int threads, const std::string& first_node = "") {
    models::ImageModel image;
    image.height = image.width = 16;
    image.init = graph::parse_init("kaiming", 3);
    const auto graph = models::lenet(image);
    if (!first_node.empty()) graph->nodes().front().name = first_node;
    SessionOptions options;
    options.devices.assign(replicas, "cpu");
    options.threads = threads;
    options.pipeline.reduce.bucket_bytes = options.pipeline.reduce.first_bucket_bytes = 60000;
    session =
        std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)), options);
  }
  void train(int steps, int64_t rows, int64_t pieces) const {
    CutOptions cut;
    cut.replicas = session->replicas();
    cut.accumulate = pieces;
    for (int i = 0; i < steps; ++i) session->train_step(batch_of(rows), cut_batch(rows, cut), 0.01);
  }
  // What is in a trace of `body`.
  template <class Body>
  Json traced(const Body& body, size_t most_spans = kMostSpans) const {
    std::vector<std::string> names;
    for (int r = 0; r < session->replicas(); ++r) names.push_back(session->device_name(r));
    Trace trace(names, session->threads() / session->replicas(), most_spans);
    session->set_recorder(&trace);
    body();
    session->set_recorder(nullptr);
    return Json::parse(trace.json());
  }
  std::unique_ptr<Session> session;
};

struct Event {
  std::string name, category;
  int pid = 0, tid = 0;
  double begin = 0, end = 0;
  Json args;
  bool holds(const Event& other) const {
    return begin <= other.begin + kRounding && other.end <= end + kRounding;
  }
};

// Of one track, in the order of their beginning, longer ones first.
using Track = std::pair<int, int>;
std::map<Track, std::vector<Event>> tracks(const Json& trace) {
  std::map<Track, std::vector<Event>> tracks;
  for (const Json& json : trace["traceEvents"]) {
    if (json["ph"] != "X") continue;
    Event event{json["name"], json["cat"], json["pid"], json["tid"], json["ts"], 0, json["args"]};
    EXPECT_GE(json["dur"].get<double>(), 0) << json;
    EXPECT_GE(event.begin, 0) << json;
    event.end = event.begin + json["dur"].get<double>();
    tracks[{event.pid, event.tid}].push_back(event);
  }
  return tracks;
}

std::vector<Event> named(const std::vector<Event>& events, const std::string& name) {
  std::vector<Event> found;
  for (const Event& event : events) {
    if (event.name == name) found.push_back(event);
  }
  return found;
}

std::vector<Event> of_category(const std::vector<Event>& events, const std::string& category) {
  std::vector<Event> found;
  for (const Event& event : events) {
    if (event.category == category) found.push_back(event);
  }
  return found;
}

// Events of a track lie in each other or apart.
void expect_nested(const std::vector<Event>& events) {
  std::vector<Event> open;
  for (const Event& event : events) {
    while (!open.empty() && open.back().end <= event.begin + kRounding) open.pop_back();
    EXPECT_TRUE(open.empty() || open.back().holds(event)) << event.name;
    open.push_back(event);
  }
}

void expect_inside_one_of(const std::vector<Event>& outer, const std::vector<Event>& inner) {
  for (const Event& event : inner) {
    const auto holds = [&](const Event& candidate) { return candidate.holds(event); };
    EXPECT_TRUE(std::any_of(outer.begin(), outer.end(), holds)) << event.name;
  }
}

// Of all training plans so far.
std::vector<const passes::Step*> steps_of(const Session& session) {
  std::vector<const passes::Step*> steps;
  for (const passes::Plan* plan : session.training_plans()) {
    for (const passes::Region& region : plan->regions) {
      for (const passes::Step& step : region.steps) steps.push_back(&step);
    }
  }
  return steps;
}

std::string process_name(const Json& trace, int pid) {
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "process_name" && event["pid"] == pid) {
      return event["args"]["name"];
    }
  }
  return "none";
}

TEST(Trace, two_replicas_show_every_step_and_every_sum_on_both) {
  const Lenet lenet(2, 4);
  const int steps = 3;
  lenet.train(1, 64, 2);
  const Json trace = lenet.traced([&] { lenet.train(steps, 64, 2); });
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  EXPECT_EQ(trace["otherData"]["whole_steps"], steps);
  EXPECT_EQ(trace["otherData"]["full"], false);
  const std::string device = lenet.session->device_name(0);
  EXPECT_EQ(process_name(trace, 0), "replica 0 (" + device + ")");
  EXPECT_EQ(process_name(trace, 1), "replica 1 (" + device + ")");
  EXPECT_EQ(process_name(trace, 2), "training loop");

  const auto by_track = tracks(trace);
  ASSERT_EQ(by_track.size(), 5u);  // two threads each, and the loop
  for (const auto& [track, events] : by_track) expect_nested(events);
  const std::vector<Event>& loop = by_track.at({2, 0});
  ASSERT_EQ(loop.size(), static_cast<size_t>(steps));
  EXPECT_EQ(loop[0].name, "step 2");
  EXPECT_EQ(loop[0].args["rows"], 64);

  const auto plans = lenet.session->training_plans();
  ASSERT_EQ(plans.size(), 2u);  // the first and the last piece
  std::set<std::string> labels, buckets;
  for (const passes::Step* step : steps_of(*lenet.session)) {
    labels.insert(step->node->label());
    if (step->node->op == "AllReduce") buckets.insert(step->node->input(0)->name);
  }
  EXPECT_GE(buckets.size(), 2u);
  for (int pid = 0; pid < 2; ++pid) {
    const std::vector<Event>& driver = by_track.at({pid, 0});
    const std::vector<Event> pieces = named(driver, "micro-batch");
    ASSERT_EQ(pieces.size(), static_cast<size_t>(2 * steps));
    EXPECT_EQ(pieces[0].args["rows"], 16);
    EXPECT_EQ(pieces[1].args["first_row"], 32 * pid + 16);
    expect_inside_one_of(loop, pieces);
    std::set<std::string> seen;
    for (int tid = 0; tid < 2; ++tid) {
      const std::vector<Event>& events = by_track.at({pid, tid});
      expect_inside_one_of(pieces, of_category(events, "compute"));
      for (const Event& event : events) seen.insert(event.name);
    }
    expect_inside_one_of(pieces, of_category(driver, "wait"));
    for (const std::string& label : labels) EXPECT_TRUE(seen.contains(label)) << label;
    for (const std::string& bucket : buckets) {
      const std::vector<Event> slices = named(driver, "add " + bucket);
      EXPECT_EQ(slices.size(), static_cast<size_t>(steps)) << bucket;
      EXPECT_EQ(slices.at(0).category, "communication");
      EXPECT_EQ(slices.at(0).args["bucket"], bucket);
    }
  }
  // Flights: a beginning and an end of each bucket, step and replica, by the same id.
  std::map<std::string, std::vector<Json>> flights;
  std::map<std::pair<int, std::string>, int> counts;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "b" && event["ph"] != "e") continue;
    flights[event["id"]].push_back(event);
    if (event["ph"] == "b") ++counts[{event["pid"], event["name"]}];
  }
  EXPECT_EQ(flights.size(), 2 * buckets.size() * static_cast<size_t>(steps));
  for (const auto& [id, ends] : flights) {
    ASSERT_EQ(ends.size(), 2u) << id;
    EXPECT_EQ(ends[0]["ph"], "b");
    EXPECT_EQ(ends[1]["ph"], "e");
    EXPECT_EQ(ends[0]["name"], ends[1]["name"]);
    EXPECT_LE(ends[0]["ts"].get<double>(), ends[1]["ts"].get<double>());
  }
  for (const std::string& bucket : buckets) {
    EXPECT_EQ((counts[{0, bucket + " in flight"}]), steps);
    EXPECT_EQ((counts[{1, bucket + " in flight"}]), steps);
  }
}

TEST(Trace, blocks_stand_on_the_threads_that_ran_them_each_once_per_step) {
  const Lenet lenet(1, 2);
  const int64_t rows = 77;
  lenet.train(1, rows, 1);
  const auto by_track = tracks(lenet.traced([&] { lenet.train(2, rows, 1); }));
  const passes::Plan& plan = *lenet.session->training_plans().at(0);
  const passes::Region* region = nullptr;
  for (const passes::Region& candidate : plan.regions) {
    if (candidate.blocked()) region = &candidate;
  }
  ASSERT_NE(region, nullptr);
  ASSERT_GT(region->tail_rows, 0);
  const std::string label = region->steps[0].node->label();
  std::vector<int> runs(static_cast<size_t>(region->blocks));
  int64_t seen = 0;
  for (const int tid : {0, 1}) {
    const std::vector<Event> events = named(by_track.at({0, tid}), label);
    EXPECT_GT(events.size(), 0u);
    for (const Event& event : events) {
      ++runs.at(event.args["block"].get<size_t>());
      seen += event.args["rows"].get<int64_t>();
      EXPECT_EQ(event.args["op"], region->steps[0].node->op);
      EXPECT_EQ(event.args["kernel"], region->steps[0].def->name);
      EXPECT_GT(event.args["bytes"], 0);
    }
  }
  EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(region->blocks), 2));
  EXPECT_EQ(seen, 2 * rows);
  const std::vector<Event> sums = named(by_track.at({0, 0}), "add partial sums");
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].args["sums"], region->sums.size());
  EXPECT_TRUE(of_category(by_track.at({0, 0}), "communication").empty());
}

TEST(Trace, evaluation_is_told_from_training) {
  const Lenet lenet(2, 2);
  lenet.train(1, 20, 1);
  const auto by_track = tracks(lenet.traced([&] { lenet.session->evaluate(batch_of(20), 5); }));
  EXPECT_EQ(named(by_track.at({0, 0}), "evaluation part").size(), 2u);
  EXPECT_EQ(named(by_track.at({1, 0}), "evaluation part").size(), 2u);
  EXPECT_TRUE(named(by_track.at({0, 0}), "micro-batch").empty());
}

TEST(Trace, a_full_trace_ends_with_a_whole_step) {
  const Lenet lenet(2, 2);
  lenet.train(1, 32, 1);
  const Json whole = lenet.traced([&] { lenet.train(1, 32, 1); });
  const size_t events = std::max(tracks(whole).at({0, 0}).size(), tracks(whole).at({1, 0}).size());
  // The waits differ from step to step: room for three steps and a part of the fourth.
  const size_t room = 3 * 3 * (events + events / 5);
  const Json trace = lenet.traced([&] { lenet.train(6, 32, 1); }, room);
  EXPECT_EQ(trace["otherData"]["full"], true);
  const auto by_track = tracks(trace);
  const std::vector<Event>& loop = by_track.at({2, 0});
  EXPECT_EQ(trace["otherData"]["whole_steps"], loop.size());
  EXPECT_GE(loop.size(), 2u);
  EXPECT_LT(loop.size(), 6u);
  for (const int pid : {0, 1}) {
    EXPECT_EQ(named(by_track.at({pid, 0}), "micro-batch").size(), loop.size());
    expect_inside_one_of(loop, by_track.at({pid, 0}));
  }
}

TEST(Trace, less_than_a_step_of_room_keeps_the_beginning) {
  const Lenet lenet(1, 1);
  const Json trace = lenet.traced([&] { lenet.train(2, 32, 1); }, 20);
  EXPECT_EQ(trace["otherData"]["full"], true);
  EXPECT_EQ(trace["otherData"]["whole_steps"], 0);
  EXPECT_EQ(tracks(trace).at({0, 0}).size(), 10u);
}

TEST(Trace, any_name_gives_json) {
  const Lenet lenet(1, 1, "a \"b\"\\\n\t{c}");
  const auto by_track = tracks(lenet.traced([&] { lenet.train(1, 16, 1); }));
  for (const passes::Step* step : steps_of(*lenet.session)) {
    EXPECT_FALSE(named(by_track.at({0, 0}), step->node->label()).empty()) << step->node->label();
  }

  Trace bad_bytes({"\xff"}, 1);
  EXPECT_EQ(process_name(Json::parse(bad_bytes.json()), 0), "replica 0 (\xef\xbf\xbd)");
}

TEST(TraceFile, is_written_when_it_is_full_and_then_nothing_is_recorded) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  std::vector<std::string> lines;
  const support::ScopedLogSink sink(
      [&](support::LogLevel, std::string_view line) { lines.emplace_back(line); });
  const Lenet lenet(1, 1);
  TraceFile file(*lenet.session, path, 800);
  EXPECT_NE(lenet.session->recorder(), nullptr);
  lenet.train(1, 16, 1);
  file.border({});
  EXPECT_FALSE(std::filesystem::exists(path));
  for (int i = 0; i < 40; ++i) {
    lenet.train(1, 16, 1);
    file.border({});
  }
  EXPECT_EQ(lenet.session->recorder(), nullptr);
  const Json trace = Json::parse(read_file(path));
  const int64_t steps = trace["otherData"]["whole_steps"];
  EXPECT_GE(steps, 2);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(
      lines[0].ends_with("t.json is full: it holds the first " + std::to_string(steps) + " steps"))
      << lines[0];
  std::filesystem::remove(path);
  file.end({});
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TraceFile, is_written_at_the_end_and_a_place_that_is_gone_is_a_warning) {
  const TemporaryFolder folder;
  const Lenet lenet(1, 1);
  {
    TraceFile file(*lenet.session, folder.path() / "t.json");
    lenet.train(2, 16, 1);
    file.end({});
  }
  EXPECT_EQ(Json::parse(read_file(folder.path() / "t.json"))["otherData"]["whole_steps"], 2);

  std::vector<std::string> lines;
  const support::ScopedLogSink sink(
      [&](support::LogLevel, std::string_view line) { lines.emplace_back(line); });
  TraceFile gone(*lenet.session, folder.path() / "gone" / "t.json");
  gone.end({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("there is no trace: ")) << lines[0];
  TraceFile again(*lenet.session, folder.path() / "gone" / "t.json");
  EXPECT_NE(error_of([&] { again.close(); }), "no error");
}

TEST(TraceFile, leaves_the_session_alone_when_it_goes) {
  const TemporaryFolder folder;
  const Lenet lenet(1, 1);
  { const TraceFile file(*lenet.session, folder.path() / "t.json"); }
  EXPECT_EQ(lenet.session->recorder(), nullptr);
  lenet.train(1, 16, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "t.json"));
}

}  // namespace
}  // namespace sardonyx::runtime
