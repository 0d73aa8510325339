// The batch of the next step, copied while this one computes: when, and that no result shows it.
#include "graph/support/error.h"
#include "models/lenet.h"
#include "runtime/data/batch_cut.h"
#include "runtime/trainer.h"
#include "tests/cuda/trained.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::runtime {

namespace {

using CudaNextBatch = host_cuda::HostCuda;
using Input = std::shared_ptr<const StepInput>;

Input input_of(Batch batch, const Cut& cut, double lr = 0.05) {
  return std::make_shared<const StepInput>(StepInput{std::move(batch), cut, lr});
}

Input input_of(const Cut& cut, uint64_t seed) {
  return input_of(batch_of({1, 16, 16}, rows_in(cut), seed), cut);
}

std::shared_ptr<const graph::Model> lenet() { return model_of(*models::lenet(image(1, 16))); }

TEST_F(CudaNextBatch, is_copied_before_the_loss_of_this_one_is_waited_for) {
  Session session(lenet(), options_of({{"cuda:0"}, {}, DType::kFloat32}));
  const Cut cut = {{4}};
  const Input a = input_of(cut, 1), b = input_of(cut, 2), c = input_of(cut, 3);
  struct Done {
    size_t copies, waits;
  };
  const auto step = [&](const Input& input, const Input& next) {
    const host_cuda::Counts before = host_cuda::counts();
    session.train_step(input, NonFinite::kStop, next);
    const host_cuda::Counts after = host_cuda::counts();
    // What is enqueued before the wait for the loss isn't enqueued since.
    EXPECT_EQ(after.copies_since_synchronization, 0u);
    return Done{after.copies - before.copies, after.synchronizations - before.synchronizations};
  };
  step(a, nullptr);
  step(b, nullptr);
  const Done alone = step(c, nullptr);
  const Done first = step(a, b), middle = step(b, c), last = step(c, nullptr);
  EXPECT_EQ(first.copies, alone.copies + 1);
  EXPECT_EQ(middle.copies, alone.copies);
  EXPECT_EQ(last.copies, alone.copies - 1);
  EXPECT_EQ(middle.waits, 1u);  // for all numbers of the step
  EXPECT_EQ(step(a, b).copies, alone.copies + 1);
  EXPECT_EQ(step(a, nullptr).copies, alone.copies);  // another came
  EXPECT_EQ(step(b, nullptr).copies, alone.copies);  // too late for this one
}

// Steps of several sizes; one is skipped, one isn't the one that was announced, one can't be fed,
// and evaluations lie between.
Trained train_through(const Setting& setting, const Cut& tail, bool ahead) {
  Session session(lenet(), options_of(setting));
  session.prepare_training({setting.cut, tail});
  std::vector<Input> inputs;
  for (uint64_t seed = 1; seed <= 7; ++seed) {
    inputs.push_back(input_of(seed % 3 == 0 ? tail : setting.cut, seed));
  }
  Batch spoiled = batch_of({1, 16, 16}, rows_in(setting.cut), 9);
  Tensor& images = spoiled.inputs[0].second;
  std::fill_n(reinterpret_cast<float*>(images.mutable_bytes().data()), images.numel(), NAN);
  inputs[3] = input_of(std::move(spoiled), setting.cut);
  const Input odd = input_of(batch_of({1, 15, 15}, rows_in(setting.cut), 1), setting.cut);
  Trained trained;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input next = i + 1 < inputs.size() ? inputs[i + 1] : nullptr;
    if (i == 4) next = inputs[0];
    if (i == 5) next = odd;
    if (!ahead) next = nullptr;
    trained.losses.push_back(session.train_step(inputs[i], NonFinite::kSkip, next).loss);
    if (i == 5) {
      EXPECT_THROW(session.train_step(odd, NonFinite::kSkip, nullptr), Error);
    }
    if (i % 2 == 0) {
      trained.losses.push_back(session.evaluate(batch_of({1, 16, 16}, 5, i), 2).loss_sum);
    }
  }
  EXPECT_EQ(session.replica_difference(), "");
  for (const std::string& name : session.state_names()) {
    if (!name.starts_with("acc")) trained.states.push_back(session.state(name));
  }
  return trained;
}

