// BatchNormalization: stored statistics, and the training form in its parts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/inference_form.h"
#include "ops/core/mode.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::ModeContext;
using ops::Value;

const std::vector<std::string> kAllKernels = {"batch_norm.ref", "batch_norm.vector",
                                              "batch_norm.lanes"};

// Without the lines about where it was met.
std::string fault(const OpCase& c) {
  const std::string text = infer_error(c);
  return text.substr(0, text.find('\n'));
}

OpInput per_channel(int64_t channels, double low, double high, uint64_t seed) {
  return parameter(random({channels}, low, high, seed));
}

OpCase stored(std::vector<int64_t> shape) {
  const int64_t channels = shape.size() > 1 ? shape[1] : 1;
  return {.claim = "stored statistics",
          .op = "BatchNormalization",
          .inputs = {random(std::move(shape)), per_channel(channels, 0.5, 1.5, 2),
                     per_channel(channels, -1, 1, 3), per_channel(channels, -1, 1, 4),
                     per_channel(channels, 0.5, 2, 5)},
          .num_outputs = 1,
          .batch = true};
}

// --- stored statistics

TEST(BatchNorm, stored_statistics_normalise_per_channel) {
  OpCase c = stored({1, 2, 2});
  c.inputs = {given(doubles({1, 2, 2}, {1, 3, -2, 6})), parameter(given(doubles({2}, {2, 0.5}))),
              parameter(given(doubles({2}, {10, -1}))), parameter(given(doubles({2}, {1, 2}))),
              parameter(given(doubles({2}, {4, 16})))};
  c.attributes = {{"epsilon", 0.0}};
  // (x - 1) / 2 * 2 + 10 and (x - 2) / 4 * 0.5 - 1
  c.expected = {doubles({1, 2, 2}, {10, 12, -1.5, -0.5})};
  c.fixed_rows = true;
  check_op(c);
}

TEST(BatchNorm, all_kernels_agree_at_every_rank) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 3, 2, 3},
                                            {17, 2, 3, 5},
                                            {3, 20, 1, 1},
                                            {4, 19},
                                            {2, 1, 33},
                                            {2, 3, 2, 1, 2},
                                            {7}}) {
    OpCase c = stored(shape);
    c.must_run = kAllKernels;
    check_op(c);
  }
}

TEST(BatchNorm, epsilon_is_added_to_the_variance) {
  OpCase c = stored({1, 1, 1});
  c.inputs = {given(doubles({1, 1, 1}, {6})), parameter(given(doubles({1}, {1}))),
              parameter(given(doubles({1}, {0}))), parameter(given(doubles({1}, {0}))),
              parameter(given(doubles({1}, {3})))};
  c.attributes = {{"epsilon", 6.0}};
  c.expected = {doubles({1, 1, 1}, {2})};
  c.fixed_rows = true;
  check_op(c);
}

