// Properties of plans, over random networks with their whole training step and over LeNet: every
// step finds what it reads, whatever the threads do (tests/support/plan_replay), no arena is larger
// than its buffers together, few are larger than what is needed, and the numbers are those of the
// reference kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/parse.h"
#include "models/lenet.h"
#include "passes/pipelines.h"
#include "tests/support/interpret.h"
#include "tests/support/plan_replay.h"
#include "tests/support/run_plan.h"

namespace sardonyx::passes {
namespace {

// A network on rows of six numbers, as text: layers, activations, convolutions, views, values that
// are read again much later, and now and then a mean over the batch.
class RandomNetwork {
 public:
  explicit RandomNetwork(uint64_t seed) : random_(seed) {}

  std::string text() {
    values_ = {"x"};
    const int nodes = 4 + below(12);
    for (int i = 0; i < nodes; ++i) add_node();
    layer("x.out", values_.back());
    return fmt::format(
        "<ir_version: 8, opset_import: [\"\" : 13, \"sardonyx\" : 1]>\n"
        "g (float[N,6] x) => (float[N,6] \"x.out\")\n"
        "<int64[2] flat = {{-1, 6}}, int64[4] image = {{-1, 1, 2, 3}}, int64[1] rows = {{0}}{}>\n"
        "{{\n{}}}\n",
        weights_, body_);
  }

 private:
  int below(int n) { return static_cast<int>(random_() % n); }
  // Mostly what was made last.
  std::string some_value() {
    return below(3) > 0 ? values_.back() : values_[below(static_cast<int>(values_.size()))];
  }
  std::string fresh(const char* stem) { return fmt::format("{}{}", stem, count_++); }

  void line(const std::string& name, const std::string& call) {
    body_ += fmt::format("  \"{}\" = {}\n", name, call);
  }

  std::string weight(const std::string& shape, int numel) {
    const std::string name = fresh("w");
    std::string numbers;
    for (int i = 0; i < numel; ++i) {
      numbers += fmt::format("{}{:.3f}", i > 0 ? ", " : "", 0.001 * below(1000) - 0.5);
    }
    weights_ += fmt::format(", float{} {} = {{{}}}", shape, name, numbers);
    return name;
  }

  void layer(const std::string& name, const std::string& from) {
    line(name, fmt::format("Gemm(\"{}\", {}, {})", from, weight("[6,6]", 36), weight("[6]", 6)));
  }

  void add_node() {
    static constexpr const char* kUnary[] = {"Tanh", "Sigmoid", "Relu", "Abs"};
    static constexpr const char* kBinary[] = {"Add", "Sub", "Mul"};
    const std::string a = some_value(), b = some_value(), name = fresh("v");
    switch (below(7)) {
      case 0:
      case 1:
        line(name, fmt::format("{}({})", kUnary[below(4)], a));
        break;
      case 2:
        line(name, fmt::format("{}({}, {})", kBinary[below(3)], a, b));
        break;
      case 3:
        layer(name, a);
        break;
      case 4: {
        const std::string view = fresh("i"), conv = fresh("c"), act = fresh("t");
        line(view, fmt::format("Reshape({}, image)", a));
        line(conv, fmt::format("Conv<pads = [1, 1, 1, 1]>({}, {})", view, weight("[1,1,3,3]", 9)));
        line(act, fmt::format("Tanh({})", conv));
        line(name, fmt::format("Reshape({}, flat)", act));
        break;
      }
      case 5: {
        const std::string mean = fresh("m");
        if (below(3) > 0) {
          line(name, fmt::format("Add({}, {})", a, weight("[6]", 6)));
          break;
        }
        line(mean, fmt::format("ReduceMean({}, rows)", a));
        line(name, fmt::format("Sub({}, {})", b, mean));
        break;
      }
      default: {
        const std::string both = fresh("b");
        line(both, fmt::format("Concat<axis = 1>({}, {})", a, b));
        line(name, fmt::format("MatMul({}, {})", both, weight("[12,6]", 72)));
      }
    }
    values_.push_back(name);
  }

