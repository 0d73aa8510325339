// The stages of the lowering by name, and what each of them prints.
#include "passes/lower.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

constexpr const char* kConvolution = R"(
  <ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
  g (float[N,1,4,4] x) => (float[N,8] y)
  <float[2,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1}>
  {
    c = Conv(x, w)
    r = Relu(c)
    y = Flatten(r)
  })";

class Stages : public testing::Test {
 protected:
  // What is printed after each of the stages, by name.
  std::vector<std::pair<std::string, std::string>> run(const std::vector<std::string>& names) {
    const NullTarget target(2);
    PassContext context;
    context.options.batch = 20;
    context.options.block = 16;
    context.target = &target;
    StateTable states;
    lowering_ = {};
    lowering_.graph = graph::parse(kConvolution);
    std::vector<std::pair<std::string, std::string>> dumps;
    run_named(lowering_, context, states, names, {},
              [&](std::string_view stage, const Lowering& lowering) {
                dumps.emplace_back(stage, print(lowering));
              });
    return dumps;
  }

  std::string refusal(const std::vector<std::string>& names) {
    try {
      run(names);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  Lowering lowering_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Stages, each_prints_what_it_decided) {
  const auto dumps = run({"bind_batch", "infer_shapes", "form_regions", "assign_layouts",
                          "select_kernels", "plan_memory"});
  ASSERT_EQ(dumps.size(), 4u);
  const auto& [regions, regions_text] = dumps[0];
  EXPECT_EQ(regions, "form_regions");
  EXPECT_TRUE(has(regions_text, "  # region 0: blocks of 16 rows\n  c = Conv(x, w) "))
      << regions_text;
  EXPECT_FALSE(has(regions_text, "Reorder"));
  const auto& [layouts, layouts_text] = dumps[1];
  EXPECT_EQ(layouts, "assign_layouts");
  EXPECT_TRUE(has(layouts_text, "# float[N:20,2,2,2]@n16\n")) << layouts_text;
  EXPECT_FALSE(has(layouts_text, "conv.lanes"));
  const auto& [kernels, kernels_text] = dumps[2];
  EXPECT_EQ(kernels, "select_kernels");
  EXPECT_TRUE(has(kernels_text, "# float[N:20,2,2,2]@n16 # conv.lanes\n")) << kernels_text;
  const auto& [memory, memory_text] = dumps[3];
  EXPECT_EQ(memory, "plan_memory");
  EXPECT_TRUE(memory_text.starts_with("summary\n  batch 20, 2 threads: ")) << memory_text;
  EXPECT_TRUE(has(memory_text, "\n  2 Reorder nodes between layouts\n\nplan: batch 20, "))
      << memory_text;
  EXPECT_TRUE(has(memory_text, "region 0: 2 blocks of 16 rows (last 4), ")) << memory_text;
  EXPECT_TRUE(has(memory_text, "(input+0/1024) -> (local+0)")) << memory_text;
}

// Rows of a block for a network of a convolution from one channel and one between `channels`.
int64_t chosen_block(int64_t channels, graph::DType dtype) {
  const NullTarget target(2);
  PassContext context;
  context.options.batch = 64;
  context.options.dtype = dtype;
  context.target = &target;
  const auto graph = graph::parse(fmt::format(R"(
  <ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
  g (float[N,1,16,16] x) => (float[N,{0},12,12] y)
  <float[{0},1,3,3] v = {{...}}, float[{0},{0},3,3] w = {{...}}> {{
    c = Conv(x, v)
    y = Conv(c, w)
  }})",
                                              channels));
  run_pipeline(*graph, context, {{"convert_dtype", ""}, {"bind_batch", ""}, {"infer_shapes", ""}});
  return choose_block(*graph, context);
}

// One input channel always gains; what the whole step gains decides.
TEST(ChooseBlock, lanes_are_for_networks_whose_operations_gain) {
  EXPECT_EQ(chosen_block(20, graph::DType::kFloat32), 16);
  EXPECT_EQ(chosen_block(64, graph::DType::kFloat32), 0);
  EXPECT_EQ(chosen_block(64, graph::DType::kFloat64), 16) << "there is no other fast kernel";
}

TEST_F(Stages, the_text_of_a_lowering_is_read_back_as_the_graph) {
  run({"bind_batch", "infer_shapes", "form_regions", "assign_layouts", "select_kernels"});
  EXPECT_EQ(graph::print(*graph::parse(print(lowering_))), graph::print(*lowering_.graph));
}

TEST_F(Stages, passes_alone_print_the_graph) {
  EXPECT_TRUE(run({"bind_batch", "infer_shapes"}).empty());
  EXPECT_EQ(print(lowering_), graph::print(*lowering_.graph));
}

TEST_F(Stages, they_stand_last_and_from_the_first_on) {
  const std::string order =
      "' can't stand there: behind the passes come form_regions, assign_layouts, select_kernels, "
      "plan_memory, from the first on";
  EXPECT_EQ(refusal({"bind_batch", "assign_layouts"}), "'assign_layouts" + order);
  EXPECT_EQ(refusal({"form_regions", "bind_batch"}), "'bind_batch" + order);
  EXPECT_EQ(refusal({"bind_batch", "form_regions", "select_kernels"}), "'select_kernels" + order);
}

}  // namespace
}  // namespace sardonyx::passes
