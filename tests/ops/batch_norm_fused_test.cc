// What BatchNormApply and its gradients take over from their neighbours gives the same bits as the
// neighbours, in every kernel and layout: the oracle is the operator alone, and loops of this file.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/names.h"
#include "ops/core/infer.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::KernelDef;
using ops::KernelRequest;

struct Way {
  std::string kernel;
  DType dtype;
  int threads;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const char* kernel : {"batch_norm.ref", "batch_norm.vector", "batch_norm.lanes"}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      for (const int threads : {1, 3}) all.push_back({kernel, dtype, threads});
    }
  }
  return all;
}

// Undefined inputs are left out; operands of more than one axis carry the batch.
std::vector<Tensor> run(const Way& way, const char* op, const std::vector<Tensor>& inputs,
                        int outputs, const Attributes& attributes = {}) {
  graph::Graph g;
  g.batch_symbol = "N";
  std::vector<ops::Value*> values;
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      values.push_back(nullptr);
      continue;
    }
    graph::TensorType type = input.type();
    if (type.rank() > 1) type.dims[0].symbol = "N";
    values.push_back(g.add_input(graph::fresh_name(g, "x"), type));
  }
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(graph::fresh_name(g, fmt::format("y{}", i)));
  ops::Node* node = g.add_node(ops::kDomain, op, values, names);
  node->attributes = attributes;
  ops::infer_node(*node);
  KernelRequest request = KernelRequest::of(*node);
  for (auto* types : {&request.in, &request.out}) {
    for (ops::TensorType& type : *types) {
      const bool lanes = way.kernel.ends_with("lanes") && type.rank() > 1;
      if (lanes) type.layout = graph::Layout::lanes(16);
    }
  }
  for (const KernelDef* kernel : ops::KernelRegistry::get().find(ops::kDomain, op)) {
    if (kernel->name != way.kernel) continue;
    EXPECT_EQ(ops::declines(*kernel, request), std::nullopt);
    RunResult result = run_kernel(*kernel, request, inputs, {.threads = way.threads});
    EXPECT_EQ(result.faults, std::vector<std::string>());
    return std::move(result.outputs);
  }
  ADD_FAILURE() << op << " has no kernel " << way.kernel;
  return {};
}

template <class F>
Tensor each(const Tensor& a, const Tensor& b, F f) {
  Tensor result(a.dtype(), a.shape());
  ops::dispatch_float(a.dtype(), [&]<class T>() {
    const T *x = a.data<T>().data(), *y = b.data<T>().data();
    for (int64_t i = 0; i < a.numel(); ++i) result.mutable_data<T>()[i] = f(x[i], y[i]);
  });
  return result;
}
Tensor sum_of(const Tensor& a, const Tensor& b) {
  return each(a, b, [](auto x, auto y) { return x + y; });
}
Tensor relu_of(const Tensor& a) {
  return each(a, a, [](auto x, auto) { return x < 0 ? decltype(x){0} : x; });
}
Tensor masked(const Tensor& y, const Tensor& dy) {
  return each(y, dy, [](auto out, auto d) { return out <= 0 ? decltype(d){0} : d; });
}

struct Operands {
  Tensor x, scale, bias, mean, var, count, addend, dy, second, dbias, dscale;
};

// One channel in three gives exactly 0 everywhere: the kink.
Operands operands(DType dtype, const std::vector<int64_t>& shape) {
  const int64_t channels = shape[1];
  const auto channel = [&](DType type, double low, double high, uint64_t seed) {
    return random_tensor(type, {channels}, low, high, seed);
  };
  Operands o{random_tensor(dtype, shape, -1, 1, 1), channel(dtype, 0.5, 1.5, 2),
             channel(dtype, -0.5, 0.5, 3),          channel(DType::kFloat64, -0.5, 0.5, 4),
             channel(DType::kFloat64, 0.5, 2, 5),   Tensor::scalar<double>(20),
             random_tensor(dtype, shape, -1, 1, 6), random_tensor(dtype, shape, -1, 1, 7),
             random_tensor(dtype, shape, -1, 1, 8), channel(DType::kFloat64, -1, 1, 9),
             channel(DType::kFloat64, -1, 1, 10)};
  ops::dispatch_float(dtype, [&]<class T>() {
    for (int64_t c = 0; c < channels; c += 3) {
      o.scale.mutable_data<T>()[c] = o.bias.mutable_data<T>()[c] = 0;
    }
  });
  return o;
}