  std::mt19937_64 random_;
  int count_ = 0;
  std::vector<std::string> values_;
  std::string weights_, body_;
};

struct Setting {
  MicroBatch micro_batch = MicroBatch::kOnly;
  int64_t batch = 1, block = 0, lanes = -1;
  int threads = 1, replicas = 1;
};

std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << "micro_batch " << static_cast<int>(s.micro_batch) << " batch " << s.batch
             << " block " << s.block << " lanes " << s.lanes << " threads " << s.threads
             << " replicas " << s.replicas;
}

PassContext context_of(const Setting& setting, const Target& target) {
  PassContext context;
  context.options.batch = setting.batch;
  context.options.block = setting.block;
  context.options.lanes = setting.lanes;
  context.options.micro_batch = setting.micro_batch;
  context.options.dtype = graph::DType::kFloat64;
  context.options.optimizer.momentum = 0.9;
  context.options.reduce.replicas = setting.replicas;
  context.options.reduce.first_bucket_bytes = 256;
  context.target = &target;
  return context;
}

std::unique_ptr<graph::Graph> training_step(std::unique_ptr<graph::Graph> graph,
                                            PassContext& context) {
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  run_pipeline(*graph, context, training_pipeline());
  return graph;
}

Setting random_setting(std::mt19937& random) {
  static constexpr MicroBatch kMicroBatches[] = {MicroBatch::kOnly, MicroBatch::kFirst,
                                                 MicroBatch::kMiddle, MicroBatch::kLast,
                                                 MicroBatch::kNone};
  static constexpr int64_t kBatches[] = {1, 5, 16, 20, 33, 64};
  return {kMicroBatches[random() % std::size(kMicroBatches)],
          kBatches[random() % std::size(kBatches)],
          static_cast<int64_t>(random() % 3) * 8,
          random() % 2 == 0 ? -1 : 16,
          1 + static_cast<int>(random() % 3),
          1 + static_cast<int>(random() % 2)};
}

struct Checked {
  double ratio = 0;  // arena / needed
  int in_place = 0, blocked = 0;
};

Checked check(const Plan& plan, const StateTable& states) {
  const tests::PlanReplay replayed = tests::replay(plan, states);
  for (const std::string& fault : replayed.faults) ADD_FAILURE() << fault;
  const MemoryReport& memory = plan.memory;
  EXPECT_EQ(memory.arena_bytes, plan.arena_bytes);
  EXPECT_LE(memory.arena_bytes, memory.sum_bytes);
  EXPECT_GE(memory.arena_bytes, memory.liveness_bound_bytes);
  EXPECT_GE(memory.liveness_bound_bytes, replayed.needed_bytes);
  Checked checked;
  checked.ratio =
      static_cast<double>(plan.arena_bytes) / static_cast<double>(replayed.needed_bytes);
  checked.in_place = replayed.in_place;
  for (const Region& region : plan.regions) checked.blocked += region.blocked() ? 1 : 0;
  return checked;
}

TEST(PlanMemory, random_training_steps_find_what_they_read) {
  std::mt19937 random(1);
  Checked sum;
  constexpr int kRounds = 150;
  for (int round = 0; round < kRounds; ++round) {
    const Setting setting = random_setting(random);
    const std::string text = RandomNetwork(round).text();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << setting << "\n" << text);
    const NullTarget target(setting.threads);
    PassContext context = context_of(setting, target);
    StateTable states;
    const auto plan = lower(training_step(graph::parse(text), context), context, states);
    const Checked checked = check(*plan, states);
    if (HasFailure()) return;
    sum.ratio += checked.ratio;
    sum.in_place += checked.in_place;
    sum.blocked += checked.blocked;
  }
  EXPECT_LT(sum.ratio / kRounds, 1.05);
  // The networks must have what the planner is for.
  EXPECT_GT(sum.in_place, 5 * kRounds);
  EXPECT_GT(sum.blocked, kRounds / 2);
}

