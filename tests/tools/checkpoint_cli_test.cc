// `train --checkpoint` and `--resume` as a user meets them: a run that was stopped, killed or out
// of disk goes on to the same bits; what doesn't belong together is refused.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "runtime/checkpoint.h"
#include "runtime/run_config.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::milliseconds;

// Two layers with Dropout between them, for 1 x 16 x 16 images.
void write_dropout_model(const fs::path& path) {
  std::string w, v;
  for (int i = 0; i < 256 * 8; ++i)
    w += fmt::format("{}{}", i > 0 ? ", " : "", (i * 37 % 101) / 1e3 - 0.05);
  for (int i = 0; i < 8 * 10; ++i)
    v += fmt::format("{}{}", i > 0 ? ", " : "", (i * 53 % 97) / 1e2 - 0.5);
  graph::write_onnx(*graph::parse(fmt::format(R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N,1,16,16] x) => (float[N,10] y)
<float[256,8] w = {{{}}}, float[8,10] v = {{{}}}, float[] p = {{0.25}}>
{{
  flat = Flatten(x)
  h = MatMul(flat, w)
  r = Relu(h)
  d = Dropout(r, p)
  y = MatMul(d, v)
}})",
                                              w, v)),
                    path);
}

class CheckpointCli : public ::testing::Test {
 protected:
  void SetUp() override { write_dropout_model(file("net.onnx")); }

  static constexpr const char* kRun =
      "train net.onnx --data synthetic:200 --batch 32 --micro-batch 20 --epochs 6 --lr 0.05 "
      "--momentum 0.9 --schedule cosine --warmup 5steps --threads 1 ";
  static constexpr const char* kAgain = "train net.onnx --resume --checkpoint run ";
  static constexpr int kSteps = 42;

  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  fs::path file(const std::string& name) const { return program_.file(name); }
  std::string content(const std::string& name) const { return read_file(file(name)); }

  // The run that nothing disturbs, in the files whole.*.
  void run_whole(const std::string& command = kRun) const {
    const Outcome whole = run(command + "--save whole.onnx --log whole.jsonl --checkpoint whole");
    ASSERT_EQ(whole.code, 0) << whole.err;
  }
  // Stops the same run and resumes it.
  void stop_and_go_on(const std::string& command, int signal) const {
    Outcome stopped{0, "", ""};
    // A run may be over before the signal reaches it: then once more.
    for (int attempt = 0; attempt < 50 && stopped.code == 0; ++attempt) {
      fs::remove_all(file("run"));
      const pid_t process =
          program_.start(command + "--log run.jsonl --checkpoint run --checkpoint-every 1");
      wait_for("run/step-00000003");
      kill(process, signal);
      stopped = program_.wait(process);
    }
    ASSERT_EQ(stopped.code, 128 + signal) << stopped.err;
    EXPECT_TRUE(has(stopped.err, "; go on with --resume")) << stopped.err;
    const Outcome resumed = run(kAgain + std::string("--save out.onnx --log run.jsonl"));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_TRUE(has(resumed.err, "goes on from run/step-000000")) << resumed.err;
    expect_as_whole("signal " + std::to_string(signal));
  }
  void expect_as_whole(const std::string& what) const {
    const std::string last = "/step-00000042/state.safetensors";
    EXPECT_TRUE(content("out.onnx") == content("whole.onnx")) << what;
    EXPECT_TRUE(content("run" + last) == content("whole" + last)) << what;
    EXPECT_EQ(timeless("run.jsonl"), timeless("whole.jsonl")) << what;
  }
  // A log without what depends on the clock or the names of files.
  std::string timeless(const std::string& name) const {
    std::istringstream stream(content(name));
    std::string text;
    for (std::string line; std::getline(stream, line);) {
      Json json = Json::parse(line);
      for (const char* key :
           {"images_per_s", "seconds", "seconds_per_epoch", "peak_bytes", "saved", "checkpoint"}) {
        json.erase(key);
      }
      text += json.dump() + "\n";
    }
    return text;
  }
  void wait_for(const std::string& name) const {
    for (int i = 0; i < 10000 && !fs::exists(file(name)); ++i) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(file(folder))) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void kill_often(const std::string& command) const;
  std::vector<double> losses(const std::string& name) const {
    std::istringstream stream(content(name));
    std::vector<double> losses;
    for (std::string line; std::getline(stream, line);) {
      const Json json = Json::parse(line);
      if (json.contains("loss")) losses.push_back(json["loss"]);
    }
    return losses;
  }

