// What cuDNN would do on devices that aren't here: every convolution of the workloads gets a plan,
// and the table of fused graphs is true. With a driver of its own (fake_driver.cc), so that kernels
// which cuDNN compiles while it plans count too; nothing runs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "graph/support/error.h"
#include "ops/conv/conv_cuda.h"
#include "ops/core/cuda_native/cudnn_convolution.h"
#include "ops/core/cuda_native/cudnn_library.h"
#include "ops/core/kernel.h"
#include "ops/core/op_builder.h"
#include "tests/cuda_native/described_devices.h"
#include "tests/cuda_native/patterns.h"

namespace sardonyx::testing {
namespace {

using graph::DType;
using ops::cudnn::ConvolutionDesc;
using ops::cudnn::Descriptor;
using ops::cudnn::Math;
using ops::cudnn::Order;
using ops::cudnn::Pass;
using ops::cudnn::Plan;
using ops::cudnn::PlanTarget;

class CudnnOffline : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen(SARDONYX_FAKE_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  }
  void SetUp() override {
    const std::string reason = why_no_cudnn();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

struct Arithmetic {
  const char* name;  // as in the table
  DType dtype;
  Math math;
};
constexpr Arithmetic kArithmetics[] = {{"fp32", DType::kFloat32, Math::kFloat32},
                                       {"tf32", DType::kFloat32, Math::kTf32},
                                       {"bf16", DType::kBFloat16, Math::kFloat32},
                                       {"fp16", DType::kFloat16, Math::kFloat32}};

ConvolutionDesc desc_of(const WorkloadConvolution& convolution, Pass pass,
                        const Arithmetic& arithmetic, Order order = Order::kChannelsLast) {
  ConvolutionDesc desc;
  desc.pass = pass;
  desc.shape = convolution.shape;
  desc.dtype = arithmetic.dtype;
  desc.math = arithmetic.math;
  desc.order = order;
  return desc;
}

// The same as kernels conv.cudnn and conv.cudnn_nhwc ask for it: from a node of a graph.
ConvolutionDesc desc_of_kernel(const WorkloadConvolution& convolution, Pass pass,
                               const Arithmetic& arithmetic, Order order) {
  const ops::cudnn::ConvolutionShape& s = convolution.shape;
  const auto type = [&](int64_t outer, int64_t channels, const std::vector<int64_t>& spatial) {
    std::vector<int64_t> sizes = {outer, channels};
    sizes.insert(sizes.end(), spatial.begin(), spatial.end());
    return graph::TensorType(arithmetic.dtype, graph::to_dims(sizes));
  };
  graph::Graph graph;
  graph::Value* x = graph.add_input("x", type(s.n, s.c, s.in));
  graph::Value* w = graph.add_input("w", type(s.k, s.c / s.groups, s.kernel));
  graph::Value* y = graph.add_input("y", type(s.n, s.k, s.out));
  graph::Value* bias = graph.add_input("b", graph::TensorType(arithmetic.dtype, {s.k}));
  std::vector<int64_t> pads = s.pads_begin;
  pads.insert(pads.end(), s.pads_end.begin(), s.pads_end.end());
  graph::Attributes attributes = {
      {"pads", pads}, {"strides", s.strides}, {"dilations", s.dilations}, {"group", s.groups}};
  ops::OpBuilder b(graph);
  const graph::Value* result = nullptr;
  if (pass == Pass::kForward) {
    result = b.op("Conv", {x, w, bias}, attributes);
  } else if (pass == Pass::kData) {
    attributes["input_shape"] = s.in;
    result = b.own("ConvGradData", {w, y}, attributes);
  } else {
    attributes["kernel_shape"] = s.kernel;
    result = b.own("ConvGradFilter", {x, y}, attributes);
  }
  ops::KernelRequest request = ops::KernelRequest::of(*result->producer);
  request.math = arithmetic.math;
  if (order == Order::kChannelsLast) {
    const graph::Layout last = graph::Layout::channels_last(x->type.rank());
    for (size_t i = 0; i < request.in.size(); ++i) {
      const graph::Value* operand = result->producer->inputs()[i];
      if (operand == x || operand == y) request.in[i].layout = last;
    }
    if (pass != Pass::kFilter) request.out[0].layout = last;
  }
  return ops::conv::library_desc(request, pass);
}

const WorkloadConvolution& convolution(const char* name) {
  return *std::ranges::find(workload_convolutions(), name, &WorkloadConvolution::name);
}

ConvolutionDesc layer1(const Arithmetic& arithmetic) {
  return desc_of(convolution("W2 layer1"), Pass::kForward, arithmetic);
}

// Plans all of them; what got none is a failure.
struct Planned {
  int count = 0;
  size_t workspace = 0;  // the largest
  double seconds = 0;
};
Planned plan_all(const PlanTarget& target, const Arithmetic& arithmetic, Order order) {
  Planned planned;
  const auto begin = std::chrono::steady_clock::now();
  for (const WorkloadConvolution& convolution : workload_convolutions()) {
    for (const Pass pass : {Pass::kForward, Pass::kData, Pass::kFilter}) {
      try {
        const Plan plan =
            plan_convolution(target, desc_of_kernel(convolution, pass, arithmetic, order));
        planned.workspace = std::max(planned.workspace, plan.workspace_bytes);
        ++planned.count;
      } catch (const Error& error) {
        ADD_FAILURE() << convolution.name << " " << arithmetic.name << " pass "
                      << static_cast<int>(pass) << ": " << error.what();
      }
    }
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  planned.seconds = time.count();
  return planned;
}

TEST_F(CudnnOffline, every_convolution_of_the_workloads_gets_a_plan_within_the_workspace) {
  for (const DescribedDevice& device : described_devices()) {
    const Descriptor properties = ops::cudnn::device_properties(device.json);
    for (const Arithmetic& arithmetic : kArithmetics) {
      for (const Order order : {Order::kChannelsLast, Order::kChannelsFirst}) {
        const Planned planned = plan_all({.properties = &properties}, arithmetic, order);
        EXPECT_EQ(planned.count, 105);  // 35 shapes, three passes
        EXPECT_LE(planned.workspace, size_t{256} << 20);
        RecordProperty(fmt::format("{}_{}_{}", device.name, arithmetic.name,
                                   order == Order::kChannelsLast ? "last" : "first"),
                       fmt::format("workspace at most {} bytes, {:.3f} s", planned.workspace,
                                   planned.seconds));
      }
    }
  }
}

TEST_F(CudnnOffline, kernels_describe_the_convolutions_of_the_workloads_as_they_are) {
  for (const WorkloadConvolution& convolution : workload_convolutions()) {
    const auto& want = convolution.shape;
    const auto got =
        desc_of_kernel(convolution, Pass::kForward, kArithmetics[2], Order::kChannelsLast);
    EXPECT_EQ(got.shape.in, want.in) << convolution.name;
    EXPECT_EQ(got.shape.out, want.out) << convolution.name;
    EXPECT_EQ(got.shape.strides, want.strides) << convolution.name;
    EXPECT_EQ(got.shape.pads_begin, want.pads_begin) << convolution.name;
    EXPECT_EQ(got.order, Order::kChannelsLast) << convolution.name;
    EXPECT_EQ(got.bias, ops::cudnn::Bias::kPerOutput) << convolution.name;
  }
}

TEST_F(CudnnOffline, float32_is_kept_off_the_tensor_cores_and_off_transforms) {
  const Descriptor properties = ops::cudnn::device_properties(described_devices()[1].json);
  const auto notes = [&](const Arithmetic& arithmetic) {
    const Plan plan = plan_convolution({.properties = &properties}, layer1(arithmetic));
    return plan.notes;
  };
  EXPECT_FALSE(std::ranges::count(notes(kArithmetics[0]), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  EXPECT_TRUE(std::ranges::count(notes(kArithmetics[1]), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  EXPECT_TRUE(std::ranges::count(notes(kArithmetics[2]), CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
}

TEST_F(CudnnOffline, other_geometries_get_plans) {
  const Descriptor properties = ops::cudnn::device_properties(described_devices()[1].json);
  const auto plans = [&](const ops::cudnn::ConvolutionShape& shape, DType dtype) {
    for (const Pass pass : {Pass::kForward, Pass::kData, Pass::kFilter}) {
      for (const Order order : {Order::kChannelsLast, Order::kChannelsFirst}) {
        ConvolutionDesc desc;
        desc.pass = pass;
        desc.shape = shape;
        desc.dtype = dtype;
        desc.order = order;
        EXPECT_NO_THROW(plan_convolution({.properties = &properties}, desc))
            << "pass " << static_cast<int>(pass) << ", order " << static_cast<int>(order);
      }
    }
  };
  const ops::cudnn::ConvolutionShape dilated_uneven_pads = {.n = 4,
                                                            .c = 16,
                                                            .k = 32,
                                                            .groups = 1,
                                                            .in = {17, 20},
                                                            .kernel = {3, 3},
                                                            .out = {8, 9},
                                                            .pads_begin = {1, 0},
                                                            .pads_end = {2, 1},
                                                            .strides = {2, 2},
                                                            .dilations = {2, 2}};
  plans(dilated_uneven_pads, DType::kFloat32);
  plans(dilated_uneven_pads, DType::kFloat64);
  const ops::cudnn::ConvolutionShape depthwise = {.n = 4,
                                                  .c = 32,
                                                  .k = 32,
                                                  .groups = 32,
                                                  .in = {14, 14},
                                                  .kernel = {3, 3},
                                                  .out = {14, 14},
                                                  .pads_begin = {1, 1},
                                                  .pads_end = {1, 1},
                                                  .strides = {1, 1},
                                                  .dilations = {1, 1}};
  plans(depthwise, DType::kFloat32);
  plans(depthwise, DType::kBFloat16);
  const ops::cudnn::ConvolutionShape one_axis = {.n = 4,
                                                 .c = 8,
                                                 .k = 8,
                                                 .groups = 2,
                                                 .in = {50},
                                                 .kernel = {5},
                                                 .out = {23},
                                                 .pads_begin = {0},
                                                 .pads_end = {0},
                                                 .strides = {2},
                                                 .dilations = {1}};
  plans(one_axis, DType::kFloat32);
  const ops::cudnn::ConvolutionShape three_axes = {.n = 2,
                                                   .c = 8,
                                                   .k = 16,
                                                   .groups = 1,
                                                   .in = {6, 7, 8},
                                                   .kernel = {3, 3, 3},
                                                   .out = {6, 7, 8},
                                                   .pads_begin = {1, 1, 1},
                                                   .pads_end = {1, 1, 1},
                                                   .strides = {1, 1, 1},
                                                   .dilations = {1, 1, 1}};
  plans(three_axes, DType::kFloat32);
}

TEST_F(CudnnOffline, workspace_limit_holds) {
  const Descriptor properties = ops::cudnn::device_properties(described_devices()[1].json);
  ConvolutionDesc desc = layer1(kArithmetics[0]);
  EXPECT_GT(plan_convolution({.properties = &properties}, desc).workspace_bytes, size_t{1} << 20);
  desc.workspace_limit = 0;
  EXPECT_EQ(plan_convolution({.properties = &properties}, desc).workspace_bytes, 0u);
}

std::string refusal(const std::function<void()>& plan) {
  try {
    plan();
  } catch (const Error& error) {
    return error.what();
  }
  return "no refusal";
}

TEST_F(CudnnOffline, what_no_engine_takes_is_refused_with_the_reason) {
  const Descriptor properties = ops::cudnn::device_properties(described_devices()[0].json);
  ConvolutionDesc desc = layer1(kArithmetics[0]);
  const Pattern& statistics = patterns()[2];
  ASSERT_STREQ(statistics.name, "conv_statistics");
  const std::string text = refusal([&] {
    const std::vector<Descriptor> operations = statistics.operations(desc);
    find_plan({.properties = &properties}, operations, convolution_limits(desc));
  });
  EXPECT_TRUE(text.starts_with("no engine of cuDNN takes it: ")) << text;
  EXPECT_TRUE(text.ends_with(" engines round in a way that is ruled out")) << text;
  desc.shape.out = {29, 29};  // the kernel gives 28
  const std::string wrong = refusal([&] { plan_convolution({.properties = &properties}, desc); });
  EXPECT_TRUE(wrong.starts_with("cuDNN 9")) << wrong;
  EXPECT_NE(wrong.find("CUDNN_STATUS_BAD_PARAM"), wrong.npos) << wrong;
}

// --- fused graphs

struct Entry {
  std::string pattern, arithmetic, device, served;
};
const std::vector<Entry>& table() {
  static const std::vector<Entry> entries = {
#define CUDNN_PATTERN(pattern, arithmetic, sm_80, sm_90) \
  {#pattern, #arithmetic, "sm_80", #sm_80}, {#pattern, #arithmetic, "sm_90", #sm_90},
#include "ops/conv/cudnn_patterns.def"
#undef CUDNN_PATTERN
  };
  return entries;
}

TEST_F(CudnnOffline, table_of_patterns_has_an_entry_for_each) {
  EXPECT_EQ(table().size(),
            patterns().size() * std::size(kArithmetics) * described_devices().size());
}

class CudnnPatterns : public CudnnOffline, public ::testing::WithParamInterface<Entry> {};

// As in the table, which was made from all convolutions of the workloads; three of them, with 64,
// 20 and 3 channels, tell whether it still holds.
std::string served(const Entry& entry, const Pattern& pattern) {
  const auto device = std::ranges::find(described_devices(), entry.device, &DescribedDevice::name);
  const auto arithmetic = std::ranges::find(kArithmetics, entry.arithmetic, &Arithmetic::name);
  const Descriptor properties = ops::cudnn::device_properties(device->json);
  const auto has_plan = [&](const char* layer) {
    const ConvolutionDesc desc = desc_of(convolution(layer), pattern.pass, *arithmetic);
    try {
      const std::vector<Descriptor> operations = pattern.operations(desc);
      find_plan({.properties = &properties}, operations, convolution_limits(desc));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  if (!has_plan("W2 layer1")) return "none";
  // The gradient of the stem's data, the images, is never asked for.
  if (pattern.pass != Pass::kData && has_plan("W4 conv1")) return "all";
  return has_plan("W1 conv2") ? "even" : "eights";
}

TEST_P(CudnnPatterns, table_says_what_is_served) {
  const Entry& entry = GetParam();
  const auto pattern =
      std::ranges::find(patterns(), entry.pattern, [](const Pattern& p) { return p.name; });
  ASSERT_NE(pattern, patterns().end()) << entry.pattern;
  if (ops::cudnn::CudnnLibrary::get().version() / 100 != 919) {
    GTEST_SKIP() << "the table is that of cuDNN 9.19";
  }
  EXPECT_EQ(served(entry, *pattern), entry.served);
}

void PrintTo(const Entry& entry, std::ostream* out) {
  *out << entry.pattern << ", " << entry.arithmetic << " on " << entry.device;
}

INSTANTIATE_TEST_SUITE_P(Table, CudnnPatterns, ::testing::ValuesIn(table()), [](const auto& info) {
  return fmt::format("{}_{}_{}", info.param.pattern, info.param.arithmetic, info.param.device);
});

}  // namespace
}  // namespace sardonyx::testing