template <class F>
void in_all_ways(F&& f) {
  for (const Way& way : ways()) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{5, 3, 7, 7}, {35, 4, 4, 4}, {18, 20, 5}, {4, 21}, {33, 2, 1, 1}}) {
      SCOPED_TRACE(testing::Message() << way.kernel << " " << graph::dtype_name(way.dtype) << " "
                                      << way.threads << " threads " << graph::shape_str(shape));
      f(way, operands(way.dtype, shape));
      if (testing::Test::HasFailure()) return;
    }
  }
}

void expect_same_bits(const Tensor& got, const Tensor& want) {
  EXPECT_TRUE(got.identical(want)) << difference(got, want, {0, 0}).value_or("but for signs");
}

TEST(BatchNormFused, addition_and_relu_are_those_of_their_own_nodes) {
  in_all_ways([](const Way& way, const Operands& o) {
    const std::vector<Tensor> plain{o.x, o.scale, o.bias, o.mean, o.var, o.count};
    std::vector<Tensor> added = plain;
    added.push_back(o.addend);
    const Attributes relu{{"activation", std::string("Relu")}};
    const Tensor y = run(way, "BatchNormApply", plain, 1)[0];
    expect_same_bits(run(way, "BatchNormApply", plain, 1, relu)[0], relu_of(y));
    expect_same_bits(run(way, "BatchNormApply", added, 1)[0], sum_of(y, o.addend));
    expect_same_bits(run(way, "BatchNormApply", added, 1, relu)[0], relu_of(sum_of(y, o.addend)));
  });
}

TEST(BatchNormFused, sums_of_a_masked_gradient_are_those_of_the_gradient_masked_before) {
  in_all_ways([](const Way& way, const Operands& o) {
    const Tensor y =
        relu_of(run(way, "BatchNormApply", {o.x, o.scale, o.bias, o.mean, o.var, o.count}, 1)[0]);
    const auto summed = [&](const Tensor& dz) {
      return run(way, "BatchNormGradSums", {dz, o.x, o.mean, o.var}, 2);
    };
    const auto expect = [&](const std::vector<Tensor>& got, const Tensor& dz) {
      const std::vector<Tensor> want = summed(dz);
      expect_same_bits(got[0], want[0]);
      expect_same_bits(got[1], want[1]);
      if (got.size() > 2) expect_same_bits(got[2], dz);
    };
    const Tensor none, both = sum_of(o.dy, o.second);
    const std::vector<Tensor> base{o.dy, o.x, o.mean, o.var};
    const auto with = [&](const Tensor& second, const Tensor& by_y, bool by_x, int outputs) {
      std::vector<Tensor> inputs = base;
      inputs.insert(inputs.end(), {second, by_y});
      if (by_x) inputs.insert(inputs.end(), {o.scale, o.bias});
      return run(way, "BatchNormGradSums", inputs, outputs);
    };
    expect(with(none, y, false, 3), masked(y, o.dy));
    expect(with(o.second, y, false, 3), masked(y, both));
    expect(with(none, none, true, 2), masked(y, o.dy));
    expect(with(o.second, none, true, 3), masked(y, both));
    expect(with(o.second, none, false, 2), both);
  });
}

TEST(BatchNormFused, the_gradient_of_x_masks_as_the_activation_does) {
  in_all_ways([](const Way& way, const Operands& o) {
    const Tensor y =
        relu_of(run(way, "BatchNormApply", {o.x, o.scale, o.bias, o.mean, o.var, o.count}, 1)[0]);
    const auto data = [&](const Tensor& dy, const std::vector<Tensor>& more) {
      std::vector<Tensor> inputs{dy, o.scale, o.var, o.x, o.mean, o.dbias, o.dscale, o.count};
      inputs.insert(inputs.end(), more.begin(), more.end());
      return run(way, "BatchNormGradData", inputs, 1)[0];
    };
    const Tensor both = sum_of(o.dy, o.second);
    expect_same_bits(data(o.dy, {o.bias}), data(masked(y, o.dy), {}));
    expect_same_bits(data(o.dy, {o.bias, o.second}), data(masked(y, both), {}));
    expect_same_bits(data(o.dy, {Tensor(), o.second}), data(both, {}));
  });
}

