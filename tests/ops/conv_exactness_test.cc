// How far the convolutions of a ResNet-18 are from sums in double, as the norm of the difference
// over the norm of the result: what docs/exactness.md promises. Winograd's other basis costs
// digits, the direct sums are what float allows.
#include <cmath>

#include "tests/ops/conv_support.h"

namespace sardonyx::test {
namespace {

double relative_error(const Tensor& got, const Tensor& want) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < want.numel(); ++i) {
    const double d = got.as_double(i) - want.as_double(i);
    error += d * d;
    norm += want.as_double(i) * want.as_double(i);
  }
  return std::sqrt(error / norm);
}

// The 3x3 layers with stride 1 by {channels, cells per axis}: of images of 224x224 the first and
// the last, of 28x28 and of 32x32 (with the large stem) all.
constexpr int64_t kLayers[][2] = {{64, 56}, {512, 7}, {64, 28}, {128, 14}, {256, 7},
                                  {512, 4}, {64, 8},  {128, 4}, {256, 2},  {512, 1}};
constexpr double kDirectBound = 1.2e-6, kWinogradBound = 3e-6;

TEST(ConvExactness, winograd_and_direct_sums_stay_within_their_bounds_on_resnet_layers_slow) {
  const bool winograd = __builtin_cpu_supports("avx512f");
  for (const auto& [channels, size] : kLayers) {
    const Geometry g{fmt::format("{} channels of {}x{}", channels, size, size),
                     {1, channels, size, size},
                     {channels, channels, 3, 3},
                     {{"pads", Ints{1, 1, 1, 1}}}};
    for (const OpCase& c : {conv_case(g), grad_data_case(g), grad_filter_case(g)}) {
      const OneNode node(c), exact(c, DType::kFloat64);
      const Tensor want = exact.run(kernel_named(c, "conv.ref"), 2);
      const auto error = [&](const char* kernel) {
        const double e = relative_error(node.run(kernel_named(c, kernel), 1), want);
        RecordProperty(fmt::format("{} {} {}", kernel, c.op, g.name), fmt::format("{:.1e}", e));
        return e;
      };
      EXPECT_LT(error("conv.onednn"), kDirectBound) << c.op << ", " << g.name;
      EXPECT_LT(error("conv.small"), kDirectBound) << c.op << ", " << g.name;
      if (!winograd) continue;
      EXPECT_LT(error("conv.onednn_winograd"), kWinogradBound) << c.op << ", " << g.name;
    }
  }
}

}  // namespace
}  // namespace sardonyx::test
