// The program as a user meets it: what each command does, its exit code, and that JSON is JSON.
// cli_errors_test.cc has what goes wrong.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <onnx/onnx_pb.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "ops/core/kernel.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

using Json = nlohmann::json;

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

class Cli : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  // LeNet for 1 x 16 x 16 images in lenet.onnx.
  void make_lenet() const {
    const Outcome made = run("model lenet -o lenet.onnx --input 1x16x16 --init kaiming");
    ASSERT_EQ(made.code, 0) << made.err;
  }
  void make_data(int label_of_last = 0) const {
    write_idx_set(program_.file("data"), 96, 16, label_of_last);
  }
  std::string content(const std::string& name) const { return read_file(program_.file(name)); }
  const Program program_;
};

TEST_F(Cli, help_lists_commands_and_each_command_has_an_example) {
  const Outcome overview = run("--help");
  EXPECT_EQ(overview.code, 0);
  for (const char* name :
       {"train", "eval", "check", "inspect", "model", "bench", "opt", "ops", "env"}) {
    EXPECT_TRUE(has(overview.out, std::string("  ") + name + " ")) << name;
    const Outcome help = run(std::string(name) + " --help");
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_TRUE(has(help.out, std::string("Example:\n  sardonyx ") + name)) << help.out;
  }
  EXPECT_EQ(run("--version").code, 0);
  EXPECT_EQ(run("").code, 2);
}

TEST_F(Cli, model_is_the_same_for_the_same_seed) {
  EXPECT_EQ(run("model lenet -o a.onnx --seed 3").code, 0);
  EXPECT_EQ(run("model lenet -o b.onnx --seed 3").code, 0);
  EXPECT_EQ(run("model lenet -o c.onnx --seed 4").code, 0);
  EXPECT_EQ(content("a.onnx"), content("b.onnx"));
  EXPECT_NE(content("a.onnx"), content("c.onnx"));
}

