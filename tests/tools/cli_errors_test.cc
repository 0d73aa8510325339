// What the program says when something is wrong: exit code, the whole message, and what it leaves
// behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <onnx/onnx_pb.h>
#include <filesystem>

#include <algorithm>
#include <fstream>
#include <regex>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "models/lenet.h"
#include "runtime/devices/cuda.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/paths.h"
#include "tests/support/pictures.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

class CliErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    models::ImageModel options;
    options.height = options.width = 16;
    lenet_ = models::lenet(options);
    graph::write_onnx(*lenet_, program_.file("lenet.onnx"));
  }
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  // Exit code, stderr up to `lines` lines; nothing on stdout, or that in JSON.
  void expect(const std::string& arguments, int code, const std::string& message) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with(message)) << outcome.err;
    EXPECT_EQ(outcome.out.starts_with("{\"error\":"), has(arguments, "--json")) << outcome.out;
    EXPECT_EQ(outcome.out.empty(), !has(arguments, "--json")) << outcome.out;
  }
  void put(const std::string& name, const std::string& bytes) const {
    write_file(program_.file(name), bytes);
  }
  std::string content(const std::string& name) const { return read_file(program_.file(name)); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(program_.folder())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  const Program program_;
  std::unique_ptr<graph::Graph> lenet_;
};

// --- the command line

TEST_F(CliErrors, usage_is_code_2_and_names_what_is_near) {
  expect("trian lenet.onnx", 2, "error: there is no command 'trian' (did you mean train?)");
  expect("train lenet.onnx --data synthetic --epocs 3", 2,
         "error: there is no flag --epocs (did you mean --epochs");
  for (const auto& [theirs, ours] : {std::pair{"--learning-rate", "--lr"},
                                     {"--learning_rate", "--lr"},
                                     {"--batch-size", "--batch"},
                                     {"--wd", "--weight-decay"},
                                     {"--drop_last", "--drop-last"},
                                     {"--gpu", "--devices"}}) {
    expect(fmt::format("train lenet.onnx --data synthetic {} 3", theirs), 2,
           fmt::format("error: there is no flag {} (did you mean {}?)", theirs, ours));
  }
  expect("eval lenet.onnx --learning-rate 3", 2, "error: there is no flag --learning-rate\n");
  expect("train", 2, "error: MODEL is required");
  expect("train lenet.onnx", 2, "error: --data is missing: fashion-mnist, ");
  expect("train lenet.onnx more.onnx --data synthetic", 2,
         "error: 'more.onnx' is one argument too many");
  expect("train lenet.onnx --data synthetic --lr fast", 2,
         "error: --lr 'fast': expected a number, as 0.1 or 1e-3\n");
  expect("train lenet.onnx --data synthetic --lr", 2, "error: --lr: expected a value behind it");
  expect("train lenet.onnx --data synthetic --lr inf", 2, "error: --lr 'inf': expected a number");
  expect("train lenet.onnx --data synthetic --epochs 99999999999999999999", 2,
         "error: --epochs '99999999999999999999': expected a whole number from 1 to 1000000000");
  expect("train lenet.onnx --data synthetic --epochs 0x10", 2,
         "error: --epochs '0x10': expected a whole number from 1 to 1000000000");
  for (const char* bytes : {"lots", "-1", "0", "1.5", "8MB", "9000000T"}) {
    expect(
        std::string("train lenet.onnx --data synthetic --memory-budget ") + bytes, 2,
        std::string("error: --memory-budget '") + bytes +
            "': expected bytes, from 1 to 9223372036854775807, as in 8388608, 8M, 8MiB or 1.5GiB");
  }
  expect("train lenet.onnx --data synthetic --threads 100000", 2,
         "error: --threads '100000': expected a whole number from 1 to 1024");
  expect("train lenet.onnx --data synthetic --seed -1", 2,
         "error: --seed '-1': expected a whole number from 0");
  expect("train lenet.onnx --data synthetic --lr -1", 2,
         "error: --lr -1: expected a number of at least 0");
  expect("train lenet.onnx --data synthetic --loss crossentropy", 2,
         "error: --loss 'crossentropy' is not known (did you mean cross_entropy?); there is");
  expect("train lenet.onnx --data synthetic --schedule cosin", 2,
         "error: --schedule 'cosin' is not known (did you mean cosine?)");
  expect("train lenet.onnx --data synthetic --plot c.png", 2,
         "error: --plot c.png: expected a name that ends in .svg or .html");
  expect("train lenet.onnx --data synthetic --epochs 2 --steps 3", 2,
         "error: --epochs 2 and --steps 3: give one of them");
  expect("train lenet.onnx --data synthetic --batch 10 --micro-batch 5 --accumulate 3", 2,
         "error: --accumulate 3 and --micro-batch 5: give one of them");
  const std::string train = "train lenet.onnx --data synthetic";
  expect(train + " --save=", 2, "error: --save '': expected a value");
  expect(train + " --batch 9223372036854775807", 2,
         "error: --batch '9223372036854775807': expected a whole number from 1 to 1000000000");
  for (const char* flag : {"--batch", "--micro-batch", "--accumulate"}) {
    expect(train + " " + flag + " 0", 2,
           std::string("error: ") + flag + " '0': expected a whole number from 1 to 1000000000");
  }
  expect(train + ":9999999999", 2,
         "error: --data synthetic:9999999999: expected at most 2147483648 samples");
  expect(train + " --steps 99999999999999999999", 2,
         "error: --steps '99999999999999999999': expected a");
  expect(train + " --seed -1", 2, "error: --seed '-1': expected a");
  expect(train + " --lr inf", 2, "error: --lr 'inf': expected a number");
  expect(train + " --threads 0", 2, "error: --threads '0': expected a whole number from 1 to 1024");
  expect(train + " --shuffle --no-shuffle", 2, "error: --shuffle excludes --no-shuffle");
  for (const char* on_nan : {"stop:3", "skip:0", "skip:", "skip:x"}) {
    expect(train + " --on-nan " + on_nan, 2,
           std::string("error: --on-nan ") + on_nan + ": expected stop, skip, or skip:N");
  }
  expect(train + " --on-nan ignore", 2, "error: --on-nan 'ignore' is not known; there is stop, ");
  expect(train + " --group conv*", 2, "error: --group 'conv*': expected GLOB:lr=X,wd=Y");
  expect(train + " --group convolution*:wd=0", 1,
         "error: --group 'convolution*' matches no trainable parameter");
  expect(train + " --save-weights last", 2, "error: --save-weights goes with --ema");
  expect(train + " --save-weights last --ema 0.9", 2,
         "error: --save-weights goes with --save or --save-best");
  expect(train + " --save a.onnx --save-best a.onnx", 2, "error: --save");
  expect(train + " --early-stop 2 --eval-every 0", 2,
         "error: --early-stop judges by evaluations, and --eval-every 0 makes none");
  expect(train + " --dry-run --json", 2, "error: --json goes with training, not --dry-run");
  expect("inspect lenet.onnx --format jsn", 2,
         "error: --format 'jsn' is not known (did you mean json?)");
  EXPECT_TRUE(has(run("train lenet.onnx --epocs").err, "see `sardonyx train --help`"));
}

