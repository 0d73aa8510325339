// The harness itself: every kind of planted mistake must be reported.
#include "tests/support/op_tester.h"

#include <gtest/gtest.h>

#include <atomic>

#include "ops/core/op_builder.h"

namespace sardonyx::test {
namespace {

using ops::CpuContext;
using ops::KernelRequest;

OpCase relu(int64_t rows, bool batch) {
  OpCase c;
  c.claim = "planted";
  c.op = "Relu";
  c.inputs = {random({rows, 5}, 0.5, 2)};  // positive: y = x
  c.batch = batch;
  return c;
}

template <class Body>
ops::KernelDef planted(Body body) {
  ops::KernelDef kernel;
  kernel.op = "Relu";
  kernel.name = "planted";
  kernel.layouts = ops::Layouts::kSameAll;
  kernel.create = ops::simple_kernel([body](const KernelRequest& request, CpuContext& context) {
    ops::dispatch_float(request.in[0].dtype, [&]<class T>() {
      body(context, context.in<T>(0), context.out<T>(0), request.in[0].physical_numel());
    });
  });
  return kernel;
}

// All messages in one string.
std::string faults_of(const OpCase& c) {
  std::string all;
  for (const std::string& fault : op_faults(c)) all += fault + "\n";
  return all;
}

std::string with_kernel(ops::KernelDef kernel, bool batch = false) {
  OpCase c = relu(3, batch);
  c.extra_kernels = {std::move(kernel)};
  return faults_of(c);
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << "in:\n" << (text)

const auto kCopy = [](CpuContext& context, auto* x, auto* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = context.accumulate ? y[i] + x[i] : x[i];
};

TEST(OpTester, a_right_kernel_has_no_faults) {
  ops::KernelDef kernel = planted(kCopy);
  kernel.accumulates = true;
  kernel.in_place = {{0, 0}};
  EXPECT_EQ(with_kernel(kernel), "");
  EXPECT_EQ(with_kernel(kernel, true), "");
}

TEST(OpTester, a_wrong_element_is_named) {
  const std::string faults = with_kernel(planted([](CpuContext& c, auto* x, auto* y, int64_t n) {
    kCopy(c, x, y, n);
    y[7] += 1;
  }));
  EXPECT_HAS(faults, "planted: planted float plain, 1 thread: output 0 element 7 [1,2]: got ");
  EXPECT_HAS(faults, "planted double plain, 3 threads");
}

TEST(OpTester, an_element_left_out_is_found) {
  EXPECT_HAS(with_kernel(planted(
                 [](CpuContext& c, auto* x, auto* y, int64_t n) { kCopy(c, x, y, n - 1); })),
             "element 14 [2,4]: got nan");
}

TEST(OpTester, writes_out_of_bounds_are_found) {
  EXPECT_HAS(with_kernel(planted([](CpuContext& c, auto* x, auto* y, int64_t n) {
               kCopy(c, x, y, n);
               y[n] = 1;
             })),
             "writes around output 0");
}

TEST(OpTester, a_changed_input_is_found) {
  EXPECT_HAS(with_kernel(planted([](CpuContext& c, auto* x, auto* y, int64_t n) {
               kCopy(c, x, y, n);
               const_cast<std::remove_const_t<std::remove_pointer_t<decltype(x)>>*>(x)[0] = 9;
             })),
             "changes input 0");
}

TEST(OpTester, a_declared_in_place_pair_that_is_none_is_found) {
  ops::KernelDef kernel = planted([](CpuContext&, auto* x, auto* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = 0;
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  });
  EXPECT_EQ(with_kernel(kernel), "");
  kernel.in_place = {{0, 0}};
  EXPECT_HAS(with_kernel(kernel), "output 0 in place of input 0: output 0 element 0");
}

TEST(OpTester, forgotten_accumulation_is_found) {
  ops::KernelDef kernel =
      planted([](CpuContext&, auto* x, auto* y, int64_t n) { std::copy(x, x + n, y); });
  kernel.accumulates = true;
  EXPECT_HAS(with_kernel(kernel), "accumulating: output 0 element 0");
}

TEST(OpTester, padding_lanes_hold_nan) {
  // Lane 0 of each group of lanes is mixed with the last one: wrong in lanes only.
  const std::string faults = with_kernel(planted([](CpuContext& c, auto* x, auto* y, int64_t n) {
                                           kCopy(c, x, y, n);
                                           if (n % 16 == 0 && n > 0) y[0] += 0 * x[15];
                                         }),
                                         true);
  EXPECT_HAS(faults, "planted float lanes, 1 thread: output 0 element 0 [0,0]: got nan");
  EXPECT_EQ(faults.find("planted float plain"), std::string::npos) << faults;
}

TEST(OpTester, results_that_change_from_run_to_run_are_found) {
  auto runs = std::make_shared<std::atomic<int>>(0);
  EXPECT_HAS(with_kernel(planted([runs](CpuContext& c, auto* x, auto* y, int64_t n) {
               kCopy(c, x, y, n);
               y[0] *= ++*runs == 1 ? 1 + 1e-15 : 1;
             })),
             "planted double plain: output 0 differs from run to run");
}

TEST(OpTester, an_exception_is_reported) {
  ops::KernelDef kernel = planted(kCopy);
  kernel.create = [](const KernelRequest&) -> std::unique_ptr<ops::Kernel> {
    throw Error("no such thing");
  };
  EXPECT_HAS(with_kernel(kernel), "planted float plain: throws no such thing");
}

TEST(OpTester, a_kernel_that_never_runs_is_reported) {
  OpCase c = relu(3, false);
  c.must_run = {"activation.lanes"};
  EXPECT_EQ(faults_of(c), "planted: kernel activation.lanes never ran\n");
}

TEST(OpTester, wrong_expected_numbers_are_reported) {
  OpCase c = relu(1, false);
  c.inputs = {given(floats({2}, {1, 2}))};
  c.expected = {floats({2}, {1, 3})};
  EXPECT_EQ(faults_of(c),
            "planted: reference: output 0 element 1 [1]: got 2, expected 3 (1 of 2 elements "
            "differ)\n");
}

TEST(OpTester, a_wrong_gradient_is_found) {
  OpCase c = relu(2, false);
  c.gradient_rule = [](ops::GradientContext& g) {
    g.set(0, g.b().op("LeakyRelu", {g.dy(0)}));
    g.b().op("Relu", {g.x(0)});
  };
  EXPECT_EQ(faults_of(c), "");  // dy is positive: LeakyRelu is the identity
  c.gradient_rule = [](ops::GradientContext& g) { g.set(0, g.b().op("Tanh", {g.dy(0)})); };
  EXPECT_HAS(faults_of(c),
             "gradient of input 0 against central differences: element 0 [0,0]: got ");
}

TEST(OpTester, a_zero_gradient_is_found_unless_allowed) {
  OpCase c = relu(2, false);
  c.inputs = {random({4}, -2, -1)};
  EXPECT_EQ(faults_of(c), "planted: gradient of input 0 is zero everywhere\n");
  c.zero_gradients = {0};
  EXPECT_EQ(faults_of(c), "");
}

TEST(OpTester, a_rule_that_sets_nothing_is_found) {
  OpCase c = relu(2, false);
  c.gradient_rule = [](ops::GradientContext&) {};
  EXPECT_EQ(faults_of(c), "planted: the gradient rule sets nothing for input 0\n");
}

TEST(Tensors, lanes_and_back_is_the_identity) {
  const Tensor plain = random_tensor(graph::DType::kFloat32, {19, 3});
  const Tensor stored = to_lanes(plain, 16);
  EXPECT_EQ(stored.numel(), 2 * 3 * 16);
  EXPECT_EQ(stored.as_double(16 + 4), plain.as_double(4 * 3 + 1));  // image 4, element 1
  EXPECT_TRUE(from_lanes(stored, {19, 3}, 16).identical(plain));
}

TEST(Tensors, random_numbers_are_the_same_in_float_and_double) {
  const Tensor f = random_tensor(graph::DType::kFloat32, {100}, -2, 5, 3);
  const Tensor d = random_tensor(graph::DType::kFloat64, {100}, -2, 5, 3);
  EXPECT_EQ(f.to_doubles(), d.to_doubles());
  for (double v : d.to_doubles()) EXPECT_TRUE(v >= -2 && v <= 5) << v;
}

TEST(Tensors, difference_counts_and_names_the_first) {
  EXPECT_EQ(difference(floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 2, 3.5, 5}), {0, 0.1}),
            "element 2 [1,0]: got 3, expected 3.5 (2 of 4 elements differ)");
  EXPECT_EQ(difference(floats({2}, {1, 2}), floats({1, 2}, {1, 2}), {}),
            "got shape [2], expected [1,2]");
}

}  // namespace
}  // namespace sardonyx::test
