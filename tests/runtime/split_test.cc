// Replicas that are no longer copies of one model: what is said about them, and that nothing is
// done with them.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "ops/core/communicator.h"
#include "ops/core/kernel.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using sardonyx::testing::error_of;

// --- what differs

// A state "w" of three elements, equal on two replicas but for one unit in the last place.
template <class T>
std::string difference_of_one_ulp(DType dtype) {
  graph::Graph graph;
  graph.add_state("w", graph::TensorType(dtype, {graph::Dim(3)}), graph::StateRole::kParameter);
  passes::StateTable states;
  states.add(graph);
  Replicas replicas({"cpu", "cpu"}, 2);
  for (int r = 0; r < 2; ++r) {
    const T third = T{1} / 3;
    const T values[] = {1, r == 0 ? third : std::nextafter(third, T{1}), 2};
    replicas.device(r).reserve_states(states.bytes());
    replicas.device(r).write_state(0, values, sizeof(values));
  }
  return replicas.first_difference(states);
}

TEST(Split, a_difference_in_the_last_bit_is_told_with_digits_that_show_it) {
  EXPECT_EQ(difference_of_one_ulp<double>(DType::kFloat64),
            "'w' differs: element 1 is 0.3333333333333333 on replica 0 and 0.33333333333333337 on "
            "replica 1");
  EXPECT_EQ(difference_of_one_ulp<float>(DType::kFloat32),
            "'w' differs: element 1 is 0.33333334 on replica 0 and 0.33333337 on replica 1");
}

// --- a step that fails when a part of it is done

std::atomic<bool> fault{false};

// Advance, which stands behind the updates of the parameters; with the fault replica 1 fails there.
void register_faulty_advance() {
  static const bool once = [] {
    ops::KernelDef def;
    def.domain = ops::kDomain;
    def.op = "Advance";
    def.name = "test.faulty";
    def.create = ops::simple_kernel([](const ops::KernelRequest&, ops::CpuContext& context) {
      const bool second = context.communicator != nullptr && context.communicator->rank() == 1;
      if (fault && second) throw Error("the fault of the test");
      *context.out<int64_t>(0) = *context.in<int64_t>(0) + 1;
    });
    ops::KernelRegistry::extend(std::move(def));
    return true;
  }();
  ASSERT_TRUE(once);
}

Batch batch_of(uint64_t seed) {
  Batch batch;
  batch.inputs.emplace_back("x", test::random_tensor(DType::kFloat32, {8, 4}, -1, 1, seed));
  batch.labels = test::ints({8}, {0, 1, 2, 0, 1, 2, 0, 1});
  return batch;
}

class FaultyStep : public ::testing::Test {
 protected:
  void SetUp() override {
    register_faulty_advance();
    SessionOptions options;
    options.devices = {"cpu", "cpu"};
    options.pipeline.optimizer.momentum = 0.9;
    options.replay.kernels["Advance -> optimizer/step'"] = "test.faulty";
    const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,4] x) => (float[N,3] y) <float[4,3] w = {...}> {
  y = MatMul(x, w)
})");
    graph->find("w")->data = test::random_tensor(DType::kFloat32, {4, 3});
    session_ = std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)),
                                         std::move(options));
    session_->train_step(batch_of(1), kCut, 0.1);
    for (const SavedState& state : session_->saved_states()) {
      good_.emplace_back(state.name, session_->state(state.name));
    }
  }
  void TearDown() override { fault = false; }

  const Cut kCut = {{4}, {4}};
  std::unique_ptr<Session> session_;
  std::vector<std::pair<std::string, Tensor>> good_;
};

TEST_F(FaultyStep, on_one_replica_is_told_by_its_cause_and_nothing_goes_on_from_it) {
  fault = true;
  const std::string cause = error_of([&] { session_->train_step(batch_of(2), kCut, 0.1); });
  EXPECT_TRUE(cause.starts_with("the fault of the test")) << cause;
  EXPECT_NE(cause.find("while running replica 1"), std::string::npos) << cause;
  EXPECT_EQ(session_->steps(), 1);
  fault = false;

  const std::string refusal = "a step failed on some of the replicas while others applied it (" +
                              session_->replica_difference() + "); go on from a checkpoint";
  EXPECT_NE(refusal.find(" differs: element "), std::string::npos) << refusal;
  const testing::TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { session_->train_step(batch_of(2), kCut, 0.1); }), refusal);
  EXPECT_EQ(error_of([&] { session_->evaluate(batch_of(2), 8); }), refusal);
  EXPECT_EQ(error_of([&] { session_->forward(batch_of(2), passes::Mode::kEval); }), refusal);
  EXPECT_EQ(error_of([&] { session_->save(folder.path() / "a.onnx"); }), refusal);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.onnx"));
}

TEST_F(FaultyStep, is_mended_by_the_states_of_a_checkpoint) {
  const double undisturbed = session_->train_step(batch_of(2), kCut, 0.1).loss;
  session_->restore(good_, 1);
  fault = true;
  EXPECT_NE(error_of([&] { session_->train_step(batch_of(2), kCut, 0.1); }), "no error");
  fault = false;
  session_->restore(good_, 1);
  EXPECT_EQ(session_->replica_difference(), "");
  EXPECT_EQ(session_->train_step(batch_of(2), kCut, 0.1).loss, undisturbed);
  EXPECT_EQ(session_->steps(), 2);
}

}  // namespace
}  // namespace sardonyx::runtime