TEST_F(CliErrors, devices_that_are_not_there_say_what_to_do) {
  const std::string train = "train lenet.onnx --data synthetic --steps 1 --batch 4 --devices ";
  for (const char* device : {"gpu", "cuda:x", "cuda:-1", "cuda0", "CPU"}) {
    expect(train + device, 2, std::string("error: --devices '") + device + "' is not known");
  }
  expect(train + "cpu,gpu:1", 2, "error: --devices 'gpu:1' is not known; there is cpu, cuda:0, ");
  expect(train + "cuda:0 --tune", 2, "error: --tune measures kernels of the CPU: leave it out");
  expect("bench none.onnx --devices cuda:0 --tune", 2, "error: --tune measures kernels of the CPU");
  for (const char* command : {"train lenet.onnx --data", "eval lenet.onnx --data", "bench"}) {
    expect(command + std::string(" none --fallback cpu"), 2,
           "error: --fallback cpu goes with a CUDA device, as --devices cuda:0");
  }
  const runtime::CudaFacts facts = runtime::cuda_facts();
  if (!facts.devices.empty()) {
    const std::string none = std::to_string(facts.devices.size());
    expect(train + "cuda:" + none, 1,
           "error: device 'cuda:" + none + "': this machine has " + none);
    return;
  }
  const Outcome outcome = run(train + "cuda:0");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(outcome.err.starts_with("error: device 'cuda:0': " + facts.why_not)) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "use --devices cpu")) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST_F(CliErrors, what_is_not_built_is_refused_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {"--dtype f16", "--dtype f16: not built yet; there is f32, f64, tf32, bf16"},
      {"--loss l2",
       "--loss 'l2' is not known (did you mean l1 or nll?); there is cross_entropy, nll, mse, l1, "
       "smooth_l1, bce_with_logits"},
      {"--loss l1 --class-weights 1,2",
       "--class-weights goes with --loss cross_entropy or nll, not l1"},
      {"--class-weights 1,x",
       "--class-weights 'x': expected a number of at least 0 per class, as 1,0.5"},
      {"--init kaming",
       "--init 'kaming' is not known; known: normal:STD, kaiming, xavier, pytorch"},
      {"--reinit", "--reinit goes with --init kaiming, xavier, normal:STD or pytorch"},
  };
  for (const auto& [flags, message] : cases) {
    expect(std::string("train lenet.onnx --data synthetic ") + flags, 2,
           std::string("error: ") + message);
  }
  expect("inspect lenet.onnx --format svg", 2,
         "error: --format 'svg' is not known; there is text, json, dot, html");
  expect("inspect lenet.onnx --training --summary --format html", 2,
         "error: --summary is text or json; --format html draws the graph");
  for (const std::string flag :
       {"--batch 8", "--devices cpu,cpu", "--dtype f64", "--lr 0.1", "--freeze conv1*",
        "--loss mse", "--skip-pass recompute", "--replicas 2"}) {
    expect("inspect lenet.onnx " + flag, 2,
           "error: " + flag.substr(0, flag.find(' ')) +
               " goes with --training: without it the graph is shown as it stands in the file");
  }
  expect("inspect lenet.onnx --json --format html", 2,
         "error: --json is --format json, and --format html was given, too");
  expect("inspect lenet.onnx --json --max-elements 4", 2,
         "error: --max-elements is for --format text, not json");
  EXPECT_EQ(run("inspect lenet.onnx --json --format json").code, 0);
}

