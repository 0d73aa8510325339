// `sardonyx check`: sizes that only the data will give, several inputs, names of classes, and a
// batch that the file has fixed.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "tests/runtime/data/files.h"
#include "tests/tools/check_cli.h"

namespace sardonyx::testing {
namespace {

TEST_F(CheckCli, open_sizes_are_named_as_the_cause_and_can_be_given) {
  put("open.onnx", R"(g (float[N,C,H,W] x) => (float[N,2] y) <float[2,1,1,1] w = {1, 2}> {
  c = Conv(x, w)
  p = GlobalAveragePool(c)
  y = Flatten(p)
})");
  const Outcome open = run("check open.onnx");
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_TRUE(
      open.out.starts_with("open.onnx: trainable, 2 parameters in 1 tensor\n"
                           "  open, until there are data: the size of axis 1 (C), axis 2 "
                           "(H), axis 3 (W) of 'x'\n"))
      << open.out;
  // No made-up sizes fit: the weights want one channel.
  EXPECT_TRUE(has(open.out,
                  "memory\n  the memory of a step depends on the open sizes; --input says those of "
                  "one sample, without the batch\n"
                  "    sardonyx check open.onnx --input CxHxW\n"
                  "    with the numbers of your samples\n"))
      << open.out;
  EXPECT_TRUE(
      has(open.out, "  x float32 [N,C,H,W], y int64 [N] in 0..1; cross_entropy over 'y'\n"));
  EXPECT_EQ(run("check open.onnx --input 1x8x8").code, 0);
  EXPECT_EQ(run("check open.onnx --input 1x8x8 --memory-budget 64M").code, 0);
  EXPECT_EQ(run("check open.onnx --input 1xNx8").code, 2);
  put("unknown.onnx",
      R"(g (float x) => (float y) <float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}> {
  y = MatMul(x, v)
})");
  auto model = onnx::ModelProto();
  ASSERT_TRUE(model.ParseFromString(read_file(program_.file("unknown.onnx"))));
  for (auto* values :
       {model.mutable_graph()->mutable_input(), model.mutable_graph()->mutable_output()}) {
    values->Mutable(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  }
  store(program_.file("unknown.onnx"), model.SerializeAsString());
  const Outcome unknown = run("check unknown.onnx");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_TRUE(unknown.out.starts_with(
      "unknown.onnx: can't be told yet whether it can be trained\n"
      "input 'x' has type float: it can't be planned until the size of all its axes is known"))
      << unknown.out;
  EXPECT_TRUE(has(unknown.out, "\n  sardonyx check unknown.onnx --input SIZES\n")) << unknown.out;
  EXPECT_EQ(run("check unknown.onnx --input 4").code, 0);
}

TEST_F(CheckCli, names_of_classes_are_told_and_are_no_labels) {
  graph::write_onnx(*graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "ai.onnx.ml" : 1]>
      g (float[N,2] x) => (scores) <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
        p = MatMul(x, w)
        scores = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5, 9]>(p)
      })"),
                    program_.file("named.onnx"));
  const Outcome text = run("check named.onnx");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "\n  classes: 3, 5, 9: labels are positions 0..2 in that list\n"))
      << text.out;
  EXPECT_EQ(json("named.onnx")["class_names"], Json::array({"3", "5", "9"}));
  EXPECT_EQ(json("named.onnx --loss mse")["class_names"], Json::array());
  const auto data = [&](const char* name, char last) {
    store(program_.file(name),
          zip_file({{"x.npy", npy_file("|u1", "(3, 2)", "123456")},
                    {"y.npy", npy_file("|i1", "(3,)", std::string("\x00\x02", 2) + last)}}));
  };
  data("places.npz", 1);
  data("names.npz", 5);
  data("others.npz", 4);
  const Outcome trained = run("train named.onnx --data npz:places.npz --steps 1");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.err, "classes: 3, 5, 9: labels are positions 0..2 in that list\n"))
      << trained.err;
  const Outcome names = run("train named.onnx --data npz:names.npz --steps 1");
  EXPECT_EQ(names.code, 1);
  EXPECT_TRUE(has(names.err,
                  "label 5 at index 2 is out of range, expected 0..2 (3 classes); the model calls "
                  "its classes 3, 5, 9: labels are positions 0..2 in that list, so give 1 for 5\n"))
      << names.err;
  const Outcome others = run("eval named.onnx --data npz:others.npz");
  EXPECT_TRUE(has(others.err, "9: labels are positions 0..2 in that list\n")) << others.err;
}

// --- a fixed batch

