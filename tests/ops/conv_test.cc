// Conv and its gradient operators: numbers by hand, every geometry on every kernel and layout, the
// constraints of the plate, and what only large batches show.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/conv_support.h"

namespace sardonyx::test {
namespace {

TEST(Conv, sums_products_over_the_window) {
  check_op({.claim = "by hand",
            .op = "Conv",
            .inputs = {given(doubles({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})),
                       parameter(given(doubles({1, 1, 2, 2}, {1, 10, 100, 1000}))),
                       parameter(given(doubles({1}, {0.5})))},
            .expected = {doubles({1, 1, 2, 2}, {5421.5, 6532.5, 8754.5, 9865.5})},
            .gradient_tolerance = {1e-6, 1e-4},
            .dy = {doubles({1, 1, 2, 2}, {1, 0, 0, 2})},
            .expected_gradients = {doubles({1, 1, 3, 3}, {1, 10, 0, 100, 1002, 20, 0, 200, 2000}),
                                   doubles({1, 1, 2, 2}, {1 + 10, 2 + 12, 4 + 16, 5 + 18}),
                                   doubles({1}, {3})}});
}

TEST(Conv, groups_see_their_own_channels_only) {
  check_op({.claim = "1x1 kernel, two groups",
            .op = "Conv",
            .inputs = {given(doubles({1, 2, 1, 2}, {1, 2, 30, 40})),
                       parameter(given(doubles({2, 1, 1, 1}, {2, 3})))},
            .attributes = {{"group", int64_t{2}}},
            .expected = {doubles({1, 2, 1, 2}, {2, 4, 90, 120})}});
}

TEST(Conv, every_geometry_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) check_op(conv_case(g));
}

TEST(Conv, data_gradient_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) check_op(grad_data_case(g));
}

TEST(Conv, filter_gradient_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) check_op(grad_filter_case(g));
}

TEST(Conv, bias_gradient_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) check_op(grad_bias_case(g));
}

// --- auto_pad: a kernel of ones on ones counts the cells inside
// -----------------------------------

std::vector<double> counts(const Ints& x, const Ints& w, Attributes attributes) {
  OpCase c;
  c.op = "Conv";
  c.attributes = std::move(attributes);
  c.inputs = {random(x, 1, 1), random(w, 1, 1)};
  return reference(c).at(0).to_doubles();
}

TEST(Conv, same_upper_puts_an_odd_pad_at_the_end) {
  const Attributes same{{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}};
  EXPECT_EQ(counts({1, 1, 6}, {1, 1, 3}, same), (std::vector<double>{3, 3, 2}));
}

TEST(Conv, same_lower_puts_an_odd_pad_in_front) {
  const Attributes same{{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2}}};
  EXPECT_EQ(counts({1, 1, 6}, {1, 1, 3}, same), (std::vector<double>{2, 3, 3}));
}

TEST(Conv, same_needs_no_negative_pad) {
  const Attributes same{{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{3}}};
  EXPECT_EQ(counts({1, 1, 7}, {1, 1, 1}, same), (std::vector<double>{1, 1, 1}));
}

TEST(Conv, same_ignores_pads) {
  const Attributes same{{"auto_pad", std::string("SAME_UPPER")}, {"pads", Ints{5, 5}}};
  EXPECT_EQ(counts({1, 1, 3}, {1, 1, 3}, same), (std::vector<double>{2, 3, 2}));
}

TEST(Conv, valid_pads_nothing) {
  const Attributes valid{{"auto_pad", std::string("VALID")}, {"strides", Ints{2}}};
  EXPECT_EQ(counts({1, 1, 6}, {1, 1, 3}, valid), (std::vector<double>{3, 3}));
}

TEST(Conv, auto_pad_has_gradients_on_every_axis) {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
    OpCase c = conv_case({mode, {1, 2, 7, 5}, {1, 2, 3, 3}, {{"strides", Ints{2, 2}}}, true});
    c.attributes["auto_pad"] = std::string(mode);
    check_op(c);
  }
}

// --- Constraints
// ----------------------------------------------------------------------------------

