// RNN, GRU and LSTM against numbers of plain loops over the formulas in Python (which onnxruntime
// 1.19 agrees with to 2e-7), gradients against those of torch and against central differences.
#include <gtest/gtest.h>

#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

// Multiples of 1/8 from -1 to 1, in no order.
Tensor eighths(std::vector<int64_t> shape, int64_t seed) {
  Tensor tensor(DType::kFloat64, std::move(shape));
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.mutable_data<double>()[i] = static_cast<double>((i * 7 + seed * 5) % 17 - 8) / 8;
  }
  return tensor;
}

Tensor int32s(const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>({static_cast<int64_t>(values.size())}, values);
}

struct Sizes {
  int64_t steps = 3, rows = 2, inputs = 2, hidden = 2;
};

// What a layer has beside x, w and r.
struct Layer {
  std::string op;
  graph::Attributes attributes = {};
  bool bias = true, initial = true, peepholes = false;
  std::vector<int32_t> lengths = {};
  Sizes sizes = {};

  int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  int64_t directions() const {
    const auto it = attributes.find("direction");
    return it != attributes.end() && std::get<std::string>(it->second) == "bidirectional" ? 2 : 1;
  }
  bool batch_first() const { return attributes.contains("layout"); }
  std::vector<int64_t> state() const {
    if (batch_first()) return {sizes.rows, directions(), sizes.hidden};
    return {directions(), sizes.rows, sizes.hidden};
  }
};

OpCase layer_case(const Layer& layer) {
  const auto [steps, rows, inputs, hidden] = layer.sizes;
  const int64_t d = layer.directions(), width = layer.gates() * hidden;
  const auto one = [](bool there, std::vector<int64_t> shape, int64_t seed) {
    return there ? given(eighths(std::move(shape), seed)) : left_out();
  };
  const std::vector<int64_t> x = layer.batch_first() ? std::vector<int64_t>{rows, steps, inputs}
                                                     : std::vector<int64_t>{steps, rows, inputs};
  OpCase c;
  c.claim = layer.op;
  c.op = layer.op;
  c.inputs = {one(true, x, 1),
              parameter(one(true, {d, width, inputs}, 2)),
              parameter(one(true, {d, width, hidden}, 3)),
              layer.bias ? parameter(one(true, {d, 2 * width}, 4)) : left_out(),
              layer.lengths.empty() ? left_out() : given(int32s(layer.lengths)),
              one(layer.initial, layer.state(), 6)};
  c.num_outputs = 2;
  if (layer.op == "LSTM") {
    c.inputs.push_back(one(layer.initial, layer.state(), 7));
    c.inputs.push_back(layer.peepholes ? parameter(one(true, {d, 3 * hidden}, 8)) : left_out());
    c.num_outputs = 3;
  }
  c.attributes = layer.attributes;
  c.expected_tolerance = {1e-7, 1e-8};
  c.must_run = {"recurrent.ref", "recurrent.onednn", "recurrent.eigen"};
  return c;
}

const std::string kBoth = "bidirectional";

// --- Numbers

TEST(Recurrent, rnn_adds_both_products_and_both_biases_under_tanh) {
  OpCase c = layer_case({.op = "RNN"});
  c.expected = {doubles({3, 1, 2, 2}, {-0.89319334, 0.868790325, -0.872570011, 0.82980191,
                                       -0.977245141, -0.8579934, -0.957787295, -0.901563764,
                                       -0.799000474, -0.463199815, -0.994037667, 0.716494613}),
                doubles({1, 2, 2}, {-0.799000474, -0.463199815, -0.994037667, 0.716494613})};
  check_op(c);
}

