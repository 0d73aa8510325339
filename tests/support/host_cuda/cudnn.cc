// ops/core/cudnn.h on the host: each image and group unfolded into a matrix of windows, then a
// product in double, by Eigen.
#include "ops/core/cudnn.h"

#include <Eigen/Core>
#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/support/error.h"
#include "tests/support/host_cuda/libraries.h"
#include "tests/support/host_cuda/streams.h"

namespace sardonyx::ops::cudnn {

struct Handle::Impl {
  int device;
};

Handle::Handle() : impl_(new Impl{host_cuda::current_device("cudnn")}) {}
Handle::~Handle() = default;

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using host_cuda::Rounded;

constexpr size_t kWorkspace = 4096;

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// From [outer, points, channels] to [outer, channels, points], or back with the last two exchanged.
std::vector<double> exchanged(const std::vector<double>& values, int64_t outer, int64_t rows,
                              int64_t columns) {
  std::vector<double> result(values.size());
  for (int64_t i = 0; i < outer; ++i) {
    Eigen::Map<Matrix>(result.data() + i * rows * columns, columns, rows) =
        Eigen::Map<const Matrix>(values.data() + i * rows * columns, rows, columns).transpose();
  }
  return result;
}

// The windows of an image: for each element of a kernel and each output point, where in the input
// channel it lies; -1: in the padding.
std::vector<int64_t> window_table(const ConvolutionShape& shape) {
  const int64_t taps = product(shape.kernel), points = product(shape.out);
  std::vector<int64_t> table(static_cast<size_t>(taps * points));
  const auto axes = static_cast<int>(shape.in.size());
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t point = 0; point < points; ++point) {
      int64_t offset = 0, stride = 1, t = tap, p = point;
      for (int axis = axes - 1; axis >= 0 && offset >= 0; --axis) {
        const int64_t r = t % shape.kernel[axis], q = p % shape.out[axis];
        t /= shape.kernel[axis];
        p /= shape.out[axis];
        const int64_t at =
            q * shape.strides[axis] - shape.pads_begin[axis] + r * shape.dilations[axis];
        offset = at < 0 || at >= shape.in[axis] ? -1 : offset + at * stride;
        stride *= shape.in[axis];
      }
      table[tap * points + point] = offset;
    }
  }
  return table;
}

class HostConvolution final : public Convolution {
 public:
  explicit HostConvolution(const ConvolutionDesc& desc)
      : desc_(desc),
        in_points_(product(desc.shape.in)),
        out_points_(product(desc.shape.out)),
        taps_(product(desc.shape.kernel)),
        windows_(window_table(desc.shape)) {}
  size_t workspace_bytes() const override { return std::min(kWorkspace, desc_.workspace_limit); }
  std::string engine() const override { return "host"; }
  void run(Handle& handle, cuda::Stream stream, const void* a, const void* b, const void* bias,
           void* out, void* workspace) const override;

 private:
  enum class Operand : uint8_t { kX, kW, kY };
  // What a, b and out are.
  std::array<Operand, 3> operands() const;
  size_t count(Operand operand) const;
  std::vector<double> load(Operand operand, const std::byte* cells) const;
  void store(Operand operand, const std::vector<double>& values, std::byte* cells) const;
  std::vector<double> reordered(Operand operand, const std::vector<double>& values,
                                bool from_stored) const;
  void compute(const std::vector<double>& a, const std::vector<double>& b,
               std::vector<double>& out) const;
  // Nothing where there is none.
  void add_bias(const std::vector<double>& bias, std::vector<double>& y) const;
  void unfold(const double* image, Matrix& columns) const;
  void fold(const Matrix& columns, double* image) const;
  int64_t group_c() const { return desc_.shape.c / desc_.shape.groups; }
  int64_t group_k() const { return desc_.shape.k / desc_.shape.groups; }

  ConvolutionDesc desc_;
  int64_t in_points_, out_points_, taps_;
  std::vector<int64_t> windows_;
};