TEST_F(CliErrors, precisions_of_cuda_devices_are_refused_on_the_cpu) {
  for (const std::string dtype : {"tf32", "bf16"}) {
    expect("train lenet.onnx --data synthetic --dtype " + dtype, 2,
           "error: --dtype " + dtype + " is for CUDA devices, and this runs on the CPU");
  }
}

// --- the model

TEST_F(CliErrors, files_that_are_no_model_say_what_they_are) {
  expect("check none.onnx", 1, "error: none.onnx: no such file");
  put("empty.onnx", "");
  expect("check empty.onnx", 1, "error: empty.onnx: the file is empty (0 bytes)");
  const std::string bytes = content("lenet.onnx");
  put("half.onnx", bytes.substr(0, bytes.size() / 2));
  expect("check half.onnx", 1, "error: half.onnx (");
  EXPECT_TRUE(has(run("check half.onnx").err, "is not an ONNX model, or a damaged one"));
  put("lfs.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 517094\n");
  EXPECT_TRUE(has(run("check lfs.onnx").err, "a Git-LFS pointer, not the model itself"));
  put("text.onnx", "hello, this is a text and no model\n");
  expect("check text.onnx", 1, "error: text.onnx (35 bytes) is ");
}

TEST_F(CliErrors, all_unknown_operators_are_listed_at_once) {
  onnx::ModelProto model = base_model();
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  shape->mutable_shape()->add_dim()->set_dim_param("N");
  shape->mutable_shape()->add_dim()->set_dim_value(4);
  model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(1);
  add_node(model, "Foo", {"x"}, "a");
  add_node(model, "Bar", {"a"}, "b");
  add_node(model, "Baz", {"b"}, "y");
  put("ops.onnx", model.SerializeAsString());
  for (const char* command : {"check ops.onnx", "train ops.onnx --data synthetic:8"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1);
    for (const char* op : {"Foo (1 node)", "Bar (1 node)", "Baz (1 node)"}) {
      EXPECT_TRUE(has(outcome.out + outcome.err, op)) << command << outcome.err;
    }
    EXPECT_EQ(has(outcome.out, "next step: `sardonyx ops` lists"), command[0] == 'c');
  }
}

