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

class StagedInputs : public CudaDeviceTest {
 protected:
  StagedInputs() {
    auto graph = two_steps(context_);
    context_.target = device_.get();
    passes::StateTable states;
    plan_ = passes::lower(std::move(graph), context_, states);
    device_->reserve_arena(plan_->arena_bytes);
    executor_ = device_->load(*plan_);
  }
  void TearDown() override {
    executor_ = nullptr;
    plan_ = nullptr;
    device_ = nullptr;
    CudaDeviceTest::TearDown();
  }
  static graph::Tensor filled(float value) {
    return graph::Tensor::of<float>({2, 3}, std::vector<float>(6, value));
  }
  static RunArguments arguments(const graph::Tensor& x, uint64_t staged) {
    RunArguments arguments;
    arguments.inputs = {x.aligned_data()};
    arguments.staged = staged;
    return arguments;
  }
  void stage(float value, uint64_t number) {
    const graph::Tensor x = filled(value);
    executor_->stage(arguments(x, number));
  }
  // Each element of the result, and the copies that the run made.
  std::pair<double, size_t> run(float value, uint64_t staged) {
    const graph::Tensor x = filled(value);
    const size_t copies = host_cuda::counts().copies;
    executor_->run(arguments(x, staged));
    const size_t made = host_cuda::counts().copies - copies;
    return {executor_->output(0).as_double(5), made};
  }

  using Ran = std::pair<double, size_t>;
  std::unique_ptr<CudaDevice> device_ = std::make_unique<CudaDevice>(0);
  passes::PassContext context_;
  std::unique_ptr<passes::Plan> plan_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(StagedInputs, are_copied_while_the_run_before_is_under_way_and_not_again) {
  const graph::Tensor first = filled(1);
  executor_->run(arguments(first, 0));
  const host_cuda::Counts before = host_cuda::counts();
  stage(2, 1);
  EXPECT_EQ(host_cuda::counts().copies, before.copies + 1);
  EXPECT_EQ(host_cuda::counts().synchronizations, before.synchronizations);
  EXPECT_EQ(executor_->output(0).as_double(5), 1);
  EXPECT_EQ(run(2, 1), Ran(2, 0));
  EXPECT_EQ(run(3, 1), Ran(3, 1));  // they are used once
}

TEST_F(StagedInputs, are_forgotten_when_another_run_or_other_inputs_come) {
  stage(2, 1);
  EXPECT_EQ(run(3, 0), Ran(3, 1));
  EXPECT_EQ(run(4, 1), Ran(4, 1));
  stage(5, 2);
  stage(6, 3);  // while the copy is under way: there is no room
  EXPECT_EQ(run(6, 3), Ran(6, 1));
  EXPECT_EQ(run(7, 2), Ran(7, 1));
}

TEST_F(CudaDeviceTest, values_are_read_with_one_wait_for_the_device) {
  CudaDevice device(0);
  device.reserve_states(size_t{20} << 20);
  std::vector<float> large(size_t{3} << 20, 1.5f), large_back(large.size());
  const std::vector<float> small = {1, 2};
  std::vector<float> first(1), second(1);
  device.write_state(0, small.data(), 8);
  device.write_state(256, large.data(), large.size() * 4);
  const size_t waits = host_cuda::counts().synchronizations;
  device.download({{first.data(), device.states(), 4}, {second.data(), device.states() + 4, 4}});
  EXPECT_EQ(host_cuda::counts().synchronizations, waits + 1);
  EXPECT_EQ(std::vector<float>({first[0], second[0]}), small);
  // 12 MiB and a little more go through 8 MiB.
  first = {};
  first.resize(1);
  device.download({{first.data(), device.states(), 4},
                   {large_back.data(), device.states() + 256, large.size() * 4},
                   {second.data(), device.states(), 4}});
  EXPECT_EQ(host_cuda::counts().synchronizations, waits + 3);
  EXPECT_EQ(large_back, large);
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(second[0], 1);
}

}  // namespace

}  // namespace sardonyx::runtime