TEST_F(Cli, trains_saves_and_evaluates_to_the_reported_accuracy) {
  make_lenet();
  make_data();
  const Outcome trained =
      run("train lenet.onnx --data idx:data --epochs 3 --batch 16 --lr 0.05 --save out.onnx "
          "--log run.jsonl --plot curve.svg --json --threads 1");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::vector<Json> lines = json_lines(trained.out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["epoch"], 1);
  EXPECT_EQ(lines[2]["step"], 18);
  EXPECT_LT(lines[2]["train_loss"].get<double>(), lines[0]["train_loss"].get<double>());
  EXPECT_EQ(lines[3]["done"], true);
  EXPECT_EQ(lines[3]["saved"], "out.onnx");
  EXPECT_EQ(lines[3]["devices"], Json::array({"cpu"}));
  EXPECT_EQ(json_lines(content("run.jsonl")).size(), 18u + 4u);
  EXPECT_TRUE(content("curve.svg").starts_with("<svg "));

  const Outcome evaluated = run("eval out.onnx --data idx:data --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const Json result = Json::parse(evaluated.out);
  EXPECT_EQ(result["samples"], 24);
  EXPECT_EQ(result["accuracy"], lines[2]["test_accuracy"]);
  EXPECT_NEAR(result["loss"].get<double>(), lines[2]["test_loss"].get<double>(), 1e-6);
}

TEST_F(Cli, the_best_epoch_is_kept_with_its_averages) {
  make_lenet();
  make_data();
  const Outcome trained =
      run("train lenet.onnx --data idx:data --epochs 9 --batch 16 --optimizer adamw --lr 0.01 "
          "--group conv*:lr=0.02,wd=0 --no-decay bias --clip-norm 5 --ema 0.8 --early-stop 3 "
          "--save-best best.onnx --save end.onnx --json --threads 1");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const std::vector<Json> lines = json_lines(trained.out);
  const Json& summary = lines.back();
  EXPECT_EQ(summary["saved_best"], "best.onnx");
  const Json& best = lines.at(summary["best_epoch"].get<size_t>() - 1);
  EXPECT_EQ(best["best"], true);
  EXPECT_EQ(best["test_accuracy"], summary["best_test_accuracy"]);
  const Outcome evaluated = run("eval best.onnx --data idx:data --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(Json::parse(evaluated.out)["loss"].get<double>(), best["test_loss"].get<double>(),
              1e-6);
  EXPECT_NE(content("end.onnx"), content("best.onnx"));
}

TEST_F(Cli, eval_takes_the_only_part_there_is) {
  make_lenet();
  make_data();
  for (const char* name : {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    ASSERT_TRUE(std::filesystem::remove(program_.folder() / "data" / name)) << name;
  }
  const Outcome evaluated = run("eval lenet.onnx --data idx:data");
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_TRUE(has(evaluated.out, "96 samples"));
  EXPECT_TRUE(has(evaluated.err, "has no test part; evaluated is the part it has, 96 samples"));
}

TEST_F(Cli, plain_lines_go_to_stdout_and_notices_to_stderr) {
  make_lenet();
  make_data();
  const Outcome trained = run("train lenet.onnx --data idx:data --batch 32 --save out.onnx");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.out, "batch 32, 3 steps per epoch, 1 epoch; sgd lr 0.01 constant"));
  EXPECT_TRUE(has(trained.out, "epoch 1/1  step 3"));
  EXPECT_TRUE(has(trained.out, "saved out.onnx"));
  EXPECT_TRUE(has(trained.out, "images/s"));
  EXPECT_TRUE(has(trained.out, "MiB with the data set ("));
  EXPECT_EQ(trained.err, "");  // nothing that has to be noticed
  const Outcome wrong = run("train lenet.onnx --data idx:data --loss nll --steps 1");
  EXPECT_TRUE(has(wrong.err, "--loss nll takes log-probabilities, but 'output' comes from"));
  EXPECT_FALSE(has(trained.out + trained.err, "\x1b"));  // no terminal, no escapes
}

TEST_F(Cli, the_same_command_gives_the_same_file) {
  make_lenet();
  const std::string command = "train lenet.onnx --data synthetic:64 --batch 16 --threads 2 --save ";
  EXPECT_EQ(run(command + "a.onnx").code, 0);
  EXPECT_EQ(run(command + "b.onnx").code, 0);
  EXPECT_EQ(content("a.onnx"), content("b.onnx"));
  EXPECT_NE(content("a.onnx"), content("lenet.onnx"));
}

TEST_F(Cli, a_signal_finishes_the_step_saves_and_exits_with_its_code) {
  make_lenet();
  for (const auto& [signal, code, name] :
       {std::tuple{SIGINT, 130, "SIGINT"}, {SIGTERM, 143, "SIGTERM"}, {SIGHUP, 129, "SIGHUP"}}) {
    const pid_t process = program_.start(
        "train lenet.onnx --data synthetic:100000 --batch 8 --json --save out.onnx --log "
        "run.jsonl");
    // Until it is in its steps.
    for (int i = 0; i < 500; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (std::filesystem::exists(program_.file("run.jsonl")) && !content("run.jsonl").empty())
        break;
    }
    kill(process, signal);
    const Outcome stopped = program_.wait(process);
    EXPECT_EQ(stopped.code, code) << stopped.err;
    const std::vector<Json> lines = json_lines(stopped.out);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0]["done"], false);
    EXPECT_EQ(lines[0]["stopped"], name);
    EXPECT_EQ(lines[0]["saved"], "out.onnx");
    EXPECT_TRUE(has(stopped.err, std::string("stopped by ") + name + " after step "));
    EXPECT_EQ(run("inspect out.onnx").code, 0);
    std::filesystem::remove(program_.file("run.jsonl"));
  }
}