TEST_F(CliErrors, a_baked_batch_is_explained) {
  lenet_->inputs()[0]->type.dims[0] = graph::Dim(8);
  lenet_->outputs()[0]->type.dims[0] = graph::Dim(8);
  graph::write_onnx(*lenet_, program_.file("baked.onnx"));
  expect(
      "train baked.onnx --data synthetic:60", 1,
      "error: the model has the batch 8 baked in, but the last batch of an epoch has 4 rows; add "
      "--drop-last, or --set-batch, or export with a dynamic batch axis");
  expect("train baked.onnx --data synthetic:60 --batch 12 --drop-last", 1,
         "error: input 'input' has the batch size 8 baked in, but 12 rows were asked for");
  EXPECT_EQ(run("train baked.onnx --data synthetic:60 --drop-last").code, 0);
  EXPECT_EQ(run("train baked.onnx --data synthetic:60 --batch 16 --micro-batch 8 --drop-last").code,
            0);
  const Outcome check = run("check baked.onnx");
  EXPECT_EQ(check.code, 0);
  EXPECT_TRUE(has(check.out, "the batch 8 is baked in; --set-batch takes any other"));
  EXPECT_TRUE(has(check.out, "--batch 64 --lr 0.01 --set-batch"));
  const Outcome train =
      run("train baked.onnx --data synthetic:60 --batch 12 --set-batch --save s.onnx");
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_TRUE(has(train.out, "5 steps per epoch"));
  EXPECT_TRUE(
      has(train.err,
          "s.onnx still has the batch 8 baked in, as the file it comes from: `sardonyx eval` "
          "takes it with --set-batch, other runtimes 8 rows at once\n"))
      << train.err;
  EXPECT_TRUE(has(check.out, "(a saved file keeps it: eval that with --set-batch, too)"));
  EXPECT_FALSE(has(run("train baked.onnx --data synthetic:60 --set-batch").err, "still has"));
  const std::string whole = run("eval s.onnx --data synthetic:60 --set-batch").out;
  EXPECT_TRUE(has(whole, "  |  12 samples  ")) << whole;
  const Outcome cut = run("eval s.onnx --data synthetic:60");
  EXPECT_TRUE(has(cut.out, "  |  8 samples  ")) << cut.out;
  EXPECT_TRUE(has(cut.err,
                  "evaluation leaves out the last 4 of 12 samples: the model has the batch 8 baked "
                  "in; --set-batch takes them, too"))
      << cut.err;
  expect(
      "eval s.onnx --data synthetic:5", 1,
      "error: synthetic (test) has 1 samples, fewer than the batch 8 that is baked into the model; "
      "--set-batch takes any number where that is provably right, and training works without ");
  EXPECT_EQ(run("bench baked.onnx --set-batch --batch 3 --steps 1 --repetitions 1").code, 0);
  EXPECT_TRUE(has(run("inspect baked.onnx --training --set-batch --batch 5").out, "batch:5"));
  const auto by_hand = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
      g (float[4,3] x) => (float[4,3] y) <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[4,3] rows = {
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { a = MatMul(x, w) y = Add(a, rows) })");
  graph::write_onnx(*by_hand, program_.file("rows.onnx"));
  const Outcome refused = run("check rows.onnx --loss mse");
  EXPECT_TRUE(has(refused.out,
                  "must have 4 rows (--drop-last)\n  --set-batch doesn't work here: node "
                  "Add -> y can't be shown to take another number of rows than the 4 "
                  "of the file: tried with 101 rows: "))
      << refused.out;
  EXPECT_TRUE(has(refused.out, "no single change of 'rows' float[4,3] makes it follow"));
  EXPECT_TRUE(has(refused.out, "--batch 4 --lr 0.01 --drop-last"));
  const Outcome asked = run("check rows.onnx --loss mse --set-batch");
  EXPECT_EQ(asked.code, 1);
  EXPECT_TRUE(has(asked.out, "\n    --set-batch: node Add -> y")) << asked.out;
  expect("train rows.onnx --loss mse --data synthetic:12 --batch 3 --set-batch", 1,
         "error: --set-batch: node Add -> y can't be shown to take another number of rows");
}

