// The stand-ins of cuDNN and cuBLAS: numbers by hand, then that the passes of a convolution are
// each other's transpose, in every geometry and order.
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "graph/support/error.h"
#include "graph/tensor.h"
#include "ops/core/cublas.h"
#include "ops/core/cudnn.h"
#include "tests/cuda/both_sides.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::host_cuda {

namespace {

namespace cublas = ops::cublas;
namespace cuda = ops::cuda;
namespace cudnn = ops::cudnn;
using cudnn::ConvolutionDesc;
using cudnn::ConvolutionShape;
using cudnn::Pass;
using Floats = std::vector<float>;

class LibrariesTest : public HostCuda {
 protected:
  Floats convolve(const ConvolutionDesc& desc, const Floats& a, const Floats& b, size_t count) {
    const auto convolution = cudnn::Convolution::make(cudnn_, desc);
    const Both<float> on_a(stream(), a), on_b(stream(), b), out(count);
    const cuda::Memory workspace(convolution->workspace_bytes());
    convolution->run(cudnn_, stream(), on_a.device(), on_b.device(), nullptr, out.device(),
                     workspace.data());
    return out.read(stream());
  }
  Floats multiply(const cublas::ProductDesc& desc, const Floats& a, const Floats& b,
                  const Floats& bias, const Floats& c) {
    const auto product = cublas::Product::make(cublas_, desc);
    const Both<float> on_a(stream(), a), on_b(stream(), b), on_bias(stream(), bias),
        on_c(stream(), c);
    const cuda::Memory workspace(product->workspace_bytes());
    product->run(cublas_, stream(), on_a.device(), on_b.device(), on_bias.device(), on_c.device(),
                 workspace.data());
    return on_c.read(stream());
  }
  cuda::Stream stream() const { return stream_.get(); }

  cuda::OwnedStream stream_;
  cudnn::Handle cudnn_;
  cublas::Handle cublas_;
};

// 3x3 pictures, 2x2 windows.
ConvolutionDesc small(Pass pass, cudnn::Order order) {
  ConvolutionDesc desc;
  desc.pass = pass;
  desc.shape = {.n = 1,
                .c = 1,
                .k = 1,
                .groups = 1,
                .in = {3, 3},
                .kernel = {2, 2},
                .out = {2, 2},
                .pads_begin = {0, 0},
                .pads_end = {0, 0},
                .strides = {1, 1},
                .dilations = {1, 1}};
  desc.order = order;
  return desc;
}

const Floats kPicture = {1, 2, 3, 4, 5, 6, 7, 8, 9}, kFilter = {1, 10, 100, 1000},
             kSlope = {1, 0, 0, 2};

TEST_F(LibrariesTest, convolution_passes_give_the_numbers_of_a_small_picture) {
  for (const auto order : {cudnn::Order::kChannelsFirst, cudnn::Order::kChannelsLast}) {
    EXPECT_EQ(convolve(small(Pass::kForward, order), kPicture, kFilter, 4),
              (Floats{5421, 6532, 8754, 9865}));
    EXPECT_EQ(convolve(small(Pass::kData, order), kSlope, kFilter, 9),
              (Floats{1, 10, 0, 100, 1002, 20, 0, 200, 2000}));
    EXPECT_EQ(convolve(small(Pass::kFilter, order), kPicture, kSlope, 4), (Floats{11, 14, 20, 23}));
  }
}

TEST_F(LibrariesTest, channels_last_has_the_channels_innermost_in_filters_too) {
  ConvolutionDesc desc = small(Pass::kForward, cudnn::Order::kChannelsLast);
  desc.shape.c = 2;
  desc.shape.k = 2;
  desc.shape.in = {1, 2};
  desc.shape.kernel = {1, 2};
  desc.shape.out = {1, 1};
  // Points (1, 10) and (2, 20); filters by point, then channel.
  EXPECT_EQ(convolve(desc, {1, 10, 2, 20}, {1, 0, 0, 1, 0, 1, 1, 0}, 2), (Floats{21, 12}));
  desc.shape.groups = 2;
  EXPECT_EQ(convolve(desc, {1, 10, 2, 20}, {1, 2, 3, 4}, 2), (Floats{5, 110}));
}

TEST_F(LibrariesTest, tf32_drops_13_bits_of_each_factor) {
  ConvolutionDesc desc = small(Pass::kForward, cudnn::Order::kChannelsLast);
  desc.shape.in = desc.shape.kernel = desc.shape.out = {1, 1};
  const float fine = 1 + 0x1p-12f, coarse = 1 + 0x1p-10f;
  EXPECT_EQ(convolve(desc, {fine}, {coarse}, 1)[0], fine * coarse);
  desc.math = cudnn::Math::kTf32;
  EXPECT_EQ(convolve(desc, {fine}, {coarse}, 1)[0], coarse);
}

TEST_F(LibrariesTest, bfloat16_is_added_up_exactly_and_rounded_once) {
  ConvolutionDesc desc = small(Pass::kForward, cudnn::Order::kChannelsLast);
  desc.dtype = graph::DType::kBFloat16;
  const auto convolution = cudnn::Convolution::make(cudnn_, desc);
  const auto halves = [&](const Floats& values) {
    std::vector<uint16_t> bits;
    for (const float value : values) bits.push_back(graph::float_to_bfloat16(value));
    return bits;
  };
  const Both<uint16_t> a(stream(), halves({1, 1, 1, 1, 1, 1, 1, 1, 1})),
      b(stream(), halves({256, 1, 1, 1})), out(4);
  const cuda::Memory workspace(convolution->workspace_bytes());
  convolution->run(cudnn_, stream(), a.device(), b.device(), nullptr, out.device(),
                   workspace.data());
  EXPECT_EQ(graph::bfloat16_to_float(out.read(stream())[0]), 260);  // 259 isn't one
}

struct Geometry {
  std::string name;
  ConvolutionShape shape;
};

const std::vector<Geometry> kGeometries = {
    {"stride_2_pads_1_0_2_3", {2, 3, 4, 1, {7, 6}, {3, 2}, {4, 4}, {1, 0}, {2, 3}, {2, 2}, {1, 1}}},
    {"dilation_2_groups_2", {2, 4, 6, 2, {5, 6}, {3, 3}, {1, 2}, {0, 0}, {0, 0}, {1, 1}, {2, 2}}},
    {"depthwise", {1, 5, 5, 5, {4, 4}, {3, 3}, {4, 4}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}},
    {"one_axis", {2, 2, 3, 1, {9}, {4}, {3}, {1}, {0}, {3}, {1}}},
    {"three_axes",
     {1, 2, 2, 1, {3, 4, 2}, {2, 3, 1}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}}},
};

