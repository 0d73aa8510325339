// Which sizes are open, and what flags would say them.
#include "runtime/open_sizes.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

using Flags = std::vector<std::string>;

std::vector<OpenInput> open(const std::string& inputs, int guess = 0,
                            const passes::PipelineOptions& options = {}) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 17]> g ()" + inputs +
                                  ") => (y) { y = Concat<axis = 0>(a, b) }");
  return open_inputs(*graph, options, guess);
}

TEST(OpenSizes, a_symbol_has_one_size_and_needs_one_flag) {
  const auto same = open("int64[N,S] a, int64[N,S] b");
  EXPECT_EQ(sample_flags(same), Flags({"20"}));
  EXPECT_EQ(made_up_str(same), "if S is 20; that holds for 'b', too");
  const auto other = open("int64[N,S] a, int64[N,T] b");
  EXPECT_EQ(sample_flags(other), Flags({"20", "b=20"}));
  EXPECT_EQ(made_up_str(other), "if S is 20 and T is 20");
  const auto nameless = open("int64[N,?] a, int64[N,?] b");
  EXPECT_EQ(made_up_str(nameless), "if axis 1 of 'a' is 20 and axis 1 of 'b' is 20");
  const auto second = open("int64[N,3] a, int64[N,T,4] b");
  EXPECT_EQ(sample_flags(second), Flags({"b=20x4"}));
  EXPECT_EQ(open_axes_str(second[0]), "axis 1 (T) of 'b'");
}

TEST(OpenSizes, pictures_have_their_channels_where_they_are_open) {
  EXPECT_EQ(sample_flags(open("float[N,3,H,W] a, float[N,3,H,W] b")), Flags({"3x224x224"}));
  EXPECT_EQ(sample_flags(open("float[N,H,W,3] a, float[N,H,W,3] b")), Flags({"224x224x3"}));
  EXPECT_EQ(sample_flags(open("float[N,C,H,W] a, float[N,C,H,W] b", 2)), Flags({"3x28x28"}));
}

TEST(OpenSizes, without_sizes_that_work_axes_stand_for_themselves) {
  auto inputs = open("float[N,3,H,?] a, float[N,F] b");
  for (OpenInput& input : inputs) input.made_up.clear();
  EXPECT_EQ(sample_flags(inputs), Flags({"3xHxSIZE", "b=F"}));
  EXPECT_EQ(made_up_str(inputs), "with the numbers of your samples");
}

TEST(OpenSizes, an_input_of_rows_of_its_own_becomes_one_of_samples) {
  const auto inputs = open("float[N,3] a, float[M] b");
  EXPECT_EQ(sample_flags(inputs), Flags({"b="}));
  EXPECT_EQ(made_up_str(inputs), "so that a row of it goes with each sample");
}

}  // namespace
}  // namespace sardonyx::runtime