std::string conv_error(const Ints& x, const Ints& w, Attributes attributes = {},
                       std::optional<Ints> b = std::nullopt) {
  OpCase c;
  c.claim = "conv_bad";
  c.op = "Conv";
  c.attributes = std::move(attributes);
  c.inputs = {random(x), random(w)};
  if (b) c.inputs.push_back(random(*b));
  return infer_error(c);
}

void expect_holds(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  }
}

TEST(Conv, conv_c1_rejects_other_ranks) {
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3, 3}),
               {"C1", "rank 4", "rank 5", "conv_bad (Conv)"});
  expect_holds(conv_error({1, 4}, {4, 4}), {"C1", "at least 3"});
}

TEST(Conv, conv_c2_rejects_channel_mismatch) {
  expect_holds(conv_error({1, 4, 6, 6}, {4, 2, 3, 3}),
               {"C2: x [1,4,6,6] has 4 channels, but w [4,2,3,3] with group 1 takes 2"});
}

TEST(Conv, conv_c3_rejects_groups_that_do_not_divide) {
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3}, {{"group", int64_t{0}}}), {"C3: group is 0"});
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3}, {{"group", int64_t{-3}}}),
               {"C3: group is -3"});
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3}, {{"group", int64_t{3}}}),
               {"C3: group 3 does not divide the 4 output channels"});
}

TEST(Conv, conv_c4_rejects_another_kernel_shape) {
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3}, {{"kernel_shape", Ints{5, 5}}}),
               {"C4: kernel_shape [5,5] does not fit w [4,4,3,3]"});
}

TEST(Conv, conv_c5_rejects_another_bias) {
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3}, {}, Ints{3}), {"C5: b is [3]"});
  expect_holds(conv_error({1, 4, 6, 6}, {4, 4, 3, 3}, {}, Ints{4, 1}), {"C5: b is [4,1]"});
}

TEST(Conv, conv_c6_rejects_integers) {
  OpCase c;
  c.op = "Conv";
  c.inputs = {given(ints({1, 1, 2}, {1, 2})), given(ints({1, 1, 1}, {1}))};
  expect_holds(infer_error(c), {"C6: input 0 is int64, expected a floating type"});
}

TEST(Conv, window_rules_name_the_attribute) {
  const Ints x{1, 4, 6, 6}, w{4, 4, 3, 3};
  expect_holds(conv_error(x, w, {{"strides", Ints{1}}}), {"W1: strides [1] has 1 entries"});
  expect_holds(conv_error(x, w, {{"pads", Ints{1, 1, 1}}}),
               {"W1: pads [1,1,1] has 3 entries, expected 4 for 2 spatial axes"});
  expect_holds(conv_error(x, w, {{"strides", Ints{0, 1}}}), {"W2: strides [0,1]"});
  expect_holds(conv_error(x, w, {{"dilations", Ints{1, -1}}}), {"W2: dilations [1,-1]"});
  expect_holds(conv_error(x, w, {{"pads", Ints{0, 0, -1, 0}}}), {"W3: pads [0,0,-1,0]"});
  expect_holds(conv_error(x, w, {{"auto_pad", std::string("SAME_MIDDLE")}}),
               {"W4: auto_pad is 'SAME_MIDDLE'"});
  expect_holds(conv_error(x, {4, 4, 0, 3}), {"W5: the kernel [0,3]"});
  expect_holds(conv_error({1, 4, 2, 6}, w), {"W6", "axis 0 has size 2", "spans 3"});
  expect_holds(conv_error(x, w, {{"strides", std::vector<double>{1, 1}}}), {"strides"});
}

TEST(Conv, unknown_sizes_pass_through) {
  graph::Graph g;
  graph::TensorType x(DType::kFloat32, {graph::Dim::named("N"), 3, graph::Dim(), 8});
  ops::OpBuilder b(g);
  ops::Value* y = b.op(
      "Conv", {g.add_input("x", x), g.add_constant("w", Tensor(DType::kFloat32, {5, 3, 3, 3}))});
  EXPECT_EQ(y->type.str(), "float[N,5,?,6]");
  ops::Value* z =
      b.op("Conv", {g.add_input("u", graph::TensorType::unranked(DType::kFloat32)), g.find("w")});
  EXPECT_FALSE(z->type.ranked);
}