TEST(PlanMemory, random_training_steps_give_the_numbers_of_the_reference_kernels) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    Setting setting = random_setting(random);
    setting.replicas = 1;
    const std::string text = RandomNetwork(1000 + round).text();
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << setting << "\n" << text);
    const NullTarget target(setting.threads);
    PassContext context = context_of(setting, target);
    auto graph = training_step(graph::parse(text), context);
    auto feeds = tests::random_feeds(*graph, round);
    const auto want = tests::interpret(*graph, feeds).states;
    const auto got = tests::run_plan(std::move(graph), context, setting.threads, feeds).states;
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [name, value] : got) {
      for (int64_t i = 0; i < value.numel(); ++i) {
        const double expected = want.at(name).as_double(i);
        ASSERT_NEAR(value.as_double(i), expected, 1e-9 * std::max(1.0, std::abs(expected)))
            << name << "[" << i << "]";
      }
    }
  }
}

TEST(PlanMemory, lenet_needs_hardly_more_than_the_bound_in_every_plan_of_a_step) {
  for (const MicroBatch micro_batch :
       {MicroBatch::kOnly, MicroBatch::kFirst, MicroBatch::kMiddle, MicroBatch::kLast}) {
    for (const int64_t block : {0, 16}) {
      const Setting setting{micro_batch, 61, block, -1, 2, 1};
      SCOPED_TRACE(testing::Message() << setting);
      const NullTarget target(setting.threads);
      PassContext context = context_of(setting, target);
      context.options.dtype = graph::DType::kFloat32;
      StateTable states;
      const auto plan = lower(training_step(models::lenet({}), context), context, states);
      EXPECT_LT(check(*plan, states).ratio, 1.01);
    }
  }
}

// The replay itself must see the faults that it is there for.
class BrokenPlan : public testing::Test {
 protected:
  BrokenPlan() {
    const NullTarget target(1);
    PassContext context = context_of({}, target);
    auto graph = graph::parse(R"(
      <ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
      g (float[2,3] x) => (float[2,3] y)
      {
        [left] a = Softmax(x)
        [right] b = Transpose<perm = [1, 0]>(x)
        [product] c = MatMul(a, b)
        [joined] y = MatMul(c, a)
      })");
    run_pipeline(*graph, context, {{"infer_shapes", ""}});
    plan_ = lower(std::move(graph), context, states_);
  }

  std::vector<std::string> faults() const { return tests::replay(*plan_, states_).faults; }
  std::vector<Step>& steps() { return plan_->regions[0].steps; }

  StateTable states_;
  std::unique_ptr<Plan> plan_;
};

TEST_F(BrokenPlan, is_accepted_while_it_is_whole) {
  EXPECT_EQ(faults(), std::vector<std::string>());
}

TEST_F(BrokenPlan, two_live_buffers_in_one_place_are_found) {
  steps()[1].outputs[0] = steps()[0].outputs[0];
  steps()[2].inputs[1] = steps()[0].outputs[0];
  EXPECT_EQ(faults(), (std::vector<std::string>{"product (MatMul) reads 'a' and finds 'b'",
                                                "joined (MatMul) reads 'a' and finds 'b'"}));
}

TEST_F(BrokenPlan, a_write_over_an_input_is_found_where_the_kernel_forbids_it) {
  steps()[2].outputs[0] = steps()[2].inputs[1];
  steps()[3].inputs[0] = steps()[2].inputs[1];
  const std::string found = faults().at(0);
  EXPECT_TRUE(found.starts_with("product (MatMul) (")) << found;
  EXPECT_TRUE(found.ends_with(") writes output 0 over input 1")) << found;
}

TEST_F(BrokenPlan, an_output_that_is_overwritten_is_found) {
  plan_->outputs[0].location = steps()[0].outputs[0];
  EXPECT_EQ(faults(), (std::vector<std::string>{"the caller reads 'y' and finds 'a'"}));
}

}  // namespace
}  // namespace sardonyx::passes