TEST(Recurrent, rnn_runs_both_ways_with_a_function_for_each_and_sequences_of_two_lengths) {
  OpCase c = layer_case({.op = "RNN",
                         .attributes = {{"direction", kBoth},
                                        {"activations", std::vector<std::string>{"Tanh", "Relu"}}},
                         .lengths = {3, 2}});
  c.expected = {doubles({3, 2, 2, 2}, {-0.89319334,
                                       0.868790325,
                                       -0.872570011,
                                       0.82980191,
                                       1.58764648,
                                       0,
                                       1.65820312,
                                       0,
                                       -0.977245141,
                                       -0.8579934,
                                       -0.957787295,
                                       -0.901563764,
                                       0.701171875,
                                       0,
                                       0.890625,
                                       0,
                                       -0.799000474,
                                       -0.463199815,
                                       0,
                                       0,
                                       1.359375,
                                       0,
                                       0,
                                       0}),
                doubles({2, 2, 2}, {-0.799000474, -0.463199815, -0.957787295, -0.901563764,
                                    1.58764648, 0, 1.65820312, 0})};
  check_op(c);
}

TEST(Recurrent, gru_applies_the_reset_gate_to_the_state_and_reverse_begins_at_each_end) {
  OpCase c = layer_case({.op = "GRU", .attributes = {{"direction", "reverse"}}, .lengths = {1, 3}});
  c.expected = {
      doubles({3, 1, 2, 2}, {0.137845947, -0.608508523, -0.115626261, -0.265268778, 0, 0,
                             0.230840771, 0.109727712, 0, 0, -0.00839026132, -0.858869404}),
      doubles({1, 2, 2}, {0.137845947, -0.608508523, -0.115626261, -0.265268778})};
  check_op(c);
}

TEST(Recurrent, gru_applies_the_reset_gate_behind_the_product_with_linear_before_reset) {
  OpCase c = layer_case(
      {.op = "GRU", .attributes = {{"direction", kBoth}, {"linear_before_reset", int64_t{1}}}});
  c.expected = {
      doubles({3, 2, 2, 2},
              {0.311160277,   -0.687031454, 0.082646303, -0.848877651, 0.144076114,  -0.180232711,
               -0.0664541535, -0.17367674,  0.505222102, -0.141965914, 0.315521013,  -0.0357540353,
               0.698174788,   0.330775099,  0.546650315, 0.0795863553, 0.57638139,   0.23304966,
               0.209513435,   -0.373007645, 0.676468318, 0.404478648,  -0.155589699, -0.530559882}),
      doubles({2, 2, 2}, {0.57638139, 0.23304966, 0.209513435, -0.373007645, 0.144076114,
                          -0.180232711, -0.0664541535, -0.17367674})};
  // By torch, for these gradients of y and y_h.
  c.dy = {eighths({3, 2, 2, 2}, 11), eighths({2, 2, 2}, 12)};
  c.expected_gradients = {
      doubles({3, 2, 2},
              {-0.158348512, 0.212092665, -0.759647812, 0.582421404, 0.200563719, -0.631069147,
               -0.189311155, 0.349545968, 0.434494531, -0.840872266, -0.161979763, 0.205590395}),
      doubles({2, 6, 2}, {0.0425573291,  -0.00550872724, -0.376149718,  0.202503581,  -0.0680193022,
                          0.0291098639,  0.0544113595,   -0.0322365634, 0.561170438,  -0.204563086,
                          0.741127074,   -0.587351505,   0.281188837,   -0.136765267, 0.101253761,
                          -0.0296139382, 0.0432667028,   -0.0336540076, 0.0895199749, -0.025545994,
                          -0.236889351,  0.0727363193,   0.58394663,    -0.713771565}),
      doubles({2, 6, 2}, {-0.12030745,   0.180036787,   -0.117077948,   0.33475551,    0.0388554256,
                          -0.0930688096, 0.014878398,   -0.0589000797,  -0.0525867641, 0.140295362,
                          0.227252841,   -0.367933073,  -0.110872975,   -0.120450322,  -0.105493361,
                          0.011600111,   0.0190162884,  -0.00647472522, -0.0319706004, 0.0159873648,
                          0.057469595,   -0.0538401262, -0.251820321,   0.403233777}),
      doubles({2, 12},
              {-0.266626944, -0.513586502, 0.0948780782, 0.073925694,   -0.711072705, 1.35512245,
               -0.266626944, -0.513586502, 0.0948780782, 0.073925694,   -0.129235827, 0.610956718,
               0.351892064,  0.0333985533, 0.0894729211, -0.0724160601, -0.925726138, 0.179048252,
               0.351892064,  0.0333985533, 0.0894729211, -0.0724160601, -0.601976359, 0.100515989}),
      Tensor(),
      doubles({2, 2, 2}, {-0.35686141, 0.724879045, -0.688394729, 0.287428487, 0.521264144,
                          -0.0659313652, 0.0712985887, -0.057103209})};
  check_op(c);
}

