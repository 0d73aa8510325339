// The CUDA device and its executor: what only the stand-in can show.
#include "runtime/devices/cuda_device.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "passes/pipelines.h"
#include "tests/support/host_cuda/fixture.h"
#include "tests/support/run_plan.h"

namespace sardonyx::runtime {

namespace {

using CudaDeviceTest = host_cuda::HostCuda;

std::string open_error(const std::string& name) {
  try {
    make_device(name, 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(CudaDeviceTest, is_opened_by_its_number) {
  const auto device = make_device("cuda:1", 1);
  EXPECT_EQ(device->name(), "cuda:1 (host stand-in, sm_90)");
  EXPECT_EQ(device->device(), ops::Device::kCuda);
}

TEST_F(CudaDeviceTest, that_is_not_there_says_what_is) {
  EXPECT_EQ(open_error("cuda:2"),
            "device 'cuda:2': this machine has 2 CUDA devices, numbered from 0");
  host_cuda::reset({.devices = 0, .why_none = "no driver; install one"});
  EXPECT_EQ(open_error("cuda:0"), "device 'cuda:0': no driver; install one, or use --devices cpu");
}

// y = max(x - something, 0) as the plan of a graph.
std::unique_ptr<graph::Graph> two_steps(passes::PassContext& context) {
  auto graph = graph::parse(
      "<ir_version: 8, opset_import: [\"\" : 13]>\n"
      "g (float[N,3] x) => (float[N,3] y)\n{\n  h = Relu(x)\n  y = Elu(h)\n}\n");
  context.options.batch = 2;
  passes::run_pipeline(*graph, context, {{"bind_batch", ""}, {"infer_shapes", ""}});
  return graph;
}

TEST_F(CudaDeviceTest, runs_a_plan) {
  CudaDevice device(0);
  passes::PassContext context;
  auto graph = two_steps(context);
  const auto x = graph::Tensor::of<float>({2, 3}, {-1, 2, -3, 4, -5, 6});
  const auto run = tests::run_plan_on(device, std::move(graph), context, {{"x", x}});
  EXPECT_EQ(run.outputs.at("y").to_doubles(), (std::vector<double>{0, 2, 0, 4, 0, 6}));
}

TEST_F(CudaDeviceTest, runs_a_plan_again_and_again_without_allocating) {
  for (const auto schedule : {host_cuda::Schedule::kLate, host_cuda::Schedule::kRandom}) {
    host_cuda::reset({.schedule = schedule});
    CudaDevice device(0);
    passes::PassContext context;
    auto graph = two_steps(context);
    context.target = &device;
    passes::StateTable states;
    const auto plan = passes::lower(std::move(graph), context, states);
    device.reserve_arena(plan->arena_bytes);
    const auto executor = device.load(*plan);
    const size_t allocations = host_cuda::counts().allocations;
    for (int step = 1; step <= 5; ++step) {
      const auto x = graph::Tensor::of<float>({2, 3}, std::vector<float>(6, 1.0f * step));
      RunArguments arguments;
      arguments.inputs = {x.aligned_data()};
      executor->run(arguments);
      if (step % 2 == 0) continue;
      EXPECT_EQ(executor->output(0).to_doubles(), std::vector<double>(6, step));
    }
    EXPECT_EQ(host_cuda::counts().allocations, allocations);
  }
}

}  // namespace

}  // namespace sardonyx::runtime
