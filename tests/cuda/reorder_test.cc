// Reorder between plain and channels last on a device: every element in its place, for sizes around
// tiles and elements of every size. What it declines: movement_test.cc.
#include <gtest/gtest.h>

#include "ops/core/cuda_context.h"
#include "ops/core/op_builder.h"
#include "tests/cuda/device_array.h"

namespace sardonyx::test {

namespace {

namespace cuda = ops::cuda;

template <class T>
std::vector<T> reordered(graph::TensorType type, const char* to, const std::vector<T>& values) {
  graph::Graph graph;
  ops::OpBuilder b(graph);
  const graph::Node& node =
      *b.own("Reorder", {graph.add_input("x", std::move(type))}, {{"to", std::string(to)}})
           ->producer;
  const ops::KernelRequest request = ops::KernelRequest::of(node);
  const ops::KernelDef& kernel =
      *ops::KernelRegistry::get(ops::Device::kCuda).find(ops::kDomain, "Reorder").at(0);
  EXPECT_EQ(ops::declines(kernel, request), std::nullopt);
  cuda::use_device(0);
  const cuda::OwnedStream stream;
  const DeviceArray<T> x(stream.get(), values), y(stream.get(), std::vector<T>(values.size()));
  ops::CudaContext context;
  context.stream = stream.get();
  context.inputs = {x.data()};
  context.outputs = {y.data()};
  kernel.create(request)->launch(context);
  return y.values();
}

template <class T>
void check(graph::DType dtype, int64_t n, int64_t channels, int64_t cells) {
  const graph::TensorType plain(dtype, {n, channels, cells});
  graph::TensorType last = plain;
  last.layout = graph::Layout::channels_last(3);
  std::vector<T> values(static_cast<size_t>(n * channels * cells)), want(values.size());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t j = 0; j < cells; ++j) {
        const int64_t at = (i * channels + c) * cells + j;
        values[at] = static_cast<T>(at);
        want[(i * cells + j) * channels + c] = static_cast<T>(at);
      }
    }
  }
  EXPECT_EQ(reordered(plain, "channels_last", values), want) << plain.str();
  EXPECT_EQ(reordered(last, "plain", want), values) << last.str();
  EXPECT_EQ(reordered(last, "channels_last", want), want) << last.str();
}

TEST(CudaReorder, puts_every_element_in_its_place) {
  for (const auto& [channels, cells] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 5}, {3, 200}, {8, 9}, {33, 31}, {32, 32}, {9, 130}, {130, 9}, {64, 1}, {20, 1000}}) {
    check<float>(graph::DType::kFloat32, 2, channels, cells);
    check<uint16_t>(graph::DType::kBFloat16, 3, channels, cells);
    check<double>(graph::DType::kFloat64, 1, channels, cells);
  }
  check<uint8_t>(graph::DType::kUint8, 2, 35, 70);
  check<float>(graph::DType::kFloat32, 0, 3, 4);
}

}  // namespace

}  // namespace sardonyx::test