TEST(Recurrent, lstm_has_no_bias_and_no_initial_state_where_they_are_left_out) {
  OpCase c = layer_case({.op = "LSTM", .bias = false, .initial = false});
  c.expected = {doubles({3, 1, 2, 2}, {0.0888266044, 0.132871276, 0.00797081745, 0.0928108892,
                                       0.0119464006, -0.0111325029, -0.130678597, -0.0371736893,
                                       -0.183174014, -0.0924350569, 0.012040307, 0.12796686}),
                doubles({1, 2, 2}, {-0.183174014, -0.0924350569, 0.012040307, 0.12796686}),
                doubles({1, 2, 2}, {-0.533565751, -0.211730239, 0.0210505634, 0.246470794})};
  check_op(c);
}

TEST(Recurrent, lstm_lets_gates_look_at_the_cell_through_peepholes) {
  OpCase c = layer_case({.op = "LSTM", .peepholes = true});
  c.expected = {doubles({3, 1, 2, 2}, {0.0075665223, 0.030822107, 0.042418679, -0.00660766842,
                                       0.0398973694, -0.187194606, 0.049927668, -0.225282943,
                                       0.0402732017, -0.319062197, 0.0621306061, -0.249688853}),
                doubles({1, 2, 2}, {0.0402732017, -0.319062197, 0.0621306061, -0.249688853}),
                doubles({1, 2, 2}, {0.517367941, -0.876910523, 0.344052984, -0.487515346})};
  check_op(c);
}

TEST(Recurrent, lstm_has_the_batch_in_front_with_layout_1) {
  OpCase c = layer_case({.op = "LSTM",
                         .attributes = {{"direction", kBoth}, {"layout", int64_t{1}}},
                         .lengths = {3, 2}});
  c.expected = {doubles({2, 3, 2, 2}, {0.0284275103,
                                       0.0306214962,
                                       0.155414246,
                                       0.0453352368,
                                       0.0846440919,
                                       -0.362917705,
                                       0.20769649,
                                       0.0174680002,
                                       0.0531168605,
                                       -0.234774748,
                                       0.386079114,
                                       -0.0607200894,
                                       0.112058762,
                                       -0.426222607,
                                       -0.231546082,
                                       0.141137469,
                                       0.0568429405,
                                       -0.382875383,
                                       -0.0954239537,
                                       0.15366749,
                                       0,
                                       0,
                                       0,
                                       0}),
                doubles({2, 2, 2}, {0.0531168605, -0.234774748, 0.155414246, 0.0453352368,
                                    0.0568429405, -0.382875383, -0.231546082, 0.141137469}),
                doubles({2, 2, 2}, {0.684140682, -0.930425481, 0.261278057, 0.316311727,
                                    0.719504813, -1.16441834, -0.269302571, 0.463957722})};
  check_op(c);
}

TEST(Recurrent, lstm_couples_the_forget_gate_and_clips_what_the_gates_take_but_not_the_cell) {
  OpCase c = layer_case({.op = "LSTM",
                         .attributes = {{"input_forget", int64_t{1}}, {"clip", 0.5}},
                         .peepholes = true});
  c.expected = {doubles({3, 1, 2, 2}, {-0.10277932, 0.0210243458, 0.232702429, -0.042752568,
                                       0.0237982472, -0.100575328, 0.196794059, -0.127324454,
                                       0.108956117, -0.180584532, 0.184485354, -0.2032021}),
                doubles({1, 2, 2}, {0.108956117, -0.180584532, 0.184485354, -0.2032021}),
                doubles({1, 2, 2}, {0.297032263, -0.37979567, 0.5342857, -0.376483895})};
  check_op(c);
}

