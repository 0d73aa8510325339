// What the kernels ask a communicator of devices for; the operators alone are tried by the cases of
// tests/ops/all_reduce_test.cc.
#include <gtest/gtest.h>

#include "ops/core/cuda_context.h"
#include "tests/cuda/device_array.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace {

namespace cuda = ops::cuda;

// Writes down what it is asked for.
class Recorder final : public ops::DeviceCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void start_sum(void* data, size_t count, DType dtype, DType wire, cuda::Stream compute) override {
    asked.push_back(fmt::format("sum of {} {} as {}", count, graph::dtype_name(dtype),
                                graph::dtype_name(wire)));
    memory.push_back(data);
    streams.push_back(compute);
  }
  void wait(const void* data, cuda::Stream compute) override {
    asked.emplace_back("wait");
    memory.push_back(data);
    streams.push_back(compute);
  }
  std::vector<std::string> asked;
  std::vector<const void*> memory;
  std::vector<cuda::Stream> streams;
};

std::unique_ptr<ops::Kernel> kernel_of(const OpCase& c, OpGraph& g) {
  g = build(c, input_values(c, DType::kFloat32, -1));
  const auto kernels = ops::KernelRegistry::get(ops::Device::kCuda).find(ops::kDomain, c.op);
  return kernels.at(0)->create(ops::KernelRequest::of(*g.node));
}

TEST(CudaAllReduce, a_sum_is_started_in_place_and_waited_for) {
  cuda::use_device(0);
  const cuda::OwnedStream stream;
  const DeviceArray<float> data(stream.get(), {1, 2, 3});
  Recorder recorder;
  ops::CudaContext context;
  context.stream = stream.get();
  context.communicator = &recorder;
  context.inputs = {data.data()};
  context.outputs = {data.data()};
  for (const char* wire : {"", "bfloat16"}) {
    OpGraph g;
    const OpCase c{.domain = ops::kDomain,
                   .op = "AllReduce",
                   .inputs = {parameter(random({3}))},
                   .attributes = {{"wire", std::string(wire)}}};
    kernel_of(c, g)->launch(context);
  }
  OpGraph g;
  const OpCase c{.domain = ops::kDomain, .op = "Await", .inputs = {parameter(random({3}))}};
  kernel_of(c, g)->launch(context);
  EXPECT_EQ(recorder.asked, (std::vector<std::string>{"sum of 3 float as float",
                                                      "sum of 3 float as bfloat16", "wait"}));
  EXPECT_EQ(recorder.memory, (std::vector<const void*>(3, data.data())));
  EXPECT_EQ(recorder.streams, (std::vector<cuda::Stream>(3, stream.get())));
  EXPECT_EQ(data.values(), (std::vector<float>{1, 2, 3}));
}

TEST(CudaAllReduce, a_member_that_lies_in_its_bucket_is_not_moved_and_gaps_are_zero) {
  cuda::use_device(0);
  const cuda::OwnedStream stream;
  const DeviceArray<float> bucket(stream.get(), {9, 9, 3, 4, 9, 9});
  const DeviceArray<float> first(stream.get(), {1});
  OpGraph g;
  const OpCase c{.domain = ops::kDomain,
                 .op = "Bucket",
                 .inputs = {random({1}), random({2}), random({1})},
                 .attributes = {{"offsets", std::vector<int64_t>{0, 2, 5}}}};
  const auto kernel = kernel_of(c, g);
  ops::CudaContext context;
  context.stream = stream.get();
  context.inputs = {first.data(), bucket.data() + 2, first.data()};
  context.outputs = {bucket.data()};
  kernel->launch(context);
  EXPECT_EQ(bucket.values(), (std::vector<float>{1, 0, 3, 4, 0, 1}));
}

}  // namespace

}  // namespace sardonyx::test