TEST_F(CliErrors, sizes_that_neither_file_nor_flag_says_are_asked_for) {
  graph::write_onnx(*graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
      g (float[N,3,H,W] x) => (float[N,2] y) <float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}> {
        c = Conv(x, w)
        p = GlobalAveragePool(c)
        y = Flatten(p)
      })"),
                    program_.file("open.onnx"));
  expect("inspect open.onnx --training", 1,
         "error: input 'x' has type float[N,3,H,W]: it can't be planned until the size of axis 2 "
         "(H), axis 3 (W) is known; give the sizes of one sample, as --input 3x224x224 "
         "if H is 224 and W is 224 (train takes them from the data)\n");
  expect("inspect open.onnx --training --json", 1, "error: input 'x' has type float[N,3,H,W]");
  EXPECT_EQ(run("inspect open.onnx --training --summary --input 3x8x8").code, 0);
  EXPECT_EQ(run("inspect open.onnx").code, 0);
  EXPECT_EQ(run("opt open.onnx --passes bind_batch,infer_shapes").code, 0);
  expect("inspect open.onnx --training --input 4x8x8", 1, "error: ");
}

TEST_F(CliErrors, a_weight_of_unknown_size_has_no_values_to_begin_with) {
  graph::write_onnx(*graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
      g (float[N,3,8,8] x, float[2,3,k,k] w, float[2] b, float[2,4] f) => (float[N,4] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w, b)
        p = GlobalAveragePool(c)
        r = Flatten(p)
        y = MatMul(r, f)
      })"),
                    program_.file("sizes.onnx"));
  for (const char* flags : {"", " --init kaiming", " --init pytorch --set-batch"}) {
    const Outcome outcome = run("check sizes.onnx" + std::string(flags));
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_TRUE(has(outcome.out, flags[0] == '\0' ? "w  float[2,3,k,k]"
                                                  : "input 'w' has type float[2,3,k,k]: Conv -> c "
                                                    "reads it as a weight, which can't be given "
                                                    "values while its sizes are open; export the "
                                                    "model with its weights\n"))
        << outcome.out;
    EXPECT_FALSE(has(outcome.out, "sardonyx train")) << outcome.out;
  }
  EXPECT_EQ(run("inspect sizes.onnx --training --init kaiming").code, 1);
}

TEST_F(CliErrors, a_file_without_weights_is_told_apart_and_filled) {
  const auto model = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
      g (float[N,6] x, float[6,4] w, float[4] b) => (float[N,4] y) { y = Gemm(x, w, b) })");
  graph::write_onnx(*model, program_.file("shapes.onnx"));
  const Outcome refused = run("train shapes.onnx --data synthetic:64");
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(
      has(refused.err, "weights without values: 'w', 'b'; --init pytorch, kaiming, xavier or"))
      << refused.err;
  EXPECT_TRUE(has(run("check shapes.onnx").out, "give them values with --init pytorch"))
      << refused.err;
  const Outcome check = run("check shapes.onnx --init xavier");
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_TRUE(has(check.out, " --init xavier --save trained.onnx")) << check.out;
  const std::string train =
      "train shapes.onnx --data synthetic:64 --batch 16 --checkpoint c --steps ";
  EXPECT_EQ(run(train + "2 --init xavier --seed 5 --save s.onnx").code, 0);
  EXPECT_EQ(run("eval s.onnx --data synthetic:64").code, 0);
  EXPECT_EQ(run("bench shapes.onnx --init kaiming --steps 1 --repetitions 1").code, 0);
  // The checkpoint knows how the run began.
  EXPECT_EQ(run(train + "4 --resume").code, 0);
  const Outcome other = run(train + "6 --resume --init kaiming");
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.err, "--init is kaiming now, xavier before")) << other.err;
  const Outcome again = run(train + "6 --resume --init xavier --reinit");
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(has(again.err, "--reinit is true now, false before")) << again.err;
}

