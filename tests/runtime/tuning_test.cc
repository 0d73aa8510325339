// --tune: the fastest kernel by measurement, once per request; a cache file that is read only when
// it is ours and whole; choices that a checkpoint can replay.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/env.h"
#include "graph/support/log.h"
#include "runtime/devices/kernel_clock.h"
#include "runtime/devices/thread_pool.h"
#include "runtime/session.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;
using Times = TuningCache::Times;

// A folder for the cache, which every session of the test uses, and the notices.
class Tuning : public ::testing::Test {
 protected:
  Tuning()
      : folder_(fs::temp_directory_path() / fmt::format("sardonyx_tuning_{}", ::getpid())),
        file_(folder_ / "cache" / "tuning.json"),
        log_([this](support::LogLevel, std::string_view line) { notices_.emplace_back(line); }) {
    fs::remove_all(folder_);
    fs::create_directories(file_.parent_path());
    ::setenv("SARDONYX_TUNING_CACHE", file_.c_str(), 1);
    support::reread_env();
  }
  ~Tuning() override {
    ::unsetenv("SARDONYX_TUNING_CACHE");
    support::reread_env();
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }

  void put_file(const std::string& text) {
    fs::create_directories(file_.parent_path());
    std::ofstream(file_) << text;
  }
  std::string text() const {
    std::ifstream stream(file_);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_, file_;
  std::vector<std::string> notices_;
  support::ScopedLogSink log_;
};

// --- the file

TEST_F(Tuning, times_come_back_from_the_file_for_the_same_machine_only) {
  TuningCache first({file_}, "machine");
  EXPECT_EQ(first.find("Conv"), nullptr);
  first.put("Conv", {{"a", 0.1 + 0.2}, {"b", 1e-5}});
  first.save();
  const TuningCache again({file_}, "machine"), other({file_}, "machine with 3 threads");
  ASSERT_NE(again.find("Conv"), nullptr);
  EXPECT_EQ(*again.find("Conv"), (Times{{"a", 0.1 + 0.2}, {"b", 1e-5}}));
  EXPECT_EQ(other.find("Conv"), nullptr);
  EXPECT_EQ(notices_, std::vector<std::string>{});
}

TEST_F(Tuning, two_writers_keep_what_both_found) {
  TuningCache one({file_}, "machine"), two({file_}, "machine"), elsewhere({file_}, "other");
  one.put("a", {{"k", 1}});
  two.put("b", {{"k", 2}});
  elsewhere.put("c", {{"k", 3}});
  one.save();
  two.save();
  elsewhere.save();
  const TuningCache all({file_}, "machine");
  EXPECT_NE(all.find("a"), nullptr);
  EXPECT_NE(all.find("b"), nullptr);
  EXPECT_NE(TuningCache({file_}, "other").find("c"), nullptr);
}

TEST_F(Tuning, writers_at_the_same_moment_leave_a_whole_file) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 10; ++k) {
        TuningCache cache({file_}, "machine");
        cache.put(fmt::format("{} {}", i, k), {{"k", 1}});
        cache.save();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(notices_, std::vector<std::string>{});
  TuningCache({file_}, "machine");
  EXPECT_EQ(notices_, std::vector<std::string>{});
}

TEST_F(Tuning, a_damaged_file_is_ignored_with_a_line_and_replaced) {
  for (const char* damaged : {R"({"sardonyx_tuning": 1, "machines": {"machi)",
                              R"({"sardonyx_tuning": 1, "machines": {"machine": {"Conv": 7}}})",
                              R"({"sardonyx_tuning": 1})"}) {
    notices_.clear();
    put_file(damaged);
    TuningCache cache({file_}, "machine");
    ASSERT_EQ(notices_.size(), 1) << damaged;
    EXPECT_EQ(notices_[0],
              fmt::format("the tuning cache {} is ignored: it is damaged", file_.string()));
    EXPECT_EQ(cache.find("Conv"), nullptr);
    cache.put("Conv", {{"a", 1}});
    cache.save();
    EXPECT_NE(TuningCache({file_}, "machine").find("Conv"), nullptr);
  }
}