TEST_F(Cli, dry_run_prints_the_plan_and_makes_no_step) {
  make_lenet();
  const Outcome dry = run("train lenet.onnx --data synthetic:64 --dry-run --save out.onnx");
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_TRUE(has(dry.out, "plan: batch 64"));
  EXPECT_FALSE(std::filesystem::exists(program_.file("out.onnx")));
}

TEST_F(Cli, train_says_once_what_is_computed_again_but_not_between_json) {
  ASSERT_EQ(run("model resnet18 --width 8 --input 3x16x16 -o r.onnx").code, 0);
  const std::string train = "train r.onnx --data synthetic:8 --batch 8 --steps 1 --threads 2 ";
  const std::string line = " computed again instead of kept: about ";
  const Outcome usual = run(train), kept = run(train + "--skip-pass recompute");
  EXPECT_TRUE(has(usual.out, line)) << usual.out << usual.err;
  EXPECT_TRUE(has(usual.out, " % more work per step\n"));
  EXPECT_FALSE(has(kept.out, line)) << kept.out;
  const Outcome bounded = run(train + "--memory-budget 2.2MiB");
  EXPECT_EQ(bounded.code, 0) << bounded.err;
  EXPECT_EQ(bounded.out.find(line), bounded.out.rfind(line));
  const Outcome json = run(train + "--memory-budget 2252K --json");
  EXPECT_EQ(json.code, 0) << json.err;
  for (const Json& parsed : json_lines(json.out)) EXPECT_TRUE(parsed.is_object());
  EXPECT_FALSE(has(json.out, "computed again"));
  EXPECT_EQ(run(train + "--memory-budget 2.2MiB --dry-run").code, 0);
}

TEST_F(Cli, check_says_what_is_trained_and_with_which_command) {
  make_lenet();
  const Outcome text = run("check lenet.onnx --batch 8 --freeze conv1*");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("lenet.onnx: trainable, 32 868 parameters in 6 tensors\n"));
  EXPECT_TRUE(has(text.out, "batch of 8: "));
  const std::string all = run("check lenet.onnx --batch 8 --freeze conv1* --all").out;
  EXPECT_TRUE(has(all, "conv2.weight  float[50,20,5,5]  trainable  reaches the loss through"));
  EXPECT_TRUE(has(all, "constant   frozen by --freeze"));
  EXPECT_TRUE(text.out.ends_with(
      "train it with (DATA.npz: your arrays, see docs/data.md)\n"
      "  x float32 [N,1,16,16], y int64 [N] in 0..9; cross_entropy over 'output'\n"
      "  for values instead of classes: --loss mse\n"
      "  sardonyx train lenet.onnx --data npz:DATA.npz --epochs 10 --batch 8 --lr "
      "0.01 --freeze 'conv1*' --save trained.onnx\n"))
      << text.out;
  EXPECT_TRUE(has(run("check lenet.onnx --momentum 0.9 --nesterov --dtype f64").out,
                  "--lr 0.01 --momentum 0.9 --nesterov --dtype f64 --save"));
  const Json json = Json::parse(run("check lenet.onnx --json").out);
  EXPECT_EQ(json["trainable"], true);
  EXPECT_EQ(json["parameters"].size(), 8u);
  EXPECT_EQ(json["trainable_elements"], 20 * 9 + 20 + 50 * 500 + 50 + 128 * 50 + 128 + 1280 + 10);
}

// Training joins micro-batches of one sample where BatchNormalization can't take them; so does
// whoever looks at the model before.
TEST_F(Cli, check_inspect_and_bench_see_the_micro_batches_that_training_makes) {
  EXPECT_EQ(run("model vgg11-bn --width 8 --input 1x8x8 -o bn.onnx").code, 0);
  for (const char* command :
       {"check bn.onnx", "inspect bn.onnx --training", "bench bn.onnx --steps 1 --repetitions 1"}) {
    const Outcome outcome = run(std::string(command) + " --batch 3 --accumulate 3");
    EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.err;
    EXPECT_TRUE(has(outcome.out + outcome.err, "a micro-batch of one sample joins the one before"))
        << command;
  }
}

