#include "graph/init.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/support/error.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::graph {
namespace {

using sardonyx::testing::error_of;

struct Moments {
  double mean = 0, std = 0, most = 0;
};

Moments moments(const Tensor& tensor) {
  Moments m;
  for (const float x : tensor.data<float>()) {
    m.mean += x;
    m.most = std::max(m.most, static_cast<double>(std::abs(x)));
  }
  m.mean /= static_cast<double>(tensor.numel());
  for (const float x : tensor.data<float>()) m.std += (x - m.mean) * (x - m.mean);
  m.std = std::sqrt(m.std / static_cast<double>(tensor.numel()));
  return m;
}

Tensor weight(const std::string& kind, uint64_t seed = 7, const std::string& name = "w") {
  return init_weight(parse_init(kind, seed), name, {64, 25, 5, 5});  // fan in 625, fan out 1600
}

// These bits are a promise: a seed in a paper gives the same network for ever.
TEST(Init, values_of_a_seed_never_change) {
  const auto first = [](const std::string& kind) {
    return init_weight(parse_init(kind, 7), "w", {4, 3, 2, 2}).data<float>()[0];
  };
  EXPECT_EQ(first("normal:0.01"), -0x1.17dba6p-13f);
  EXPECT_EQ(first("kaiming"), -0x1.65093ep-8f);
  EXPECT_EQ(first("xavier"), 0x1.cab4ep-2f);
  EXPECT_EQ(first("pytorch"), 0x1.1e0dc4p-2f);
  EXPECT_EQ(init_weight(parse_init("pytorch", 7), "w", {4, 3, 2, 2}).data<float>()[47],
            0x1.1f10acp-6f);
  EXPECT_EQ(init_bias(parse_init("pytorch", 7), "b", 5, 12).data<float>()[4], 0x1.bedd28p-3f);
}

TEST(Init, normal_has_the_given_deviation) {
  const Moments m = moments(weight("normal:0.02"));
  EXPECT_NEAR(m.mean, 0.0, 4e-4);
  EXPECT_NEAR(m.std, 0.02, 2e-4);
}

TEST(Init, kaiming_is_normal_with_variance_two_over_fan_in) {
  EXPECT_NEAR(moments(weight("kaiming")).std, std::sqrt(2.0 / 625), 6e-4);
}

TEST(Init, xavier_is_uniform_in_both_fans) {
  const double bound = std::sqrt(6.0 / (625 + 1600));
  const Moments m = moments(weight("xavier"));
  EXPECT_LE(m.most, bound);
  EXPECT_GT(m.most, 0.99 * bound);
  EXPECT_NEAR(m.std, bound / std::sqrt(3.0), 4e-4);
}

TEST(Init, pytorch_is_uniform_within_one_over_root_fan_in_also_for_biases) {
  const Moments m = moments(weight("pytorch"));
  EXPECT_LE(m.most, 1.0 / 25);
  EXPECT_GT(m.most, 0.99 / 25);
  const Moments bias = moments(init_bias(parse_init("pytorch", 7), "b", 1000, 625));
  EXPECT_LE(bias.most, 1.0 / 25);
  EXPECT_GT(bias.most, 0.98 / 25);
}

TEST(Init, biases_are_zero_otherwise) {
  for (const char* kind : {"normal:1", "kaiming", "xavier"}) {
    EXPECT_EQ(moments(init_bias(parse_init(kind, 7), "b", 100, 9)).most, 0.0) << kind;
  }
}

TEST(Init, another_seed_or_name_gives_other_values) {
  EXPECT_TRUE(weight("kaiming").identical(weight("kaiming")));
  EXPECT_FALSE(weight("kaiming").identical(weight("kaiming", 8)));
  EXPECT_FALSE(weight("kaiming").identical(weight("kaiming", 7, "v")));
}

TEST(Init, wrong_texts_are_refused) {
  EXPECT_EQ(error_of([] { parse_init("kaming", 0); }),
            "--init 'kaming' is not known; known: normal:STD, kaiming, xavier, pytorch");
  for (const char* text : {"normal:", "normal:-1", "normal:inf", "normal:nan", "normal:0.1x"}) {
    EXPECT_EQ(
        error_of([&] { parse_init(text, 0); }),
        "--init '" + std::string(text) + "': expected normal:STD with a standard deviation >= 0");
  }
  EXPECT_EQ(parse_init("normal:0", 0).std, 0.0);
}

}  // namespace
}  // namespace sardonyx::graph