TEST_F(Tuning, what_is_left_of_a_file_that_was_cut_off_is_replaced) {
  TuningCache first({file_}, "machine");
  first.put("Conv", {{"a", 1}});
  first.save();
  put_file(text().substr(0, 30));
  TuningCache cache({file_}, "machine");
  ASSERT_EQ(notices_.size(), 1);
  EXPECT_TRUE(notices_[0].ends_with("it is damaged")) << notices_[0];
  cache.put("Conv", {{"a", 1}});
  cache.save();
  EXPECT_NE(TuningCache({file_}, "machine").find("Conv"), nullptr);
}

TEST_F(Tuning, a_pipe_is_not_waited_for) {
  fs::create_directories(file_.parent_path());
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  const TuningCache cache({file_}, "machine");
  ASSERT_EQ(notices_.size(), 1);
  EXPECT_TRUE(notices_[0].ends_with("it can't be read")) << notices_[0];
}

TEST_F(Tuning, a_file_of_another_kind_is_ignored_and_stays_as_it_is) {
  for (const char* foreign :
       {"# my notes\n", R"({"learning_rate": 0.1})", R"({"sardonyx_tuning": 2, "x": []})"}) {
    notices_.clear();
    put_file(foreign);
    TuningCache cache({file_}, "machine");
    EXPECT_EQ(notices_.size(), 1) << foreign;
    cache.put("Conv", {{"a", 1}});
    cache.save();
    EXPECT_EQ(text(), foreign);
  }
}

TEST_F(Tuning, a_file_that_cannot_be_written_or_read_is_a_notice) {
  if (::geteuid() == 0) {
    // Permissions don't stop root: a folder stands where the file should be, and the other way
    // round.
    fs::create_directories(file_);
    TuningCache folder({file_}, "machine");
    ASSERT_EQ(notices_.size(), 1);
    EXPECT_TRUE(notices_[0].ends_with("it can't be read")) << notices_[0];
    std::ofstream(folder_ / "file") << "x";
    TuningCache below({folder_ / "file" / "tuning.json"}, "machine");
    below.put("Conv", {{"a", 1}});
    below.save();
    ASSERT_EQ(notices_.size(), 2);
    EXPECT_TRUE(notices_[1].starts_with("the tuning cache is not kept: ")) << notices_[1];
    return;
  }
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  TuningCache cache({file_}, "machine");
  cache.put("Conv", {{"a", 1}});
  cache.save();
  ASSERT_EQ(notices_.size(), 1);
  EXPECT_TRUE(notices_[0].starts_with("the tuning cache is not kept: ")) << notices_[0];
}

TEST_F(Tuning, the_machine_of_the_cache_names_what_makes_times_void) {
  const std::string machine = tuning_machine(2);
  for (const char* part : {"2 threads", "oneDNN 2.", "sardonyx "}) {
    EXPECT_NE(machine.find(part), std::string::npos) << machine;
  }
  EXPECT_NE(machine, tuning_machine(3));
}

// --- the choice

struct Convolution {
  explicit Convolution(int64_t rows = 2) {
    graph = graph::parse(fmt::format(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[{0},16,8,8] x, float[16,16,3,3] w) => (float[{0},16,8,8] y) {{
  y = Conv<pads = [1, 1, 1, 1]>(x, w)  # float[{0},16,8,8]
}})",
                                     rows));
    request = ops::KernelRequest::of(*graph->outputs()[0]->producer);
    for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find("", "Conv")) {
      if (kernel->name == "conv.onednn") kernels.insert(kernels.begin(), kernel);
      if (kernel->name == "conv.small") kernels.push_back(kernel);
    }
  }
  std::unique_ptr<graph::Graph> graph;
  ops::KernelRequest request;
  std::vector<const ops::KernelDef*> kernels;  // of the table: conv.onednn
};