TEST(BatchNorm, c1_wants_floats_with_an_axis) {
  OpCase c = stored({2, 3, 2});
  c.inputs[0] = exactly(given(ints({2, 3}, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(fault(c), "C1: input 0 is int64, expected a floating type");
}

TEST(BatchNorm, c2_wants_one_entry_per_channel) {
  OpCase c = stored({2, 3, 2});
  c.inputs[3] = per_channel(4, 0, 1, 9);
  EXPECT_EQ(fault(c),
            "C2: mean 'x3' has type float[4], but x has 3 channels (type float[N:2,3,2])");
  c.inputs[3] = parameter(given(doubles({}, {1})));
  EXPECT_EQ(fault(c), "C2: mean 'x3' has type float[], but x has 3 channels (type float[N:2,3,2])");
}

TEST(BatchNorm, c3_spatial_0_is_for_two_axes) {
  OpCase c = stored({2, 3, 2});
  c.attributes = {{"spatial", int64_t{0}}};
  EXPECT_EQ(fault(c),
            "C3: spatial is 0 (statistics per position) and x has type float[N:2,3,2]; only "
            "statistics per channel are supported");
  c = stored({2, 3});
  c.attributes = {{"spatial", int64_t{0}}};
  EXPECT_EQ(fault(c), "");
}

// --- the parts of the training form

OpCase own(const char* op, std::vector<OpInput> inputs, int outputs) {
  return {.claim = op,
          .domain = ops::kDomain,
          .op = op,
          .inputs = std::move(inputs),
          .num_outputs = outputs,
          .batch = true};
}

TEST(BatchNorm, sums_count_add_and_square) {
  OpCase c = own("BatchNormSums", {given(doubles({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}))}, 1);
  c.expected = {doubles({3, 2}, {4, 4, 14, 22, 66, 138})};
  c.fixed_rows = true;
  check_op(c);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{5, 3, 4, 5}, {33, 2, 3}, {4, 37}, {19, 1, 40}, {6}}) {
    OpCase any = own("BatchNormSums", {random(shape)}, 1);
    any.must_run = kAllKernels;
    check_op(any);
  }
}

TEST(BatchNorm, moments_are_those_of_the_population_and_zero_of_nothing) {
  OpCase c = own("BatchNormMoments", {exactly(given(doubles({3, 2}, {4, 4, 12, 0, 50, 0})))}, 3);
  c.batch = false;
  c.expected = {doubles({2}, {3, 0}), doubles({2}, {3.5, 0}), doubles({}, {4})};
  check_op(c);
  c.inputs = {exactly(given(doubles({3, 1}, {0, 0, 0})))};
  c.expected = {doubles({1}, {0}), doubles({1}, {0}), doubles({}, {0})};
  check_op(c);
}

TEST(BatchNorm, s3_moments_want_sums) {
  OpCase c = own("BatchNormMoments", {exactly(given(doubles({2, 1}, {0, 0})))}, 3);
  c.batch = false;
  EXPECT_EQ(fault(c), "S3: sums has type double[2,1], expected double[3,C]");
}

TEST(BatchNorm, running_statistics_move_by_one_minus_momentum) {
  OpCase c =
      own("BatchNormRunning",
          {given(doubles({1}, {0})), given(doubles({1}, {1})), exactly(given(doubles({1}, {3}))),
           exactly(given(doubles({1}, {3.5}))), exactly(given(doubles({}, {4})))},
          2);
  c.batch = false;
  c.attributes = {{"momentum", 0.9}};
  c.expected = {doubles({1}, {0.3}), doubles({1}, {1.25})};
  check_op(c);
  c.attributes["sample_variance"] = int64_t{1};
  c.expected = {doubles({1}, {0.3}), doubles({1}, {0.9 + 0.1 * 3.5 * 4 / 3})};
  check_op(c);
  c.inputs[4] = exactly(given(doubles({}, {1})));  // one value: no N - 1
  c.expected = {doubles({1}, {0.3}), doubles({1}, {1.25})};
  check_op(c);
}

TEST(BatchNorm, apply_is_the_same_loop_with_statistics_in_double) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{5, 3, 4, 3}, {18, 2, 5}, {4, 21}}) {
    const int64_t channels = shape[1];
    OpCase c =
        own("BatchNormApply",
            {random(shape), per_channel(channels, 0.5, 1.5, 2), per_channel(channels, -1, 1, 3),
             exactly(per_channel(channels, -1, 1, 4)), exactly(per_channel(channels, 0.5, 2, 5)),
             parameter(exactly(given(doubles({}, {20}))))},
            1);
    c.must_run = kAllKernels;
    c.numeric = Numeric::kSkip;  // these are not the statistics of x
    check_op(c);
  }
}