TEST_F(CudaNextBatch, changes_no_bit_whatever_comes_between) {
  const std::vector<std::pair<std::vector<std::string>, std::pair<Cut, Cut>>> grid = {
      {{"cuda:0"}, {{{4}}, {{3}}}},
      {{"cuda:0"}, {{{2, 2, 1}}, {{2}}}},
      {{"cuda:0", "cuda:0"}, {{{2, 1}, {2}}, {{2}, {}}}},
      {{"cuda:0", "cuda:1"}, {{{2}, {2}}, {{1}, {2}}}},
      {{"cuda:0", "cpu"}, {{{2}, {2}}, {{2}, {1}}}},
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const auto& [devices, cuts] : grid) {
      const Setting setting{devices, cuts.first, dtype};
      const Trained plain = train_through(setting, cuts.second, false);
      for (const uint64_t seed : {0, 1, 2}) {
        if (seed > 0) host_cuda::reset({.schedule = host_cuda::Schedule::kRandom, .seed = seed});
        ops::cuda::use_device(0);
        const Trained ahead = train_through(setting, cuts.second, true);
        for (size_t i = 0; i < plain.losses.size(); ++i) {
          EXPECT_TRUE(ahead.losses[i] == plain.losses[i] || std::isnan(plain.losses[i])) << i;
        }
        ASSERT_EQ(ahead.states.size(), plain.states.size());
        for (size_t i = 0; i < plain.states.size(); ++i) {
          EXPECT_TRUE(ahead.states[i].identical(plain.states[i])) << devices.back() << " " << i;
        }
      }
      host_cuda::reset();
      ops::cuda::use_device(0);
    }
  }
}

struct Losses final : TrainListener {
  std::vector<double> steps;
  void step(const StepRecord& record) override { steps.push_back(record.loss); }
  void epoch(const EpochRecord& record) override { steps.push_back(record.test_loss.value_or(0)); }
};

std::vector<double> losses_of_run(const std::string& device) {
  Flags flags;
  flags.model = "lenet.onnx";
  flags.data = "synthetic:40";
  flags.batch = 16;
  flags.micro_batch = 8;
  flags.epochs = 2;
  flags.lr = 0.05;
  flags.schedule = "cosine";
  flags.dtype = "f64";
  flags.threads = 1;
  flags.devices = {device};
  Session session(lenet(), session_options(flags));
  const Feed feed = find_feed(session, flags);
  const TrainerOptions options = trainer_options(flags, feed.baked_rows());
  const FedData data = open_data(session, feed, flags, 8, DataUse::kTraining);
  Trainer trainer(session, feed, data, options);
  Losses losses;
  trainer.run({&losses}, [] { return false; });
  return losses.steps;
}

TEST_F(CudaNextBatch, of_the_trainer_is_that_of_its_data) {
  const std::vector<double> cpu = losses_of_run("cpu");
  ASSERT_EQ(cpu.size(), 8u);
  for (const auto schedule : {host_cuda::Schedule::kLate, host_cuda::Schedule::kRandom}) {
    host_cuda::reset({.schedule = schedule});
    ops::cuda::use_device(0);
    const std::vector<double> cuda = losses_of_run("cuda:0");
    ASSERT_EQ(cuda.size(), cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(cuda[i], cpu[i], 1e-9 * cpu[i]) << i;
  }
}

TEST_F(CudaNextBatch, replicas_on_devices_of_their_own_allocate_nothing_in_the_first_step) {
  Session session(lenet(), options_of({{"cuda:0", "cuda:1"}, {}}));
  const Cut cut = {{2}, {2}};
  session.prepare_training({cut});
  const size_t allocations = host_cuda::counts().allocations;
  session.train_step(input_of(cut, 1), NonFinite::kStop, input_of(cut, 2));
  EXPECT_EQ(host_cuda::counts().allocations, allocations);
}

}  // namespace

}  // namespace sardonyx::runtime