TEST(Recurrent, gru_clips_what_the_gates_take) {
  OpCase c =
      layer_case({.op = "GRU", .attributes = {{"linear_before_reset", int64_t{1}}, {"clip", 0.4}}});
  c.expected = {doubles({3, 1, 2, 2}, {0.233252588, -0.526657995, -0.00126458189, -0.751165867,
                                       0.292123653, -0.0255323467, 0.151721118, -0.0739813766,
                                       0.327369033, 0.217224309, 0.157855032, -0.220507617}),
                doubles({1, 2, 2}, {0.327369033, 0.217224309, 0.157855032, -0.220507617})};
  check_op(c);
}

TEST(Recurrent, lstm_takes_numbers_for_its_functions_in_the_order_of_those_that_have_some) {
  OpCase c = layer_case(
      {.op = "LSTM",
       .attributes = {
           {"activations", std::vector<std::string>{"HardSigmoid", "ScaledTanh", "Softsign"}},
           {"activation_alpha", std::vector<double>{0.3, 1.5}},
           {"activation_beta", std::vector<double>{0.4, 0.7}}}});
  c.expected = {doubles({3, 1, 2, 2}, {0, 0.0275036961, 0, 0.0344932868, 0, -0.107610026, 0,
                                       -0.141981563, 0, -0.219982789, 0.00706488587, -0.183326645}),
                doubles({1, 2, 2}, {0, -0.219982789, 0.00706488587, -0.183326645}),
                doubles({1, 2, 2}, {0.591651096, -1.06418226, 0.172458796, -0.546649236})};
  check_op(c);
}

TEST(Recurrent, every_function_has_its_value_its_slope_and_its_numbers) {
  struct Named {
    const char* name;
    std::vector<double> alpha, beta, last;
  };
  const std::vector<Named> functions = {
      {"Affine", {0.5}, {0.25}, {-0.275726318, -0.136474609, -1.10650635, 0.616455078}},
      {"Affine", {}, {}, {-2.36987305, -0.669921875, -3.81884766, 0.958984375}},
      {"Elu", {0.7}, {}, {-0.414914977, -0.300575238, -0.65311965, 0.830354692}},
      {"Elu", {}, {}, {-0.65087738, -0.400985731, -0.94213985, 0.885787194}},
      {"HardSigmoid", {0.5}, {0.4}, {0.11875, 0.071875, 0, 0.7515625}},
      {"HardSigmoid", {}, {}, {0.404416016, 0.338890625, 0.0495117187, 0.623046875}},
      {"LeakyRelu", {0.3}, {}, {-0.279057129, -0.192445312, -0.800066895, 0.797519531}},
      {"LeakyRelu", {}, {}, {-0.00572346289, -0.00655497266, -0.0241268511, 0.706515039}},
      {"Relu", {}, {}, {0, 0, 0, 0.703125}},
      {"ScaledTanh", {1.5}, {0.5}, {-0.859971837, -0.450796651, -1.36178453, 0.600016227}},
      {"Sigmoid", {}, {}, {0.378976311, 0.310740864, 0.0935396236, 0.651289949}},
      {"Softplus", {}, {}, {0.480008419, 0.388102231, 0.0996383922, 1.08358255}},
      {"Softsign", {}, {}, {-0.487790726, -0.38413777, -0.732636343, 0.442830533}},
      {"Tanh", {}, {}, {-0.799000474, -0.463199815, -0.994037667, 0.716494613}},
      {"ThresholdedRelu", {0.1}, {}, {0, 0, 0, 0.703125}},
  };
  for (const Named& f : functions) {
    OpCase c = layer_case({.op = "RNN",
                           .attributes = {{"activations", std::vector<std::string>{f.name}},
                                          {"activation_alpha", f.alpha},
                                          {"activation_beta", f.beta}}});
    c.claim = f.name;
    c.expected = {Tensor(), doubles({1, 2, 2}, f.last)};
    check_op(c);
  }
}

// --- Gradients