TEST_F(CliErrors, nothing_to_train_gives_the_reason_for_every_tensor) {
  const Outcome outcome = run("train lenet.onnx --data synthetic:8 --freeze *");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "error: nothing to train"));
  EXPECT_TRUE(has(outcome.err, "\n  conv1.weight  float[20,1,3,3]: frozen by --freeze"));
  expect("train lenet.onnx --data synthetic:8 --freeze conv3*", 1,
         "error: --freeze 'conv3*' matches no tensor of the model");
  // The report may go to a file; the reason for code 1 is there for a person, too.
  const Outcome check = run("check lenet.onnx --freeze *");
  EXPECT_EQ(check.code, 1);
  EXPECT_TRUE(has(check.err, "error: lenet.onnx can't be trained")) << check.err;
  // Where both go to one place, as to a terminal, it is there once.
  const std::string line =
      fmt::format("cd '{}' && '{}' check lenet.onnx --freeze '*' > both 2>&1",
                  program_.folder().string(), (tests::build_folder() / "tools/sardonyx").string());
  EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 1);
  const std::string both = content("both");
  EXPECT_TRUE(both.starts_with("lenet.onnx: can't be trained as it is\nnothing to train")) << both;
  EXPECT_FALSE(has(both, "error: ")) << both;
}

// --- the data

TEST_F(CliErrors, a_label_out_of_range_is_found_before_the_first_step) {
  write_idx_set(program_.file("data"), 40, 16, 200);
  const Outcome outcome = run("train lenet.onnx --data idx:data --log run.jsonl");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "200")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "39")) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST_F(CliErrors, images_of_another_size_give_both_shapes) {
  write_idx_set(program_.file("data"), 40, 20);
  const Outcome outcome = run("train lenet.onnx --data idx:data");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "[40,20,20]")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "[N,1,16,16]")) << outcome.err;
}

TEST_F(CliErrors, missing_data_say_what_was_looked_for) {
  const Outcome outcome = run("train lenet.onnx --data idx:nowhere");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "nowhere")) << outcome.err;
  expect("train lenet.onnx --data fashon-mnist", 1, "error: --data fashon-mnist: unknown");
}

TEST_F(CliErrors, image_folders_are_checked_before_the_first_step) {
  const auto picture = [&](const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(program_.file(name).parent_path());
    put(name, bytes);
  };
  const std::string good =
      png_file({.width = 20, .height = 30}, sardonyx::testing::picture(20, 30, 3));
  expect("train lenet.onnx --data folder:nowhere", 1,
         "error: folder:nowhere: there is no such folder");
  expect("train lenet.onnx --data folder:", 1, "error: --data folder:: unknown, expected one of ");
  const std::string kinds =
      "fashion-mnist, mnist, cifar10, cifar100, idx:DIR, npz:FILE, npy:DIR, folder:DIR, "
      "synthetic[:N]";
  expect("train lenet.onnx --data npz", 1,
         "error: --data npz: unknown, expected one of " + kinds +
             "; give the file behind the colon, as npz:data.npz\n");
  expect("train lenet.onnx --data d.npz", 1,
         "error: --data d.npz: unknown, expected one of " + kinds +
             "; a file of arrays is npz:d.npz\n");
  for (int i = 0; i < 11; ++i) picture("many/class" + std::to_string(i) + "/1.png", good);
  EXPECT_TRUE(has(run("train lenet.onnx --data folder:many").err,
                  "error: folder:many (train): the data have 11 classes, but the model tells 10 "
                  "apart"));
  picture("d/train/cat/1.png", good);
  picture("d/train/dog/1.jpg", good);
  picture("d/test/dog/1.png", good);
  EXPECT_EQ(run("train lenet.onnx --data folder:d --augment crop:2,flip").code, 0);
  EXPECT_EQ(run("eval lenet.onnx --data folder:d").code, 0);
  expect("train lenet.onnx --data folder:d --save d/train/cat/1.png", 1,
         "error: --save d/train/cat/1.png: that is a file of the data, which stays as it is");
  expect("train lenet.onnx --data folder:. --save new.png", 1,
         "error: --save new.png: that is a file of the data, which stays as it is");
  picture("d/train/dog/2.jpg", "GIF89a");
  expect("train lenet.onnx --data folder:d", 1,
         "error: d/train/dog/2.jpg: this is a GIF, expected a PNG or JPEG image");
  picture("d/train/dog/2.jpg", good.substr(0, good.size() - 40));
  const Outcome cut = run("train lenet.onnx --data folder:d --batch 3 --log run.jsonl");
  EXPECT_EQ(cut.code, 1);
  EXPECT_TRUE(has(cut.err, "error: d/train/dog/2.jpg: cannot read this PNG image: ")) << cut.err;
}

// --- the outputs