TEST(BatchNormFused, the_sums_of_the_gradient_come_with_it) {
  in_all_ways([](const Way& way, const Operands& o) {
    for (const bool through_statistics : {true, false}) {
      std::vector<Tensor> inputs{o.dy, o.scale, o.var};
      if (through_statistics) {
        inputs.insert(inputs.end(), {o.x, o.mean, o.dbias, o.dscale, o.count, o.bias, o.second});
      }
      const std::vector<Tensor> got = run(way, "BatchNormGradData", inputs, 2);
      expect_same_bits(got[0], run(way, "BatchNormGradData", inputs, 1)[0]);
      const int64_t channels = o.x.shape()[1];
      const int64_t plane = o.x.numel() / channels / o.x.shape()[0];
      std::vector<double> want(static_cast<size_t>(channels));
      for (int64_t i = 0; i < got[0].numel(); ++i) {
        want[static_cast<size_t>(i / plane % channels)] += got[0].as_double(i);
      }
      EXPECT_EQ(difference(got[1], doubles({channels}, want), {1e-6, 1e-6}), std::nullopt);
    }
  });
}

// --- the operators in the harness: in place, per block of rows, no rows, out of bounds

OpInput per_channel(double low, double high, uint64_t seed) {
  return parameter(random({3}, low, high, seed));
}

OpCase own(const char* op, std::vector<OpInput> inputs, int outputs) {
  OpCase c;
  c.claim = op;
  c.domain = ops::kDomain;
  c.op = op;
  c.inputs = std::move(inputs);
  c.num_outputs = outputs;
  c.batch = true;
  c.numeric = Numeric::kSkip;  // these are not the statistics of x
  c.must_run = {"batch_norm.ref", "batch_norm.vector", "batch_norm.lanes"};
  return c;
}

TEST(BatchNormFused, every_form_holds_in_the_harness) {
  const std::vector<int64_t> shape{5, 3, 4, 3};
  const OpInput x = random(shape), more = random(shape, -1, 1, 8), third = random(shape, -1, 1, 9);
  const OpInput scale = per_channel(0.5, 1.5, 2), bias = per_channel(-1, 1, 3);
  const OpInput mean = per_channel(-1, 1, 4), var = per_channel(0.5, 2, 5);
  const OpInput count = parameter(exactly(given(doubles({}, {20}))));
  OpCase apply = own("BatchNormApply", {x, scale, bias, mean, var, count, more}, 1);
  check_op(apply);
  apply.attributes = {{"activation", std::string("Relu")}};
  check_op(apply);
  apply.inputs.pop_back();
  check_op(apply);
  check_op(own("BatchNormGradSums", {x, more, mean, var, third, left_out(), scale, bias}, 3));
  check_op(own("BatchNormGradSums", {x, more, mean, var, left_out(), third}, 3));
  check_op(own("BatchNormGradData",
               {x, scale, var, more, mean, bias, per_channel(-1, 1, 6), count, bias, third}, 2));
  check_op(own("BatchNormGradData", {x, scale, var}, 2));
}

TEST(BatchNormFused, s5_knows_no_other_activation) {
  const OpInput one = per_channel(0.5, 1, 2);
  OpCase c = own("BatchNormApply", {random({2, 3, 2}), one, one, one, one, one}, 1);
  c.attributes = {{"activation", std::string("Tanh")}};
  EXPECT_EQ(infer_error(c).substr(0, 47), "S5: activation is 'Tanh', expected Relu or none");
}

TEST(BatchNormFused, s1_wants_an_addend_like_x) {
  const OpInput one = per_channel(0.5, 1, 2);
  OpCase c =
      own("BatchNormApply", {random({2, 3, 2}), one, one, one, one, one, random({2, 3, 1})}, 1);
  EXPECT_EQ(infer_error(c).substr(0, 47), "S1: input 6 has type float[N:2,3,1], expected f");
}

}  // namespace
}  // namespace sardonyx::test