  const Program program_;
};

TEST_F(CheckpointCli, a_stopped_run_goes_on_to_the_same_bits) {
  run_whole();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) stop_and_go_on(kRun, signal);
}

TEST_F(CheckpointCli, moments_averages_groups_and_skips_go_on_to_the_same_bits) {
  const std::string command =
      "train net.onnx --data synthetic:200 --batch 32 --micro-batch 20 --epochs 6 --lr 0.01 "
      "--optimizer adamw --betas 0.8,0.95 --eps 1e-6 --group v:lr=0.02,wd=0 --no-decay norm,bias "
      "--clip-norm 1 --ema 0.9 --on-nan skip:3 --early-stop 6 --schedule cosine --threads 1 ";
  run_whole(command);
  stop_and_go_on(command, SIGTERM);
}

// At random moments of the same run, again and again until one gets through: a hundred times in
// all.
void CheckpointCli::kill_often(const std::string& command) const {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  run_whole(command);
  const auto whole = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
  std::mt19937 random(7);
  int kills = 0, in_a_write = 0, runs = 0;
  for (; kills < 100; ++runs) {
    fs::remove_all(file("run"));
    fs::remove(file("run.jsonl"));
    fs::remove(file("out.onnx"));
    for (bool killed = true; killed;) {
      const pid_t process =
          program_.start(command + std::string("--save out.onnx --log run.jsonl --checkpoint run "
                                               "--checkpoint-every 1 --keep 2 --resume"));
      std::this_thread::sleep_for(milliseconds(random() % (2 * whole.count() + 1)));
      kill(process, SIGKILL);
      const Outcome outcome = program_.wait(process);
      killed = outcome.code == 1000 + SIGKILL;
      ASSERT_TRUE(killed || outcome.code == 0) << outcome.err;
      ASSERT_FALSE(has(outcome.err, "damaged")) << outcome.err;
      if (!killed) continue;
      ++kills;
      if (!fs::exists(file("run"))) continue;
      for (const std::string& name : names_in("run")) {
        in_a_write += name.starts_with(".saving-0") || name.starts_with(".removing-") ? 1 : 0;
      }
    }
    expect_as_whole(fmt::format("run {} after {} kills", runs, kills));
  }
  std::printf("%d kills in %d runs, %d of them inside the writing of a checkpoint\n", kills, runs,
              in_a_write);
  EXPECT_GT(in_a_write, 0);
}

TEST_F(CheckpointCli, killed_at_a_hundred_moments_a_run_ends_with_the_same_bits_slow) {
  kill_often(kRun);
}

TEST_F(CheckpointCli, killed_at_a_hundred_moments_two_replicas_end_with_the_same_bits_slow) {
  kill_often(
      "train net.onnx --data synthetic:200 --batch 32 --micro-batch 20 --epochs 6 --lr 0.01 "
      "--replicas 2 --threads 2 --optimizer adamw --clip-norm 1 --ema 0.9 ");
}

TEST_F(CheckpointCli, another_number_of_replicas_goes_on_with_the_same_steps) {
  const std::string two =
      "train net.onnx --data synthetic:200 --batch 32 --lr 0.05 --momentum 0.9 --dtype "
      "f64 --replicas 2 ";
  run_whole(two + "--epochs 6 ");
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"", "--replicas 1"},
      {"", "--replicas 3"},
      {"", "--devices cpu,cpu --shares 3,1"},
      {"--shares 3,1 --threads 2 ", "--replicas 1"},
      {"--shares 3,1 --threads 2 ", "--replicas 4"},
  };
  for (const auto& [before, now] : changes) {
    fs::remove_all(file("run"));
    ASSERT_EQ(run(two + before + "--checkpoint run --steps 17 --log run.jsonl").code, 0);
    const Outcome resumed = run(kAgain + std::string("--epochs 6 --log run.jsonl ") + now);
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_TRUE(has(resumed.err, "the steps are the same to rounding")) << resumed.err;
    const std::vector<double> whole = losses("whole.jsonl"), other = losses("run.jsonl");
    ASSERT_EQ(other.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_NEAR(other[i], whole[i], 1e-12 * whole[i]) << before << now << ", step " << i + 1;
    }
  }
}