TEST(Recurrent, lstm_has_the_gradients_of_torch) {
  OpCase c = layer_case({.op = "LSTM"});
  c.dy = {eighths({3, 1, 2, 2}, 11), eighths({1, 2, 2}, 12), eighths({1, 2, 2}, 13)};
  c.expected_gradients = {
      doubles({3, 2, 2}, {-0.0525879349, -0.0173601678, 0.0687565341, -0.117212208, -0.062055968,
                          -0.0106987859, -0.0715143317, 0.0494461179, 0.469269094, 0.247131068,
                          0.270433335, -0.239130264}),
      doubles({1, 8, 2},
              {0.122097888, -0.0542449881, 0.0882529179, -0.0517093676, 0.13648828, -0.09215034,
               0.0805664257, 0.188202684, 0.0692235318, -0.100090128, -0.0142321369, 0.02142301,
               0.192817884, -0.406725683, 0.0535843826, -0.117899113}),
      doubles({1, 8, 2},
              {0.071754886, -0.0868247406, 0.0072461482, -0.00230507588, -0.0163699994, 0.06537656,
               -0.0207668571, 0.107357965, -0.0262476664, 0.00398628958, 0.00602038984,
               -0.0208541227, 0.0293634306, -0.0755157153, -0.007820367, 0.13993639}),
      doubles({1, 16},
              {0.384579697, 0.130143345, 0.0119657915, -0.304488186, 0.12798733, 0.0483273921,
               0.490261854, -0.338176457, 0.384579697, 0.130143345, 0.0119657915, -0.304488186,
               0.12798733, 0.0483273921, 0.490261854, -0.338176457}),
      Tensor(),
      doubles({1, 2, 2}, {0.14580272, -0.121843224, -0.0656774869, 0.0635377118}),
      doubles({1, 2, 2}, {0.0968506028, 0.0154627165, 0.00498282587, -0.0411469032})};
  check_op(c);
}

TEST(Recurrent, a_gradient_of_the_last_states_alone_goes_back_through_all_steps) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    OpCase c = layer_case({.op = op, .attributes = {{"direction", kBoth}}});
    c.wanted_outputs = {false, true, false};
    c.wanted_outputs.resize(static_cast<size_t>(c.num_outputs));
    check_op(c);
    c.wanted_outputs = {true, true, true};
    c.wanted_outputs.resize(static_cast<size_t>(c.num_outputs));
    c.seeds = std::vector<int>{0};
    c.differentiate = std::vector<int>{1};
    check_op(c);
  }
}

// --- Kernels

const std::vector<graph::Attributes> kForms = {
    {},
    {{"direction", kBoth}},
    {{"direction", "reverse"}, {"layout", int64_t{1}}},
    {{"direction", kBoth}, {"linear_before_reset", int64_t{1}}, {"layout", int64_t{1}}},
    {{"clip", 0.25}, {"input_forget", int64_t{1}}}};

// Hidden sizes beside whole vectors; the trace holds what the gradient reads.
TEST(Recurrent, kernels_agree_on_outputs_and_trace) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    for (const graph::Attributes& form : kForms) {
      OpCase c = layer_case({.op = op,
                             .attributes = form,
                             .lengths = {5, 0, 3},
                             .sizes = {.steps = 5, .rows = 3, .inputs = 4, .hidden = 19}});
      ++c.num_outputs;
      c.differentiate = std::vector<int>{};
      c.float_tolerance = {1e-4, 1e-5};
      check_op(c);
    }
  }
}

