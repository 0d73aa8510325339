// How much is folded: constants that a file blows up cost no gigabytes, and the plan computes
// the rest to the same numbers. (What is folded: tests/passes/fold_constants.)
#include "passes/fold.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "passes/pipelines.h"
#include "tests/support/run_plan.h"

namespace sardonyx::passes {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

// y = x * (mean(c0) + mean(c1) + ...) with the scalars 1, 2, ... blown up to `shape`, as text.
std::string blown_up(int count, const std::string& shape) {
  std::string constants = "int64[2] shape = {" + shape + "}", body = "  s0 = Identity(zero)\n";
  for (int i = 0; i < count; ++i) {
    constants += fmt::format(", float[1,1] w{} = {{{}}}", i, i + 1);
    body +=
        fmt::format("  c{0} = Expand(w{0}, shape)\n  m{0} = ReduceMean<keepdims = 0>(c{0})\n", i);
    body += fmt::format("  s{} = Add(s{}, m{})\n", i + 1, i, i);
  }
  return fmt::format(
      "<ir_version: 8, opset_import: [\"\" : 13]>\ng (float[N,2] x) => (float[N,2] y)\n"
      "<float[] zero = {{0}}, {}>\n{{\n{}  y = Mul(x, s{})\n}}\n",
      constants, body, count);
}

struct Folded {
  std::unique_ptr<graph::Graph> graph;
  PassContext context;

  explicit Folded(const std::string& text) : graph(graph::parse(text)) {
    context.options.batch = 2;
    run_pipeline(*graph, context,
                 {{"bind_batch", ""}, {"infer_shapes", ""}, {"fold_constants", ""}});
  }
  size_t constant_bytes() const {
    size_t bytes = 0;
    for (const graph::Value* value : graph->constants()) bytes += value->type.bytes();
    return bytes;
  }
  int count(std::string_view op) const {
    int found = 0;
    for (const graph::Node& node : graph->nodes()) found += node.op == op ? 1 : 0;
    return found;
  }
  std::vector<double> output() && {
    const graph::Tensor x = graph::Tensor::of<float>({2, 2}, {1, 2, 3, 4});
    const tests::PlanRun run = tests::run_plan(std::move(graph), context, 2, {{"x", x}});
    std::vector<double> result;
    for (int64_t i = 0; i < 4; ++i) result.push_back(run.outputs.at("y").as_double(i));
    return result;
  }
};

TEST(FoldLimits, small_constants_are_folded_whole) {
  Folded folded(blown_up(4, "512, 512"));
  EXPECT_EQ(folded.count("Expand"), 0);
  EXPECT_EQ(folded.graph->nodes().size(), 1u);
  EXPECT_EQ(std::move(folded).output(), (std::vector<double>{10, 20, 30, 40}));
}

TEST(FoldLimits, one_constant_beyond_four_mebi_elements_is_left_to_the_plan) {
  EXPECT_EQ(Folded(blown_up(1, "2048, 2048")).count("Expand"), 0);
  Folded folded(blown_up(1, "2048, 2049"));
  EXPECT_EQ(folded.count("Expand"), 1);
  EXPECT_LT(folded.constant_bytes(), kMebibyte);
  EXPECT_EQ(std::move(folded).output(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(FoldLimits, all_constants_of_a_pass_stay_below_a_quarter_of_a_gibibyte_slow) {
  Folded folded(blown_up(40, "2048, 2048"));  // 640 MiB
  EXPECT_GT(folded.count("Expand"), 0);
  EXPECT_LT(folded.constant_bytes(), 2 * 256 * kMebibyte);  // of infer_shapes and fold_constants
  EXPECT_EQ(std::move(folded).output(), (std::vector<double>{820, 1640, 2460, 3280}));
}

TEST(FoldLimits, a_constant_that_no_machine_holds_is_refused_by_name) {
  const Folded bomb(blown_up(1, "1048576, 1048576"));
  ASSERT_EQ(bomb.context.unsupported.size(), 1u);
  EXPECT_NE(bomb.context.unsupported[0].reason.find("would need 4398046511104 bytes"),
            std::string::npos)
      << bomb.context.unsupported[0].reason;
}

}  // namespace
}  // namespace sardonyx::passes
