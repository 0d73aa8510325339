// `--replicas` and what goes with it, as a user meets them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

class ReplicasCli : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run("model lenet -o net.onnx --input 1x16x16").code, 0);
    graph::write_onnx(*graph::parse(R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[8,1,16,16] x) => (float[8,10] y) <float[256,10] w = {...}> {
  flat = Flatten(x)
  y = MatMul(flat, w)
})"),
                      program_.file("baked.onnx"));
  }
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  void expect(const std::string& flags, int code, const std::string& message) const {
    const Outcome outcome = run("train net.onnx --data synthetic:64 --batch 16 " + flags);
    EXPECT_EQ(outcome.code, code) << flags;
    EXPECT_TRUE(has(outcome.err, message)) << flags << ": " << outcome.err;
  }
  const Program program_;
};

TEST_F(ReplicasCli, numbers_that_contradict_each_other_are_usage_errors) {
  expect("--replicas 3 --threads 2", 2, "error: --threads 2: 3 replicas need at least one each");
  expect("--replicas 3 --devices cpu,cpu", 2, "error: --replicas 3 contradicts --devices, which");
  expect("--shares 3,1", 2, "error: --shares has 2 numbers for 1 replica");
  expect("--replicas 2 --shares 3,x", 2, "error: --shares 'x': expected a number per replica");
  expect("--replicas 2 --shares 0,0", 2, "error: --shares: the shares add up to 0");
  expect("--replicas 2 --shares -1,2", 2, "error: --shares: -1 is not a share");
  expect("--shares 1,", 2, "error: --shares '1,': a part between the commas is empty");
  expect("--devices cpu,", 2, "error: --devices 'cpu,': a part between the commas is empty");
  expect("--freeze ,conv1.bias", 2, "error: --freeze ',conv1.bias': a part between the commas");
  expect("--replicas 0", 2, "error: --replicas '0': expected a whole number from 1");
  expect("--replicas 2 --reduce-dtype bf16 --dtype f64", 2,
         "error: --reduce-dtype bf16 goes with --dtype f32, not f64");
  expect("--check-replicas -1", 2, "error: --check-replicas '-1': expected a whole number from 0");
  expect("--skip-pass insert_allreduce", 2,
         "error: --skip-pass 'insert_allreduce' is not known (did you mean insert_all_reduce?); "
         "there is read_averages, fold_constants, ");
  expect("--skip-pass nosuch", 2, "error: --skip-pass 'nosuch' is not known; there is ");
  expect(
      "--skip-pass append_loss", 2,
      "error: --skip-pass append_loss: nothing meaningful is left without it; can be left out: ");
}

TEST_F(ReplicasCli, what_only_several_replicas_do_is_a_notice_with_one) {
  expect("--reduce-dtype bf16", 0, "--reduce-dtype does nothing here: there is one replica");
  expect("--check-replicas 2", 0, "--check-replicas does nothing here: there is one replica");
  expect("--sync-bn", 0, "--sync-bn does nothing here: there is one replica");
  const Outcome two = run("train net.onnx --data synthetic:64 --replicas 2 --reduce-dtype bf16");
  EXPECT_FALSE(has(two.err, "does nothing here")) << two.err;
}

TEST_F(ReplicasCli, without_the_sums_in_the_graph_the_first_parameter_that_differs_is_named) {
  expect("--replicas 2 --check-replicas 1 --skip-pass insert_all_reduce", 1,
         "error: the replicas are no longer copies of one model after step 1: 'conv1.weight' "
         "differs: element 0 is ");
  expect("--replicas 2 --check-replicas 1", 0, "");
}

TEST_F(ReplicasCli, inspect_shows_the_buckets_and_bench_all_replicas) {
  const Outcome graph = run("inspect net.onnx --training --batch 16 --replicas 2");
  EXPECT_TRUE(has(graph.out, "sardonyx.AllReduce(")) << graph.out;
  EXPECT_TRUE(has(graph.out, "bucket0: 11 members, ")) << graph.out;
  EXPECT_FALSE(has(run("inspect net.onnx --training --batch 16").out, "AllReduce"));
  const Outcome bench =
      run("bench net.onnx --batch 16 --devices cpu,cpu --steps 1 --repetitions 1 --json");
  const auto last = nlohmann::json::parse(bench.out.substr(bench.out.find('\n') + 1));
  EXPECT_TRUE(has(last["device"], " x 2")) << last["device"];
}

TEST_F(ReplicasCli, opt_builds_the_sums_of_several_replicas_and_cuts_no_batch) {
  const std::string opt =
      "opt net.onnx --batch 8 --passes lift_constants,canonicalize,convert_dtype,bind_batch,"
      "infer_shapes,apply_mode,append_loss,mark_trainable,build_backward,insert_all_reduce ";
  const Outcome two = run(opt + "--replicas 2");
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_TRUE(has(two.out, "AllReduce(")) << two.out;
  EXPECT_FALSE(has(run(opt).out, "AllReduce("));
  for (const char* cut : {"--accumulate 2", "--micro-batch 4", "--replicas 2 --shares 3,1"}) {
    const Outcome refused = run(opt + cut);
    EXPECT_EQ(refused.code, 2) << cut;
    EXPECT_TRUE(has(refused.err, " cuts a batch, and opt looks at one graph: give its --batch"))
        << refused.err;
  }
}

TEST_F(ReplicasCli, a_baked_batch_is_the_piece_of_each_replica) {
  const std::string baked = "train baked.onnx --data synthetic:64 --steps 4 --json ";
  const Outcome two = run(baked + "--replicas 2");
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(nlohmann::json::parse(two.out.substr(0, two.out.find('\n')))["epoch"], 1);
  for (const char* flags : {"--replicas 2 --batch 24", "--replicas 2 --batch 8",
                            "--replicas 2 --batch 24 --micro-batch 8 --shares 1,5"}) {
    const Outcome whole = run(baked + flags);
    EXPECT_EQ(whole.code, 0) << flags << ": " << whole.err;
  }
  const Outcome odd = run(baked + "--replicas 2 --batch 24 --accumulate 1");
  EXPECT_EQ(odd.code, 1);
  EXPECT_TRUE(
      has(odd.err,
          "12 rows were asked for; use --batch 8, or --micro-batch 8 and a --batch that is a "))
      << odd.err;
  // A replica without samples has no piece that could be of the wrong size.
  const Outcome idle = run(baked + "--replicas 2 --shares 0,1 --micro-batch 8 --batch 16");
  EXPECT_EQ(idle.code, 0) << idle.err;
}

TEST_F(ReplicasCli, every_device_is_reported_and_every_sample_evaluated_once) {
  const Outcome summary = run("train net.onnx --data synthetic:64 --batch 16 --replicas 2 --json");
  const auto last = nlohmann::json::parse(summary.out.substr(summary.out.find('\n') + 1));
  EXPECT_EQ(last["devices"], nlohmann::json({"cpu", "cpu"}));
  const Outcome eval =
      run("eval net.onnx --data synthetic:61 --split train --replicas 3 --batch 7 --json");
  EXPECT_EQ(nlohmann::json::parse(eval.out)["samples"], 61);
}

}  // namespace
}  // namespace sardonyx::testing