TEST_F(CheckCli, what_is_in_the_way_in_any_case_is_no_reason_against_set_batch) {
  put("two.onnx", R"(g (float[8,4] x) => (float[8,3] a, float[8,2] b) <
  float[4,3] v = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, float[4,2] w = {1, 0, 0, 0, 1, 0, 0, 0}> {
  a = MatMul(x, v)
  b = MatMul(x, w)
})");
  const Outcome refused = run("check two.onnx");
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(
      has(refused.out,
          "  the batch 8 is baked in; whether --set-batch takes another shows once the rest "
          "is fine\n  0 BatchNormalization\n"))
      << refused.out;
  EXPECT_FALSE(has(refused.out, "doesn't work here")) << refused.out;
  const Json unknown = json("two.onnx");
  EXPECT_EQ(unknown["baked_batch"], 8);
  EXPECT_EQ(unknown["set_batch"], Json());
  EXPECT_EQ(unknown["set_batch_problem"], Json());
  const Json named = json("two.onnx --output a");
  EXPECT_EQ(named["set_batch"], true);
  EXPECT_EQ(named["set_batch_problem"], Json());
}

TEST_F(CheckCli, the_reason_against_set_batch_is_told_in_full) {
  put("rows.onnx", R"(g (float[4,3] x) => (float[4,3] y) <
  float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9},
  float[4,3] rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { a = MatMul(x, w) y = Add(a, rows) })");
  const std::string why =
      "node Add -> y can't be shown to take another number of rows than the 4 of the file: tried "
      "with 101 rows: input 1 has shape [4,3], which does not broadcast against [batch:101,3]: "
      "axis 0 has 4 and 101; no single change of 'rows' float[4,3] makes it follow";
  for (const char* flags : {"", " --batch 12"}) {
    const std::string text = run(std::string("check rows.onnx") + flags).out;
    EXPECT_TRUE(has(text, "(--drop-last)\n  --set-batch doesn't work here: " + why + "\n")) << text;
    const Json report = json(std::string("rows.onnx") + flags);
    EXPECT_EQ(report["trainable"], true) << report["problem"];
    EXPECT_EQ(report["set_batch"], false);
    EXPECT_EQ(report["set_batch_problem"], "--set-batch: " + why);
  }
  const Json asked = json("rows.onnx --set-batch");
  EXPECT_EQ(asked["trainable"], false);
  EXPECT_EQ(asked["set_batch"], false);
}

TEST_F(CheckCli, set_batch_is_not_judged_without_sizes_that_work) {
  put("features.onnx", R"(g (float[8,F] x) => (float[8,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}> {
  y = MatMul(x, w)
})");
  const Outcome open = run("check features.onnx");
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_TRUE(
      has(open.out,
          "  the batch 8 is baked in; whether --set-batch takes another shows once the sizes "
          "are known\n"))
      << open.out;
  EXPECT_TRUE(has(open.out, " --batch 8 --lr 0.01 --drop-last ")) << open.out;
  EXPECT_EQ(json("features.onnx")["set_batch"], Json());
  EXPECT_EQ(json("features.onnx --input 3")["set_batch"], true);
}

TEST_F(CheckCli, sizes_of_a_sample_count_where_set_batch_is_tried) {
  put("baked.onnx", R"(g (int64[8,T] ids) => (float[8,2] y)
<float[3,2] table = {1, 0, 0.5, -1, 0, 2}, int64[1] steps = {1}> {
  e = Gather(table, ids)
  y = ReduceSum<keepdims = 0>(e, steps)
})");
  for (const char* flags : {"", " --input 5"}) {
    const Json report = json(std::string("baked.onnx") + flags);
    EXPECT_EQ(report["set_batch"], true) << flags;
    EXPECT_EQ(report["notices"], Json::array()) << flags;
  }
}

constexpr const char* kTextBody = R"(
<float[3,2] table = {1, 0, 0.5, -1, 0, 2}, int64[1] last = {-1}, int64[1] steps = {1}> {
  e = Gather(table, input_ids)
  m = Cast<to = 1>(attention_mask)
  u = Unsqueeze(m, last)
  h = Mul(e, u)
  y = ReduceSum<keepdims = 0>(h, steps)
})";

TEST_F(CheckCli, several_inputs_are_listed_with_the_arrays_they_need) {
  put("text.onnx", std::string("g (int64[B,S] input_ids, int64[B,S] attention_mask) => "
                               "(float[B,2] y)") +
                       kTextBody);
  const Outcome text = run("check text.onnx --input 5");
  EXPECT_EQ(text.code, 0) << text.out << text.err;
  EXPECT_TRUE(has(text.out,
                  "  input_ids int64 [N,5], attention_mask int64 [N,5], y int64 [N] in 0..1; "
                  "cross_entropy over 'y'\n"))
      << text.out;
}