TEST_F(Tuning, the_fastest_is_chosen_and_asked_for_once) {
  Convolution c;
  int calls = 0;
  const KernelClock clock = [&](const auto& kernels, const auto&, passes::RunsOn) {
    ++calls;
    EXPECT_EQ(kernels.size(), 2);
    return KernelTimes{{3e-3, 2e-3}};
  };
  MeasuringTuner tuner(clock, TuningCache({file_}, "machine"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tuner.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
              "conv.small");
  }
  EXPECT_EQ(calls, 1);
  const std::vector<MeasuringTuner::Choice> changed{
      {"Conv -> y", "conv.onednn", "conv.small", 3e-3, 2e-3, 3}};
  EXPECT_EQ(tuner.changed(), changed);
  tuner.save();

  MeasuringTuner later(clock, TuningCache({file_}, "machine"));
  EXPECT_EQ(later.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
            "conv.small");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(later.known(), 1);
  // Other rows and other threads are other questions.
  Convolution larger(3);
  later.fastest(larger.kernels, larger.request, passes::RunsOn::kAllThreads, 1);
  later.fastest(c.kernels, c.request, passes::RunsOn::kOneThread, 1);
  EXPECT_EQ(calls, 3);
}

TEST_F(Tuning, a_gain_within_noise_and_kernels_that_cannot_be_measured_leave_the_table) {
  Convolution c;
  std::vector<double> seconds{2.0e-3, 1.98e-3};
  const KernelClock clock = [&](const auto&, const auto&, passes::RunsOn) {
    return KernelTimes{seconds};
  };
  MeasuringTuner noise(clock, TuningCache());
  EXPECT_EQ(noise.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
            "conv.onednn");
  seconds.clear();
  MeasuringTuner failing(clock, TuningCache());
  EXPECT_EQ(failing.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
            "conv.onednn");
  EXPECT_EQ(failing.left(), 1);
  EXPECT_EQ(failing.measured(), 0);
}

TEST_F(Tuning, kernels_are_measured_on_one_thread_and_on_all) {
  Convolution c;
  WorkerPool pool(2, Waiting::kSleep, {});
  for (const passes::RunsOn runs_on : {passes::RunsOn::kAllThreads, passes::RunsOn::kOneThread}) {
    const KernelTimes times = measure_kernels(pool, c.kernels, c.request, runs_on);
    ASSERT_EQ(times.seconds.size(), 2);
    EXPECT_GE(times.spread, 1);
    for (const double s : times.seconds) {
      if (std::isinf(times.spread)) continue;  // a machine that is too busy
      EXPECT_GT(s, 0);
      EXPECT_LT(s, 1);
    }
  }
}

TEST_F(Tuning, two_sets_agree_by_the_least_times_of_kernels_that_may_be_the_fastest) {
  // The third kernel is beaten, whatever its times; the first's best sets differ by 5 %.
  const KernelTimes times = agreement({{2.1, 3.0, 9}, {2.0, 2.5, 5}, {7.0, 2.5, 30}});
  EXPECT_EQ(times.seconds, (std::vector<double>{2.0, 2.5, 5}));
  EXPECT_DOUBLE_EQ(times.spread, 1.05);
  EXPECT_DOUBLE_EQ(agreement({{2, 4}, {2, 3}}).spread, 4.0 / 3);
  EXPECT_TRUE(std::isinf(agreement({{2, 4}}).spread));
  EXPECT_EQ(agreement({}).seconds, std::vector<double>{});
}