TEST_F(Cli, inspect_shows_the_file_and_the_training_graph) {
  make_lenet();
  const Outcome text = run("inspect lenet.onnx");
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(has(text.out, "lenet (float[N,1,16,16] input) => (float[N,10] output)"));
  EXPECT_TRUE(run("inspect lenet.onnx --format dot").out.starts_with("digraph "));

  const Json file = Json::parse(run("inspect lenet.onnx --format json").out);
  EXPECT_EQ(file["schema"], "sardonyx.inspect/1");
  EXPECT_EQ(file["file"]["opsets"]["ai.onnx"], 17);
  EXPECT_EQ(file["graph"]["inputs"][0]["shape"], Json::parse(R"(["N",1,16,16])"));
  EXPECT_EQ(file["graph"]["nodes"].size(), 10u);
  EXPECT_EQ(file["graph"]["nodes"][0]["attributes"]["kernel_shape"], Json::parse("[3,3]"));
  EXPECT_EQ(file["graph"]["constants"].size(), 8u);

  const Outcome training =
      run("inspect lenet.onnx --training --batch 8 --format json -o plan.json");
  EXPECT_EQ(training.code, 0) << training.err;
  EXPECT_EQ(training.out, "");
  const Json plan = Json::parse(content("plan.json"));
  EXPECT_EQ(plan["plan"]["batch"], 8);
  EXPECT_EQ(plan["graph"]["states"].size(), 8u);
  EXPECT_EQ(plan["graph"]["states"][0]["role"], "parameter");
  EXPECT_GT(plan["plan"]["memory"]["state_bytes"], 100000);
}

TEST_F(Cli, opt_runs_passes_on_files_and_texts) {
  make_lenet();
  const Outcome typed =
      run("opt lenet.onnx --passes canonicalize,bind_batch,infer_shapes --batch 8");
  EXPECT_EQ(typed.code, 0) << typed.err;
  EXPECT_TRUE(has(typed.out, "# float[N:8,50,")) << typed.out;
  std::ofstream(program_.file("graph.txt"))
      << "# why: for this test\n# passes: eliminate_dead\n<ir_version: 8, opset_import: [\"\" : "
         "13]>\n"
         "g (float[2] x) => (float[2] y) {\n  y = Relu(x)\n  z = Exp(x)\n}\n-----\nanything\n";
  const Outcome golden = run("opt graph.txt");
  EXPECT_EQ(golden.code, 0) << golden.err;
  EXPECT_TRUE(has(golden.out, "Relu"));
  EXPECT_FALSE(has(golden.out, "Exp"));
  const std::string list = run("opt --list").out;
  EXPECT_TRUE(has(list, "infer_shapes"));
  EXPECT_TRUE(has(list, "\nform_regions"));
  const Outcome regions =
      run("opt lenet.onnx --passes canonicalize,bind_batch,infer_shapes,form_regions --batch 64 "
          "--threads 2");
  EXPECT_EQ(regions.code, 0) << regions.err;
  EXPECT_TRUE(has(regions.out, "\n  # region 0: blocks of 16 rows\n")) << regions.out;
}