TEST_F(CheckpointCli, a_switch_is_taken_back_by_false_and_a_number_by_0) {
  const std::string nesterov =
      "--nesterov --clip-norm 1 --early-stop 9 --no-dropout --memory-budget 1G ";
  ASSERT_EQ(run(kRun + nesterov + "--checkpoint run").code, 0);
  const Outcome plain = run(kAgain + std::string("--epochs 7 --nesterov=false --clip-norm 0 "
                                                 "--early-stop 0 --no-dropout=false --warmup 0 "
                                                 "--memory-budget none"));
  EXPECT_EQ(plain.code, 0) << plain.err;
  for (const char* line :
       {"--nesterov is false now, true before", "--clip-norm is not set now, 1 before",
        "--early-stop is not set now, 9 before", "--no-dropout is false now, true before",
        "--warmup is not set now, 5steps before",
        "--memory-budget is not set now, 1073741824 before: the steps are the same to rounding"}) {
    EXPECT_TRUE(has(plain.err, line)) << plain.err;
  }
}

TEST_F(CheckpointCli, keeps_the_newest_and_always_the_end) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run --checkpoint-every 10 --keep 2")).code, 0);
  EXPECT_EQ(names_in("run"), (std::vector<std::string>{"step-00000040", "step-00000042"}));
  const Json manifest = Json::parse(content("run/step-00000042/manifest.json"));
  EXPECT_EQ(manifest["format"], 1);
  EXPECT_EQ(manifest["step"], 42);
  EXPECT_EQ(manifest["epoch"], 6);
  EXPECT_EQ(manifest["sampler"], Json({{"epoch", 6}, {"position", 0}, {"samples", 200}}));
  EXPECT_EQ(manifest["config"]["--schedule"], "cosine");
  EXPECT_EQ(manifest["cut"], Json({{16, 16}}));
  EXPECT_EQ(manifest["kernels"]["nodes"]["MatMul -> y"].get<std::string>().substr(0, 5), "gemm.");
}

TEST_F(CheckpointCli, default_is_a_checkpoint_per_epoch_and_three_that_stay) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run")).code, 0);
  EXPECT_EQ(names_in("run"),
            (std::vector<std::string>{"step-00000028", "step-00000035", "step-00000042"}));
}

TEST_F(CheckpointCli, a_finished_run_can_be_made_longer_and_nothing_left_is_no_error) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run --log run.jsonl")).code, 0);
  const Outcome nothing = run(kAgain + std::string("--save out.onnx --json"));
  EXPECT_EQ(nothing.code, 0) << nothing.err;
  EXPECT_TRUE(has(nothing.err,
                  "the run is finished: run/step-00000042 is that of its last step, 42 of 42, and "
                  "nothing is trained; give more --epochs to go on\n"))
      << nothing.err;
  const Json summary = Json::parse(nothing.out);
  EXPECT_EQ(summary["step"], 42);
  EXPECT_EQ(summary["checkpoint"], "run/step-00000042");
  const Outcome longer = run(kAgain + std::string("--epochs 7 --lr 0.01 --log run.jsonl"));
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_TRUE(has(longer.err, "--epochs is 7 now, 6 before")) << longer.err;
  EXPECT_TRUE(has(longer.err, "--lr is 0.01 now, 0.05 before")) << longer.err;
  EXPECT_TRUE(fs::exists(file("run/step-00000049")));
  std::istringstream log(content("run.jsonl"));
  std::vector<int> steps;
  for (std::string line; std::getline(log, line);) {
    const Json json = Json::parse(line);
    if (json.contains("loss")) steps.push_back(json["step"]);
  }
  ASSERT_EQ(steps.size(), 49u);
  for (int i = 0; i < 49; ++i) EXPECT_EQ(steps[i], i + 1);
}