TEST_F(Tuning, only_kernels_without_a_time_are_measured) {
  Convolution c;
  const std::string key = tuning_key(c.request, passes::RunsOn::kAllThreads);
  TuningCache cache({file_}, "machine");
  cache.put(key, {{"conv.onednn", 5e-3}});
  std::vector<std::string> asked;
  const KernelClock clock = [&](const auto& kernels, const auto&, passes::RunsOn) {
    for (const ops::KernelDef* kernel : kernels) asked.push_back(kernel->name);
    return KernelTimes{{4e-3}};
  };
  MeasuringTuner tuner(clock, std::move(cache));
  EXPECT_EQ(tuner.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
            "conv.small");
  EXPECT_EQ(asked, std::vector<std::string>{"conv.small"});
  tuner.save();
  EXPECT_EQ(*TuningCache({file_}, "machine").find(key),
            (Times{{"conv.onednn", 5e-3}, {"conv.small", 4e-3}}));
}

TEST_F(Tuning, times_that_cannot_be_count_as_unknown) {
  put_file(R"({"sardonyx_tuning": 1, "machines": {"machine": {"Conv":
      {"zero": 0, "negative": -1, "absurd": 1e9, "good": 0.5}}}})");
  const TuningCache cache({file_}, "machine");
  EXPECT_EQ(*cache.find("Conv"), (Times{{"good", 0.5}}));
  EXPECT_EQ(notices_, std::vector<std::string>{fmt::format(
                          "the tuning cache {} has 3 times that can't be, they count as unknown",
                          file_.string())});
  notices_.clear();
  put_file(R"({"sardonyx_tuning": 1, "machines": {"machine": {"Conv": {"a": NaN}}}})");
  EXPECT_EQ(TuningCache({file_}, "machine").find("Conv"), nullptr);
  ASSERT_EQ(notices_.size(), 1);
  EXPECT_TRUE(notices_[0].ends_with("it is damaged")) << notices_[0];
}

TEST_F(Tuning, a_folder_that_the_user_named_is_not_made) {
  const fs::path missing = folder_ / "no" / "such" / "tuning.json";
  ::setenv("SARDONYX_TUNING_CACHE", missing.c_str(), 1);
  support::reread_env();
  TuningCache cache(tuning_cache_file(), "machine");
  EXPECT_EQ(notices_,
            std::vector<std::string>{fmt::format(
                "SARDONYX_TUNING_CACHE is {}, but there is no folder {}: what is measured is not "
                "kept",
                missing.string(), missing.parent_path().string())});
  cache.put("Conv", {{"a", 1}});
  cache.save();
  EXPECT_EQ(notices_.size(), 1);
  EXPECT_FALSE(fs::exists(folder_ / "no"));
  // The folders of the usual place are made.
  TuningCache usual({missing}, "machine");
  usual.put("Conv", {{"a", 1}});
  usual.save();
  EXPECT_TRUE(fs::exists(missing));
}

TEST_F(Tuning, times_that_do_not_agree_are_not_kept_and_leave_the_table) {
  Convolution c;
  const KernelClock clock = [&](const auto&, const auto&, passes::RunsOn) {
    return KernelTimes{{3e-3, 1e-3}, 1.5};
  };
  MeasuringTuner tuner(clock, TuningCache({file_}, "machine"));
  EXPECT_EQ(tuner.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
            "conv.onednn");
  EXPECT_EQ(tuner.unsteady(), 1);
  EXPECT_EQ(tuner.left(), 1);
  EXPECT_FALSE(tuner.busy());
  EXPECT_TRUE(tuner.choices().empty());
  tuner.save();
  EXPECT_FALSE(fs::exists(file_));
}

TEST_F(Tuning, a_busy_machine_ends_the_measuring_and_nothing_is_written) {
  int calls = 0;
  const KernelClock clock = [&](const auto&, const auto&, passes::RunsOn) {
    ++calls;
    return KernelTimes{{3e-3, 1e-3}, calls == 1 ? 1.0 : 2.5};
  };
  MeasuringTuner tuner(clock, TuningCache({file_}, "machine"));
  for (int64_t rows = 1; rows <= 6; ++rows) {
    Convolution c(rows);
    EXPECT_EQ(tuner.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1)->name,
              rows == 1 ? "conv.small" : "conv.onednn");
  }
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(tuner.busy());
  EXPECT_EQ(tuner.left(), 5);
  tuner.save();
  EXPECT_FALSE(fs::exists(file_));
  ASSERT_EQ(notices_.size(), 1);
  EXPECT_TRUE(notices_[0].starts_with(
      "tuning: the machine is too busy with other programs to measure (the last differ by a factor "
      "of 2.50): 3 requests in a row gave no two alike times. Nothing is written"))
      << notices_[0];
}

