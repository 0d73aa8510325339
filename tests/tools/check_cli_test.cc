// `sardonyx check`: what it says about files with something in the way, how much fits on a screen,
// and that the command in its last line works.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "tests/runtime/data/files.h"
#include "tests/tools/check_cli.h"

namespace sardonyx::testing {
namespace {

int64_t lines_of(const std::string& text) { return std::ranges::count(text, '\n'); }

std::string fixture(const std::string& name) {
  return (shared_folder() / "fixtures" / name / "model.onnx").string();
}

// --- one screen

TEST_F(CheckCli, resnet18_and_every_exported_file_fit_on_a_screen) {
  ASSERT_EQ(run("model resnet18 --stem imagenet --input 3x64x64 -o r18.onnx").code, 0);
  std::vector<std::string> files{"r18.onnx"};
  for (const auto& folder : shared_fixtures()) files.push_back((folder / "model.onnx").string());
  for (const std::string& file : files) {
    const Outcome outcome = run("check " + file);
    EXPECT_LE(lines_of(outcome.out), 45) << outcome.out;
    EXPECT_FALSE(has(outcome.out, "sardonyx.")) << "an operator of our own:\n" << outcome.out;
  }
  const std::string all = run("check r18.onnx --all").out;
  EXPECT_TRUE(has(all,
                  "layer4.1.bn2.running_var            float[512]          state      running "
                  "statistic of BatchNormalization -> layer4.1.bn2.out\n"))
      << all;
}

TEST_F(CheckCli, tensors_are_grouped_by_role_and_operator) {
  ASSERT_EQ(run("model resnet18 --stem imagenet --input 3x64x64 --classes 7 -o r18.onnx").code, 0);
  const std::string text = run("check r18.onnx").out;
  EXPECT_TRUE(text.starts_with("r18.onnx: trainable, 11 180 103 parameters in 62 tensors\n"))
      << text;
  EXPECT_TRUE(
      has(text,
          "    first read by       tensors with   elements  names\n"
          "  trainable\n"
          "    Conv                     20 with 11 166 912  layer*.*.conv*.weight (16), ...\n"
          "    BatchNormalization       40 with      9 600  layer*.*.bn*.bias (16), ...\n"
          "    Gemm                      2 with      3 591  fc.bias, fc.weight\n"
          "  state\n"
          "    BatchNormalization       40 with      9 600  "))
      << text;
  const Json json = CheckCli::json("r18.onnx");
  EXPECT_EQ(json["schema"], "sardonyx.check/1");
  EXPECT_EQ(json["parameters"].size(), 102u);
  EXPECT_EQ(json["parameter_groups"].size(), 4u);
  EXPECT_EQ(json["parameter_groups"][0]["elements"], 11166912);
  EXPECT_EQ(json["trainable_elements"], 11180103);
  EXPECT_TRUE(json["tied"].empty()) << json["tied"];
}

TEST_F(CheckCli, memory_is_told_for_the_states_there_are) {
  ASSERT_EQ(run("model lenet --input 1x16x16 -o lenet.onnx").code, 0);
  ASSERT_EQ(run("model resnet18 --width 8 --input 3x32x32 -o net.onnx").code, 0);
  EXPECT_TRUE(has(run("check lenet.onnx").out, "iB  parameters\n"));
  EXPECT_TRUE(has(run("check net.onnx").out, "  parameters, statistics\n"));
  EXPECT_TRUE(has(run("check net.onnx --momentum 0.9").out,
                  "  parameters, statistics, state of the optimizer\n"));
}

TEST_F(CheckCli, rows_that_may_be_images_are_told_how) {
  ASSERT_EQ(run("model lenet --input 1x28x28 -o lenet.onnx").code, 0);
  const std::string advice = "go in as rows: save them as x.reshape(len(x), -1); IDX files as they";
  const auto flat = [&](int size) {
    put("flat.onnx", fmt::format("g (float[N,{0}] x, float[{0},10] w) => (float[N,10] y) {{ "
                                 "y = MatMul(x, w) }}",
                                 size));
    return run("check flat.onnx --init pytorch").out;
  };
  const std::string digits = flat(784);
  EXPECT_TRUE(has(digits, "  images of 28x28 " + advice)) << digits;
  EXPECT_TRUE(has(digits, "see docs/data.md; or --data fashion-mnist)\n")) << digits;
  EXPECT_TRUE(has(flat(3072), "  images of 3x32x32 " + advice));
  EXPECT_FALSE(has(flat(100), advice));
  EXPECT_FALSE(has(run("check lenet.onnx").out, advice));
}

// --- what can't be run

TEST_F(CheckCli, nodes_that_can_not_be_run_are_grouped_with_what_needs_them) {
  put("needs.onnx", R"(g (float[N,4] x) => (float[N,3] y, float[N,4] side) <
  float[4,4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
  float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}> {
  [first] a = acme.Scale(x)
  [second] b = acme.Scale(a)
  h = MatMul(b, w)
  [third] r = Reluu(h)
  [fourth] side = acme.Scale(r)
  y = MatMul(r, v)
})");
  const Outcome outcome = run("check needs.onnx --output y");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(outcome.out.starts_with(
      "needs.onnx: can't be trained as it is\n\n4 nodes can't be run\n"
      "  Reluu (1 node), needs a gradient: third (Reluu)\n"
      "    not known (looked for in operator set 17)\n"
      "  acme::Scale (2 nodes), forward only: first (acme.Scale), second (acme.Scale)\n"
      "    not known (looked for in version 1 of acme)\n"
      "  acme::Scale (1 node), feeds only side outputs: fourth (acme.Scale)\n"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "there is no operator Reluu, but Relu\n")) << outcome.out;
  EXPECT_EQ(outcome.err, "error: needs.onnx can't be trained: 4 nodes can't be run\n");

  const Json json = CheckCli::json("needs.onnx --output y");
  EXPECT_EQ(json["trainable"], false);
  EXPECT_EQ(json["error"], json["problem"]);
  EXPECT_EQ(json["command"], Json());
  EXPECT_EQ(json["unsupported"].size(), 4u);
  EXPECT_EQ(json["unsupported_groups"][0]["needed_for"], "gradient");
  EXPECT_EQ(json["unsupported_groups"][0]["near"], Json::array({"Relu"}));
  EXPECT_EQ(json["unsupported_groups"][1]["count"], 2);
  EXPECT_EQ(json["unsupported_groups"][1]["needed_for"], "forward");
  EXPECT_EQ(json["unsupported_groups"][2]["needed_for"], "side_outputs");
}

TEST_F(CheckCli, a_refused_spelling_is_refused_whatever_asks_for_types_first) {
  const std::string body = R"( <float[2,2] w = {1, 2, 3, 4}> {
  y = com.microsoft.FusedMatMul<transBatchA = 1>(x, w)
})";
  put("open.onnx", "g (float[N,2] x) => (float[N,2] y)" + body);
  put("baked.onnx", "g (float[3,2] x) => (float[3,2] y)" + body);
  for (const char* arguments : {"open.onnx", "open.onnx --dtype f64", "baked.onnx --batch 4"}) {
    const Outcome outcome = run(std::string("check ") + arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << outcome.err;
    EXPECT_TRUE(has(outcome.out, "transBatchA is 1, expected 0")) << outcome.out;
  }
}

TEST_F(CheckCli, nothing_needs_a_gradient_for_a_tensor_behind_a_function_of_steps) {
  put("steps.onnx", R"(g (float[N,2] x) => (float[N,2] y) <
  float[2,2] w = {1, 0, 2, 1}, float[2,2] v = {1, 0, 2, 1}> {
  f = Sign(w)
  r = Reluu(f)
  h = MatMul(x, r)
  y = MatMul(h, v)
})");
  EXPECT_EQ(json("steps.onnx")["unsupported_groups"][0]["needed_for"], "forward");
}

TEST_F(CheckCli, an_input_that_data_can_not_feed_is_refused_as_train_refuses_it) {
  put("two.onnx", R"(g (float[N,4] x, bool[] z) => (float[N,3] y) <
  float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}> { s = Where(z, x, x) y = MatMul(s, v) })");
  const Outcome outcome = run("check two.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.out, "'z' has no batch axis: make it a constant of the model"))
      << outcome.out;
}

TEST_F(CheckCli, near_misses_are_named) {
  put("near.onnx", R"(g (float[N,4] x) => (float[N,3,1,1] y) <
  float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, float[1] factor = {2}, float[3] idle = {1, 2, 3},
  int64[4] shape = {0, 3, 1, 1}> {
  m = MatMul(x, v)
  s = Mul(m, factor)
  y = Reshape(s, shape)
})");
  const std::string text = run("check near.onnx").out;
  EXPECT_TRUE(has(text, "single numbers stay constant, --train NAME trains one (1): factor\n"))
      << text;
  EXPECT_TRUE(has(text, "float tensors that no node reads (1): idle\n")) << text;
  EXPECT_TRUE(has(text, "output 'y' float[N:64,3,1,1] has axes of size 1 behind its classes"))
      << text;

  put("loss.onnx", R"(g (float[N,4] x) => (float loss) <
  float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}> {
  m = MatMul(x, v)
  loss = ReduceMean<keepdims = 0>(m)
})");
  const Outcome loss = run("check loss.onnx");
  EXPECT_EQ(loss.code, 1);
  EXPECT_TRUE(
      has(loss.out, "output 'loss' float[] is one number: if it is the loss, --loss-output"))
      << loss.out;
  EXPECT_EQ(run("check loss.onnx --loss-output loss").code, 0);
}

