// The flags of the update: what they mean, and what is refused.
#include "runtime/optimizer_flags.h"

#include <gtest/gtest.h>

#include "graph/support/error.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using sardonyx::testing::error_of;

std::string refusal(const Flags& flags) {
  return error_of([&] { optimizer_options(flags); });
}

Flags adamw() {
  Flags flags;
  flags.optimizer = "adamw";
  return flags;
}

TEST(OptimizerFlags, rate_and_decay_have_the_defaults_of_the_optimizer) {
  Flags flags;
  EXPECT_EQ(learning_rate(flags), 0.01);
  EXPECT_EQ(weight_decay(flags), 0.0);
  flags.optimizer = "adam";
  EXPECT_EQ(learning_rate(flags), 0.001);
  EXPECT_EQ(weight_decay(flags), 0.0);
  EXPECT_EQ(weight_decay(adamw()), 0.01);
  flags.lr = 0.5;
  flags.weight_decay = 0.25;
  EXPECT_EQ(learning_rate(flags), 0.5);
  EXPECT_EQ(weight_decay(flags), 0.25);
}

TEST(OptimizerFlags, everything_reaches_the_pipeline) {
  Flags flags = adamw();
  flags.lr = 0.5;
  flags.betas = "0.8,0.95";
  flags.eps = 1e-3;
  flags.clip_norm = 2;
  flags.ema = 0.99;
  flags.no_decay = {"norm"};
  flags.groups = {"a:0,b:lr=0.125,wd=0", "fc*:wd=1"};
  const passes::OptimizerOptions options = optimizer_options(flags);
  EXPECT_EQ(options.kind, "adamw");
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.beta2, 0.95);
  EXPECT_EQ(options.eps, 1e-3);
  EXPECT_EQ(options.weight_decay, 0.01);
  EXPECT_EQ(options.clip_norm, 2);
  EXPECT_EQ(options.clip_value, 0);
  EXPECT_EQ(options.ema, 0.99);
  EXPECT_FALSE(options.decay_norms);
  EXPECT_TRUE(options.decay_biases);
  ASSERT_EQ(options.groups.size(), 2u);
  EXPECT_EQ(options.groups[0].glob, "a:0,b");
  EXPECT_EQ(options.groups[0].lr_factor, 0.25);
  EXPECT_EQ(options.groups[0].weight_decay, 0.0);
  EXPECT_EQ(options.groups[1].lr_factor, 1);
  EXPECT_EQ(options.groups[1].weight_decay, 1.0);
}

TEST(OptimizerFlags, flags_of_another_optimizer_are_refused) {
  Flags flags;
  flags.betas = "0.9,0.99";
  EXPECT_EQ(refusal(flags), "--betas goes with --optimizer adam, adamw, lion or lamb, not sgd");
  flags = {};
  flags.eps = 1e-8;
  EXPECT_EQ(refusal(flags),
            "--eps goes with --optimizer adam, adamw, adagrad, rmsprop or lamb, not sgd");
  flags = adamw();
  flags.momentum = 0.9;
  EXPECT_EQ(refusal(flags), "--momentum goes with --optimizer sgd, rmsprop or lars, not adamw");
  flags = adamw();
  flags.nesterov = true;
  EXPECT_EQ(refusal(flags), "--nesterov goes with --optimizer sgd, not adamw");
  flags.optimizer = "adan";
  EXPECT_EQ(
      refusal(flags),
      "--optimizer 'adan' is not known (did you mean adam or adamw?); there is sgd, adam, adamw, "
      "adagrad, rmsprop, lion, lamb, lars");
  flags = {};
  flags.alpha = 0.9;
  EXPECT_EQ(refusal(flags), "--alpha goes with --optimizer rmsprop, not sgd");
  flags = {};
  flags.centered = true;
  EXPECT_EQ(refusal(flags), "--centered goes with --optimizer rmsprop, not sgd");
  flags = adamw();
  flags.trust = 0.1;
  EXPECT_EQ(refusal(flags), "--trust goes with --optimizer lars, not adamw");
}