TEST_F(CheckCli, a_text_model_whose_length_the_data_will_give_is_trainable) {
  put("text.onnx", std::string("g (int64[B,S] input_ids, int64[B,S] attention_mask) => "
                               "(float[B,2] y)") +
                       kTextBody);
  const Outcome text = run("check text.onnx");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(
      text.out.starts_with("text.onnx: trainable, 6 parameters in 1 tensor\n"
                           "  open, until there are data: the size of axis 1 (S) of 'input_ids'\n"
                           "  open, until there are data: the size of axis 1 (S) of "
                           "'attention_mask'\n"))
      << text.out;
  EXPECT_TRUE(has(text.out,
                  "    sardonyx check text.onnx --input 20\n"
                  "    if S is 20; that holds for 'attention_mask', too\n"))
      << text.out;
  EXPECT_TRUE(has(text.out, "  input_ids int64 [N,S], attention_mask int64 [N,S], y int64 [N] in"));
  const Json report = json("text.onnx");
  EXPECT_EQ(report["trainable"], true);
  EXPECT_EQ(report["problem"], Json());
  EXPECT_FALSE(report.contains("memory"));
  EXPECT_EQ(report["open_sizes"],
            Json::array({"axis 1 (S) of 'input_ids'", "axis 1 (S) of 'attention_mask'"}));
  EXPECT_TRUE(has(report["next_step"].get<std::string>(), "sardonyx check text.onnx --input 20\n"));
  const Json sized = json("text.onnx --input 20");
  EXPECT_TRUE(sized.contains("memory")) << sized;
  EXPECT_EQ(sized["open_sizes"], Json::array());
  EXPECT_EQ(sized["command"], report["command"]);
  store(program_.file("DATA.npz"),
        zip_file({{"input_ids.npy", npy_file("|i1", "(2, 3)", std::string("\0\1\2\2\1\0", 6))},
                  {"attention_mask.npy", npy_file("|i1", "(2, 3)", std::string(6, '\1'))},
                  {"y.npy", npy_file("|i1", "(2,)", std::string("\0\1", 2))}}));
  const Outcome trained = run(report["command"].get<std::string>().substr(9));
  EXPECT_EQ(trained.code, 0) << trained.err;
}

TEST_F(CheckCli, each_open_input_gets_a_flag_unless_an_other_says_its_sizes) {
  put("text.onnx", std::string("g (int64[B,S] input_ids, int64[B,T] attention_mask) => "
                               "(float[B,2] y)") +
                       kTextBody);
  const std::string step = json("text.onnx --momentum 0.9 --loss mse")["next_step"];
  EXPECT_TRUE(has(step,
                  "  sardonyx check text.onnx --input 20 --input attention_mask=20 --momentum 0.9 "
                  "--loss mse\n  if S is 20 and T is 20"))
      << step;
  EXPECT_TRUE(json("text.onnx --input 7 --input attention_mask=7").contains("memory"));
  EXPECT_TRUE(json("text.onnx --input attention_mask=7 --input input_ids=7").contains("memory"));
  const Outcome half = run("check text.onnx --input 20");
  EXPECT_EQ(half.code, 0);
  EXPECT_TRUE(has(half.out, "  sardonyx check text.onnx --input 20 --input attention_mask=20\n"))
      << half.out;
  const Outcome none = run("check text.onnx --input mask=7");
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(has(none.err,
                  "--input mask=...: the model has no such input that takes data; there is "
                  "'input_ids', 'attention_mask'"))
      << none.err;
  EXPECT_EQ(run("check text.onnx --input 7 --input 8").code, 2);
  EXPECT_EQ(run("check text.onnx --input attention_mask=7y").code, 2);
}

TEST_F(CheckCli, open_sizes_hide_nothing_that_is_wrong_with_any) {
  put("unknown.onnx", R"(g (int64[B,S] ids) => (float[B,2] y)
<float[3,2] table = {1, 0, 0.5, -1, 0, 2}, int64[1] steps = {1}> {
  e = Gather(table, ids)
  r = Reluu(e)
  y = ReduceSum<keepdims = 0>(r, steps)
})");
  const Outcome unknown = run("check unknown.onnx");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_TRUE(unknown.out.starts_with(
      "unknown.onnx: can't be trained as it is\n\n1 node can't be run\n  Reluu (1 node)"))
      << unknown.out;
  EXPECT_FALSE(has(unknown.out, "--input")) << unknown.out;
}

TEST_F(CheckCli, open_sizes_of_labels_are_no_made_up_ones) {
  put("tokens.onnx", R"(g (int64[B,S] ids) => (float[B,2,S] y)
<float[3,2] table = {1, 0, 0.5, -1, 0, 2}> {
  e = Gather(table, ids)
  y = Transpose<perm = [0, 2, 1]>(e)
})");
  const Json report = json("tokens.onnx");
  EXPECT_EQ(report["trainable"], true) << report["problem"];
  EXPECT_EQ(report["labels"], "int64 [N,S] in 0..1");
}

}  // namespace
}  // namespace sardonyx::testing
