// oneDNN on our own threads: the OpenMP functions it calls, and a primitive that waits for all of
// its threads.
#include "runtime/devices/omp_shim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/dnnl.h"
#include "ops/core/kernel.h"
#include "ops/core/op_builder.h"
#include "runtime/devices/thread_pool.h"
#include "tests/support/tensors.h"

extern "C" {
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
void GOMP_barrier();
void GOMP_parallel(void (*function)(void*), void* data, unsigned num_threads, unsigned flags);
}

namespace sardonyx::runtime {
namespace {

struct Seen {
  std::atomic<int> threads{0};
  std::atomic<int> numbers{0};  // bit per thread number
  std::atomic<int> inner_max{0};
};

void look(void* data) {
  auto* seen = static_cast<Seen*>(data);
  seen->threads += omp_in_parallel();
  seen->numbers |= 1 << omp_get_thread_num();
  seen->inner_max = std::max(seen->inner_max.load(), omp_get_max_threads());
}

// oneDNN's barriers spin: more threads than cores would keep each other from running.
int at_most_cores(int threads) {
  return std::min(threads, static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

TEST(OmpShim, a_region_runs_on_every_thread_of_the_pool_up_to_the_cores) {
  WorkerPool pool(3);
  const ScopedOmpPool omp(&pool);
  const int most = at_most_cores(3);
  EXPECT_EQ(omp_get_max_threads(), most);
  Seen seen;
  GOMP_parallel(look, &seen, 0, 0);
  EXPECT_EQ(seen.threads, most);
  EXPECT_EQ(seen.numbers, (1 << most) - 1);
  EXPECT_EQ(seen.inner_max, 1);  // regions inside a region are serial
}

struct Rounds {
  std::atomic<int> arrived{0}, early{0};
  int members = 0;
};

TEST(OmpShim, a_barrier_holds_every_member_until_all_have_come) {
  WorkerPool pool(2, Waiting::kSleep, {});
  const ScopedOmpPool omp(&pool);
  Rounds rounds;
  rounds.members = at_most_cores(2);
  for (int i = 0; i < 100; ++i) {
    rounds.arrived = 0;
    GOMP_parallel(
        [](void* data) {
          auto* rounds = static_cast<Rounds*>(data);
          for (int round = 1; round <= 5; ++round) {
            ++rounds->arrived;
            GOMP_barrier();
            rounds->early += rounds->arrived < round * rounds->members ? 1 : 0;
            GOMP_barrier();
          }
        },
        &rounds, 0, 0);
    EXPECT_EQ(rounds.arrived, 5 * rounds.members);
  }
  EXPECT_EQ(rounds.early, 0);
}

TEST(OmpShim, without_a_pool_regions_are_serial) {
  const ScopedOmpPool none(nullptr);
  EXPECT_EQ(omp_get_max_threads(), 1);
  Seen seen;
  GOMP_parallel(look, &seen, 4, 0);
  EXPECT_EQ(seen.threads, 1);
}

TEST(OmpShim, a_kernel_is_made_for_the_threads_that_will_run_it) {
  const ops::ScopedLibraryThreads threads(5);
  EXPECT_EQ(omp_get_max_threads(), at_most_cores(5));
  Seen seen;
  GOMP_parallel(look, &seen, 5, 0);
  EXPECT_EQ(seen.threads, 1);  // nothing to run on yet
}

// A filter gradient joins the sums of its threads at barriers.
struct FilterGradient {
  FilterGradient()
      : primitive(*ops::dnnl::convolution_grad_filter({Format::any({8, 32, 14, 14}),
                                                       Format::any({32, 32, 3, 3}),
                                                       Format::any({8, 32, 14, 14}),
                                                       std::nullopt,
                                                       {1, 1},
                                                       {1, 1},
                                                       {1, 1},
                                                       {1, 1}})),
        scratchpad(primitive.scratchpad_bytes() + 64) {
    x.resize(primitive.format(Operand::kSrc).bytes() / sizeof(float), 1.0f);
    dy.resize(primitive.format(Operand::kDiffDst).bytes() / sizeof(float), 0.5f);
    dw.resize(primitive.format(Operand::kDiffWeights).bytes() / sizeof(float));
  }
  void run() {
    void* start = scratchpad.data();
    size_t space = scratchpad.size();
    std::align(64, primitive.scratchpad_bytes(), start, space);
    primitive.run({{Operand::kSrc, x.data()},
                   {Operand::kDiffDst, dy.data()},
                   {Operand::kDiffWeights, dw.data()}},
                  {static_cast<std::byte*>(start), space});
  }
  using Format = ops::dnnl::Format;
  using Operand = ops::dnnl::Operand;
  ops::dnnl::Primitive primitive;
  std::vector<std::byte> scratchpad;
  std::vector<float> x, dy, dw;
};

graph::Tensor run_onednn(const ops::Node& node, const std::vector<graph::Tensor>& inputs,
                         int threads, const graph::Tensor* added_to = nullptr) {
  const ops::KernelRequest request = ops::KernelRequest::of(node);
  WorkerPool pool(threads);
  const ScopedOmpPool omp(&pool);
  for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find(node.domain, node.op)) {
    if (kernel->name != "conv.onednn") continue;
    const std::unique_ptr<ops::Kernel> made = kernel->create(request);
    graph::Tensor result(graph::DType::kFloat32, request.out_shape(0));
    if (added_to != nullptr) std::ranges::copy(added_to->bytes(), result.mutable_bytes().data());
    std::vector<std::byte> memory(made->workspace_bytes() + 64);
    void* start = memory.data();
    size_t space = memory.size();
    std::align(64, made->workspace_bytes(), start, space);
    ops::CpuContext context;
    context.pool = &pool;
    context.accumulate = added_to != nullptr;
    for (const graph::Tensor& input : inputs) context.inputs.push_back(input.bytes().data());
    context.outputs = {result.mutable_bytes().data()};
    context.workspace = {static_cast<std::byte*>(start), space};
    made->run(context);
    return result;
  }
  throw Error("no kernel conv.onednn of {}", node.op);
}

TEST(OmpShim, onednn_waits_for_all_threads_of_the_pool) {
  WorkerPool pool(3);
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<FilterGradient> gradient;
    {
      const ops::ScopedLibraryThreads threads(3);
      gradient = std::make_unique<FilterGradient>();
    }
    const ScopedOmpPool omp(&pool);
    gradient->run();
    // Ones and halves: every tap counts the cells where it stays inside, whatever the layout.
    float least = gradient->dw[0], most = gradient->dw[0];
    for (const float v : gradient->dw) {
      least = std::min(least, v);
      most = std::max(most, v);
    }
    EXPECT_EQ(least, 8 * 13 * 13 * 0.5f);
    EXPECT_EQ(most, 8 * 14 * 14 * 0.5f);
  }
}

TEST(OmpShim, a_primitive_refuses_another_number_of_threads) {
  std::unique_ptr<FilterGradient> gradient;
  {
    const ops::ScopedLibraryThreads threads(1);
    gradient = std::make_unique<FilterGradient>();
  }
  WorkerPool pool(2);
  const ScopedOmpPool omp(&pool);
  EXPECT_THROW(gradient->run(), InternalError);
}

// Each thread adds up images of its own; 5 images on 3 threads are 1, 2 and 2.
TEST(OmpShim, a_filter_gradient_on_several_threads_adds_to_what_is_there) {
  const std::vector<int64_t> pads{1, 1, 1, 1}, threes{3, 3};
  graph::Graph graph;
  ops::OpBuilder b(graph);
  const auto input = [&](const char* name, std::vector<int64_t> shape) {
    return graph.add_input(name, graph::TensorType(graph::DType::kFloat32, graph::to_dims(shape)));
  };
  ops::Value* x = input("x", {5, 16, 12, 12});
  ops::Value* dy = input("dy", {5, 16, 12, 12});
  ops::Value* dw = b.own("ConvGradFilter", {x, dy}, {{"pads", pads}, {"kernel_shape", threes}});
  const std::vector<graph::Tensor> inputs{
      test::random_tensor(graph::DType::kFloat32, {5, 16, 12, 12}),
      test::random_tensor(graph::DType::kFloat32, {5, 16, 12, 12})};
  const graph::Tensor before = test::random_tensor(graph::DType::kFloat32, {16, 16, 3, 3});
  const graph::Tensor plain = ops::evaluate(*dw->producer, inputs).at(0);
  graph::Tensor want(graph::DType::kFloat32, {16, 16, 3, 3});
  for (int64_t i = 0; i < want.numel(); ++i) {
    reinterpret_cast<float*>(want.mutable_bytes().data())[i] =
        static_cast<float>(plain.as_double(i) + before.as_double(i));
  }
  for (const int threads : {1, 2, 3}) {
    EXPECT_EQ(
        test::difference(run_onednn(*dw->producer, inputs, threads, &before), want, {1e-4, 1e-4}),
        std::nullopt)
        << threads;
  }
}

// The three convolutions as the executor runs them: same bits for the same number of threads, and
// close to the reference for each.
TEST(OmpShim, convolutions_repeat_bit_for_bit) {
  const std::vector<int64_t> pads{1, 1, 1, 1}, space{12, 12}, threes{3, 3};
  graph::Graph graph;
  ops::OpBuilder b(graph);
  const auto input = [&](const char* name, std::vector<int64_t> shape) {
    return graph.add_input(name, graph::TensorType(graph::DType::kFloat32, graph::to_dims(shape)));
  };
  ops::Value* x = input("x", {11, 20, 12, 12});
  ops::Value* w = input("w", {24, 20, 3, 3});
  ops::Value* dy = input("dy", {11, 24, 12, 12});
  for (const ops::Value* result :
       {b.op("Conv", {x, w}, {{"pads", pads}}),
        b.own("ConvGradData", {w, dy}, {{"pads", pads}, {"input_shape", space}}),
        b.own("ConvGradFilter", {x, dy}, {{"pads", pads}, {"kernel_shape", threes}})}) {
    const ops::Node& node = *result->producer;
    std::vector<graph::Tensor> inputs;
    for (const ops::Value* value : node.inputs()) {
      inputs.push_back(test::random_tensor(graph::DType::kFloat32, value->type.shape()));
    }
    const graph::Tensor want = ops::evaluate(node, inputs).at(0);
    for (const int threads : {1, 2, 3}) {
      const graph::Tensor once = run_onednn(node, inputs, threads);
      EXPECT_EQ(test::difference(once, want, {1e-4, 1e-4}), std::nullopt) << node.op;
      EXPECT_TRUE(once.identical(run_onednn(node, inputs, threads))) << node.op << " " << threads;
    }
  }
}

}  // namespace
}  // namespace sardonyx::runtime
