// Products in bfloat16 and TF32 at the sizes of real layers, against the CPU in float: an element
// may be off by a share of the sum of the magnitudes of its products.
#include <algorithm>
#include <cmath>

#include "tests/cuda/on_device.h"
#include "tests/cuda/run_kernel.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace {

using graph::Attributes;
using ops::kDomain;
using ops::ProductMath;
using Ints = std::vector<int64_t>;
using CudaProductBounds = OnDevice;

struct Arithmetic {
  const char* name;
  DType dtype;
  ProductMath math;
  double share;  // of the sum of magnitudes
};
constexpr Arithmetic kArithmetics[] = {
    {"bf16", DType::kBFloat16, ProductMath::kFloat32, 0x1p-8},
    {"TF32", DType::kFloat32, ProductMath::kTf32, 0x1p-10},
};

// Which operands have channels that may lie last.
struct Activations {
  std::vector<int> in = {};
  bool out = false;
  bool any() const { return out || !in.empty(); }
};

Tensor in_bytes(const std::vector<std::byte>& bytes, const ops::TensorType& type) {
  Tensor tensor(type.dtype, type.shape());
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  return type.layout.plain() ? tensor : from_order(tensor, type.layout.order);
}

std::vector<std::byte> bytes_of(const Tensor& plain, const ops::TensorType& type) {
  const Tensor stored = type.layout.plain() ? plain : to_order(plain, type.layout.order);
  return {stored.bytes().begin(), stored.bytes().end()};
}

Tensor magnitudes(const Tensor& tensor) {
  std::vector<float> values;
  for (const double x : tensor.to_doubles()) values.push_back(static_cast<float>(std::abs(x)));
  return floats(tensor.shape(), values);
}

// A node with what the CPU computes in float from numbers that the arithmetic can hold.
class Comparison {
 public:
  Comparison(const OpCase& c, const Arithmetic& arithmetic)
      : arithmetic_(arithmetic), graph_(build(c, input_values(c, DType::kFloat32, -1))) {
    std::vector<Tensor> exact, sizes;
    for (const Tensor& input : graph_.inputs) {
      inputs_.push_back(input.cast(arithmetic.dtype));
      exact.push_back(inputs_.back().cast(DType::kFloat32));
      sizes.push_back(magnitudes(exact.back()));
    }
    want_ = ops::evaluate(*graph_.node, exact).at(0);
    bound_ = ops::evaluate(*graph_.node, sizes).at(0);
  }

  void expect(const Activations& channels_last) const {
    const ops::KernelRequest request = request_with(channels_last);
    const ops::KernelDef* kernel = library_kernel(request);
    const std::string what =
        fmt::format("{} of {} by {} in {}", graph_.node->op, request.in[0].str(),
                    request.in[1].str(), arithmetic_.name);
    ASSERT_NE(kernel, nullptr) << what << ": " << refusals(request);
    std::vector<std::vector<std::byte>> operands;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      operands.push_back(bytes_of(inputs_[i], request.in[i]));
    }
    const Tensor got = in_bytes(run_kernel(*kernel, request, operands), request.out[0]);
    double worst = 0;  // in units of what is allowed
    for (int64_t i = 0; i < want_.numel() && !std::isnan(worst); ++i) {
      const double off = std::abs(got.as_double(i) - want_.as_double(i));
      const double allowed = arithmetic_.share * bound_.as_double(i);
      const double units = off == 0 ? 0 : off / allowed;
      if (!(units <= worst)) worst = units;  // a NaN, too
    }
    EXPECT_LE(worst, 1) << what << ", " << kernel->name;
  }

 private:
  ops::KernelRequest request_with(const Activations& channels_last) const {
    ops::KernelRequest request = ops::KernelRequest::of(*graph_.node);
    request.libraries = &libraries();
    request.math = arithmetic_.math;
    for (auto* types : {&request.in, &request.out}) {
      for (ops::TensorType& type : *types) type.dtype = arithmetic_.dtype;
    }
    const auto turn = [](ops::TensorType& type) {
      type.layout = graph::Layout::channels_last(type.rank());
    };
    for (const int i : channels_last.in) turn(request.in[i]);
    if (channels_last.out) turn(request.out[0]);
    return request;
  }
  std::vector<const ops::KernelDef*> library_kernels() const {
    auto kernels =
        ops::KernelRegistry::get(ops::Device::kCuda).find(graph_.node->domain, graph_.node->op);
    std::erase_if(kernels,
                  [](const ops::KernelDef* kernel) { return kernel->speed != ops::Speed::kBest; });
    return kernels;
  }
  const ops::KernelDef* library_kernel(const ops::KernelRequest& request) const {
    for (const ops::KernelDef* kernel : library_kernels()) {
      if (!ops::declines(*kernel, request)) return kernel;
    }
    return nullptr;
  }
  std::string refusals(const ops::KernelRequest& request) const {
    std::string text;
    for (const ops::KernelDef* kernel : library_kernels()) {
      text += fmt::format("{}: {} {}; ", kernel->name, ops::declines(*kernel, request).value_or(""),
                          ops::library_words(*kernel, request));
    }
    return text;
  }

  const Arithmetic& arithmetic_;
  OpGraph graph_;
  std::vector<Tensor> inputs_;
  Tensor want_, bound_;
};