TEST_F(CheckCli, a_batch_norm_that_was_written_out_is_a_near_miss) {
  put("scaled.onnx", R"(g (float[N,1,4,4] x) => (float[N,2] y) <
  float[2,1,1,1] w = {1, 2}, float[1,2,1,1] scale = {1, 2}, float[1,2,1,1] shift = {0, 1}> {
  c = Conv(x, w)
  m = Mul(c, scale)
  a = Add(m, shift)
  p = GlobalAveragePool(a)
  y = Flatten(p)
})");
  EXPECT_TRUE(has(run("check scaled.onnx").out,
                  "1 convolution is followed by a Mul and an Add per channel, as a "
                  "BatchNormalization that was written out"));
}

TEST_F(CheckCli, a_tensor_in_two_places_is_told) {
  put("tied.onnx", R"(g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 0, 2, 1}> {
  h = MatMul(x, w)
  y = MatMul(h, w)
})");
  EXPECT_EQ(json("tied.onnx")["tied"], Json::array({"'w' is read by 2 nodes"}));
  put("shape.onnx", R"(g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 0, 2, 1}> {
  s = Shape(w)
  h = MatMul(x, w)
  o = ConstantOfShape(s)
  y = Add(h, x)
})");
  const Json report = json("shape.onnx");
  EXPECT_TRUE(report["tied"].empty()) << report["tied"];
  EXPECT_EQ(report["parameter_groups"][0]["kind"], "MatMul");
}

