// Networks trained on several devices, as the stand-in has them, and what becomes of a step whose
// sums break off.
#include "graph/support/error.h"
#include "models/lenet.h"
#include "tests/cuda/trained.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::runtime {

namespace {

using CudaTrainingFaults = host_cuda::HostCuda;

// Their sums go over NCCL.
TEST_F(CudaTrainingFaults, replicas_on_devices_of_their_own_train_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const std::vector<int64_t> sample = {1, 16, 16};
  const std::vector<std::string> two = {"cuda:0", "cuda:1"}, three = {"cuda:2", "cuda:0", "cuda:1"};
  constexpr int64_t kManyBuckets = 4096;
  host_cuda::reset({.devices = 3});
  const std::vector<std::pair<std::vector<std::string>, Cut>> grid = {
      {two, {{4}, {4}}},
      {two, {{2, 2, 2}, {2, 2, 2}}},
      {two, {{5}, {2}}},  // the tail of an epoch
      {two, {{2, 2, 1}, {2, 1, 1}}},
      {three, {{3}, {3}, {3}}},
      {three, {{2, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
      {three, {{3, 2}, {2, 1}, {}}},
  };
  for (const auto& [devices, cut] : grid) {
    expect_as_on_the_cpu(lenet, sample, {devices, cut}, kFloat64);
    expect_as_on_the_cpu(lenet, sample, {devices, cut, DType::kFloat32, 1}, kFloat32);
  }
  Setting many{three, {{2, 1}, {2}, {1, 1}}};
  many.bucket_bytes = kManyBuckets;
  expect_as_on_the_cpu(lenet, sample, many, kFloat64);
}

std::string error_of_step(Session& session, const Batch& batch, const Cut& cut) {
  try {
    session.train_step(batch, cut, 0.05);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(CudaTrainingFaults,
       a_sum_that_breaks_before_the_updates_leaves_the_states_and_the_run_goes_on) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  Setting setting{{"cuda:0", "cuda:1"}, {{3}, {2}}};
  setting.bucket_bytes = 4096;
  Session session(lenet, options_of(setting));
  const Batch batch = batch_of({1, 16, 16}, 5, 1);
  host_cuda::plant({.broken_rank = 1, .reason = "no route"});
  const std::string error = error_of_step(session, batch, setting.cut);
  EXPECT_TRUE(error.starts_with("NCCL: unhandled cuda error, in rank 1 of 2: no route")) << error;
  EXPECT_NE(error.find("while running replica 1"), std::string::npos) << error;
  host_cuda::plant({});
  Session undisturbed(lenet, options_of(setting));
  EXPECT_EQ(session.train_step(batch, setting.cut, 0.05).loss,
            undisturbed.train_step(batch, setting.cut, 0.05).loss);
  EXPECT_EQ(session.state("conv1.weight").to_doubles(),
            undisturbed.state("conv1.weight").to_doubles());
}

TEST_F(CudaTrainingFaults,
       a_sum_that_breaks_under_the_updates_ends_the_run_until_states_are_restored) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const Setting setting{{"cuda:0", "cuda:1"}, {{3}, {2}}};  // one bucket
  Session session(lenet, options_of(setting));
  const Batch batch = batch_of({1, 16, 16}, 5, 1);
  host_cuda::plant({.broken_rank = 0, .reason = "no route"});  // of communicators made from now on
  session.prepare_training({setting.cut});
  std::vector<std::pair<std::string, Tensor>> good;
  for (const SavedState& state : session.saved_states()) {
    good.emplace_back(state.name, session.state(state.name));
  }
  const std::string error = error_of_step(session, batch, setting.cut);
  EXPECT_TRUE(error.starts_with("NCCL: unhandled cuda error, in rank 0 of 2: no route")) << error;
  host_cuda::plant({});
  EXPECT_EQ(error_of_step(session, batch, setting.cut),
            "a step failed on some of the replicas while others applied it (a sum between the "
            "devices broke off on its way to the updates); go on from a checkpoint");
  session.restore(good, 0);
  Session undisturbed(lenet, options_of(setting));
  EXPECT_EQ(session.train_step(batch, setting.cut, 0.05).loss,
            undisturbed.train_step(batch, setting.cut, 0.05).loss);
}

TEST_F(CudaTrainingFaults, without_nccl_a_session_has_a_notice_and_trains) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const Setting setting{{"cuda:0", "cuda:1"}, {{5}, {3}}};
  host_cuda::plant({.missing = "NCCL 2 can't be loaded; install it"});
  expect_as_on_the_cpu(lenet, {1, 16, 16}, setting, kFloat64);
  const Session session(lenet, options_of(setting));
  EXPECT_EQ(session.notices(),
            (std::vector<std::string>{"sums between the devices go through host memory, which "
                                      "takes longer: NCCL 2 can't be loaded; install it"}));
}

}  // namespace

}  // namespace sardonyx::runtime