TEST(BatchNorm, gradient_sums_are_those_of_bias_and_scale) {
  OpCase c = own("BatchNormGradSums",
                 {given(doubles({2, 1, 2}, {1, 2, 3, 4})), given(doubles({2, 1, 2}, {5, 1, 3, 7})),
                  parameter(given(doubles({1}, {3}))), parameter(given(doubles({1}, {4})))},
                 2);
  c.attributes = {{"epsilon", 0.0}};
  // dy * (x - 3) / 2: 1, -2, 0, 8
  c.expected = {doubles({1}, {10}), doubles({1}, {7})};
  c.fixed_rows = true;
  check_op(c);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{5, 3, 4, 5}, {33, 2, 3}, {4, 37}, {6}}) {
    const int64_t channels = shape.size() > 1 ? shape[1] : 1;
    OpCase any = own("BatchNormGradSums",
                     {random(shape), random(shape, -1, 1, 8), per_channel(channels, -1, 1, 4),
                      per_channel(channels, 0.5, 2, 5)},
                     2);
    any.must_run = kAllKernels;
    check_op(any);
  }
}

TEST(BatchNorm, gradient_of_x_with_and_without_the_way_through_statistics) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{5, 3, 4, 3}, {18, 2, 5}, {4, 21}}) {
    const int64_t channels = shape[1];
    OpCase c = own(
        "BatchNormGradData",
        {random(shape), per_channel(channels, 0.5, 1.5, 2), per_channel(channels, 0.5, 2, 5)}, 1);
    c.must_run = kAllKernels;
    check_op(c);
    c.inputs.push_back(random(shape, -1, 1, 8));
    for (const uint64_t seed : {4, 6, 7}) c.inputs.push_back(per_channel(channels, -1, 1, seed));
    c.inputs.push_back(parameter(exactly(given(doubles({}, {20})))));
    check_op(c);
  }
}

// All values of a graph, from those of its inputs.
using Values = std::map<const Value*, Tensor>;
void evaluate_all(const graph::Graph& graph, Values& known) {
  for (const ops::Node& node : graph.nodes()) {
    std::vector<Tensor> inputs;
    for (const Value* value : node.inputs()) {
      if (value != nullptr && value->is_constant()) known[value] = value->data;
      inputs.push_back(value == nullptr ? Tensor() : known.at(value));
    }
    const std::vector<Tensor> outputs = ops::evaluate(node, inputs);
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) != nullptr) known[node.output(i)] = outputs[i];
    }
  }
}

// x -> sums -> moments -> apply, with the gradients of x, scale and bias for dy.
struct Trained {
  Tensor y, mean, var, dx, dscale, dbias;
};
Trained train(const Tensor& x, const Tensor& scale, const Tensor& bias, const Tensor& dy,
              double epsilon = 1e-5) {
  graph::Graph g;
  Value* inputs[] = {g.add_input("x", x.type()), g.add_input("scale", scale.type()),
                     g.add_input("bias", bias.type()), g.add_input("dy", dy.type())};
  ops::OpBuilder b(g);
  Value* sums = b.own("BatchNormSums", {inputs[0]});
  ops::Node* moments = b.node(ops::kDomain, "BatchNormMoments", {sums}, {"mean", "var", "count"});
  ops::Node* apply = b.node(
      ops::kDomain, "BatchNormApply",
      {inputs[0], inputs[1], inputs[2], moments->output(0), moments->output(1), moments->output(2)},
      {"y"}, {{"epsilon", epsilon}});
  ops::GradientContext context(*apply, b, {inputs[3]}, {true, true, true});
  ops::OpRegistry::get().at(*apply).gradient.rule(context);
  Values known{{inputs[0], x}, {inputs[1], scale}, {inputs[2], bias}, {inputs[3], dy}};
  evaluate_all(g, known);
  const auto dx = context.result();
  return {known.at(apply->output(0)),
          known.at(moments->output(0)),
          known.at(moments->output(1)),
          known.at(dx[0]),
          known.at(dx[1]),
          known.at(dx[2])};
}

double objective(const Tensor& y, const Tensor& dy) {
  double sum = 0;
  for (int64_t i = 0; i < y.numel(); ++i) sum += y.as_double(i) * dy.as_double(i);
  return sum;
}