TEST_F(CheckCli, a_reader_whose_gradient_is_zero_is_no_place) {
  put("steps.onnx", R"(g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 0, 2, 1}> {
  f = Sign(w)
  h = MatMul(x, w)
  y = MatMul(h, f)
})");
  const Json report = json("steps.onnx");
  EXPECT_TRUE(report["tied"].empty()) << report["tied"];
}

TEST_F(CheckCli, one_column_is_taken_for_values_and_refused_as_classes_alike) {
  put("column.onnx", R"(g (float[N,2] x) => (float[N,1] y) <float[2,1] w = {1, 2}> {
  y = MatMul(x, w)
})");
  const Outcome text = run("check column.onnx");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(has(
      text.out,
      "  x float32 [N,2], y float32 [N,1] or [N]; mse over 'y'\n"
      "  one column is taken for values, so the loss is mse (for a yes or no: bce_with_logits)\n"
      "  sardonyx train column.onnx --data npz:DATA.npz --epochs 10 --batch 64 --lr 0.01 "
      "--loss mse --save trained.onnx\n"))
      << text.out;
  const Json report = json("column.onnx");
  EXPECT_EQ(report["loss"], "mse");
  EXPECT_EQ(report["loss_assumed"], true);
  EXPECT_EQ(report["output"], "y");
  EXPECT_EQ(report["classes"], Json());
  EXPECT_EQ(report["labels"], "float32 [N,1] or [N]");
  EXPECT_EQ(report["placeholders"], Json::array({"DATA.npz"}));
  for (const char* command :
       {"check column.onnx --loss cross_entropy", "inspect column.onnx --training",
        "bench column.onnx --steps 1", "train column.onnx --data synthetic:8"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_TRUE(has(outcome.err, "loss cross_entropy has nothing to learn from one class, and 'y'"))
        << command << outcome.err;
    EXPECT_TRUE(has(outcome.err, "if these are values, give --loss mse")) << outcome.err;
  }
}

