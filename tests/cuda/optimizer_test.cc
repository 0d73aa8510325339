// Updates of many elements, skipped steps and what comes before an update; the arithmetic is tried
// by the cases of tests/ops/optimizer_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using graph::Attributes;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

OpInput scalar(double value) { return given(doubles({}, {value})); }
OpInput count(int64_t value) { return exactly(given(Tensor::scalar<int64_t>(value))); }

OpCase own(const char* op, std::vector<OpInput> inputs, int outputs, Attributes attributes = {}) {
  return {.claim = op,
          .domain = ops::kDomain,
          .op = op,
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .num_outputs = outputs};
}

TEST(CudaOptimizer, sgd_of_a_whole_bucket) {
  for (const int64_t n : {0, 1, 255, 256, 257, 5000}) {
    for (const double scale : {0.25, kNan}) {
      for (const int64_t step : {0, 3}) {
        for (const Attributes& rule :
             {Attributes{{"momentum", 0.9}, {"weight_decay", 0.01}},
              Attributes{{"momentum", 0.9}, {"dampening", 0.5}, {"clip_value", 0.1}},
              Attributes{{"momentum", 0.9}, {"nesterov", int64_t{1}}, {"lr_factor", 2.0}},
              Attributes{{"weight_decay", 0.1}}}) {
          check_cuda(own("SGD",
                         {random({n}), random({n}, -1, 1, 2), exactly(scalar(0.1)), scalar(scale),
                          random({n}, -1, 1, 3), count(step)},
                         2, rule));
        }
      }
    }
  }
}

TEST(CudaOptimizer, sgd_without_a_momentum_to_keep) {
  for (const double scale : {0.5, kNan}) {
    check_cuda(own("SGD",
                   {random({300}), random({300}, -1, 1, 2), exactly(scalar(0.1)), scalar(scale)}, 1,
                   {{"weight_decay", 0.01}}));
  }
}

TEST(CudaOptimizer, adam_and_adamw_of_a_whole_bucket) {
  for (const char* op : {"Adam", "AdamW"}) {
    for (const int64_t n : {0, 1, 256, 257, 5000}) {
      for (const double scale : {0.25, kNan}) {
        for (const int64_t step : {0, 100}) {
          for (const double beta1 : {0.9, 0.3}) {
            check_cuda(own(op,
                           {random({n}), random({n}, -1, 1, 2), exactly(scalar(0.1)), scalar(scale),
                            random({n}, -1, 1, 3), random({n}, 0, 1, 4), count(step)},
                           3, {{"weight_decay", 0.01}, {"beta1", beta1}}));
          }
        }
      }
    }
  }
}

TEST(CudaOptimizer, updates_by_other_memories_of_a_whole_bucket) {
  for (const int64_t n : {0, 1, 256, 257, 5000}) {
    for (const double scale : {0.25, kNan}) {
      const auto update = [&](const char* op, std::vector<OpInput> slots, Attributes rule) {
        std::vector<OpInput> in{random({n}), random({n}, -1, 1, 2), exactly(scalar(0.1)),
                                scalar(scale)};
        in.insert(in.end(), slots.begin(), slots.end());
        rule["weight_decay"] = 0.01;
        rule["clip_value"] = 0.2;
        OpCase c = own(op, in, 1 + static_cast<int>(slots.size()), rule);
        c.wanted_outputs = {true};
        for (const OpInput& slot : slots) c.wanted_outputs.push_back(!slot.absent);
        check_cuda(c);
      };
      const OpInput squares = random({n}, 0.5, 1, 3), mean = random({n}, -0.5, 0.5, 4),
                    velocity = random({n}, -1, 1, 5);
      update("Adagrad", {squares}, {});
      update("Lion", {velocity}, {{"beta1", 0.5}});
      update("RMSprop", {squares}, {{"alpha", 0.3}});
      update("RMSprop", {squares, mean}, {});
      update("RMSprop", {squares, left_out(), velocity}, {{"momentum", 0.9}});
      update("RMSprop", {squares, mean, velocity}, {{"momentum", 0.9}});
    }
  }
}

TEST(CudaOptimizer, averages_and_the_counter_stand_still_in_a_skipped_step) {
  for (const double scale : {1.0, kNan}) {
    for (const double decay : {0.0, 0.25, 0.999}) {
      check_cuda(own("Ema", {random({257}), random({257}, -1, 1, 2), scalar(scale)}, 1,
                     {{"decay", decay}}));
    }
    check_cuda(own("Advance", {count(41), scalar(scale)}, 1));
  }
}

TEST(CudaOptimizer, squares_of_several_tensors_in_pieces) {
  for (const int64_t n : {0, 1, 257, 16384, 16385, 40000}) {
    OpCase c = own("SquaredNorm", {random({n}), random({3, 5}, -1, 1, 2)}, 1);
    c.double_tolerance = {1e-12, 1e-12};
    check_cuda(c);
  }
}

TEST(CudaOptimizer, scale_of_every_kind_of_step) {
  for (const double weight : {0.0, 4.0, kInf, kNan}) {
    for (const double loss : {1.0, kNan, -kInf}) {
      for (const double norm : {0.0, 100.0, kInf, kNan}) {
        for (const double clip : {0.0, 0.5}) {
          for (const int64_t divide : {0, 1}) {
            check_cuda(
                own("GradScale",
                    {scalar(weight), scalar(loss), exactly(scalar(norm)), exactly(scalar(2))}, 2,
                    {{"clip_norm", clip}, {"divide", divide}}));
          }
        }
      }
    }
  }
  OpCase alone = own("GradScale", {scalar(8)}, 1);
  check_cuda(alone);
}

TEST(CudaOptimizer, accumulators_of_every_size) {
  for (const int64_t n : {0, 1, 255, 257}) {
    check_cuda(own("Accumulate", {random({n}), random({n}, -1, 1, 2)}, 1));
  }
}

}  // namespace

}  // namespace sardonyx::test