TEST(BatchNorm, the_whole_gradient_agrees_with_central_differences) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 2, 2, 2}, {4, 3}, {2, 2, 3}, {1, 2, 2, 1, 2}, {2, 2}}) {
    Tensor operands[] = {random_tensor(DType::kFloat64, shape, -1, 3, 1),
                         random_tensor(DType::kFloat64, {shape[1]}, 0.5, 1.5, 2),
                         random_tensor(DType::kFloat64, {shape[1]}, -1, 1, 3)};
    const Tensor dy = random_tensor(DType::kFloat64, shape, -1, 1, 4);
    const auto run = [&] { return train(operands[0], operands[1], operands[2], dy); };
    const Trained trained = run();
    const Tensor* gradients[] = {&trained.dx, &trained.dscale, &trained.dbias};
    for (int i = 0; i < 3; ++i) {
      std::vector<double> slopes;
      for (int64_t j = 0; j < operands[i].numel(); ++j) {
        constexpr double kStep = 0x1p-16;
        double* at = &operands[i].mutable_data<double>()[j];
        const double value = *at;
        *at = value + kStep;
        const double above = objective(run().y, dy);
        *at = value - kStep;
        const double below = objective(run().y, dy);
        *at = value;
        slopes.push_back((above - below) / (2 * kStep));
      }
      EXPECT_EQ(difference(*gradients[i], doubles(operands[i].shape(), slopes), {1e-5, 1e-6}),
                std::nullopt)
          << "operand " << i;
    }
  }
}

TEST(BatchNorm, the_golden_channel_1_2_3_6) {
  const Trained t = train(floats({4, 1}, {1, 2, 3, 6}), floats({1}, {1}), floats({1}, {0}),
                          floats({4, 1}, {0, 0, 0, 0}), 0.0);
  EXPECT_EQ(t.mean.as_double(0), 3);
  EXPECT_EQ(t.var.as_double(0), 3.5);
  EXPECT_NEAR(t.y.as_double(3), 3 / std::sqrt(3.5), 1e-6);
}

// In float: the mean of these is no float, and the squares have 1e8.
TEST(BatchNorm, a_large_mean_costs_no_digits) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(1e4f + static_cast<float>(i % 4) - 1.5f);
  const Tensor x = floats({64, 1}, values);
  const Tensor dy = random_tensor(DType::kFloat32, {64, 1});
  const Trained t = train(x, floats({1}, {1}), floats({1}, {0}), dy, 0.0);
  EXPECT_NEAR(t.mean.as_double(0), 1e4, 1e-9);
  EXPECT_NEAR(t.var.as_double(0), 1.25, 1e-7);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(t.y.as_double(i), (i - 1.5) / std::sqrt(1.25), 1e-6);
  std::vector<float> near;
  for (const float value : values) near.push_back(value - 1e4f);
  const Trained small = train(floats({64, 1}, near), floats({1}, {1}), floats({1}, {0}), dy, 0.0);
  EXPECT_EQ(difference(t.dx, small.dx, {1e-5, 1e-6}), std::nullopt);
}

TEST(BatchNorm, s2_wants_operands_per_channel) {
  OpCase c = own(
      "BatchNormGradSums",
      {random({2, 3, 2}), random({2, 3, 2}), per_channel(3, 0, 1, 2), per_channel(2, 0, 1, 3)}, 2);
  EXPECT_EQ(fault(c), "S2: input 3 has type float[2], expected one entry for each of 3 channels");
}

TEST(BatchNorm, s1_wants_dy_like_x) {
  OpCase c = own(
      "BatchNormGradSums",
      {random({2, 3, 2}), random({2, 3, 4}), per_channel(3, 0, 1, 2), per_channel(3, 0, 1, 3)}, 2);
  EXPECT_EQ(infer_error(c).substr(0, 3), "S1:");
}