TEST_F(CheckCli, standard_operators_that_are_missing_are_told_from_unknown_ones) {
  put("box.onnx",
      R"(g (float[N,4] x) => (float[N,4] y) <float[4,4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}> {
  m = MatMul(x, w)
  s = SequenceConstruct(m)
  y = Scan(s)
})");
  const Outcome outcome = run("check box.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.out, "a standard operator that Sardonyx doesn't have (docs/limits.md)"))
      << outcome.out;
  EXPECT_TRUE(has(outcome.out, "Sardonyx doesn't have: unroll the loop, or export without"));
  EXPECT_TRUE(has(outcome.out, "\nnext step: export without control flow: unroll the loop, or "));
  const Outcome output = run("check box.onnx --output zzz");
  EXPECT_TRUE(
      output.out.starts_with("box.onnx: can't be trained as it is\n"
                             "there is no output 'zzz'; the outputs are:\n  y  "))
      << output.out;
}

TEST_F(CheckCli, a_file_without_weights_ends_in_a_command_that_gives_it_some) {
  put("bare.onnx",
      "g (float[N,6] x, float[6,4] w, float[4] b) => (float[N,4] y) { y = Gemm(x, w, b) }");
  const Outcome outcome = run("check bare.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.out,
                  "2 graph inputs without values (exported without weights?): w  float[6,4], b  "
                  "float[4]; export"))
      << outcome.out;
  const std::string command =
      "sardonyx train bare.onnx --data npz:DATA.npz --epochs 10 --batch 64 --lr 0.01 --init "
      "pytorch --save trained.onnx";
  EXPECT_TRUE(
      outcome.out.ends_with("next step: export the model with its weights, or give it new "
                            "ones:\n  " +
                            command + "\n"))
      << outcome.out;
  EXPECT_TRUE(has(json("bare.onnx")["next_step"].get<std::string>(), command));
}

// --- memory

TEST_F(CheckCli, a_batch_that_does_not_fit_is_said_at_once_and_the_command_has_one_that_does) {
  ASSERT_EQ(run("model resnet18 --width 8 --input 3x32x32 -o net.onnx").code, 0);
  const std::string flags = "net.onnx --batch 1000000";
  const Json report = json(flags);
  EXPECT_EQ(report["fits"], false);
  const int64_t rows = report["memory"]["largest_batch"]["rows"];
  EXPECT_TRUE(has(report["command"], fmt::format(" --batch {} ", rows))) << report["command"];
  const Outcome text = run("check " + flags);
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(has(text.out, ", but\n  a batch of 1000000 doesn't fit: it takes ")) << text.out;
}

TEST_F(CheckCli, the_largest_batch_fits_into_the_budget_and_a_tenth_more_does_not) {
  ASSERT_EQ(run("model resnet18 --width 8 --input 3x32x32 -o net.onnx").code, 0);
  const auto bytes = [&](int64_t batch) {
    const Json memory = json(fmt::format("net.onnx --batch {}", batch))["memory"];
    return memory["state_bytes"].get<int64_t>() + memory["arena_bytes"].get<int64_t>();
  };
  for (const int64_t mib : {8, 100, 400}) {
    const Json memory = json(fmt::format("net.onnx --memory-budget {}MiB", mib))["memory"];
    EXPECT_EQ(memory["budget_bytes"], mib << 20);
    const Json& largest = memory["largest_batch"];
    const int64_t rows = largest["rows"];
    EXPECT_EQ(largest["bytes"], bytes(rows));
    EXPECT_LE(bytes(rows), mib << 20);
    EXPECT_GT(bytes(rows + rows / 10 + 1), mib << 20) << rows;
  }
  EXPECT_TRUE(has(run("check net.onnx --memory-budget 400MiB").out,
                  " of the 400.0 MiB that --memory-budget allows\n"));
  EXPECT_TRUE(has(run("check net.onnx --memory-budget 400MiB").out, " --memory-budget 419430400 "));
}

TEST_F(CheckCli, the_largest_batch_is_not_searched_beyond_reason) {
  ASSERT_EQ(run("model lenet --input 1x16x16 -o small.onnx").code, 0);
  const Json largest = json("small.onnx --memory-budget 64GiB")["memory"]["largest_batch"];
  EXPECT_EQ(largest["rows"], 65536);
  EXPECT_EQ(largest["more"], true);
  EXPECT_EQ(json("small.onnx --memory-budget 64GiB --accumulate 4 --batch 32")["rows"], 8);
}

// --- the command