TEST_F(CliErrors, outputs_are_tried_before_training_and_never_the_input) {
  const std::string before = content("lenet.onnx");
  const std::string train = "train lenet.onnx --data synthetic:8 ";
  expect(train + "--save lenet.onnx", 1,
         "error: --save lenet.onnx: that is the input file, which stays as it is; choose another "
         "name, or replace it with --overwrite");
  expect(train + "--overwrite", 2, "error: --overwrite goes with --save, onto the model itself");
  expect(train + "--log ./lenet.onnx", 1, "error: --log ./lenet.onnx: that is the input file");
  expect(
      train + "--save nowhere/out.onnx", 1,
      "error: nowhere/out.onnx: cannot be written: No such file or directory; its folder does not "
      "exist, create it first\n  while preparing --save nowhere/out.onnx");
  expect(train + "--save .", 1, "error: .: is a directory, expected the name of a file");
  expect(train + "--plot nowhere/curve.svg", 1, "error: nowhere/curve.svg: cannot be written");
  expect(train + "--trace nowhere/t.json", 1, "error: nowhere/t.json: cannot be written");
  expect(train + "--trace lenet.onnx", 1, "error: --trace lenet.onnx: that is the input file");
  expect(train + "--log t.json --trace t.json", 2,
         "error: --log t.json and --trace t.json are one file; give each its own");
  expect("bench lenet.onnx --trace nowhere/t.json", 1, "error: nowhere/t.json: cannot be written");
  expect("bench lenet.onnx --trace lenet.onnx", 1,
         "error: --trace lenet.onnx: that is the input file");
  expect(train + "--save a.svg --plot ./a.svg", 2,
         "error: --save a.svg and --plot ./a.svg are one file; give each its own");
  expect(train + "--log /dev/null", 1, "error: /dev/null: is not a regular file");
  // Opening a pipe would wait for its reader.
  ASSERT_EQ(::mkfifo(program_.file("pipe").c_str(), 0600), 0);
  expect(train + "--log pipe", 1, "error: pipe: is not a regular file");
  expect(train + "--save pipe", 1, "error: pipe: is not a regular file");
  std::filesystem::remove(program_.file("pipe"));
  expect(train + "--save " + std::string(300, 'x'), 1, "error: " + std::string(40, 'x'));
  EXPECT_EQ(content("lenet.onnx"), before);
  EXPECT_EQ(files(), (std::vector<std::string>{"lenet.onnx", "stderr", "stdout"}));
}

TEST_F(CliErrors, files_of_the_data_are_never_an_output) {
  write_idx_set(program_.file("data"), 40, 16);
  const std::string images = "data/train-images-idx3-ubyte", before = content(images);
  expect("train lenet.onnx --data idx:data --save " + images, 1,
         "error: --save " + images + ": that is a file of the data, which stays as it is");
  EXPECT_EQ(content(images), before);
}

TEST_F(CliErrors, a_link_stays_and_its_file_is_written) {
  std::filesystem::create_symlink("behind.onnx", program_.file("link.onnx"));
  EXPECT_EQ(run("model lenet -o link.onnx").code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(program_.file("link.onnx")));
  EXPECT_EQ(run("inspect behind.onnx").code, 0);
}

TEST_F(CliErrors, skipping_ends_when_nothing_is_finite_any_more) {
  const Outcome outcome =
      run("train lenet.onnx --data synthetic:64 --batch 8 --lr 1e30 --on-nan skip:3");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "error: step 5: the loss is not finite")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "while going on behind 3 skipped steps in a row (--on-nan)"))
      << outcome.err;
}

TEST_F(CliErrors, losses_are_printed_short) {
  const Outcome nan = run("train lenet.onnx --data synthetic:8 --batch 8 --lr 1e300");
  EXPECT_TRUE(has(nan.out, "test loss nan")) << nan.out;
  EXPECT_FALSE(has(nan.out + nan.err, "-nan")) << nan.out << nan.err;
  const Outcome huge = run("train lenet.onnx --data synthetic:8 --batch 4 --lr 1e2 --loss mse");
  EXPECT_TRUE(std::regex_search(huge.out, std::regex("test loss [0-9.]+e\\+[0-9]+ "))) << huge.out;
}

TEST_F(CliErrors, images_without_known_axes_need_a_layout_to_be_augmented) {
  const std::string train = "train lenet.onnx --data synthetic:64 --augment flip,crop:2";
  expect(train, 1, "error: synthetic (train): --augment needs images, but the axes of samples of");
  EXPECT_EQ(run(train + " --data-layout nchw").code, 0);
}