TEST_F(CheckpointCli, what_can_not_change_is_refused_and_the_checkpoints_stand) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run --keep 1")).code, 0);
  const Outcome batch = run(kAgain + std::string("--batch 64 --seed 3"));
  EXPECT_EQ(batch.code, 1);
  EXPECT_TRUE(has(batch.err,
                  "error: this can't change inside a run:\n  --batch is 64 now, 32 before\n"
                  "  --seed is 3 now, 0 before\n"))
      << batch.err;
  const Outcome data = run(kAgain + std::string("--data synthetic:100"));
  EXPECT_EQ(data.code, 1);
  EXPECT_TRUE(has(data.err,
                  "error: the training data have 100 samples now, 200 before: the order would be "
                  "another\n  while resuming from run/step-00000042"))
      << data.err;
  const Outcome anew = run(kRun + std::string("--checkpoint run"));
  EXPECT_EQ(anew.code, 1);
  EXPECT_TRUE(has(anew.err,
                  "error: --checkpoint run: it holds the checkpoints of a run, the newest after "
                  "step 42; go on with --resume, or choose another folder"))
      << anew.err;
  EXPECT_EQ(names_in("run"), std::vector<std::string>{"step-00000042"});
}

TEST_F(CheckpointCli, another_model_is_refused_with_the_tensors_that_differ) {
  ASSERT_EQ(run("model lenet -o a.onnx --input 1x16x16 --classes 10").code, 0);
  ASSERT_EQ(run("model lenet -o b.onnx --input 1x16x16 --classes 12").code, 0);
  ASSERT_EQ(run("model lenet -o c.onnx --input 1x16x16 --classes 10 --seed 9").code, 0);
  const std::string again = " --checkpoint run --resume --epochs 2 --threads 1";
  ASSERT_EQ(run("train a.onnx --data synthetic:64 --checkpoint run").code, 0);
  const Outcome other = run("train b.onnx" + again);
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.err,
                  "error: --checkpoint run: its newest checkpoint is of another model: b.onnx is "
                  "not the file that the run began with (it has crc32 "))
      << other.err;
  EXPECT_TRUE(has(other.err,
                  "), and these tensors differ; give the model of the run, or another folder:\n"))
      << other.err;
  EXPECT_TRUE(has(other.err, "' is [10] in it, [12] in the file\n")) << other.err;
  const Outcome momentum = run("train a.onnx --momentum 0.9" + again);
  EXPECT_EQ(momentum.code, 1);
  EXPECT_TRUE(has(momentum.err, "\n  --momentum is 0.9 now, not set\n")) << momentum.err;
  // The same shapes: the weights are the checkpoint's.
  const Outcome weights = run("train c.onnx" + again);
  EXPECT_EQ(weights.code, 0) << weights.err;
  EXPECT_TRUE(has(weights.err, "c.onnx is not the file that the run began with (it has crc32 "))
      << weights.err;
  EXPECT_TRUE(has(weights.err, ", a.onnx had crc32 ")) << weights.err;
}

TEST_F(CheckpointCli, another_model_is_named_before_the_data_that_do_not_fit_it) {
  ASSERT_EQ(run("model lenet -o a.onnx --input 1x16x16 --classes 10").code, 0);
  ASSERT_EQ(run("model lenet -o b.onnx --input 1x20x20 --classes 10").code, 0);
  write_idx_set(file("data"), 64, 16);
  ASSERT_EQ(run("train a.onnx --data idx:data --checkpoint run").code, 0);
  const Outcome other = run("train b.onnx --data idx:data --checkpoint run --resume --epochs 2");
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(
      has(other.err,
          "error: --checkpoint run: its newest checkpoint is of another model: b.onnx is not"))
      << other.err;
}

TEST_F(CheckpointCli, a_model_without_a_tensor_of_the_checkpoint_is_another_one) {
  ASSERT_EQ(run("model lenet -o a.onnx --input 1x16x16 --classes 10").code, 0);
  ASSERT_EQ(run("model vgg11-bn --width 8 --input 1x20x20 -o b.onnx").code, 0);
  write_idx_set(file("data"), 64, 16);
  ASSERT_EQ(run("train a.onnx --data idx:data --checkpoint run").code, 0);
  const Outcome other = run("train b.onnx --data idx:data --checkpoint run --resume --epochs 2");
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(has(other.err,
                  "error: --checkpoint run: its newest checkpoint is of another model: b.onnx is "
                  "not the file that the run began with (it has crc32 "))
      << other.err;
  EXPECT_TRUE(has(other.err,
                  "), and none of its tensors is there; give the model of the run, or another "
                  "folder\n"))
      << other.err;
}