// The batch of a fixture as x_train and y_train.
void write_arrays(const std::filesystem::path& folder, const std::filesystem::path& to) {
  const auto array = [&](const char* file) {
    onnx::TensorProto tensor;
    EXPECT_TRUE(tensor.ParseFromString(read_file(folder / file)));
    std::string shape = "(";
    for (const int64_t size : tensor.dims()) shape += fmt::format("{},", size);
    const char* types[] = {"", "<f4", "|u1", "", "", "", "", "<i8"};
    return npy_file(types[tensor.data_type()], shape + ")", tensor.raw_data());
  };
  store(to, zip_file({{"x_train.npy", array("input_0.pb")}, {"y_train.npy", array("labels.pb")}}));
}

TEST_F(CheckCli, the_command_trains_the_files_of_every_exporter) {
  if (shared_fixtures().empty()) GTEST_SKIP() << "the shared fixtures are not there";
  const std::pair<const char*, const char*> fixtures[] = {
      {"torch-dynamo__resnet_tiny__unoptimized", ""},
      {"torch-dynamo__vit__default", ""},
      {"torch-ts__resnet_tiny__preserve-train-opset13-dynbatch",
       "--momentum 0.9 --replicas 2 --accumulate 2"},
      {"tf2onnx__mobilenet__opset18-dynbatch", ""},
      {"keras-native__lenet_softmax__default", "--optimizer adam"},
      {"paddle2onnx__encoder__opset17", ""},
      {"paddle2onnx__mlp_reg__opset9", "--loss mse"},
      {"mxnet__resnet_tiny__default", "--freeze *gamma*"},
      {"jax2onnx__mlp_functions__default", ""},
      {"skl2onnx__mlp_classifier__zipmap-opset17", ""},
      {"nnabla__lenet__default", ""},
      {"onnx-chainer__lenet__default", "--label-smoothing 0.1"},
      {"onnxsim__vit__ts-opset17-dynbatch", ""},
      {"version-converter__resnet_tiny__ts-17-to-21", ""},
      {"constant-nodes__lenet_slim__ts-opset17", ""}};
  for (const auto& [name, flags] : fixtures) {
    const std::string model = fixture(name);
    write_arrays(std::filesystem::path(model).parent_path(), program_.file("DATA.npz"));
    const Json report = json(model + " " + flags);
    ASSERT_EQ(report["trainable"], true) << name;
    std::string command = report["command"];
    ASSERT_TRUE(command.starts_with("sardonyx train ")) << command;
    // Fixtures of 28 x 28 come with their own batch, too.
    if (const size_t at = command.find("fashion-mnist"); at != std::string::npos) {
      command.replace(at, 13, "npz:DATA.npz");
    }
    std::erase(command, '\'');  // there is no shell here
    const Outcome trained = run(command.substr(9) + " --json");
    ASSERT_EQ(trained.code, 0) << command << "\n" << trained.err;
    const Json first = Json::parse(trained.out.substr(0, trained.out.find('\n')));
    EXPECT_EQ(first["epoch"], 1);
    EXPECT_GT(first["train_loss"].get<double>(), 0) << name;
    EXPECT_TRUE(std::filesystem::exists(program_.file("trained.onnx"))) << name;
    std::filesystem::remove(program_.file("trained.onnx"));
  }
}

TEST_F(CheckCli, the_command_is_quoted_for_a_shell) {
  ASSERT_EQ(run("model lenet --input 1x16x16 -o it's.onnx").code, 0);
  const Json report = json("it's.onnx --freeze conv1* --sync-bn --replicas 2 --threads 2");
  EXPECT_EQ(report["command"],
            "sardonyx train 'it'\\''s.onnx' --data npz:DATA.npz --epochs 10 --batch 64 --lr 0.01 "
            "--replicas 2 --threads 2 --sync-bn --freeze 'conv1*' --save trained.onnx");
}

// --- failures as JSON

TEST_F(CheckCli, who_asks_for_json_gets_failures_as_json_with_the_same_code) {
  ASSERT_EQ(run("model lenet --input 1x16x16 -o lenet.onnx").code, 0);
  const std::pair<const char*, int> commands[] = {
      {"check none.onnx --json", 1},
      {"inspect none.onnx --format json", 1},
      {"ops Konv --json", 1},
      {"eval lenet.onnx --data idx:none --json", 1},
      {"bench lenet.onnx --steps 0 --json", 2},
      {"train lenet.onnx --data synthetic:8 --json --epochs x", 2},
      {"train lenet.onnx --json --data npz:none.npz", 1}};
  for (const auto& [command, code] : commands) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, code) << command;
    const Json failure = Json::parse(outcome.out.substr(outcome.out.rfind('{')));
    EXPECT_EQ(failure["exit_code"], code) << command;
    const std::string message = failure["error"];
    EXPECT_TRUE(outcome.err.starts_with("error: " + message.substr(0, message.find('\n'))))
        << outcome.err;
  }
  EXPECT_EQ(run("check none.onnx").out, "");
}

