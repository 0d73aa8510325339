// What passes.def says about the order of passes, and that nothing else can be asked for.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/parse.h"
#include "passes/lower.h"
#include "passes/pipelines.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::passes {
namespace {

using sardonyx::testing::error_of;

std::unique_ptr<graph::Graph> typed_by_nothing() {
  auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = MatMul(x, w) })");
  graph->find("w")->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, "w", ""};
  return graph;
}

std::string error_of_passes(const std::vector<std::string>& names) {
  return error_of([&] {
    const NullTarget target;
    PassContext context;
    context.target = &target;
    Lowering lowering;
    lowering.graph = typed_by_nothing();
    StateTable states;
    run_named(lowering, context, states, names);
  });
}

TEST(Contracts, a_pass_builds_on_passes_in_front_of_it_that_nobody_may_leave_out) {
  const std::vector<Pass>& all = all_passes();
  for (auto pass = all.begin(); pass != all.end(); ++pass) {
    for (const std::string_view name : pass->before) {
      const auto before =
          std::find_if(all.begin(), pass, [&](const Pass& p) { return p.name == name; });
      ASSERT_NE(before, pass) << name << " doesn't stand in front of " << pass->name;
      EXPECT_EQ(before->need, Need::kNeeded) << name;
    }
  }
}

TEST(Contracts, every_pipeline_has_its_passes_in_their_order) {
  for (const Pipeline* pipeline : {&preparation_pipeline(), &training_pipeline(),
                                   &evaluation_pipeline(), &gradient_pipeline()}) {
    std::set<std::string_view> done;
    for (const PipelineEntry& entry : *pipeline) {
      require_before(entry.pass, passes_before(*find_pass(entry.pass)), done);
      done.insert(entry.pass);
    }
  }
}

TEST(Contracts, each_pass_alone_runs_or_says_what_must_come_before_it) {
  for (const Pass& pass : all_passes()) {
    const std::string error = error_of_passes({std::string(pass.name)});
    if (passes_before(pass).empty()) {
      EXPECT_EQ(error, "no error") << pass.name;
    } else {
      EXPECT_TRUE(error.starts_with(fmt::format("'{}' can't stand there", pass.name))) << error;
    }
  }
}

TEST(Contracts, what_must_come_before_is_listed_at_once_as_it_can_be_given) {
  EXPECT_EQ(error_of_passes({"append_optimizer"}),
            "'append_optimizer' can't stand there: it works on what infer_shapes, append_loss, "
            "build_backward leave; give --passes infer_shapes,append_loss,build_backward,"
            "append_optimizer");
  EXPECT_EQ(error_of_passes({"append_loss", "infer_shapes"}),
            "'append_loss' can't stand there: it works on what infer_shapes leaves; give --passes "
            "infer_shapes,append_loss");
}

TEST(Contracts, stages_ask_for_types_and_sizes) {
  EXPECT_EQ(error_of_passes({"form_regions"}),
            "'form_regions' can't stand there: it works on what infer_shapes leaves; give --passes "
            "infer_shapes,form_regions");
  EXPECT_EQ(
      error_of_passes({"infer_shapes", "form_regions", "assign_layouts", "select_kernels"}),
      "node MatMul -> y: its input 'x' has type float[N,2], and no kernel can be chosen until all "
      "its sizes are known; bind_batch and infer_shapes find those that the file has");
}

TEST(Contracts, a_gradient_asks_for_sizes) {
  EXPECT_TRUE(error_of_passes({"infer_shapes", "build_backward"})
                  .starts_with("value 'x' has type float[N,2]: its shape must be known before "
                               "gradients are built"));
}

TEST(Contracts, a_graph_is_updated_once) {
  EXPECT_EQ(error_of_passes({"bind_batch", "infer_shapes", "append_loss", "mark_trainable",
                             "build_backward", "append_optimizer", "append_optimizer"}),
            "the graph has its updates already");
}

}  // namespace
}  // namespace sardonyx::passes