void expect_close(const OpCase& c, const Activations& activations = {}) {
  for (const Arithmetic& arithmetic : kArithmetics) {
    const Comparison comparison(c, arithmetic);
    comparison.expect({});
    if (activations.any()) comparison.expect(activations);
  }
}

struct Layer {
  int64_t rows, channels, outputs, side, kernel, stride;
  int64_t out() const { return (side - 1) / stride + 1; }
  Ints x() const { return {rows, channels, side, side}; }
  Ints w() const { return {outputs, channels, kernel, kernel}; }
  Ints y() const { return {rows, outputs, out(), out()}; }
  Attributes window() const {
    const int64_t pad = kernel / 2;
    return {{"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad, pad, pad}}};
  }
};

// Of ResNet-18 and -50, with few images.
constexpr Layer kLayers[] = {
    {2, 64, 64, 14, 3, 1}, {2, 64, 128, 14, 3, 2}, {4, 128, 64, 7, 1, 1}, {2, 64, 128, 8, 1, 2}};

TEST_F(CudaProductBounds, convolutions) {
  for (const Layer& layer : kLayers) {
    expect_close({.op = "Conv",
                  .inputs = {random(layer.x()), random(layer.w(), -1, 1, 7)},
                  .attributes = layer.window()},
                 {.in = {0}, .out = true});
  }
}

TEST_F(CudaProductBounds, data_gradients_of_convolutions) {
  for (const Layer& layer : kLayers) {
    OpCase c = {.domain = kDomain,
                .op = "ConvGradData",
                .inputs = {random(layer.w()), random(layer.y(), -1, 1, 7)},
                .attributes = layer.window()};
    c.attributes["input_shape"] = Ints{layer.side, layer.side};
    expect_close(c, {.in = {1}, .out = true});
  }
}

TEST_F(CudaProductBounds, filter_gradients_of_convolutions) {
  for (const Layer& layer : kLayers) {
    OpCase c = {.domain = kDomain,
                .op = "ConvGradFilter",
                .inputs = {random(layer.x()), random(layer.y(), -1, 1, 7)},
                .attributes = layer.window()};
    c.attributes["kernel_shape"] = Ints{layer.kernel, layer.kernel};
    expect_close(c, {.in = {0, 1}});
  }
}

TEST_F(CudaProductBounds, gemm_with_operands_as_they_are_and_across) {
  constexpr int64_t kM = 64, kN = 96, kK = 512;
  for (const int64_t across_a : {0, 1}) {
    for (const int64_t across_b : {0, 1}) {
      expect_close({.op = "Gemm",
                    .inputs = {random(across_a != 0 ? Ints{kK, kM} : Ints{kM, kK}),
                               random(across_b != 0 ? Ints{kN, kK} : Ints{kK, kN}, -1, 1, 7),
                               random({kN}, -1, 1, 8)},
                    .attributes = {{"transA", across_a}, {"transB", across_b}}});
    }
  }
  expect_close({.domain = kDomain,
                .op = "GemmGradWeight",
                .inputs = {random({256, 64}), random({256, 96}, -1, 1, 7)}});
}

TEST_F(CudaProductBounds, products_of_matrices_and_of_a_batch_of_them) {
  expect_close({.op = "MatMul", .inputs = {random({64, 512}), random({512, 96}, -1, 1, 7)}});
  expect_close({.op = "MatMul", .inputs = {random({8, 48, 64}), random({8, 64, 48}, -1, 1, 7)}});
}

}  // namespace

}  // namespace sardonyx::test