// --- messages

TEST_F(CheckCli, spellings_of_other_domains_are_listed_as_what_they_are_read_as) {
  const std::string table = run("ops").out;
  EXPECT_TRUE(has(table, "read as: Gelu with tanh, of x + bias.")) << table;
  for (const char* name : {"com.microsoft.BiasGelu", "com.microsoft::BiasGelu", "biasgelu"}) {
    const Outcome one = run(std::string("ops ") + name);
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_TRUE(has(one.out, "gradient  yes: that of the operators it is read as\n")) << one.out;
    EXPECT_TRUE(has(one.out, "  those of the operators it is read as: Gelu of a + b.\n"))
        << one.out;
  }
  EXPECT_EQ(run("ops ai.onnx.Conv").code, 0);
  const Json gelu = Json::parse(run("ops com.microsoft.Gelu --json").out)[0];
  EXPECT_EQ(gelu["spelling"], true);
  EXPECT_EQ(gelu["gradient"]["kind"], "standard_form");
  EXPECT_EQ(gelu["devices"], Json::array({"cpu"}));
}

TEST_F(CheckCli, a_missing_input_is_told_with_the_operator_of_the_file) {
  put("bias.onnx", R"(g (float[N,4] x) => (float[N,3] y) <
  float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}> {
  [act] a = com.microsoft.BiasGelu(x)
  y = MatMul(a, v)
})");
  const Outcome bias = run("check bias.onnx");
  EXPECT_EQ(bias.code, 1);
  EXPECT_TRUE(has(bias.out,
                  "node act (com.microsoft.BiasGelu): input 1 (b) is left out, but "
                  "com.microsoft::BiasGelu needs it"))
      << bias.out;
  put("fused.onnx",
      R"(g (float[N,4] x) => (float[N,4] y) { [mm] y = com.microsoft.FusedMatMul<alpha = 0.5>(x) })");
  EXPECT_TRUE(has(run("check fused.onnx").out,
                  "node mm (com.microsoft.FusedMatMul): input 1 (b) is left out, but "
                  "com.microsoft::FusedMatMul"));
}

TEST_F(CheckCli, mixed_devices_and_bf16_are_told_apart) {
  ASSERT_EQ(run("model lenet --input 1x16x16 -o lenet.onnx").code, 0);
  const Outcome mixed = run("check lenet.onnx --devices cuda:0,cpu --dtype bf16");
  EXPECT_EQ(mixed.code, 2);
  EXPECT_TRUE(
      mixed.err.starts_with("error: --dtype bf16 is for CUDA devices, and --devices "
                            "cuda:0,cpu has the CPU among them; leave the CPU out"))
      << mixed.err;
}

TEST_F(CheckCli, batch_norm_with_impossible_statistics_or_mode_is_told) {
  const auto net = [&](const char* mode, const char* variance) {
    return fmt::format(R"(g (float[N,2,4,4] x) => (float[N,2] y) <
  float[2] s = {{1, 1}}, float[2] b = {{0, 0}}, float[2] m = {{0, 1}}, float[2] v = {{{}}}> {{
  [bn] n = BatchNormalization<training_mode = {}>(x, s, b, m, v)
  p = GlobalAveragePool(n)
  y = Flatten(p)
}})",
                       variance, mode);
  };
  put("fine.onnx", net("0", "1, 2"));
  put("negative.onnx", net("0", "1, -2"));
  put("nan.onnx", net("0", "nan, -2"));
  put("mode.onnx", net("7", "1, 2"));
  EXPECT_TRUE(json("fine.onnx")["notices"].empty());
  EXPECT_TRUE(has(run("check negative.onnx").out,
                  "node bn (BatchNormalization): its stored variance has negative numbers"));
  EXPECT_TRUE(has(run("check nan.onnx").out,
                  "node bn (BatchNormalization): its stored mean or variance isn't finite"));
  const Outcome mode = run("check mode.onnx");
  EXPECT_EQ(mode.code, 1);
  EXPECT_TRUE(has(mode.out, "training_mode is 7, expected 0 (inference form) or 1 (training form)"))
      << mode.out;
}

}  // namespace
}  // namespace sardonyx::testing