TEST_F(Cli, ops_and_env_tell_what_there_is) {
  const Outcome all = run("ops");
  EXPECT_TRUE(has(all.out, "\nConv  "));
  EXPECT_TRUE(has(all.out,
                  "\n  conv.lanes                   Conv, ConvTranspose, sardonyx::ConvGradData, "
                  "sardonyx::ConvGradFilter\n"
                  "    takes batch operands in lanes of 16 images only\n"
                  "    takes float and double only\n"));
  const Outcome one = run("ops conv");
  EXPECT_EQ(one.code, 0);
  EXPECT_TRUE(has(one.out, "kernel_shape"));
  const Json conv = Json::parse(run("ops Conv --json").out)[0];
  EXPECT_EQ(conv["gradient"]["kind"], "rule");
  const Json winograd = {
      {"name", "conv.onednn_winograd"},
      {"device", "cpu"},
      {"speed", "optimised"},
      {"layouts", "plain"},
      {"accumulates", false},
      {"declines",
       {"takes plain layouts only", "takes float only", "knows one to three spatial axes",
        "needs at least one image", "Winograd needs a 3x3 kernel, stride 1 and one group",
        "Winograd needs channels in sixteens", "Winograd needs AVX-512",
        "Winograd does not pay for so few or so small images"}}};
  EXPECT_EQ(conv["kernels"][1], winograd);
  EXPECT_TRUE(has(one.out, "\n    Winograd needs channels in sixteens\n"));
  // A build without CUDA says nothing of it.
  const bool cuda = !ops::KernelRegistry::get(ops::Device::kCuda).all().empty();
  EXPECT_EQ(conv["devices"], cuda ? Json({"cpu", "cuda"}) : Json({"cpu"}));
  EXPECT_EQ(conv["kernels"].back()["device"], cuda ? "cuda" : "cpu");
  EXPECT_EQ(Json::parse(run("ops DepthToSpace --json").out)[0]["devices"], Json({"cpu"}));
  EXPECT_EQ(has(run("ops DepthToSpace").out, "none for CUDA devices"), cuda);
  EXPECT_EQ(has(all.out, " gradient cuda kernels\n"), cuda);
  const Json env = Json::parse(run("env --json").out);
  EXPECT_EQ(env["devices"][0]["name"], "cpu");
  EXPECT_EQ(env["switches"][2]["name"], "SARDONYX_LOG");
  EXPECT_TRUE(has(run("env").out, "onednn"));
  // Which of them holds depends on the build and the machine; it's always said.
  EXPECT_EQ(env["cuda"]["devices"].empty(), !env["cuda"]["unavailable"].get<std::string>().empty());
  EXPECT_EQ(env["cuda"]["built"].get<bool>(), !env["cuda"]["runtime"].get<std::string>().empty());
  if (env["cuda"]["devices"].empty()) {
    EXPECT_TRUE(has(run("env").out, "\n  no CUDA device: "));
  }
}

