// What a session on CUDA devices says and refuses: operators without a kernel there, plans without
// room, labels out of range. On the stand-in, whose memory has any size.
#include <algorithm>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "models/lenet.h"
#include "tests/cuda/trained.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::runtime {

namespace {

using CudaSession = host_cuda::HostCuda;

// Without kernels for CUDA devices: InstanceNormalization and DepthToSpace.
std::shared_ptr<const graph::Model> model_with_gaps() {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,2,6,6] x) => (float[N,10] y)
<float[8,2,3,3] w = {...}, float[8] scale = {...}, float[8] shift = {...}, float[10,2,3,3] v = {...}> {
  c = Conv(x, w)
  n = InstanceNormalization(c, scale, shift)
  r = Relu(n)
  d = DepthToSpace<blocksize = 2>(r)
  e = Conv(d, v)
  p = GlobalAveragePool(e)
  y = Flatten(p)
})");
  uint64_t seed = 0;
  for (const char* name : {"w", "scale", "shift", "v"}) {
    graph::Value* value = graph->find(name);
    value->data = test::random_tensor(DType::kFloat32, value->type.shape(), -1, 1, ++seed);
  }
  return model_of(*graph);
}

constexpr auto kToCpu = passes::Fallback::kCpu;

TEST_F(CudaSession, with_what_has_no_kernel_on_the_cpu_is_as_on_the_cpu) {
  const auto model = model_with_gaps();
  const auto expect = [&](const std::vector<std::string>& devices, const Cut& cut) {
    Setting setting{devices, cut};
    setting.fallback = kToCpu;
    expect_as_on_the_cpu(model, {2, 6, 6}, setting, kFloat64);
  };
  expect({"cuda:0"}, {{7}});
  expect({"cuda:0"}, {{4, 3, 1}});
  expect({"cuda:0", "cuda:0", "cpu"}, {{3, 2}, {2}, {1}});
  expect({"cuda:0", "cuda:1"}, {{3, 2}, {2}});
  Setting channels_last{{"cuda:0"}, {{4, 3}}};
  channels_last.fallback = kToCpu;
  channels_last.channels = passes::ChannelOrder::kLast;
  expect_as_on_the_cpu(model, {2, 6, 6}, channels_last, kFloat64);
  host_cuda::reset({.schedule = host_cuda::Schedule::kRandom});
  ops::cuda::use_device(0);
  expect({"cuda:0"}, {{7}});
}

SessionOptions on_cuda(passes::Fallback fallback = passes::Fallback::kNone) {
  SessionOptions options;
  options.devices = {"cuda:0"};
  options.threads = 2;
  options.pipeline.fallback = fallback;
  return options;
}

std::string training_error(Session& session, const Batch& batch) {
  try {
    session.train_step(batch, {{batch.rows()}}, 0.1);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(CudaSession, names_what_falls_back_and_allocates_nothing_in_a_step) {
  Session session(model_with_gaps(), on_cuda(kToCpu));
  const Batch batch = batch_of({2, 6, 6}, 4, 1);
  session.train_step(batch, {{4}}, 0.1);
  const auto told = [&](const std::string& line) {
    return std::ranges::count(session.notices(), line) == 1;
  };
  // 4 x 8 x 4 x 4 floats are 2 KiB.
  EXPECT_TRUE(
      told("--fallback cpu: 1 node of DepthToSpace runs on the CPU; each run of 4 rows waits there "
           "and copies 0.00 MiB"));
  const size_t allocations = host_cuda::counts().allocations;
  session.train_step(batch, {{4}}, 0.1);
  EXPECT_EQ(host_cuda::counts().allocations, allocations);
}

TEST_F(CudaSession, lists_what_has_no_kernel_and_says_what_to_do) {
  Session session(model_with_gaps(), on_cuda());
  const std::string error = training_error(session, batch_of({2, 6, 6}, 4, 1));
  EXPECT_TRUE(
      error.starts_with("no kernel runs these nodes:\n  node InstanceNormalization -> n:\n"
                        "    no kernel is registered for this device\n"
                        "  node DepthToSpace -> d:"))
      << error;
  EXPECT_TRUE(error.ends_with(
      "\n  --fallback cpu runs them on the CPU, with copies there and back in each step"))
      << error;
}

std::vector<std::string> notices_of_lenet_without_engines(DType dtype) {
  host_cuda::reset({.no_engines = "no engine takes it: NVRTC not found"});
  ops::cuda::use_device(0);
  SessionOptions options = on_cuda();
  options.pipeline.dtype = dtype;
  Session session(model_of(*models::lenet(image(1, 28))), options);
  EXPECT_EQ(training_error(session, batch_of({1, 28, 28}, 4, 1)), "no error");
  return session.notices();
}

TEST_F(CudaSession, names_the_nodes_that_a_library_refuses_with_its_words) {
  const std::string why = ": no engine takes it: NVRTC not found";
  const std::string on_conv_alone = " runs on conv.cuda_plain, far slower than conv.cudnn" + why;
  const std::string on_conv = " run on conv.cuda_plain, far slower than conv.cudnn" + why;
  const std::string on_gemm = " run on gemm.cuda_plain, far slower than gemm.cublas" + why;
  EXPECT_EQ(notices_of_lenet_without_engines(DType::kFloat32),
            (std::vector<std::string>{
                "2 nodes of Conv" + on_conv,
                "4 nodes of Gemm" + on_gemm,
                "1 node of sardonyx::ConvGradData" + on_conv_alone,
                "2 nodes of sardonyx::ConvGradFilter" + on_conv,
                "2 nodes of sardonyx::GemmGradWeight" + on_gemm,
            }));
}

TEST_F(CudaSession, expects_no_engines_for_double) {
  EXPECT_EQ(notices_of_lenet_without_engines(DType::kFloat64), std::vector<std::string>());
}

// Five groups of axes are more than the CUDA kernels of ReduceMean take, and those of the CPU know
// no bfloat16.
TEST_F(CudaSession, in_bfloat16_what_falls_back_to_the_cpu_stays_float) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,8] x) => (float[N,10] y)
<float[8,512] w = {...}, float[16,10] v = {...}, int64[10] cells = {-1, 2, 2, 2, 2, 2, 2, 2, 2, 2},
 int64[5] removed = {1, 3, 5, 7, 9}> {
  h = MatMul(x, w)
  c = Reshape(h, cells)
  s = ReduceMean<keepdims = 0>(c, removed)
  f = Flatten(s)
  y = MatMul(f, v)
})");
  for (const char* name : {"w", "v"}) {
    graph::Value* value = graph->find(name);
    value->data = test::random_tensor(DType::kFloat32, value->type.shape(), -1, 1);
  }
  SessionOptions options = on_cuda(kToCpu);
  options.pipeline.precision = passes::Precision::kBFloat16;
  Session session(model_of(*graph), options);
  EXPECT_EQ(training_error(session, batch_of({8}, 4, 1)), "no error");
  EXPECT_TRUE(std::ranges::any_of(session.notices(), [](const std::string& line) {
    return line.starts_with("--fallback cpu: 1 node of ReduceMean runs on the CPU");
  }));
}