TEST_F(Tuning, a_wish_to_stop_keeps_what_was_measured) {
  bool stop = false;
  const KernelClock clock = [&](const auto&, const auto&, passes::RunsOn) {
    return KernelTimes{{3e-3, 1e-3}};
  };
  MeasuringTuner tuner(clock, TuningCache({file_}, "machine"), [&] { return stop; });
  Convolution c, later(3);
  tuner.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1);
  stop = true;
  EXPECT_EQ(tuner.fastest(later.kernels, later.request, passes::RunsOn::kAllThreads, 1)->name,
            "conv.onednn");
  EXPECT_EQ(tuner.measured(), 1);
  EXPECT_EQ(tuner.left(), 1);
  tuner.save();
  EXPECT_NE(
      TuningCache({file_}, "machine").find(tuning_key(c.request, passes::RunsOn::kAllThreads)),
      nullptr);
}

TEST_F(Tuning, the_gain_of_a_plan_counts_every_turn_of_every_node) {
  Convolution c, other(3);
  const KernelClock clock = [&](const auto&, const auto& request, passes::RunsOn) {
    return request.in[0].shape()[0] == 2 ? KernelTimes{{3e-3, 2e-3}} : KernelTimes{{2e-3, 3e-3}};
  };
  MeasuringTuner tuner(clock, TuningCache());
  tuner.begin_plan();
  tuner.fastest(c.kernels, c.request, passes::RunsOn::kAllThreads, 1);
  tuner.fastest(c.kernels, c.request, passes::RunsOn::kOneThread, 4);
  tuner.fastest(other.kernels, other.request, passes::RunsOn::kAllThreads, 1);
  EXPECT_EQ(tuner.gain().nodes, 3);
  EXPECT_EQ(tuner.gain().changed, 2);
  EXPECT_NEAR(tuner.gain().seconds, 5e-3, 1e-12);
  tuner.begin_plan();
  EXPECT_EQ(tuner.gain().nodes, 0);
}

// --- in a session

// Two convolutions that several kernels can run, whatever the table says.
std::shared_ptr<const graph::Model> model() {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,16,6,6] x) => (float[N,16] y) <float[16,16,3,3] w = {...}, float[16,16,3,3] v = {...}> {
  c = Conv<pads = [1, 1, 1, 1]>(x, w)
  r = Relu(c)
  d = Conv<strides = [2, 2]>(r, v)
  p = GlobalAveragePool(d)
  y = Flatten(p)
})");
  for (const char* name : {"w", "v"}) {
    graph->find(name)->data =
        test::random_tensor(graph::DType::kFloat32, {16, 16, 3, 3}, -0.1, 0.1);
  }
  return graph::Model::from_bytes(graph::to_onnx_bytes(*graph));
}

SessionOptions tuned() {
  SessionOptions options;
  options.threads = 2;
  options.pipeline.block = 0;
  options.tune = true;
  // As on a machine of its own: the last candidate is the fastest, and times agree.
  options.tuning_clock = [](const auto& kernels, const ops::KernelRequest&, passes::RunsOn) {
    KernelTimes times;
    for (size_t i = 0; i < kernels.size(); ++i) times.seconds.push_back(2e-3 - 1e-4 * i);
    return times;
  };
  return options;
}

double loss_after_a_step(Session& session) {
  Batch batch;
  batch.inputs.emplace_back("", test::random_tensor(graph::DType::kFloat32, {20, 16, 6, 6}));
  batch.labels = graph::Tensor(graph::DType::kInt64, {20});
  session.train_step(batch, {{20}}, 0.1);
  return session.train_step(batch, {{20}}, 0.1).loss;
}