TEST(BatchNorm, a_refused_step_keeps_the_old_statistic) {
  OpCase c = own("CommitStatistic",
                 {parameter(given(doubles({2}, {1, 2}))), parameter(given(doubles({2}, {6, 9}))),
                  parameter(given(doubles({}, {0.5})))},
                 1);
  c.batch = false;
  c.expected = {doubles({2}, {6, 9})};
  check_op(c);
  c.inputs.push_back(parameter(given(doubles({}, {3}))));
  c.expected = {doubles({2}, {2, 3})};
  check_op(c);
  c.inputs[2] = parameter(given(doubles({}, {NAN})));
  c.expected = {doubles({2}, {1, 2})};
  check_op(c);
}

// --- forms

struct Fixture {
  std::unique_ptr<graph::Graph> graph = std::make_unique<graph::Graph>();
  ops::Node* node = nullptr;
};

Fixture fixture(std::vector<int64_t> shape, const std::vector<std::string>& outputs = {"y"}) {
  Fixture f;
  graph::Graph& g = *f.graph;
  g.batch_symbol = "N";
  std::vector<Value*> inputs{g.add_input("x", ops::TensorType(DType::kFloat32, {}))};
  inputs[0]->type.dims = graph::to_dims(shape);
  inputs[0]->type.dims[0].symbol = "N";
  for (const char* name : {"s", "b", "m", "v"}) {
    inputs.push_back(g.add_constant(name, Tensor(DType::kFloat32, {shape[1]})));
  }
  f.node = g.add_node("", "BatchNormalization", inputs, outputs);
  f.node->name = "bn";
  return f;
}

TEST(BatchNorm, older_forms_say_training_by_outputs_or_is_test) {
  const auto mode = [](int64_t opset, const std::vector<std::string>& outputs, Attributes given) {
    Fixture f = fixture({2, 3}, outputs);
    f.node->attributes = std::move(given);
    ops::NormalizeContext context(*f.node, opset);
    ops::OpRegistry::get().at(*f.node).normalize(context);
    EXPECT_FALSE(f.node->has("is_test") || f.node->has("consumed_inputs"));
    return f.node->get_int("training_mode", 0);
  };
  EXPECT_EQ(mode(9, {"y"}, {}), 0);
  EXPECT_EQ(mode(9, {"y", "", "", "", ""}, {}), 0);
  EXPECT_EQ(mode(9, {"y", "m2", "v2", "sm", "sv"}, {}), 1);
  EXPECT_EQ(mode(6, {"y"}, {{"is_test", int64_t{0}}}), 1);
  EXPECT_EQ(mode(6, {"y"}, {{"is_test", int64_t{1}}}), 0);
  EXPECT_EQ(mode(1, {"y"}, {{"consumed_inputs", std::vector<int64_t>{0}}}), 1);
  EXPECT_EQ(mode(15, {"y"}, {{"training_mode", int64_t{1}}}), 1);
  EXPECT_EQ(mode(9, {}, {}), 0);
}

TEST(BatchNorm, saved_outputs_that_are_read_are_refused) {
  Fixture f = fixture({2, 3}, {"y", "", "", "sm", ""});
  f.graph->add_output(f.graph->find("sm"));
  ops::NormalizeContext context(*f.node, 9);
  try {
    ops::OpRegistry::get().at(*f.node).normalize(context);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("its output 'sm' (saved_mean) is read"),
              std::string::npos)
        << error.what();
  }
}

struct Applied {
  Value* y = nullptr;
  std::vector<std::string> updates, notices;
  int64_t least_rows = 1;
};

Applied apply_mode(Fixture& f, bool training, bool respect = false,
                   const std::vector<std::string>& frozen = {}) {
  Applied applied;
  ops::infer_node(*f.node);
  f.graph->add_output(f.graph->find("y"));
  ops::ModeSurroundings around;
  around.frozen = [&](const Value* value) { return std::ranges::count(frozen, value->name) > 0; };
  around.update = [&](Value* state, Value* next) {
    applied.updates.push_back(state->name + " := " + next->name);
  };
  around.notice = [&](const std::string& line) { applied.notices.push_back(line); };
  around.require_rows = [&](int64_t rows) { applied.least_rows = rows; };
  ModeContext mode(*f.node, training, ModeContext::Dropout::kActive, respect, around);
  ops::OpRegistry::get().at(*f.node).apply_mode(mode);
  applied.y = f.graph->outputs()[0];
  return applied;
}