TEST_F(CheckpointCli, a_flag_for_replicas_that_the_run_had_before_is_said_to_be_that) {
  ASSERT_EQ(run("model lenet -o a.onnx --input 1x16x16 --classes 10").code, 0);
  ASSERT_EQ(
      run("train a.onnx --data synthetic:64 --replicas 2 --check-replicas 1 --checkpoint run").code,
      0);
  const Outcome one =
      run("train a.onnx --data synthetic:64 --replicas 1 --checkpoint run --resume --epochs 2");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(has(one.err,
                  "--check-replicas, which the run had before, does nothing here: there is one "
                  "replica\n"))
      << one.err;
}

TEST_F(CheckpointCli, no_checkpoint_there_means_step_0_and_says_so) {
  const Outcome first = run(kRun + std::string("--resume --checkpoint run"));
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(has(first.err, "--checkpoint run holds no checkpoint, the run begins at step 0"))
      << first.err;
}

TEST_F(CheckpointCli, a_second_process_is_refused) {
  const runtime::CheckpointFolder mine(file("run"));
  const Outcome second = run(kRun + std::string("--checkpoint run"));
  EXPECT_EQ(second.code, 1);
  EXPECT_TRUE(
      has(second.err, "error: --checkpoint run: another process keeps its checkpoints there"))
      << second.err;
}

TEST_F(CheckpointCli, a_full_disk_is_a_warning_and_in_the_end_an_error) {
  ASSERT_EQ(run(kRun + std::string("--steps 7 --checkpoint run")).code, 2);  // and --epochs
  const std::string seven = "train net.onnx --data synthetic:200 --batch 32 --steps 7 --threads 1 ";
  ASSERT_EQ(run(seven + "--checkpoint run").code, 0);
  const Outcome full = program_.wait(
      program_.start(kAgain + std::string("--steps 21 --keep 1 --log run.jsonl"), 4000));
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(has(full.err,
                  "run/step-00000014/state.safetensors: cannot be written: File too large\n  the "
                  "run goes on; the newest checkpoint is run/step-00000007"))
      << full.err;
  EXPECT_TRUE(has(
      full.err, "error: the checkpoint of step 21 is missing: run/step-00000021/state.safetensors"))
      << full.err;
  EXPECT_TRUE(has(full.out, "epoch 3/3")) << full.out;
  EXPECT_EQ(names_in("run"), std::vector<std::string>{"step-00000007"});
  // With room again it goes on, and ends as if nothing had been.
  ASSERT_EQ(run(kAgain + std::string("--steps 21 --save out.onnx")).code, 0);
  ASSERT_EQ(run("train net.onnx --data synthetic:200 --batch 32 --steps 21 --threads 1 --save "
                "whole.onnx")
                .code,
            0);
  EXPECT_TRUE(content("out.onnx") == content("whole.onnx"));
}