TEST(Conv, gradient_operators_check_the_outputs) {
  OpCase c = grad_filter_case(kGeometries[0]);
  c.attributes["kernel_shape"] = Ints{7, 7};
  expect_holds(infer_error(c), {"C1: dy [N:2,3,2,2] does not fit: expected [1,1]"});
  c.attributes.erase("kernel_shape");
  expect_holds(infer_error(c), {"C1: kernel_shape [] needs one entry for each of 2"});
  OpCase d = grad_data_case(kGeometries[0]);
  d.attributes["input_shape"] = Ints{20, 8};
  expect_holds(infer_error(d), {"C1: dy [N:2,3,2,2] does not fit: expected [6,2]"});
}

TEST(Conv, a_filter_that_carries_the_batch_couples_rows) {
  graph::Graph g;
  g.batch_symbol = "N";
  const graph::TensorType type(DType::kFloat32, {graph::Dim(2, "N"), 2, 3});
  ops::OpBuilder b(g);
  ops::Value* x = g.add_input("x", type);
  const ops::OpDef& op = *ops::OpRegistry::get().find("", "Conv");
  EXPECT_EQ(op.batch(*b.op("Conv", {x, x})->producer, 0), ops::BatchRole::kCouples);
  ops::Value* w = g.add_constant("w", Tensor(DType::kFloat32, {2, 2, 3}));
  EXPECT_EQ(op.batch(*b.op("Conv", {x, w})->producer, 0), ops::BatchRole::kRows);
}

// --- Kernels on larger batches
// --------------------------------------------------------------------

// 61 images: three full blocks of lanes and one of 13, with poisoned lanes behind them.
void check_61_in_lanes(OpCase c, bool out_carries_batch) {
  OneNode plain(c), lanes(c);
  lanes.to_lanes(out_carries_batch);
  const Tensor want = plain.run(kernel_named(c, "conv.ref"), 1);
  const Tensor one = lanes.run(kernel_named(c, "conv.lanes"), 1);
  EXPECT_EQ(difference(one, want, {1e-4, 1e-4}), std::nullopt) << c.claim;
  for (const int threads : {2, 3}) {
    EXPECT_TRUE(one.identical(lanes.run(kernel_named(c, "conv.lanes"), threads)))
        << c.claim << " with " << threads << " threads";
  }
}

