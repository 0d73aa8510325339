// How the kernels of the libraries round: TF32 takes ten bits of a factor, and a bias that is part
// of the plan is added before the result is rounded. On the stand-in alone: for so little, those of
// a device need neither take tensor cores nor have such a plan.
#include "tests/cuda/run_kernel.h"
#include "tests/support/host_cuda/fixture.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace {

using ops::ProductMath;
using CudaProducts = host_cuda::HostCuda;

// Output 0 of a kernel whose operands have elements of type T.
template <class T>
std::vector<T> run(const std::string& kernel, const ops::KernelRequest& request,
                   const std::vector<std::vector<T>>& inputs) {
  for (const ops::KernelDef* def :
       ops::KernelRegistry::get(ops::Device::kCuda).find(request.node->domain, request.node->op)) {
    if (def->name != kernel) continue;
    EXPECT_EQ(ops::declines(*def, request), std::nullopt);
    return run_kernel(*def, request, inputs);
  }
  ADD_FAILURE() << "there is no kernel " << kernel;
  return {};
}

// A factor of eleven bits times one.
float product(const std::string& op, const std::string& kernel, std::vector<int64_t> a,
              std::vector<int64_t> b, ProductMath math) {
  const OpCase c{.op = op, .inputs = {random(std::move(a)), random(std::move(b))}};
  const OpGraph g = build(c, input_values(c, DType::kFloat32, -1));
  ops::KernelRequest request = ops::KernelRequest::of(*g.node);
  request.libraries = &libraries();
  request.math = math;
  return run<float>(kernel, request, {{1 + 0x1p-11f}, {1}}).at(0);
}

TEST_F(CudaProducts, tf32_takes_ten_bits_of_a_factor) {
  const auto all = [](ProductMath math) {
    return std::vector<float>{product("Conv", "conv.cudnn", {1, 1, 1}, {1, 1, 1}, math),
                              product("Gemm", "gemm.cublas", {1, 1}, {1, 1}, math),
                              product("MatMul", "gemm.cublas", {1, 1}, {1, 1}, math)};
  };
  EXPECT_EQ(all(ProductMath::kFloat32), std::vector<float>(3, 1 + 0x1p-11f));
  EXPECT_EQ(all(ProductMath::kTf32), std::vector<float>(3, 1));
}

std::vector<uint16_t> narrow(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(graph::float_to_bfloat16(value));
  return bits;
}

// The first result is 257.5: rounded twice it would be 256.
TEST_F(CudaProducts, the_bias_of_a_convolution_is_added_before_the_result_is_rounded) {
  OpCase c{
      .op = "Conv",
      .inputs = {random({1, 2, 1, 2}), parameter(random({1, 2, 1, 1})), parameter(random({1}))},
      .batch = true};
  const OpGraph g = build(c, input_values(c, DType::kFloat32, -1));
  ops::KernelRequest request = ops::KernelRequest::of(*g.node);
  request.libraries = &libraries();
  for (auto* types : {&request.in, &request.out}) {
    for (ops::TensorType& type : *types) type.dtype = DType::kBFloat16;
  }
  const auto w = narrow({1, 1}), b = narrow({0.5}), y = narrow({258, 6.5});
  EXPECT_EQ(run<uint16_t>("conv.cudnn", request, {narrow({256, 2, 1, 4}), w, b}), y);
  request.in[0].layout = request.out[0].layout = graph::Layout::channels_last(4);
  EXPECT_EQ(run<uint16_t>("conv.cudnn_nhwc", request, {narrow({256, 1, 2, 4}), w, b}), y);
}

}  // namespace

}  // namespace sardonyx::test