TEST_F(CheckpointCli, an_update_that_overflows_pushes_out_no_checkpoint) {
  const std::string overflows =
      "train net.onnx --data synthetic:200 --batch 32 --lr 0.05 --schedule multistep:4steps,1e300 "
      "--threads 1 --checkpoint run --checkpoint-every 1 --keep 1 --steps ";
  for (const char* rest : {"5", "6 --on-nan stop", "30 --on-nan skip:1000"}) {
    fs::remove_all(file("run"));
    const Outcome outcome = run(overflows + rest);
    EXPECT_EQ(outcome.code, 1) << rest;
    EXPECT_TRUE(has(outcome.err, "warning: after step 5 'w' holds values that are not finite"))
        << outcome.err;
    EXPECT_TRUE(has(outcome.err, "the run goes on; the newest checkpoint is run/step-00000004"))
        << outcome.err;
    EXPECT_EQ(names_in("run"), std::vector<std::string>{"step-00000004"}) << rest;
    const char* end = rest == std::string("5")
                          ? "error: the checkpoint of step 5 is missing: after step 5 'w' holds "
                          : "error: step 6: the loss is not finite (nan), and 'w' held such "
                            "values before it: an earlier update overflowed";
    EXPECT_TRUE(has(outcome.err, end)) << outcome.err;
    EXPECT_FALSE(has(outcome.err, "all parameters are those of")) << outcome.err;
  }
  const Outcome resumed = run(kAgain + std::string("--schedule constant --steps 20 --keep 1"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(names_in("run"), std::vector<std::string>{"step-00000020"});
}

TEST_F(CheckpointCli, a_checkpoint_that_is_not_finite_is_not_taken_up) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run")).code, 0);
  {
    runtime::CheckpointFolder folder(file("run"));
    const runtime::Checkpoint good = folder.newest().value();
    runtime::Manifest manifest = good.manifest;
    ++manifest.run.step;
    std::vector<runtime::SavedState> states;
    for (const auto& [name, value] : good.states) states.push_back({name, value.type()});
    folder.write(manifest, states, [&](const std::string& name) {
      for (const auto& [own, value] : good.states) {
        if (own != name) continue;
        if (name != "v") return value;
        graph::Tensor bad(value.dtype(), value.shape());
        bad.mutable_data<float>()[3] = HUGE_VALF;
        return bad;
      }
      return graph::Tensor();
    });
  }
  const Outcome resumed = run(kAgain + std::string("--epochs 7"));
  EXPECT_EQ(resumed.code, 1);
  EXPECT_TRUE(has(resumed.err,
                  "error: 'v' holds values that are not finite: no step can begin with them; move "
                  "step-00000043 away to go on from the one before"))
      << resumed.err;
  fs::rename(file("run/step-00000043"), file("away"));
  EXPECT_EQ(run(kAgain + std::string("--epochs 7")).code, 0);
}

TEST_F(CheckpointCli, a_run_that_would_be_over_before_its_checkpoint_is_refused) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run")).code, 0);
  for (const auto& [length, end] : {std::pair{"--steps 41", 41}, {"--epochs 2", 14}}) {
    const Outcome outcome = run(kAgain + std::string("--save out.onnx ") + length);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(
        has(outcome.err,
            fmt::format(
                "error: the run would be over after step {}, but the checkpoint is "
                "that of step 42: give --steps 42 or --epochs 6 or more; for an older checkpoint "
                "move the newer folders step-* away\n  while resuming from "
                "run/step-00000042",
                end)))
        << outcome.err;
    EXPECT_FALSE(fs::exists(file("out.onnx")));
  }
  EXPECT_EQ(run(kAgain + std::string("--save out.onnx --steps 42")).code, 0);
  EXPECT_TRUE(fs::exists(file("out.onnx")));
}

TEST_F(CheckpointCli, nothing_else_is_written_into_a_checkpoint) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run")).code, 0);
  fs::create_directory(file("out"));
  fs::create_directory_symlink("../run", file("out/link"));
  const std::string before = content("run/step-00000042/manifest.json");
  for (const char* flags :
       {"--resume --checkpoint run --save run/step-00000042/manifest.json",
        "--resume --checkpoint run/ --log ./run/step-00000043", "--save run/step-00000042/x.onnx",
        "--resume --checkpoint run --save-best out/link/step-00000042/state.safetensors",
        "--checkpoint run --resume --trace run/below/t.json"}) {
    const Outcome outcome =
        run("train net.onnx --data synthetic:200 --batch 32 " + std::string(flags));
    EXPECT_EQ(outcome.code, 1) << flags;
    EXPECT_TRUE(has(outcome.err, "that is a place of checkpoints; choose another name"))
        << outcome.err;
  }
  EXPECT_EQ(content("run/step-00000042/manifest.json"), before);
  EXPECT_FALSE(fs::exists(file("new")));
  EXPECT_EQ(run(kAgain + std::string("--log run/log.jsonl --save run/last.onnx")).code, 0);
}

TEST_F(CheckpointCli, a_link_to_nothing_is_named) {
  fs::create_symlink("nowhere", file("run"));
  const Outcome outcome = run(kRun + std::string("--checkpoint run"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err,
                  "error: --checkpoint run: it is a link to nowhere, which is not there; make that "
                  "folder first"))
      << outcome.err;
}

TEST_F(CheckpointCli, the_number_of_replicas_before_is_that_of_the_devices) {
  const std::string three = "train net.onnx --data synthetic:96 --batch 32 --devices cpu,cpu,cpu ";
  ASSERT_EQ(run(three + "--checkpoint run").code, 0);
  const Outcome same = run(kAgain + std::string("--epochs 2"));
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_FALSE(has(same.err, "--replicas")) << same.err;
  const Outcome two = run(kAgain + std::string("--epochs 3 --replicas 2"));
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_TRUE(has(two.err, "--replicas is 2 now, 3 before")) << two.err;
}