TEST(Conv, batch_of_61_in_lanes_ignores_the_padding_lanes) {
  for (const Geometry& g :
       {Geometry{"plain", {61, 3, 6, 5}, {5, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, true},
        Geometry{"groups", {61, 6, 5, 5}, {4, 3, 2, 2}, {{"group", int64_t{2}}}, true}}) {
    check_61_in_lanes(conv_case(g), true);
    check_61_in_lanes(grad_data_case(g), true);
    check_61_in_lanes(grad_filter_case(g), false);
    check_61_in_lanes(grad_bias_case(g), false);
  }
}

// A filter too large for a partial sum per block: the outputs are shared out instead.
TEST(Conv, large_filter_gradient_in_lanes_is_cut_by_outputs) {
  check_61_in_lanes(
      grad_filter_case({"large", {61, 96, 2, 2}, {520, 96, 5, 5}, {{"pads", Ints{2, 2, 2, 2}}}}),
      false);
}

TEST(Conv, onednn_runs_a_large_batch_in_pieces_slow) {
  const Geometry g{"pieces", {19, 4, 256, 256}, {4, 4, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, true};
  for (const OpCase& c : {conv_case(g), grad_data_case(g), grad_filter_case(g)}) {
    const OneNode plain(c);
    const Tensor want = plain.run(kernel_named(c, "conv.ref"), 2);
    const Tensor got = plain.run(kernel_named(c, "conv.onednn"), 2);
    EXPECT_EQ(difference(got, want, {1e-4, 5e-3}), std::nullopt) << c.claim;
    EXPECT_TRUE(got.identical(plain.run(kernel_named(c, "conv.onednn"), 2))) << c.claim;
  }
}

TEST(Conv, onednn_channels_last_agrees_on_every_geometry_and_is_left_to_measurements) {
  for (const Geometry& g : kGeometries) {
    if (g.x.size() > 5) continue;
    for (const OpCase& c : {conv_case(g), grad_data_case(g), grad_filter_case(g)}) {
      const OneNode plain(c);
      const ops::KernelDef& kernel = kernel_named(c, "conv.onednn_nhwc");
      const Tensor want = plain.run(kernel_named(c, "conv.ref"), 1);
      EXPECT_EQ(difference(plain.run(kernel, 1), want, {1e-5, 1e-5}), std::nullopt)
          << c.op << " " << c.claim;
      EXPECT_NE(ops::declines(kernel, plain.request), std::nullopt);
      EXPECT_TRUE(ops::can_serve(kernel, plain.request));
    }
  }
}

TEST(Conv, onednn_winograd_is_close_where_it_exists_slow) {
  const Geometry g{"wino", {4, 64, 28, 28}, {64, 64, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}};
  for (const OpCase& c : {conv_case(g), grad_data_case(g), grad_filter_case(g)}) {
    const OneNode plain(c);
    const ops::KernelDef& winograd = kernel_named(c, "conv.onednn_winograd");
    if (ops::declines(winograd, plain.request)) continue;  // needs AVX-512
    // Sums of 576 (filter: 3136) products of numbers up to 1: the error is some 1e-5 of their size.
    const Tensor want = plain.run(kernel_named(c, "conv.ref"), 2);
    EXPECT_EQ(difference(plain.run(winograd, 1), want, {1e-5, 1e-3}), std::nullopt) << c.claim;
  }
}

TEST(Conv, onednn_winograd_declines_with_a_sentence) {
  const OpCase c = conv_case(kGeometries[0]);
  EXPECT_EQ(*ops::declines(kernel_named(c, "conv.onednn_winograd"), OneNode(c).request),
            "Winograd needs a 3x3 kernel, stride 1 and one group");
  const OpCase few = conv_case({"few", {4, 64, 4, 4}, {64, 64, 3, 3}, {}});
  if (!__builtin_cpu_supports("avx512f")) return;
  EXPECT_EQ(*ops::declines(kernel_named(few, "conv.onednn_winograd"), OneNode(few).request),
            "Winograd does not pay for so few or so small images");
}

// Where the two were measured side by side, on two cores: gains of 1.2 to 1.3 and of 0.8 to 1.0.
TEST(Conv, onednn_winograd_serves_where_it_was_measured_to_be_faster) {
  if (!__builtin_cpu_supports("avx512f")) return;
  const auto serves = [](int64_t batch, int64_t channels, int64_t size) {
    const Geometry g{"",
                     {batch, channels, size, size},
                     {channels, channels, 3, 3},
                     {{"pads", Ints{1, 1, 1, 1}}}};
    std::vector<bool> result;
    for (const OpCase& c : {conv_case(g), grad_data_case(g), grad_filter_case(g)}) {
      const ops::KernelDef& winograd = kernel_named(c, "conv.onednn_winograd");
      result.push_back(!ops::declines(winograd, OneNode(c).request));
    }
    return result;
  };
  EXPECT_EQ(serves(16, 512, 7), (std::vector{true, true, true}));
  EXPECT_EQ(serves(64, 64, 8), (std::vector{true, true, true}));
  EXPECT_EQ(serves(12, 512, 7), (std::vector{false, false, true}));
  EXPECT_EQ(serves(64, 128, 4), (std::vector{false, false, true}));
  EXPECT_EQ(serves(16, 256, 7), (std::vector{false, false, true}));
  EXPECT_EQ(serves(8, 512, 7), (std::vector{false, false, false}));
}

TEST(Conv, onednn_declines_double_and_lanes_decline_plain) {
  const OpCase c = conv_case(kGeometries[0]);
  OneNode run(c);
  EXPECT_NE(ops::declines(kernel_named(c, "conv.lanes"), run.request), std::nullopt);
  for (auto* types : {&run.request.in, &run.request.out}) {
    for (graph::TensorType& type : *types) type.dtype = DType::kFloat64;
  }
  EXPECT_EQ(*ops::declines(kernel_named(c, "conv.onednn"), run.request), "takes float only");
}

// Nothing reads the last row and column of y: they may stay uncomputed, and dy counts as zero
// there.
TEST(Conv, lanes_skip_what_is_not_needed) {
  const Geometry all{"needed", {16, 3, 6, 6}, {5, 3, 2, 2}};
  OpCase c = conv_case(all);
  const Tensor want = OneNode(c).run(kernel_named(c, "conv.ref"), 1);
  c.attributes["needed"] = Ints{4, 4};
  OneNode lanes(c);
  lanes.to_lanes(true);
  const Tensor got = lanes.run(kernel_named(c, "conv.lanes"), 1);
  int checked = 0, not_computed = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const bool needed = i % 5 < 4 && i / 5 % 5 < 4;
    if (needed) {
      EXPECT_NEAR(got.as_double(i), want.as_double(i), 1e-5);
      ++checked;
    } else if (std::isnan(got.as_double(i)) || got.as_double(i) == 0) {
      ++not_computed;  // still the garbage of the harness, or cleared
    }
  }
  EXPECT_EQ(checked, 16 * 5 * 16);
  EXPECT_EQ(not_computed, 16 * 5 * 9);

  for (OpCase d : {grad_data_case(all), grad_filter_case(all)}) {
    OneNode plain(d), cut(d);
    for (OneNode* run : {&plain, &cut}) {
      const auto dy = run->inputs[1].mutable_data<float>();
      for (size_t i = 0; i < dy.size(); ++i) {
        if (i % 5 == 4 || i / 5 % 5 == 4) dy[i] = 0;
      }
    }
    const bool data = d.op == "ConvGradData";
    cut.node->attributes["needed"] = Ints{4, 4};
    cut.batch = {!data, true};
    cut.to_lanes(data);
    EXPECT_EQ(difference(cut.run(kernel_named(d, "conv.lanes"), 1),
                         plain.run(kernel_named(d, "conv.ref"), 1), {1e-5, 1e-5}),
              std::nullopt)
        << d.op;
  }
}

TEST(Conv, flops_count_two_for_each_product_that_is_needed) {
  graph::Graph g;
  ops::OpBuilder b(g);
  ops::Value* x = g.add_input("x", {DType::kFloat32, {4, 6, 5, 5}});
  ops::Value* w = g.add_input("w", {DType::kFloat32, {8, 3, 3, 3}});
  const auto flops = [](const ops::Value* y) {
    return ops::OpRegistry::get().at(*y->producer).flops(ops::KernelRequest::of(*y->producer));
  };
  graph::Attributes attributes{{"group", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}};
  EXPECT_EQ(flops(b.op("Conv", {x, w}, attributes)), 2 * 4 * (8 * 3 * 3 * 3) * (5 * 5));
  attributes["needed"] = Ints{4, 5};
  EXPECT_EQ(flops(b.op("Conv", {x, w}, attributes)), 2 * 4 * (8 * 3 * 3 * 3) * (4 * 5));
}

TEST(Conv, gradient_rule_hands_the_needed_part_on) {
  graph::Graph g;
  ops::OpBuilder b(g);
  ops::Value* x = g.add_input("x", graph::TensorType(DType::kFloat32, {2, 1, 4, 4}));
  ops::Value* w = g.add_constant("w", Tensor(DType::kFloat32, {3, 1, 2, 2}));
  ops::Value* y = b.op("Conv", {x, w}, {{"needed", Ints{2, 2}}});
  ops::Value* dy = g.add_input("dy", y->type);
  ops::GradientContext context(*y->producer, b, {dy}, {true, true});
  ops::OpRegistry::get().find("", "Conv")->gradient.rule(context);
  for (const ops::Value* dx : context.result()) {
    EXPECT_EQ(dx->producer->get_ints("needed", {}), (Ints{2, 2})) << dx->producer->op;
  }
}

}  // namespace
}  // namespace sardonyx::test