TEST_F(Cli, trace_has_the_loop_around_the_steps_and_nothing_is_written_without_it) {
  make_lenet();
  make_data();
  const std::string train = "train lenet.onnx --data idx:data --epochs 2 --batch 48 --threads 2 ";
  ASSERT_EQ(run(train + "--replicas 2").code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(program_.folder())) {
    EXPECT_FALSE(has(entry.path().filename().string(), "json")) << entry.path();
  }
  const Outcome traced = run(train + "--replicas 2 --trace t.json --checkpoint run");
  ASSERT_EQ(traced.code, 0) << traced.err;
  std::map<std::string, int> loop;
  std::set<int> pids;
  const Json trace = Json::parse(content("t.json"));
  for (const Json& event : trace["traceEvents"]) {
    pids.insert(event["pid"].get<int>());
    if (event["pid"] == 2 && event["ph"] == "X") ++loop[event["name"].get<std::string>()];
  }
  EXPECT_EQ(pids, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(loop, (std::map<std::string, int>{{"step 1", 1},
                                              {"step 2", 1},
                                              {"step 3", 1},
                                              {"step 4", 1},
                                              {"wait for data", 4},
                                              {"evaluation", 2},
                                              {"write checkpoint", 2}}));
}

TEST_F(Cli, bench_of_replicas_says_how_much_of_the_communication_is_hidden) {
  make_lenet();
  const std::string bench = "bench lenet.onnx --batch 16 --threads 2 --steps 2 --repetitions 1 ";
  const Outcome two = run(bench + "--replicas 2 --json --trace t.json");
  ASSERT_EQ(two.code, 0) << two.err;
  const Json last = json_lines(two.out).at(1);
  EXPECT_GT(last["communication_ms"].get<double>(), 0);
  EXPECT_GE(last["hidden_share"].get<double>(), 0);
  EXPECT_LE(last["hidden_share"].get<double>(), 1);
  EXPECT_LE(last["communication_adding_ms"].get<double>() +
                last["communication_blocked_ms"].get<double>(),
            last["communication_ms"].get<double>());
  EXPECT_EQ(Json::parse(content("t.json"))["otherData"]["whole_steps"], 2);
  EXPECT_TRUE(has(run(bench + "--replicas 2").out, "% hidden ("));
  EXPECT_FALSE(json_lines(run(bench + "--json").out).at(1).contains("hidden_share"));
  EXPECT_FALSE(has(run(bench).out, "hidden"));
}

TEST_F(Cli, tune_measures_once_and_remembers) {
  const std::string cache = program_.file("tuning.json").string();
  ASSERT_EQ(::setenv("SARDONYX_TUNING_CACHE", cache.c_str(), 1), 0);
  ASSERT_EQ(run("model resnet18 -o r.onnx --input 3x8x8 --width 16 --init kaiming").code, 0);
  const std::string flags = "r.onnx --batch 8 --threads 2 --tune ";
  const Outcome first = run("bench " + flags + "--steps 1 --repetitions 1 --json");
  ASSERT_EQ(first.code, 0) << first.err;
  const Json tuning = json_lines(first.out).at(1)["tuning"];
  if (tuning["left"] > 0) GTEST_SKIP() << "the machine is busy";
  EXPECT_GT(tuning["measured"].get<int>(), 10);
  EXPECT_EQ(tuning["known"], 0);
  for (const Json& choice : tuning["changed"]) {
    EXPECT_NE(choice["table"], choice["chosen"]);
    EXPECT_LT(choice["chosen_ms"].get<double>(), choice["table_ms"].get<double>());
  }
  EXPECT_TRUE(Json::parse(content("tuning.json")).contains("sardonyx_tuning"));
  const Outcome again = run("bench " + flags + "--steps 1 --repetitions 1");
  EXPECT_TRUE(has(again.out, "tuning: 0 requests measured in 0.0 s, ")) << again.out;
  EXPECT_TRUE(has(again.out, " known from " + cache)) << again.out;
  const Outcome trained = run("train " + flags + "--data synthetic:16 --epochs 1 --eval-every 0");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.err, "tuning: 0 requests measured")) << trained.err;
  EXPECT_TRUE(has(trained.err, " nodes with a choice take another kernel than by the static table"))
      << trained.err;
  EXPECT_EQ(run("eval r.onnx --data synthetic:16 --tune").code, 2);
  const Outcome shown = run("inspect r.onnx --training --batch 8 --threads 2 --tune");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "\ntuning: 0 requests measured in 0.0 s, ")) << shown.out;
  EXPECT_TRUE(has(shown.out, " ms): Conv -> ")) << shown.out;
  const Json json =
      Json::parse(run("inspect r.onnx --training --batch 8 --threads 2 --tune --json").out);
  EXPECT_GT(json["tuning"]["choices"].size(), 3u);
  EXPECT_TRUE(has(run("inspect r.onnx --tune").err, "--tune goes with --training"));
  ::unsetenv("SARDONYX_TUNING_CACHE");
}