TEST(BatchNorm, training_takes_the_statistics_of_the_batch_and_moves_the_running_ones) {
  Fixture f = fixture({2, 3, 4});
  const Applied applied = apply_mode(f, true);
  EXPECT_TRUE(applied.y->producer->is(ops::kDomain, "BatchNormApply"));
  EXPECT_EQ(applied.y->name, "y");
  EXPECT_EQ(applied.y->producer->name, "bn");
  EXPECT_EQ(applied.updates, (std::vector<std::string>{"m := m'", "v := v'"}));
  EXPECT_TRUE(applied.notices.empty());
  EXPECT_EQ(applied.least_rows, 1);
}

TEST(BatchNorm, evaluation_frozen_nodes_and_the_files_own_mode_use_stored_statistics) {
  for (const auto& [training, respect, frozen] :
       {std::tuple{false, false, std::vector<std::string>{}},
        std::tuple{true, true, std::vector<std::string>{}},
        std::tuple{true, false, std::vector<std::string>{"s", "b"}}}) {
    Fixture f = fixture({2, 3, 4});
    const Applied applied = apply_mode(f, training, respect, frozen);
    EXPECT_EQ(applied.y->producer, f.node);
    EXPECT_TRUE(applied.updates.empty());
  }
  Fixture f = fixture({2, 3, 4});
  EXPECT_NE(apply_mode(f, true, false, {"s"}).y->producer, f.node);
}

TEST(BatchNorm, evaluation_gives_stored_statistics_as_outputs) {
  Fixture f = fixture({2, 3, 4}, {"y", "m2", "v2"});
  f.node->attributes["training_mode"] = int64_t{1};
  apply_mode(f, false);
  EXPECT_EQ(f.node->get_int("training_mode", 0), 0);
  EXPECT_EQ(f.graph->find("m2")->producer->input(0)->name, "m");
  EXPECT_EQ(f.graph->find("v2")->producer->input(0)->name, "v");
}

TEST(BatchNorm, c4_refuses_one_value_per_channel_in_training) {
  Fixture f = fixture({1, 3, 1, 1});
  try {
    apply_mode(f, true);
    FAIL();
  } catch (const ops::ConstraintError& error) {
    EXPECT_EQ(error.constraint(), "C4");
    EXPECT_STREQ(error.what(),
                 "x has type float[N:1,3,1,1], one value per channel, which always normalises to "
                 "zero; train with micro-batches of at least 2, or freeze its scale 's' and bias "
                 "'b' to use the stored statistics");
  }
  Fixture eval = fixture({1, 3, 1, 1});
  EXPECT_EQ(apply_mode(eval, false).y->producer, eval.node);
  Fixture two = fixture({2, 3});
  EXPECT_EQ(apply_mode(two, true).least_rows, 2);
}

TEST(BatchNorm, an_unusual_momentum_gets_a_notice) {
  const auto notice = [](double momentum) {
    Fixture f = fixture({2, 3, 4});
    f.node->attributes["momentum"] = momentum;
    return apply_mode(f, true).notices.at(0);
  };
  EXPECT_EQ(notice(0.1),
            "attribute 'momentum' is 0.1 (in ONNX the share of the old running value): the running "
            "statistics follow the last batches; if 0.1 was meant as the share of the new one, "
            "write 0.9 into the file");
  EXPECT_EQ(notice(0),
            "attribute 'momentum' is 0 (in ONNX the share of the old running value): the running "
            "statistics are those of the last micro-batch, evaluation uses nothing older; if they "
            "shall be averages, write a larger one into the file (0.9 is usual)");
  EXPECT_EQ(notice(1),
            "attribute 'momentum' is 1 (in ONNX the share of the old running value): the running "
            "statistics never move, evaluation uses those of the file; if they shall follow the "
            "data, write a smaller one into the file (0.9 is usual)");
}