TEST(OptimizerFlags, each_optimizer_has_the_defaults_of_its_source) {
  const auto options = [](const char* kind) {
    Flags flags;
    flags.optimizer = kind;
    return optimizer_options(flags);
  };
  const auto rate = [](const char* kind) {
    Flags flags;
    flags.optimizer = kind;
    return learning_rate(flags);
  };
  EXPECT_EQ(rate("adagrad"), 0.01);
  EXPECT_EQ(options("adagrad").eps, 1e-10);
  EXPECT_EQ(rate("rmsprop"), 0.01);
  EXPECT_EQ(options("rmsprop").eps, 1e-8);
  EXPECT_EQ(options("rmsprop").alpha, 0.99);
  EXPECT_FALSE(options("rmsprop").centered);
  EXPECT_EQ(rate("lion"), 1e-4);
  EXPECT_EQ(options("lion").beta1, 0.9);
  EXPECT_EQ(options("lion").beta2, 0.99);
  EXPECT_EQ(options("lion").weight_decay, 0);
  EXPECT_EQ(rate("lamb"), 0.001);
  EXPECT_EQ(options("lamb").eps, 1e-6);
  EXPECT_EQ(options("lamb").weight_decay, 0.01);
  EXPECT_EQ(rate("lars"), 0.01);
  EXPECT_EQ(options("lars").trust, 0.001);
}

TEST(OptimizerFlags, the_numbers_of_rmsprop_and_lars_have_their_ranges) {
  Flags flags;
  flags.optimizer = "rmsprop";
  flags.alpha = 1;
  EXPECT_EQ(refusal(flags), "--alpha 1: expected a number from 0 and below 1");
  flags = {};
  flags.optimizer = "lars";
  flags.trust = -1;
  EXPECT_EQ(refusal(flags).substr(0, 10), "--trust -1");
}

TEST(OptimizerFlags, betas_are_two_shares_below_one) {
  Flags flags = adamw();
  flags.betas = "0.9";
  EXPECT_EQ(refusal(flags), "--betas '0.9': expected two numbers, such as 0.9,0.999");
  flags.betas = "0.9,x";
  EXPECT_EQ(refusal(flags), "--betas '0.9,x': expected two numbers, such as 0.9,0.999");
  flags.betas = "0.9,1";
  EXPECT_EQ(refusal(flags), "--betas 1: expected a number from 0 and below 1");
}

TEST(OptimizerFlags, groups_say_what_is_wrong_with_them) {
  const auto group = [](const std::string& text, double lr = 0.1) {
    Flags flags;
    flags.lr = lr;
    flags.groups = {text};
    return refusal(flags);
  };
  EXPECT_EQ(group("fc*"), "--group 'fc*': expected GLOB:lr=X,wd=Y with one or both of the two");
  EXPECT_EQ(group(":lr=1"), "--group ':lr=1': expected GLOB:lr=X,wd=Y with one or both of the two");
  EXPECT_EQ(group("fc*:"), "--group 'fc*:': expected GLOB:lr=X,wd=Y with one or both of the two");
  for (const char* part : {"momentum=1", "lr", "lr=-1", "wd=", "wd=fast"}) {
    EXPECT_EQ(group(std::string("fc*:") + part),
              fmt::format("--group 'fc*:{}': '{}' is none of lr=X, wd=X with a number of at least "
                          "0",
                          part, part));
  }
  EXPECT_EQ(group("fc*:lr=0"), "no error");
  EXPECT_TRUE(group("fc*:lr=1", 0)
                  .starts_with("--group 'fc*:lr=1': its rate follows the schedule "
                               "of --lr, which is 0"));
}

TEST(OptimizerFlags, clipping_and_averages_have_their_ranges) {
  Flags flags;
  flags.clip_norm = -2;
  EXPECT_EQ(refusal(flags), "--clip-norm -2: expected a number above 0, or 0 for none");
  flags = {};
  flags.clip_value = -1;
  EXPECT_EQ(refusal(flags), "--clip-value -1: expected a number above 0, or 0 for none");
  flags.clip_value = 1;
  EXPECT_EQ(refusal(flags), "no error");  // --clip-norm 0 is none
  flags.clip_norm = flags.clip_value = 1;
  EXPECT_EQ(refusal(flags), "--clip-norm 1 and --clip-value 1: give one of them");
  flags = {};
  flags.ema = 1;
  EXPECT_EQ(refusal(flags), "--ema 1: expected a number from 0 and below 1");
  flags.ema = -0.5;
  EXPECT_EQ(refusal(flags), "--ema -0.5: expected a number from 0 and below 1");
  flags = {};
  flags.no_decay = {"biases"};
  EXPECT_EQ(refusal(flags),
            "--no-decay 'biases' is not known (did you mean bias?); there is norm, bias");
}

}  // namespace
}  // namespace sardonyx::runtime