std::array<HostConvolution::Operand, 3> HostConvolution::operands() const {
  switch (desc_.pass) {
    case Pass::kForward:
      return {Operand::kX, Operand::kW, Operand::kY};
    case Pass::kData:
      return {Operand::kY, Operand::kW, Operand::kX};
    case Pass::kFilter:
      break;
  }
  return {Operand::kX, Operand::kY, Operand::kW};
}

size_t HostConvolution::count(Operand operand) const {
  const ConvolutionShape& shape = desc_.shape;
  switch (operand) {
    case Operand::kX:
      return static_cast<size_t>(shape.n * shape.c * in_points_);
    case Operand::kW:
      return static_cast<size_t>(shape.k * group_c() * taps_);
    case Operand::kY:
      break;
  }
  return static_cast<size_t>(shape.n * shape.k * out_points_);
}

std::vector<double> HostConvolution::reordered(Operand operand, const std::vector<double>& values,
                                               bool from_stored) const {
  if (desc_.order == Order::kChannelsFirst) return values;
  const ConvolutionShape& shape = desc_.shape;
  const int64_t outer = operand == Operand::kW ? shape.k : shape.n;
  const int64_t points = operand == Operand::kX   ? in_points_
                         : operand == Operand::kW ? taps_
                                                  : out_points_;
  const int64_t channels = operand == Operand::kX   ? shape.c
                           : operand == Operand::kW ? group_c()
                                                    : shape.k;
  return from_stored ? exchanged(values, outer, points, channels)
                     : exchanged(values, outer, channels, points);
}

std::vector<double> HostConvolution::load(Operand operand, const std::byte* cells) const {
  const auto rounded = desc_.math == Math::kTf32 ? Rounded::kTf32 : Rounded::kNot;
  return reordered(operand, host_cuda::load(desc_.dtype, cells, count(operand), rounded), true);
}

void HostConvolution::store(Operand operand, const std::vector<double>& values,
                            std::byte* cells) const {
  host_cuda::store(desc_.dtype, reordered(operand, values, false), cells);
}

void HostConvolution::run(Handle& handle, cuda::Stream stream, const void* a, const void* b,
                          const void* bias, void* out, void* workspace) const {
  host_cuda::Work work;
  static constexpr const char* kPasses[] = {"forward", "data", "filter"};
  work.name = fmt::format("cudnn convolution ({}) {} -> {} channels",
                          kPasses[static_cast<int>(desc_.pass)], desc_.shape.c, desc_.shape.k);
  host_cuda::check_stream(work.name, stream);
  CHECK(handle.impl().device == host_cuda::current_device(work.name),
        "{}: the handle belongs to another device", work.name);
  const auto [of_a, of_b, of_out] = operands();
  const size_t size = graph::dtype_size(desc_.dtype);
  if (count(of_out) == 0) return;
  const auto cells = [&, &work = work](const char* what, const void* address, size_t elements) {
    return elements == 0 ? nullptr : host_cuda::operand(work, what, address, elements * size);
  };
  const std::byte* a_cells = cells("a", a, count(of_a));
  const std::byte* b_cells = cells("b", b, count(of_b));
  const bool has_bias = desc_.bias == Bias::kPerOutput;
  const auto bias_count = static_cast<size_t>(has_bias ? desc_.shape.k : 0);
  const std::byte* bias_cells = cells("bias", bias, bias_count);
  std::byte* out_cells = cells("out", out, count(of_out));
  host_cuda::check_workspace(work.name, workspace);
  std::byte* scratch = host_cuda::operand(work, "workspace", workspace, workspace_bytes());
  work.run = [=, convolution = *this] {
    host_cuda::scribble(scratch, convolution.workspace_bytes());
    const auto [a_is, b_is, out_is] = convolution.operands();
    std::vector<double> result(convolution.count(out_is));
    convolution.compute(convolution.load(a_is, a_cells), convolution.load(b_is, b_cells), result);
    convolution.add_bias(
        host_cuda::load(convolution.desc_.dtype, bias_cells, bias_count, Rounded::kNot), result);
    convolution.store(out_is, result, out_cells);
  };
  host_cuda::enqueue(stream, host_cuda::Kind::kKernel, std::move(work));
}