TEST(Recurrent, kernels_agree_on_gradients) {
  const Sizes sizes = {.steps = 5, .rows = 3, .inputs = 4, .hidden = 19};
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    for (const graph::Attributes& form : kForms) {
      const Layer layer = {.op = op, .attributes = form, .sizes = sizes};
      const OpCase forward = layer_case(layer);
      const int64_t d = layer.directions(), hidden = sizes.hidden;
      const int64_t width = layer.op == "LSTM" ? 6 : layer.op == "GRU" ? 5 : 2;
      OpCase c;
      c.claim = op;
      c.domain = "sardonyx";
      c.op = "RecurrentGrad";
      c.inputs = {
          forward.inputs[0],
          forward.inputs[1],
          forward.inputs[2],
          given(int32s({5, 0, 3})),
          layer.op == "LSTM" ? random({d, 3 * hidden}) : left_out(),
          random({d, sizes.steps + 1, sizes.rows, width * hidden}),
          random(layer.batch_first() ? std::vector<int64_t>{sizes.rows, sizes.steps, d, hidden}
                                     : std::vector<int64_t>{sizes.steps, d, sizes.rows, hidden}),
          random(layer.state())};
      if (layer.op == "LSTM") c.inputs.push_back(random(layer.state()));
      c.num_outputs = 7;
      c.wanted_outputs = {true, true, true, true, true, layer.op == "LSTM", layer.op == "LSTM"};
      c.attributes = form;
      c.attributes["cell"] = std::string(op);
      c.float_tolerance = {1e-4, 1e-4};
      c.double_tolerance = {1e-11, 1e-11};
      c.must_run = {"recurrent.ref", "recurrent.onednn", "recurrent.eigen"};
      check_op(c);
    }
  }
}

TEST(Recurrent, any_number_of_rows_is_a_batch_with_layout_1) {
  for (const char* op : {"RNN", "GRU", "LSTM"}) {
    OpCase c = layer_case({.op = op, .attributes = {{"layout", int64_t{1}}}, .lengths = {3, 2}});
    c.batch = true;
    check_op(c);
  }
}

TEST(Recurrent, a_sequence_without_steps_ends_in_the_initial_state) {
  OpCase c = layer_case({.op = "LSTM", .sizes = {.steps = 0}});
  c.expected = {doubles({0, 1, 2, 2}, {}), eighths({1, 2, 2}, 6), eighths({1, 2, 2}, 7)};
  c.zero_gradients = {0, 1, 2, 3};
  check_op(c);
}

TEST(Recurrent, an_inner_size_of_zero_is_a_sum_of_nothing) {
  OpCase c = layer_case({.op = "GRU", .sizes = {.inputs = 0}});
  c.zero_gradients = {0, 1};
  check_op(c);
}

TEST(Recurrent, a_length_beyond_the_steps_is_refused) {
  OpCase c = layer_case({.op = "RNN", .lengths = {3, 4}});
  const std::vector<std::string> faults = op_faults(c);
  ASSERT_FALSE(faults.empty());
  EXPECT_NE(faults[0].find("sequence_lens of sample 1 is 4, expected 0 to 3: x has 3 steps"),
            std::string::npos)
      << faults[0];
}

// --- Normalisation

// A node with these two initial states, normalised.
struct Normalised {
  explicit Normalised(const Tensor& initial_c, int outputs = 3) {
    graph::Builder b(graph);
    const auto value = [&](const Tensor& t) { return b.constant("c", t); };
    std::vector<std::string> names(static_cast<size_t>(outputs), "y");
    node = b.node(
        "", "LSTM",
        {value(eighths({3, 2, 2}, 1)), value(eighths({1, 8, 2}, 2)), value(eighths({1, 8, 2}, 3)),
         nullptr, nullptr, value(floats({1, 2, 2}, {0, 0, 0, 0})), value(initial_c)},
        names);
    ops::normalize_node(*node, 14);
  }
  graph::Graph graph;
  ops::Node* node = nullptr;
};

TEST(Recurrent, an_initial_state_of_zeros_is_left_out) {
  const Normalised n(floats({1, 2, 2}, {0, 0, 0, 1}));
  EXPECT_EQ(n.node->input(5), nullptr);
  EXPECT_NE(n.node->input(6), nullptr);
}

TEST(Recurrent, more_outputs_than_the_operator_has_are_refused) {
  EXPECT_THROW(Normalised(floats({1, 2, 2}, {0, 0, 0, 1}), 4), Error);
}

// --- Constraints

void expect_refusal(OpCase c, const std::string& message) {
  const std::string error = infer_error(c);
  EXPECT_NE(error.find(message), std::string::npos) << error;
}

OpCase lstm_with(int input, OpInput value) {
  OpCase c = layer_case({.op = "LSTM", .peepholes = true});
  c.inputs[static_cast<size_t>(input)] = std::move(value);
  return c;
}