TEST_F(CliErrors, parameters_that_are_not_finite_are_not_saved) {
  put("out.onnx", "the old file");
  const Outcome outcome =
      run("train lenet.onnx --data synthetic:8 --batch 8 --lr 1e300 --save out.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "warning: the loss of the evaluation is not finite")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "error: out.onnx is not written: after step 1 '")) << outcome.err;
  EXPECT_EQ(content("out.onnx"), "the old file");
}

TEST_F(CliErrors, a_full_disk_at_the_save_keeps_the_old_file) {
  put("out.onnx", "the old file");
  // The model has 170 kB; the limit stands in for a full disk.
  const Outcome outcome = program_.wait(
      program_.start("train lenet.onnx --data synthetic:8 --batch 8 --save out.onnx", 100000));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "error: out.onnx: cannot be written: File too large"))
      << outcome.err;
  EXPECT_EQ(content("out.onnx"), "the old file");
  EXPECT_EQ(files(), (std::vector<std::string>{"lenet.onnx", "out.onnx", "stderr", "stdout"}));
}

TEST_F(CliErrors, a_loss_that_is_not_finite_stops_with_step_and_node) {
  const Outcome outcome =
      run("train lenet.onnx --data synthetic:64 --batch 8 --lr 1e30 --json --save out.onnx");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "error: step 2: the loss is not finite")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "first non-finite value: output 0 of node Conv -> conv"));
  EXPECT_TRUE(outcome.out.starts_with("{\"error\":\"step 2: the loss is not finite"))
      << outcome.out;
  EXPECT_FALSE(std::filesystem::exists(program_.file("out.onnx")));
}

TEST_F(CliErrors, a_value_that_training_refuses_is_a_usage_error_of_every_command) {
  for (const char* command : {"train lenet.onnx --data synthetic:8 --dry-run", "check lenet.onnx",
                              "bench lenet.onnx", "inspect lenet.onnx --training"}) {
    for (const auto& [flags, error] :
         {std::pair{"--schedule foo", "error: --schedule 'foo' is not known"},
          {"--warmup x", "error: --warmup 'x'"},
          {"--lr-scaling x", "error: --lr-scaling 'x' is not known"},
          {"--shares 1,2,3", "error: --shares has 3 numbers for 1 replica"}}) {
      expect(fmt::format("{} {}", command, flags), 2, error);
    }
  }
  expect("eval lenet.onnx --data synthetic:8 --shares 1,2,3", 2,
         "error: --shares has 3 numbers for 1 replica");
}

TEST_F(CliErrors, weights_that_nobody_keeps_are_announced) {
  const std::string line =
      "the trained weights aren't kept: --save FILE writes the model with them\n";
  const std::string train = "train lenet.onnx --data synthetic:8 --steps 1";
  EXPECT_EQ(run(train).err, line);
  EXPECT_EQ(run(train + " --json").err, line);
  for (const char* flags :
       {" --save s.onnx", " --save-best b.onnx", " --checkpoint run", " --dry-run"}) {
    EXPECT_FALSE(has(run(train + flags).err, "aren't kept")) << flags;
  }
}

TEST_F(CliErrors, unknown_names_have_near_names) {
  expect("ops Covn", 1, "error: operator Covn is not supported (did you mean Conv?)");
  expect("ops BatchNormalisation", 1,
         "error: operator BatchNormalisation is not supported (did you mean BatchNormalization?); "
         "`sardonyx ops` lists what there is");
  expect("ops Xyzzy", 1, "error: operator Xyzzy is not supported; `sardonyx ops`");
  expect("train lenet.onnx --data synthetic --freeze conv*.wieght*", 1,
         "error: --freeze 'conv*.wieght*' matches no tensor of the model; near names: conv");
  expect("opt lenet.onnx --passes infer_shape", 2,
         "error: --passes: there is no pass 'infer_shape' (did you mean infer_shapes");
  expect("model lenet -o x.onnx --init kaming", 2, "error: --init 'kaming' is not known");
  expect("model lenet -o x.onnx --input 28x28", 2,
         "error: --input '28x28': expected CHANNELSxHEIGHTxWIDTH");
}

}  // namespace
}  // namespace sardonyx::testing
