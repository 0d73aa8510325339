// Times added up: which step, which replica, and how much of the communication was hidden.
#include "runtime/run_times.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "graph/onnx_export.h"
#include "models/lenet.h"
#include "runtime/collectives/local.h"
#include "runtime/data/batch_cut.h"
#include "runtime/devices/thread_pool.h"
#include "runtime/session.h"

namespace sardonyx::runtime {
namespace {

using std::chrono::milliseconds;
using What = Span::What;

Span span(What what, int begin_ms, int end_ms) {
  Span span{what};
  span.begin = Span::Clock::time_point(milliseconds(begin_ms));
  span.end = Span::Clock::time_point(milliseconds(end_ms));
  return span;
}

TEST(RunTimes, flights_that_overlap_count_once_and_what_is_not_blocked_or_adding_is_hidden) {
  RunTimes times(1, 1);
  times.record({0, 0}, span(What::kSlice, 30, 35));
  times.record({0, 0}, span(What::kFlight, 10, 50));
  times.record({0, 0}, span(What::kWait, 60, 75));
  times.record({0, 0}, span(What::kFlight, 40, 80));
  times.record({0, 0}, span(What::kFlight, 100, 130));
  times.record(kLoopTrack, span(What::kTrainStep, 0, 200));
  const CommunicationTime time = times.communication(1);
  EXPECT_DOUBLE_EQ(time.in_flight, 0.100);
  EXPECT_DOUBLE_EQ(time.adding, 0.005);
  EXPECT_DOUBLE_EQ(time.blocked, 0.015);
  EXPECT_DOUBLE_EQ(time.hidden(), 0.8);
  EXPECT_DOUBLE_EQ(times.communication(4).in_flight, 0.025);
  EXPECT_DOUBLE_EQ(times.communication(4).hidden(), 0.8);
}

TEST(RunTimes, communication_is_the_mean_of_the_replicas) {
  RunTimes times(2, 2);
  times.record({0, 0}, span(What::kFlight, 0, 20));
  times.record({1, 0}, span(What::kFlight, 0, 10));
  times.record({1, 0}, span(What::kWait, 4, 10));
  EXPECT_DOUBLE_EQ(times.communication(1).in_flight, 0.015);
  EXPECT_DOUBLE_EQ(times.communication(1).blocked, 0.003);
  EXPECT_DOUBLE_EQ(RunTimes(2, 1).communication(1).hidden(), 0);
}

TEST(RunTimes, every_step_of_a_plan_has_its_time_and_the_work_of_all_blocks) {
  models::ImageModel image;
  image.height = image.width = 16;
  image.init = graph::parse_init("kaiming", 3);
  SessionOptions options;
  options.threads = 2;
  Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*models::lenet(image))), options);
  const int64_t rows = 40;
  Batch batch;
  batch.inputs.emplace_back("input", graph::Tensor(graph::DType::kFloat32, {rows, 1, 16, 16}));
  batch.labels = graph::Tensor(graph::DType::kInt64, {rows});
  session.train_step(batch, {{rows}}, 0.01);
  RunTimes times(1, 2);
  session.set_recorder(&times);
  for (int i = 0; i < 3; ++i) session.train_step(batch, {{rows}}, 0.01);
  session.set_recorder(nullptr);
  session.train_step(batch, {{rows}}, 0.01);  // not measured
  const passes::Plan& plan = *session.training_plans().at(0);
  const std::vector<StepTime> steps = times.steps(plan);
  size_t i = 0;
  bool blocked = false;
  for (const passes::Region& region : plan.regions) {
    blocked |= region.blocks > 1;
    const auto full = static_cast<double>(region.blocks - (region.tail_rows > 0 ? 1 : 0));
    for (size_t k = 0; k < region.steps.size(); ++k, ++i) {
      ASSERT_LT(i, steps.size());
      EXPECT_EQ(steps[i].step, &region.steps[k]);
      EXPECT_GT(steps[i].seconds, 0);
      const double tail = region.tail_rows > 0 ? region.tail_steps[k].flops : 0;
      EXPECT_DOUBLE_EQ(steps[i].flops, 3 * (full * region.steps[k].flops + tail));
    }
  }
  EXPECT_EQ(i, steps.size());
  EXPECT_TRUE(blocked);
  EXPECT_EQ(times.communication(3).in_flight, 0);
}

// Rank 1 comes late: rank 0 is blocked for as long, and its sum in flight; rank 1 has little to
// wait for.
TEST(RunTimes, waiting_for_a_late_rank_is_blocked_time_and_computing_meanwhile_is_hidden) {
  LocalGroup group(2, Waiting::kSleep);
  for (const bool computes : {false, true}) {
    RunTimes times(2, 1);
    group.set_recorder(&times);
    std::vector<float> data[2] = {std::vector<float>(1000, 1), std::vector<float>(1000, 2)};
    std::atomic<bool> started{false};  // by rank 0
    std::vector<std::thread> threads;
    for (const int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        WorkerPool pool(1);
        ops::Communicator& communicator = group.rank(rank);
        if (rank == 1) {
          started.wait(false);
          std::this_thread::sleep_for(milliseconds(100));
        }
        communicator.start_sum(data[rank].data(), 1000, graph::DType::kFloat32,
                               graph::DType::kFloat32, pool);
        started = true;
        started.notify_all();
        for (int i = 0; rank == 0 && computes && i < 80; ++i) {
          std::this_thread::sleep_for(milliseconds(2));
          communicator.progress(pool);
        }
        communicator.wait(data[rank].data(), pool);
        group.leave(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
    group.set_recorder(nullptr);
    group.reset();
    EXPECT_EQ(data[0], std::vector<float>(1000, 3));
    const CommunicationTime time = times.communication(1);
    EXPECT_GT(time.in_flight, 0.050);  // rank 0 had it in flight for 0.1 s, the mean is half
    EXPECT_GT(time.adding, 0);
    EXPECT_LE(time.adding + time.blocked, time.in_flight);
    if (computes) {
      // Rank 0 never waits; rank 1 waits for its slice, a few milliseconds at most.
      EXPECT_GT(time.hidden(), 0.5);
    } else {
      EXPECT_GT(time.blocked, 0.010);
      EXPECT_LT(time.hidden(), 0.5);
    }
  }
}

}  // namespace
}  // namespace sardonyx::runtime
