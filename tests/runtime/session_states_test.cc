// What a session gives to a checkpoint and takes back: bits, types, kernels.
#include <gtest/gtest.h>

#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "models/lenet.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;
using sardonyx::testing::error_of;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

SessionOptions options_of(double momentum = 0.9) {
  SessionOptions options;
  options.threads = 2;
  options.pipeline.optimizer.momentum = momentum;
  return options;
}

// A LeNet for 1 x 16 x 16 images and `classes` classes.
std::unique_ptr<Session> open(SessionOptions options, int64_t classes = 10) {
  models::ImageModel model;
  model.height = model.width = 16;
  model.classes = classes;
  model.init = graph::parse_init("kaiming", 3);
  return std::make_unique<Session>(
      graph::Model::from_bytes(graph::to_onnx_bytes(*models::lenet(model))), std::move(options));
}

const Cut kCut = {{24, 16}};  // accumulated: there are accumulators too

Batch batch_of(int seed) {
  std::vector<float> x(40 * 16 * 16);
  std::vector<int64_t> labels(40);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7 + seed) % 13) / 13.0f;
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>((i + seed) % 10);
  Batch batch;
  batch.inputs.emplace_back("", Tensor::of<float>({40, 1, 16, 16}, x));
  batch.labels = Tensor::of<int64_t>({40}, labels);
  return batch;
}

NamedTensors values_of(const Session& session) {
  NamedTensors values;
  for (const SavedState& state : session.saved_states()) {
    values.emplace_back(state.name, session.state(state.name));
  }
  return values;
}

TEST(SessionStates, saved_are_parameters_and_slots_not_accumulators) {
  const auto session = open(options_of());
  session->train_step(batch_of(1), kCut, 0.1);
  bool parameter = false, slot = false;
  for (const SavedState& state : session->saved_states()) {
    EXPECT_FALSE(state.name.starts_with("acc/")) << state.name;
    slot |= state.name.starts_with("momentum/");
    parameter |= session->imported().find(state.name) != nullptr;
  }
  EXPECT_TRUE(parameter);
  EXPECT_TRUE(slot);
  EXPECT_LT(session->saved_states().size(), session->state_names().size());
}

TEST(SessionStates, restored_values_and_steps_go_on_bit_for_bit) {
  const auto whole = open(options_of());
  for (int i = 0; i < 2; ++i) whole->train_step(batch_of(i), kCut, 0.1);
  const NamedTensors middle = values_of(*whole);
  const StepResult third = whole->train_step(batch_of(2), kCut, 0.1);

  const auto resumed = open(options_of());
  resumed->prepare_training({kCut});
  resumed->restore(middle, 2);
  EXPECT_EQ(resumed->steps(), 2);
  EXPECT_EQ(resumed->train_step(batch_of(2), kCut, 0.1).loss_sum, third.loss_sum);
  const NamedTensors end = values_of(*whole), got = values_of(*resumed);
  ASSERT_EQ(end.size(), got.size());
  for (size_t i = 0; i < end.size(); ++i) {
    EXPECT_EQ(end[i].first, got[i].first);
    EXPECT_TRUE(end[i].second.identical(got[i].second)) << end[i].first;
  }
}

TEST(SessionStates, everything_that_does_not_fit_is_listed_and_nothing_changes) {
  const auto session = open(options_of());
  session->prepare_training({kCut});
  const NamedTensors before = values_of(*session);
  NamedTensors wrong = before;
  const std::string changed = wrong[0].first, missing = wrong[1].first;
  wrong[0].second = Tensor(graph::DType::kFloat64, {2, 3});
  wrong.erase(wrong.begin() + 1);
  wrong.emplace_back("other\n", Tensor(graph::DType::kInt64, {}));
  const std::string type = before[0].second.type().str(), gone = before[1].second.type().str();
  EXPECT_EQ(error_of([&] { session->restore(wrong, 7); }),
            "the saved states don't fit this model and optimizer, 3 of them differ:\n  '" +
                changed + "' is double[2,3], the model has " + type + "\n  '" + missing + "' " +
                gone + " is missing\n  'other\\n' int64[] is not in the model");
  EXPECT_EQ(session->steps(), 0);
  const NamedTensors after = values_of(*session);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(before[i].second.identical(after[i].second)) << before[i].first;
  }
}

TEST(SessionStates, kernel_choices_name_a_kernel_per_node_and_what_other_plans_do_otherwise) {
  const auto session = open(options_of());
  session->train_step(batch_of(1), kCut, 0.1);
  const KernelChoices choices = session->kernel_choices();
  EXPECT_GE(choices.block, 0);
  bool conv = false;
  for (const auto& [node, kernel] : choices.kernels) {
    if (node.starts_with("Conv -> ")) conv |= kernel.starts_with("conv.");
  }
  EXPECT_TRUE(conv);
  EXPECT_TRUE(choices.others.contains("last 16"));  // takes the update
  EXPECT_FALSE(choices.others.contains("first 24"));
}

TEST(SessionStates, replayed_choices_give_the_same_plans) {
  const auto first = open(options_of());
  first->train_step(batch_of(1), kCut, 0.1);
  SessionOptions options = options_of();
  options.replay = first->kernel_choices();
  const auto second = open(std::move(options));
  second->train_step(batch_of(1), kCut, 0.1);
  EXPECT_EQ(second->kernel_choices(), first->kernel_choices());
  EXPECT_TRUE(second->notices().empty());
}

TEST(SessionStates, another_kernel_is_taken_when_the_choices_say_so) {
  const auto first = open(options_of());
  first->train_step(batch_of(1), kCut, 0.1);
  SessionOptions options = options_of();
  options.replay = first->kernel_choices();
  for (auto& [node, kernel] : options.replay.kernels) {
    if (node.starts_with("Conv -> ")) kernel = "conv.ref";
  }
  const auto second = open(std::move(options));
  second->train_step(batch_of(1), kCut, 0.1);
  int conv = 0;
  for (const auto& [node, kernel] : second->kernel_choices().kernels) {
    if (!node.starts_with("Conv -> ")) continue;
    EXPECT_EQ(kernel, "conv.ref") << node;
    ++conv;
  }
  EXPECT_EQ(conv, 2);
  EXPECT_TRUE(second->notices().empty());
}

TEST(SessionStates, a_kernel_that_is_not_here_gives_one_notice) {
  const auto first = open(options_of());
  first->train_step(batch_of(1), kCut, 0.1);
  SessionOptions options = options_of();
  options.replay = first->kernel_choices();
  for (auto& [node, kernel] : options.replay.kernels) {
    if (node.starts_with("Conv -> ")) kernel = "conv.quantum";
  }
  const auto second = open(std::move(options));
  second->train_step(batch_of(1), kCut, 0.1);
  ASSERT_EQ(second->notices().size(), 1u);
  EXPECT_TRUE(second->notices()[0].starts_with(
      "the kernel conv.quantum of the earlier run can't serve here, conv."))
      << second->notices()[0];
  EXPECT_EQ(second->kernel_choices(), first->kernel_choices());
}

}  // namespace
}  // namespace sardonyx::runtime