TEST_F(CheckpointCli, a_damaged_checkpoint_is_left_out_with_a_warning) {
  run_whole();
  ASSERT_EQ(run(kRun + std::string("--checkpoint run --checkpoint-every 10 --log run.jsonl")).code,
            0);
  const auto state = file("run/step-00000042/state.safetensors");
  fs::resize_file(state, fs::file_size(state) - 1);
  const Outcome resumed = run(kAgain + std::string("--save out.onnx --log run.jsonl"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(has(resumed.err, "run/step-00000042 is damaged and left out")) << resumed.err;
  EXPECT_TRUE(has(resumed.err, "goes on from run/step-00000040, step 40 of 42")) << resumed.err;
  expect_as_whole("damaged");
}

TEST_F(CheckpointCli, the_picture_of_a_resumed_run_shows_all_of_it) {
  ASSERT_EQ(run(kRun + std::string("--log whole.jsonl --plot whole.svg")).code, 0);
  ASSERT_EQ(run(kRun + std::string("--log run.jsonl --checkpoint run --checkpoint-every 10")).code,
            0);
  fs::remove_all(file("run/step-00000042"));
  ASSERT_EQ(run(kAgain + std::string("--log run.jsonl --plot run.svg")).code, 0);
  const std::regex speed("[0-9 ]+ images/s");  // the only text that depends on the clock
  EXPECT_EQ(std::regex_replace(content("run.svg"), speed, ""),
            std::regex_replace(content("whole.svg"), speed, ""));
}

TEST_F(CheckpointCli, a_trace_of_a_resumed_run_begins_where_the_run_does) {
  ASSERT_EQ(run(kRun + std::string("--checkpoint run")).code, 0);
  const Outcome resumed = run(kAgain + std::string("--steps 45 --trace t.json"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const Json trace = Json::parse(content("t.json"));
  std::vector<std::string> steps;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"].get<std::string>().starts_with("step ")) steps.push_back(event["name"]);
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"step 43", "step 44", "step 45"}));
}

TEST_F(CheckpointCli, flags_without_their_folder_are_usage_errors) {
  for (const char* flags : {"--resume", "--keep 2", "--checkpoint-every 5"}) {
    const Outcome outcome = run(kRun + std::string(flags));
    EXPECT_EQ(outcome.code, 2) << flags;
    EXPECT_TRUE(has(outcome.err, " needs --checkpoint DIR")) << outcome.err;
  }
  for (const char* every : {"0", "-1", "5minutes", "x", "epochs"}) {
    const Outcome outcome =
        run(fmt::format("{}--checkpoint run --checkpoint-every={}", kRun, every));
    EXPECT_EQ(outcome.code, 2) << every;
    EXPECT_TRUE(has(outcome.err, "': expected a number of steps, or of epochs as in 2epochs"))
        << outcome.err;
  }
  EXPECT_EQ(run(kRun + std::string("--checkpoint run --keep 0")).code, 2);
  EXPECT_EQ(run(kRun + std::string("--checkpoint run --resume --dry-run")).code, 2);
  EXPECT_EQ(run(kRun + std::string("--checkpoint run --dry-run")).code, 0);
  EXPECT_FALSE(fs::exists(file("run")));
}

// A new flag that decides numbers must have its row in runtime/run_config.cc.
TEST_F(CheckpointCli, every_flag_of_train_is_kept_or_known_to_need_no_keeping) {
  std::set<std::string> known = {"--help",      "--save",         "--log",
                                 "--plot",      "--checkpoint",   "--checkpoint-every",
                                 "--keep",      "--resume",       "--json",
                                 "--dry-run",   "--no-shuffle",   "--keep-training-form",
                                 "--save-best", "--save-weights", "--trace",
                                 "--summary",   "--overwrite"};
  for (const std::string& flag : runtime::run_config_flags()) known.insert(flag);
  const std::string help = run("train --help").out;
  const std::regex flag("--[a-z][a-z-]*");
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    std::smatch found;
    ASSERT_TRUE(std::regex_search(line, found, flag)) << line;
    EXPECT_TRUE(known.contains(found.str())) << found.str() << " has no row in run_config.cc";
  }
}

}  // namespace
}  // namespace sardonyx::testing