TEST_F(Tuning, a_session_measures_once_and_later_sessions_take_the_file) {
  Session first(model(), tuned());
  first.training_plan(20);
  EXPECT_EQ(first.tuner()->left(), 0);
  EXPECT_GT(first.tuner()->measured(), 3);
  EXPECT_EQ(first.tuner()->known(), 0);
  EXPECT_TRUE(fs::exists(file_));
  Session second(model(), tuned());
  second.training_plan(20);
  EXPECT_EQ(second.tuner()->measured(), 0);
  EXPECT_EQ(second.tuner()->known(), first.tuner()->measured());
  EXPECT_EQ(second.kernel_choices(), first.kernel_choices());
  EXPECT_EQ(loss_after_a_step(second), loss_after_a_step(first));
}

TEST_F(Tuning, a_short_last_batch_takes_the_kernels_of_the_others_and_is_not_measured) {
  Session session(model(), tuned());
  session.prepare_training({{{20}}});
  const int measured = session.tuner()->measured(), left = session.tuner()->left();
  const KernelChoices choices = session.kernel_choices();
  session.prepare_training({{{20}}, {{7}}});
  EXPECT_EQ(session.tuner()->measured(), measured);
  EXPECT_EQ(session.tuner()->left(), left);
  EXPECT_EQ(session.kernel_choices(), choices);  // nothing differs in the plan of 7
  EXPECT_GT(session.tuning_gain({{20}}).nodes, 3);
}

TEST_F(Tuning, without_the_flag_nothing_is_measured_or_read) {
  put_file("damaged");
  SessionOptions options = tuned();
  options.tune = false;
  Session session(model(), options);
  session.training_plan(20);
  EXPECT_EQ(session.tuner(), nullptr);
  EXPECT_EQ(text(), "damaged");
  EXPECT_EQ(notices_, std::vector<std::string>{});
}

TEST_F(Tuning, choices_are_replayed_without_measuring_also_those_the_table_would_not_make) {
  Session first(model(), tuned());
  first.training_plan(20);
  SessionOptions options = tuned();
  options.replay = first.kernel_choices();
  int convolutions = 0;
  for (auto& [node, kernel] : options.replay.kernels) {
    if (!kernel.starts_with("conv.onednn") && kernel != "conv.small") continue;
    kernel = "conv.small";
    ++convolutions;
  }
  EXPECT_GE(convolutions, 4);
  const KernelChoices wanted = options.replay;
  fs::remove(file_);
  Session second(model(), options);
  second.training_plan(20);
  EXPECT_EQ(second.kernel_choices(), wanted);
  EXPECT_EQ(second.tuner()->measured(), 0);
  EXPECT_EQ(second.notices(), first.notices());
}

TEST_F(Tuning, losses_are_the_same_within_rounding_whatever_is_chosen) {
  std::vector<double> losses;
  for (const char* chosen : {"conv.small", "conv.onednn", "conv.onednn_winograd", "conv.ref"}) {
    SessionOptions options = tuned();
    options.tune = false;
    Session plain(model(), options);
    plain.training_plan(20);
    options.replay = plain.kernel_choices();
    for (auto& [node, kernel] : options.replay.kernels) {
      if (kernel.starts_with("conv.")) kernel = chosen;
    }
    Session session(model(), options);
    losses.push_back(loss_after_a_step(session));
  }
  for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-5 * std::abs(losses[0]));
}

TEST_F(Tuning, direct_only_limits_what_is_tried) {
  SessionOptions options = tuned();
  options.pipeline.direct_only = true;
  Session session(model(), options);
  session.training_plan(20);
  EXPECT_GT(session.tuner()->measured(), 0);
  EXPECT_EQ(text().find("winograd"), std::string::npos);
  if (!__builtin_cpu_supports("avx512f")) return;
  Session all(model(), tuned());
  all.training_plan(20);
  EXPECT_NE(text().find("winograd"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::runtime