TEST_F(Cli, a_signal_while_kernels_are_measured_keeps_their_times_and_saves) {
  const std::string cache = program_.file("tuning.json").string();
  ASSERT_EQ(::setenv("SARDONYX_TUNING_CACHE", cache.c_str(), 1), 0);
  ASSERT_EQ(run("model resnet18 -o r.onnx --input 3x32x32 --init kaiming").code, 0);
  const pid_t process = program_.start(
      "train r.onnx --data synthetic:256 --batch 128 --threads 1 --tune --save out.onnx");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  kill(process, SIGTERM);
  const Outcome stopped = program_.wait(process);
  EXPECT_EQ(stopped.code, 143) << stopped.err;
  EXPECT_TRUE(has(stopped.err, "tuning: ")) << stopped.err;
  EXPECT_TRUE(has(stopped.err, " left to the static table")) << stopped.err;
  EXPECT_TRUE(has(stopped.err, "stopped by SIGTERM after step 0\n")) << stopped.err;
  EXPECT_EQ(content("out.onnx"), content("r.onnx"));
  ::unsetenv("SARDONYX_TUNING_CACHE");
}

TEST_F(Cli, bench_gives_a_line_per_repetition_and_medians_with_a_table) {
  make_lenet();
  const Outcome timed = run(
      "bench lenet.onnx --batch 16 --accumulate 2 --steps 2 --repetitions 3 --direct-only --json");
  ASSERT_EQ(timed.code, 0) << timed.err;
  const std::vector<Json> lines = json_lines(timed.out);
  ASSERT_EQ(lines.size(), 4u);
  for (const char* key : {"images_per_s", "step_ms", "peak_rss_bytes", "planned_bytes",
                          "liveness_bound_bytes", "startup_s"}) {
    EXPECT_GT(lines[0][key].get<double>(), 0.0) << key;
  }
  EXPECT_EQ(lines[3]["median"], true);
  EXPECT_EQ(lines[3]["batch"], 16);
  const double peak = lines[3]["peak_gflops"].get<double>();
  EXPECT_GT(peak, 0.1);
  bool counted = false;
  for (const Json& op : lines[3]["ops"]) {
    ASSERT_EQ(op["gflops"].is_number(), op["of_peak"].is_number()) << op;
    if (op["gflops"].is_null()) continue;
    counted = true;
    EXPECT_NEAR(op["of_peak"].get<double>() * peak, op["gflops"].get<double>(), 1e-6 * peak) << op;
  }
  EXPECT_TRUE(counted);
  const std::string table = run("bench lenet.onnx --steps 1 --repetitions 1").out;
  EXPECT_TRUE(has(table, "  GFLOP/s  of peak  kernel")) << table;
}

TEST_F(Cli, save_names_the_data_files_that_it_wrote) {
  make_lenet();
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(content("lenet.onnx")));
  onnx::TensorProto& weight = *model.mutable_graph()->mutable_initializer(0);
  write_file(program_.file("lenet.onnx.data"), weight.raw_data());
  weight.clear_raw_data();
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto& entry = *weight.add_external_data();
  entry.set_key("location");
  entry.set_value("lenet.onnx.data");
  write_file(program_.file("lenet.onnx"), model.SerializeAsString());
  const std::string train = "train lenet.onnx --data synthetic:64 --save trained.onnx";
  EXPECT_TRUE(has(run(train).out, "; saved trained.onnx (+ trained.onnx.data)\n"));
  EXPECT_EQ(json_lines(run(train + " --json").out).back()["saved_data"],
            Json::parse(R"(["trained.onnx.data"])"));
}

// The exit code of the program in front of a pipe whose reader has gone before it begins, and what
// it said to stderr.
Outcome into_head(const Program& program, const std::string& arguments) {
  const std::string command = fmt::format(
      "cd {} && rm -f gone code && {{ until [ -e gone ]; do sleep 0.01; done; {} {} 2>err; "
      "echo $? >written; mv written code; }} | (exec 0<&-; : >gone; until [ -e code ]; do sleep "
      "0.01; done)",
      program.folder().string(), (tests::build_folder() / "tools/sardonyx").string(), arguments);
  EXPECT_EQ(std::system(command.c_str()), 0);
  return {std::stoi(read_file(program.file("code"))), "", read_file(program.file("err"))};
}