double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST_F(LibrariesTest, passes_of_a_convolution_are_transposes_of_each_other) {
  std::mt19937 random(1);
  const auto numbers = [&](int64_t count) {
    Floats values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9)) - 4;
    return values;
  };
  const auto points = [](const std::vector<int64_t>& sizes) {
    int64_t product = 1;
    for (const int64_t size : sizes) product *= size;
    return product;
  };
  for (const auto& [name, shape] : kGeometries) {
    for (const auto order : {cudnn::Order::kChannelsFirst, cudnn::Order::kChannelsLast}) {
      ConvolutionDesc desc{.shape = shape, .order = order};
      const Floats x = numbers(shape.n * shape.c * points(shape.in)),
                   w = numbers(shape.k * shape.c / shape.groups * points(shape.kernel)),
                   dy = numbers(shape.n * shape.k * points(shape.out));
      desc.pass = Pass::kForward;
      const Floats y = convolve(desc, x, w, dy.size());
      desc.pass = Pass::kData;
      const Floats dx = convolve(desc, dy, w, x.size());
      desc.pass = Pass::kFilter;
      const Floats dw = convolve(desc, x, dy, w.size());
      EXPECT_NE(dot(y, dy), 0) << name;
      EXPECT_EQ(dot(y, dy), dot(dx, x)) << name;
      EXPECT_EQ(dot(y, dy), dot(dw, w)) << name;
    }
  }
}