TEST_F(CudaSession, refuses_a_plan_that_the_device_has_no_room_for) {
  host_cuda::reset({.memory_bytes = size_t{4} << 20});
  ops::cuda::use_device(0);
  Session session(model_of(*models::lenet(image(1, 28))), on_cuda());
  const size_t allocations = host_cuda::counts().allocations;
  const std::string error = training_error(session, batch_of({1, 28, 28}, 256, 1));
  EXPECT_TRUE(error.starts_with("the plan takes ")) << error;
  EXPECT_NE(error.find("but cuda:0 has room for 4.0 MiB; use a smaller --micro-batch, a larger "
                       "--accumulate or a smaller --batch"),
            error.npos)
      << error;
  EXPECT_EQ(host_cuda::counts().allocations, allocations);
  EXPECT_TRUE(session.state_names().empty());
  EXPECT_EQ(training_error(session, batch_of({1, 28, 28}, 4, 1)), "no error");
  EXPECT_EQ(training_error(session, batch_of({1, 28, 28}, 3, 1)), "no error");
}

TEST_F(CudaSession, two_replicas_on_a_device_need_room_for_both) {
  const auto lenet = model_of(*models::lenet(image(1, 28)));
  const auto error = [&](const std::vector<std::string>& devices) -> std::string {
    SessionOptions options = on_cuda();
    options.devices = devices;
    Session session(lenet, options);
    try {
      session.prepare_training({Cut(devices.size(), {16})});
    } catch (const Error& refused) {
      return refused.what();
    }
    return "no error";
  };
  host_cuda::reset({.memory_bytes = size_t{4} << 20});
  ops::cuda::use_device(0);
  EXPECT_EQ(error({"cuda:0"}), "no error");
  EXPECT_EQ(error({"cuda:0", "cuda:1"}), "no error");
  EXPECT_NE(error({"cuda:0", "cuda:0"}).find(" of memory (2 replicas, each "), std::string::npos);
}

TEST_F(CudaSession, a_label_out_of_range_stops_it_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const char* message = "label 10 of sample 3 is out of range: there are 10 classes (0..9)";
  for (const char* device : {"cuda:0", "cpu"}) {
    SessionOptions options = on_cuda();
    options.devices = {device};
    options.pipeline.loss.ignore_index = -1;
    Session session(lenet, options);
    Batch batch = batch_of({1, 16, 16}, 4, 1);
    batch.labels = Tensor::of<int64_t>({4}, {0, -1, 9, 2});
    EXPECT_EQ(training_error(session, batch), "no error");
    const std::string name = session.state_names().front();
    const Tensor before = session.state(name);
    batch.labels = Tensor::of<int64_t>({4}, {0, 1, 9, 10});
    EXPECT_NE(training_error(session, batch).find(message), std::string::npos) << device;
    EXPECT_TRUE(session.state(name).identical(before));
    EXPECT_THROW(session.evaluate(batch, 4), Error);
  }
}

}  // namespace

}  // namespace sardonyx::runtime