TEST(BatchNorm, c7_refuses_a_momentum_outside_0_to_1_where_statistics_move) {
  for (const double momentum : {2.0, -1.0, std::nan(""), HUGE_VAL}) {
    Fixture f = fixture({2, 3, 4});
    f.node->attributes["momentum"] = momentum;
    try {
      apply_mode(f, true);
      ADD_FAILURE() << momentum;
    } catch (const ops::ConstraintError& error) {
      EXPECT_EQ(error.constraint(), "C7");
      EXPECT_EQ(error.what(),
                fmt::format("attribute 'momentum' is {:.4g}, expected 0 to 1 (in ONNX the share of "
                            "the old running value): the running statistics would be no averages "
                            "of those of the batches, and evaluation would mean nothing; write "
                            "the momentum that was meant into the file (0.9 is usual), or freeze "
                            "its scale 's' and bias 'b' to use the stored statistics",
                            momentum));
    }
    Fixture frozen = fixture({2, 3, 4});
    frozen.node->attributes["momentum"] = momentum;
    EXPECT_TRUE(apply_mode(frozen, true, false, {"s", "b"}).notices.empty());
  }
}

TEST(BatchNorm, c5_refuses_scale_and_bias_or_mean_and_var_of_two_types) {
  const OpInput integers = given(ints({2}, {1, 1}));
  for (const int slot : {1, 2, 3, 4}) {
    OpCase c = stored({2, 2});
    c.inputs[slot] = integers;
    EXPECT_NE(fault(c), "") << slot;
  }
  Fixture f = fixture({2, 3, 4});
  f.node->input(1)->type.dtype = ops::DType::kFloat64;
  try {
    ops::infer_node(*f.node);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "input 2 (bias) 'b' is float[3], but input 1 (scale) 's' is double[3]: both must have "
        "one element type; cast one of them, or export the model in one type\n  while "
        "inferring shapes of node bn (BatchNormalization)");
  }
}

TEST(BatchNorm, c6_refuses_an_epsilon_that_is_no_distance_from_zero) {
  OpCase c = stored({2, 2});
  c.attributes = {{"epsilon", -1e-5}};
  EXPECT_EQ(fault(c),
            "C6: attribute 'epsilon' is -1e-05, expected a finite number above 0: where what it is "
            "added to is below 1e-05, the sum is negative, and the result not a number; write the "
            "number that was meant into the file");
  c.attributes = {{"epsilon", HUGE_VAL}};
  EXPECT_EQ(fault(c),
            "C6: attribute 'epsilon' is inf, expected a finite number above 0: everything is "
            "divided by infinity; write the number that was meant into the file");
}

TEST(BatchNorm, a_saved_file_is_in_inference_form) {
  const auto edit = [](int64_t opset, const std::vector<std::string>& outputs, Attributes given) {
    Fixture f = fixture({2, 3}, outputs);
    f.node->attributes = std::move(given);
    ops::InferenceFormContext context(*f.node, opset);
    ops::OpRegistry::get().at(*f.node).inference_form(context);
    return context.edit();
  };
  using Ints = std::map<std::string, int64_t>;
  EXPECT_EQ(edit(15, {"y", "m2", "v2"}, {{"training_mode", int64_t{1}}}).ints,
            (Ints{{"training_mode", 0}}));
  EXPECT_EQ(edit(15, {"y", "m2", "v2"}, {{"training_mode", int64_t{1}}}).keep_outputs, 1);
  EXPECT_TRUE(edit(15, {"y"}, {}).ints.empty());
  EXPECT_TRUE(edit(9, {"y", "m2", "v2", "sm", "sv"}, {}).ints.empty());
  EXPECT_EQ(edit(9, {"y", "m2", "v2", "sm", "sv"}, {}).keep_outputs, 1);
  EXPECT_EQ(edit(6, {"y"}, {}).ints, (Ints{{"is_test", 1}}));
}

}  // namespace
}  // namespace sardonyx::test