TEST_F(Cli, who_stops_reading_ends_a_command_quietly) {
  make_lenet();
  for (const char* command :
       {"inspect lenet.onnx", "inspect lenet.onnx --training --json", "check lenet.onnx", "ops",
        "env", "--help", "opt lenet.onnx --passes infer_shapes",
        "train lenet.onnx --data synthetic:64 --dry-run",
        "train lenet.onnx --data synthetic:64 --steps 1 --json --save saved.onnx"}) {
    const Outcome outcome = into_head(program_, command);
    EXPECT_EQ(outcome.code, 141) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
  // Lines for people: training went its way.
  EXPECT_EQ(into_head(program_, "train lenet.onnx --data synthetic:64 --steps 1").code, 0);
}

TEST_F(Cli, a_full_disk_behind_standard_output_is_an_error) {
  make_lenet();
  for (const char* command :
       {"inspect lenet.onnx", "ops", "--help", "train lenet.onnx --data synthetic:64 --steps 1"}) {
    const std::string line =
        fmt::format("cd {} && {} {} >/dev/full 2>err", program_.folder().string(),
                    (tests::build_folder() / "tools/sardonyx").string(), command);
    EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 1) << command;
    EXPECT_TRUE(
        has(content("err"), "error: standard output can't be written: the disk may be full\n"))
        << content("err");
  }
}

TEST_F(Cli, the_summary_of_a_plan_comes_first_and_alone) {
  make_lenet();
  const std::string first = "summary\n  batch 8, 1 thread: ";
  const Outcome whole = run("inspect lenet.onnx --training --batch 8 --threads 1");
  EXPECT_TRUE(whole.out.starts_with(first)) << whole.out;
  const Outcome alone = run("inspect lenet.onnx --training --batch 8 --threads 1 --summary");
  EXPECT_TRUE(whole.out.starts_with(alone.out + "\n"));
  EXPECT_TRUE(has(alone.out, " MiB: states 0.1 MiB (parameters), arena ")) << alone.out;
  const Outcome momentum =
      run("inspect lenet.onnx --training --batch 8 --threads 1 --summary --momentum 0.9");
  EXPECT_TRUE(has(momentum.out, "states 0.3 MiB (parameters, state of the optimizer), arena "))
      << momentum.out;
  const Json json =
      Json::parse(run("inspect lenet.onnx --training --batch 8 --threads 1 --summary --json").out);
  EXPECT_FALSE(json.contains("graph"));
  EXPECT_EQ(json["summary"]["batch"], 8);
  EXPECT_GT(json["summary"]["memory"]["state_bytes"], 100000);
  const Json plan =
      Json::parse(run("inspect lenet.onnx --training --batch 8 --threads 1 --json").out);
  EXPECT_EQ(plan["summary"], json["summary"]);
  EXPECT_EQ(run("inspect lenet.onnx --summary").code, 2);
  const Outcome dry = run("train lenet.onnx --data synthetic:64 --dry-run --summary --threads 1");
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_TRUE(has(dry.out, "\n\nsummary\n  batch 64, 1 thread: ")) << dry.out;
  EXPECT_FALSE(has(dry.out, "plan: batch"));
  EXPECT_EQ(run("train lenet.onnx --data synthetic:64 --summary").code, 2);
}

TEST_F(Cli, the_command_of_check_says_what_is_to_be_filled_in) {
  ASSERT_EQ(run("model resnet18 --width 8 --input 3x32x32 -o cifar.onnx").code, 0);
  EXPECT_TRUE(has(run("check cifar.onnx").out,
                  "train it with (DATA.npz: your arrays, see docs/data.md; or --data cifar10 "
                  "--data-dir DIR)\n  x float32 [N,3,32,32], y int64 [N] in 0..9; "));
  EXPECT_TRUE(has(run("check cifar.onnx --loss mse").out,
                  "  x float32 [N,3,32,32], y float32 [N,10]; mse over "));
}

}  // namespace
}  // namespace sardonyx::testing