TEST_F(LibrariesTest, operand_that_is_too_short_or_misaligned_is_caught) {
  const auto convolution =
      cudnn::Convolution::make(cudnn_, small(Pass::kForward, cudnn::Order::kChannelsLast));
  const Both<float> x(9), w(4), y(8);
  const cuda::Memory workspace(convolution->workspace_bytes());
  const auto message = [&](const float* a, float* out, void* scratch) -> std::string {
    try {
      convolution->run(cudnn_, stream(), a, w.device(), nullptr, out, scratch);
      cuda::synchronize(stream());
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos ? "" : text;
  };
  EXPECT_EQ(contains(message(w.device(), y.device(), workspace.data()),
                     "cudnn convolution (forward) 1 -> 1 channels, a: 36 bytes from byte 0 on"),
            "");
  EXPECT_EQ(contains(message(x.device(), y.device() + 1, workspace.data()), "not 16-byte aligned"),
            "");
  EXPECT_EQ(contains(message(x.device(), y.device(), nullptr), "workspace: 0x0 is not device"), "");
  EXPECT_EQ(contains(message(x.host(), y.device(), workspace.data()), "it is host memory"), "");
  EXPECT_EQ(message(x.device(), y.device(), workspace.data()), "");
}

TEST_F(LibrariesTest, workspace_is_scribbled_over) {
  const auto convolution =
      cudnn::Convolution::make(cudnn_, small(Pass::kForward, cudnn::Order::kChannelsLast));
  ASSERT_GT(convolution->workspace_bytes(), 0u);
  const Both<float> x(9), w(4), y(4);
  const Both<char> workspace(stream(), std::vector<char>(convolution->workspace_bytes(), 7));
  convolution->run(cudnn_, stream(), x.device(), w.device(), nullptr, y.device(),
                   workspace.device());
  const auto left = workspace.read(stream());
  EXPECT_EQ(std::count(left.begin(), left.end(), 7), 0);
}

TEST_F(LibrariesTest, bias_is_added_before_the_result_is_rounded) {
  ConvolutionDesc desc{.shape = {.n = 1,
                                 .c = 1,
                                 .k = 2,
                                 .groups = 1,
                                 .in = {1},
                                 .kernel = {1},
                                 .out = {1},
                                 .pads_begin = {0},
                                 .pads_end = {0},
                                 .strides = {1},
                                 .dilations = {1}},
                       .dtype = graph::DType::kBFloat16,
                       .bias = cudnn::Bias::kPerOutput};
  const auto narrow = [&](const Floats& values) {
    std::vector<uint16_t> bits;
    for (const float value : values) bits.push_back(graph::float_to_bfloat16(value));
    return Both<uint16_t>(stream(), bits);
  };
  const auto x = narrow({1}), w = narrow({256, 256}), bias = narrow({1, 3});
  const Both<uint16_t> y(2);
  const auto convolution = cudnn::Convolution::make(cudnn_, desc);
  const cuda::Memory workspace(convolution->workspace_bytes());
  convolution->run(cudnn_, stream(), x.device(), w.device(), bias.device(), y.device(),
                   workspace.data());
  const auto got = y.read(stream());
  EXPECT_EQ(graph::bfloat16_to_float(got[0]), 256);
  EXPECT_EQ(graph::bfloat16_to_float(got[1]), 260);
}

TEST_F(LibrariesTest, convolution_of_integers_is_declined) {
  ConvolutionDesc desc = small(Pass::kForward, cudnn::Order::kChannelsLast);
  desc.dtype = graph::DType::kInt32;
  EXPECT_THROW(cudnn::Convolution::make(cudnn_, desc), Error);
}

TEST_F(LibrariesTest, product_transposes_scales_and_adds) {
  using cublas::Trans;
  const Floats a = {1, 2, 3, 4, 5, 6};         // 2x3
  const Floats a_across = {1, 4, 2, 5, 3, 6};  // 3x2
  const Floats b = {1, 0, 0, 1, 10, 100};      // 3x2
  const Floats b_across = {1, 0, 10, 0, 1, 100};
  const Floats want = {31, 302, 64, 605};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  cublas::ProductDesc desc{.m = 2, .n = 2, .k = 3};
  EXPECT_EQ(multiply(desc, a, b, {0}, Floats(4, nan)), want);
  desc.trans_a = Trans::kYes;
  EXPECT_EQ(multiply(desc, a_across, b, {0}, Floats(4, nan)), want);
  desc.trans_b = Trans::kYes;
  EXPECT_EQ(multiply(desc, a_across, b_across, {0}, Floats(4, nan)), want);
  desc.alpha = 2;
  desc.beta = 0.5;
  EXPECT_EQ(multiply(desc, a_across, b_across, {0}, {2, 4, 6, 8}), (Floats{63, 606, 131, 1214}));
}

TEST_F(LibrariesTest, product_ends_with_bias_and_relu) {
  cublas::ProductDesc desc{.m = 2, .n = 2, .k = 1};
  desc.epilogue = cublas::Epilogue::kBias;
  EXPECT_EQ(multiply(desc, {1, -1}, {1, 2}, {10, -1}, Floats(4)), (Floats{11, 1, 9, -3}));
  desc.epilogue = cublas::Epilogue::kBiasRelu;
  EXPECT_EQ(multiply(desc, {1, -1}, {1, 2}, {10, -1}, Floats(4)), (Floats{11, 1, 9, 0}));
}

TEST_F(LibrariesTest, products_of_a_batch_lie_a_stride_apart) {
  cublas::ProductDesc desc{.m = 1, .n = 1, .k = 2};
  desc.batch = 2;
  desc.stride_a = 3;
  desc.stride_b = 0;
  desc.stride_c = 2;
  EXPECT_EQ(multiply(desc, {1, 2, 99, 3, 4}, {10, 1}, {0}, {7, 7, 7}), (Floats{12, 7, 34}));
}

}  // namespace

}  // namespace sardonyx::host_cuda