OpCase gru_with(const std::string& name, graph::Attribute value) {
  return layer_case({.op = "GRU", .attributes = {{name, std::move(value)}}});
}

TEST(Recurrent, types_follow_the_symbols_of_x) {
  OpCase c = layer_case({.op = "LSTM", .attributes = {{"layout", int64_t{1}}}});
  c.batch = true;
  EXPECT_EQ(inferred_type(c, 0), "float[N:2,3,1,2]");
  EXPECT_EQ(inferred_type(c, 2), "float[N:2,1,2]");
}

TEST(Recurrent, recurrent_r1_rejects_two_element_types) {
  expect_refusal(lstm_with(2, exactly(given(doubles({1, 8, 2}, std::vector<double>(16, 1))))),
                 "R1: ");
  expect_refusal(lstm_with(0, given(ints({1, 1, 1}, {1}))), "R1: ");
}

TEST(Recurrent, recurrent_r2_rejects_other_ranks) {
  expect_refusal(lstm_with(0, random({3, 2})),
                 "R2: input 0 (x) 'x0' is float[3,2], expected 3 axes");
}

TEST(Recurrent, recurrent_r3_rejects_weights_of_other_sizes) {
  expect_refusal(lstm_with(1, random({1, 8, 3})), "R3: input 1 (w) 'x1' is float[1,8,3]");
  expect_refusal(lstm_with(3, random({1, 8})),
                 "R3: input 3 (b) 'x3' is float[1,8], expected [1,16]");
  expect_refusal(lstm_with(7, random({1, 8})),
                 "R3: input 7 (p) 'x7' is float[1,8], expected [1,6]");
  OpCase c = layer_case({.op = "GRU"});
  c.attributes["direction"] = kBoth;
  expect_refusal(c, "R3: input 1 (w) 'x1' is float[1,6,2], expected [2,6,2]");
  expect_refusal(gru_with("hidden_size", int64_t{-1}), "R10: hidden_size is -1, but r is");
}

TEST(Recurrent, recurrent_r4_rejects_states_of_other_sizes) {
  expect_refusal(lstm_with(5, random({1, 3, 2})),
                 "R4: input 5 (initial_h) 'x5' is float[1,3,2], expected [1,2,2]");
}

TEST(Recurrent, recurrent_r5_rejects_lengths_of_another_type_or_number) {
  expect_refusal(lstm_with(4, given(ints({2}, {1, 2}))),
                 "R5: input 4 (sequence_lens) 'x4' is int64");
  expect_refusal(lstm_with(4, given(int32s({1, 2, 3}))), "R5: ");
}

TEST(Recurrent, recurrent_r6_rejects_an_unknown_direction) {
  expect_refusal(gru_with("direction", "sideways"),
                 "R6: direction is 'sideways', expected forward, reverse or bidirectional");
}

TEST(Recurrent, recurrent_r7_rejects_unknown_or_missing_functions_and_numbers) {
  using Names = std::vector<std::string>;
  expect_refusal(gru_with("activations", Names{"Sigmoid"}),
                 "R7: activations has 1 names, expected 2: 2 for each direction");
  expect_refusal(gru_with("activations", Names{"Sigmoid", "Gelu"}),
                 "R7: activation 'Gelu' is not known, expected one of Affine Elu");
  expect_refusal(gru_with("activations", Names{"Sigmoid", "ScaledTanh"}),
                 "R7: activation ScaledTanh needs a number in activation_alpha, which has 0");
}

TEST(Recurrent, recurrent_r8_rejects_a_clip_that_leaves_nothing) {
  expect_refusal(gru_with("clip", 0.0), "R8: clip is 0, expected a number above 0");
}

TEST(Recurrent, recurrent_r9_rejects_other_layouts) {
  expect_refusal(gru_with("layout", int64_t{2}), "R9: layout is 2, expected 0 or 1");
}

TEST(Recurrent, recurrent_r10_rejects_another_hidden_size) {
  expect_refusal(gru_with("hidden_size", int64_t{3}),
                 "R10: hidden_size is 3, but r is float[1,6,2]");
}

}  // namespace
}  // namespace sardonyx::test