void HostConvolution::add_bias(const std::vector<double>& bias, std::vector<double>& y) const {
  for (size_t i = 0; !bias.empty() && i < y.size(); ++i) {
    y[i] += bias[i / static_cast<size_t>(out_points_) % bias.size()];
  }
}

// Row by row: the channels of a group, each with its taps; column by column: the output points.
void HostConvolution::unfold(const double* image, Matrix& columns) const {
  for (int64_t row = 0; row < columns.rows(); ++row) {
    const double* channel = image + row / taps_ * in_points_;
    const int64_t* from = windows_.data() + row % taps_ * out_points_;
    double* to = columns.data() + row * out_points_;
    for (int64_t p = 0; p < out_points_; ++p) to[p] = from[p] < 0 ? 0 : channel[from[p]];
  }
}

void HostConvolution::fold(const Matrix& columns, double* image) const {
  for (int64_t row = 0; row < columns.rows(); ++row) {
    double* channel = image + row / taps_ * in_points_;
    const int64_t* to = windows_.data() + row % taps_ * out_points_;
    const double* from = columns.data() + row * out_points_;
    for (int64_t p = 0; p < out_points_; ++p) {
      if (to[p] >= 0) channel[to[p]] += from[p];
    }
  }
}

void HostConvolution::compute(const std::vector<double>& a, const std::vector<double>& b,
                              std::vector<double>& out) const {
  using Map = Eigen::Map<Matrix>;
  using ConstMap = Eigen::Map<const Matrix>;
  const ConvolutionShape& shape = desc_.shape;
  const int64_t depth = group_c() * taps_;
  Matrix columns(depth, out_points_);
  for (int64_t n = 0; n < shape.n; ++n) {
    for (int64_t g = 0; g < shape.groups; ++g) {
      const int64_t x_at = (n * shape.c + g * group_c()) * in_points_;
      const int64_t w_at = g * group_k() * depth;
      const int64_t y_at = (n * shape.k + g * group_k()) * out_points_;
      switch (desc_.pass) {
        case Pass::kForward:
          unfold(a.data() + x_at, columns);
          Map(out.data() + y_at, group_k(), out_points_).noalias() =
              ConstMap(b.data() + w_at, group_k(), depth) * columns;
          break;
        case Pass::kData:
          columns.noalias() = ConstMap(b.data() + w_at, group_k(), depth).transpose() *
                              ConstMap(a.data() + y_at, group_k(), out_points_);
          fold(columns, out.data() + x_at);
          break;
        case Pass::kFilter:
          unfold(a.data() + x_at, columns);
          Map(out.data() + w_at, group_k(), depth).noalias() +=
              ConstMap(b.data() + y_at, group_k(), out_points_) * columns.transpose();
          break;
      }
    }
  }
}

}  // namespace

std::unique_ptr<Convolution> Convolution::make(Handle& handle, const ConvolutionDesc& desc) {
  host_cuda::check_engine("cudnn", desc.dtype);
  CHECK(handle.impl().device == host_cuda::current_device("cudnn"),
        "cudnn: planning with a handle that belongs to another device");
  const ConvolutionShape& shape = desc.shape;
  CHECK(desc.bias == Bias::kNone || desc.pass == Pass::kForward);
  CHECK(shape.groups > 0 && shape.c % shape.groups == 0 && shape.k % shape.groups == 0);
  for (const auto* sizes : {&shape.kernel, &shape.out, &shape.pads_begin, &shape.pads_end,
                            &shape.strides, &shape.dilations}) {
    CHECK(sizes->size() == shape.in.size(), "a convolution of {} axes has {} sizes in one place",
          shape.in.size(), sizes->size());
  }
  for (size_t i = 0; i < shape.in.size(); ++i) {
    const int64_t reach = (shape.kernel[i] - 1) * shape.dilations[i] + 1;
    const int64_t room = shape.in[i] + shape.pads_begin[i] + shape.pads_end[i] - reach;
    CHECK(room >= 0 && room / shape.strides[i] + 1 == shape.out[i],
          "axis {} of a convolution gives {} outputs, the shape says {}", i,
          room / shape.strides[i] + 1, shape.out[i]);
  }
  return std::make_unique<HostConvolution>(desc);
}

}  // namespace sardonyx::ops::cudnn
