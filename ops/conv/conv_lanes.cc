// Convolution in lanes of 16 images, one or two spatial axes, on the kernels of ops/core/lanes.h.
//
// x and y lie as [blocks][C][H][W][16]; the lanes behind the last image hold anything and never
// reach a sum over images. Threads share the blocks. The filter gradient cuts its work into pieces
// that depend on the shapes only (blocks, and outputs where the filter is too large for many
// copies), adds into the result or a partial sum each, and joins them in order: the number of
// threads changes nothing.
#include <algorithm>
#include <cstring>

#include "ops/conv/conv.h"
#include "ops/core/lane_shapes.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops::conv {

namespace {

using lanes::blocks_of;
using lanes::ConvShape;
using lanes::in_lanes;
using lanes::kLanes;
using lanes::LaneKernels;
using lanes::SpatialAxis;

ConvShape lane_shape(const ConvGeometry& g) {
  auto s = lanes::windowed<ConvShape>(g.window);
  s.c = static_cast<int>(g.channels);
  s.m = static_cast<int>(g.outputs);
  s.groups = static_cast<int>(g.groups);
  s.p_needed = entry_of(g.needed, SpatialAxis::kHeight, 1);
  s.q_needed = entry_of(g.needed, SpatialAxis::kWidth, 1);
  return s;
}

ptrdiff_t x_block(const ConvShape& s) { return ptrdiff_t{s.c} * s.h * s.w * kLanes; }
ptrdiff_t y_block(const ConvShape& s) { return ptrdiff_t{s.m} * s.p * s.q * kLanes; }

template <class T>
class Forward final : public Kernel {
 public:
  explicit Forward(const ConvGeometry& g) : shape_(lane_shape(g)), blocks_(blocks_of(g.batch)) {}
  size_t workspace_bytes() const override {
    return lanes::lane_kernels<T>().conv_forward_packed_size(shape_) * sizeof(T);
  }
  void run(CpuContext& context) const override {
    const LaneKernels<T>& k = lanes::lane_kernels<T>();
    T* packed = reinterpret_cast<T*>(context.workspace.data());
    const T* x = context.in<T>(0);
    const T* b = context.in<T>(2);
    T* y = context.out<T>(0);
    k.conv_pack_forward(shape_, context.in<T>(1), packed);
    parallel_for(*context.pool, blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        k.conv_forward(shape_, x + i * x_block(shape_), packed, b, lanes::Activation::kNone,
                       y + i * y_block(shape_));
        clear_unneeded(y + i * y_block(shape_));
      }
    });
  }

 private:
  // Zeros, so that whatever follows element by element stays finite where nothing reads.
  void clear_unneeded(T* y) const {
    const ConvShape& s = shape_;
    if (s.p_needed == s.p && s.q_needed == s.q) return;
    for (int64_t row = 0; row < int64_t{s.m} * s.p; ++row) {
      const int from = row % s.p < s.p_needed ? s.q_needed : 0;
      T* cells = y + row * s.q * kLanes;
      std::fill(cells + from * kLanes, cells + s.q * kLanes, T{0});
    }
  }

  ConvShape shape_;
  int64_t blocks_;
};

template <class T>
class GradData final : public Kernel {
 public:
  explicit GradData(const ConvGeometry& g) : shape_(lane_shape(g)), blocks_(blocks_of(g.batch)) {}
  size_t workspace_bytes() const override {
    return lanes::lane_kernels<T>().conv_grad_data_packed_size(shape_) * sizeof(T);
  }
  void run(CpuContext& context) const override {
    const LaneKernels<T>& k = lanes::lane_kernels<T>();
    T* packed = reinterpret_cast<T*>(context.workspace.data());
    const T* dy = context.in<T>(1);
    T* dx = context.out<T>(0);
    k.conv_pack_grad_data(shape_, context.in<T>(0), packed);
    parallel_for(*context.pool, blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        k.conv_grad_data(shape_, dy + i * y_block(shape_), packed, nullptr,
                         dx + i * x_block(shape_));
      }
    });
  }

 private:
  ConvShape shape_;
  int64_t blocks_;
};

template <class T>
class GradFilter final : public Kernel {
 public:
  explicit GradFilter(const ConvGeometry& g)
      : shape_(lane_shape(g)), batch_(g.batch), blocks_(blocks_of(g.batch)) {
    filter_ = g.filter_numel();
    const auto copies = kMostCopyBytes / std::max<int64_t>(filter_ * sizeof(T), 1);
    block_pieces_ = std::clamp<int64_t>(std::min(blocks_, copies), 1, kMostPieces);
    if (blocks_ > 1) {
      // Outputs of one group, or whole groups, go together.
      const int64_t units = shape_.groups == 1 ? shape_.m : shape_.groups;
      output_pieces_ = std::clamp<int64_t>(kMostPieces / block_pieces_, 1, units);
    }
  }

  size_t workspace_bytes() const override { return (block_pieces_ - 1) * filter_ * sizeof(T); }

  void run(CpuContext& context) const override {
    T* dw = context.out<T>(0);
    T* partial = reinterpret_cast<T*>(context.workspace.data());
    if (!context.accumulate) std::memset(dw, 0, filter_ * sizeof(T));
    std::memset(partial, 0, workspace_bytes());
    const int64_t tasks = block_pieces_ * output_pieces_;
    parallel_for(*context.pool, tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t piece = i / output_pieces_;
        run_piece(context, piece, i % output_pieces_,
                  piece == 0 ? dw : partial + (piece - 1) * filter_);
      }
    });
    parallel_for(*context.pool, filter_, 1 << 12, [&](int64_t begin, int64_t end) {
      for (int64_t piece = 1; piece < block_pieces_; ++piece) {
        const T* from = partial + (piece - 1) * filter_;
        for (int64_t i = begin; i < end; ++i) dw[i] += from[i];
      }
    });
  }

 private:
  static constexpr int64_t kMostPieces = 16;
  static constexpr int64_t kMostCopyBytes = 4 << 20;

  void run_piece(CpuContext& context, int64_t block_piece, int64_t output_piece, T* dw) const {
    const LaneKernels<T>& k = lanes::lane_kernels<T>();
    const int units = shape_.groups == 1 ? shape_.m : shape_.groups;
    const auto first = static_cast<int>(units * output_piece / output_pieces_);
    const auto count = static_cast<int>(units * (output_piece + 1) / output_pieces_) - first;
    ConvShape part = shape_;
    part.m = shape_.m / units * count;
    ptrdiff_t channel = 0;
    if (shape_.groups > 1) {
      part.groups = count;
      part.c = shape_.c / units * count;
      channel = ptrdiff_t{shape_.c} / units * first;
    }
    const ptrdiff_t output = ptrdiff_t{shape_.m} / units * first;
    const T* x = context.in<T>(0) + channel * shape_.h * shape_.w * kLanes;
    const T* dy = context.in<T>(1) + output * shape_.p * shape_.q * kLanes;
    T* to = dw + output * (filter_ / shape_.m);
    const int64_t end = blocks_ * (block_piece + 1) / block_pieces_;
    for (int64_t i = blocks_ * block_piece / block_pieces_; i < end; ++i) {
      const auto valid = static_cast<int>(std::min<int64_t>(kLanes, batch_ - i * kLanes));
      k.conv_grad_filter(part, x + i * x_block(shape_), dy + i * y_block(shape_), valid, to,
                         nullptr);
    }
  }

  ConvShape shape_;
  int64_t batch_, blocks_, filter_ = 0;
  int64_t block_pieces_ = 1, output_pieces_ = 1;
};

// Lanes add up alone until the end, so those without an image need no mask.
template <class T>
double sum_lanes(const T* cells, int64_t count, int valid) {
  typedef T Vector __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
  Vector sums{};
  for (int64_t i = 0; i < count; ++i) sums += *reinterpret_cast<const Vector*>(cells + i * kLanes);
  double total = 0;
  for (int lane = 0; lane < valid; ++lane) total += static_cast<double>(sums[lane]);
  return total;
}

template <class T>
void grad_bias(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> shape = request.in_shape(0);
  const int64_t batch = shape[0], outputs = shape[1];
  int64_t cells = 1;
  for (size_t i = 2; i < shape.size(); ++i) cells *= shape[i];
  const T* dy = context.in<T>(0);
  T* db = context.out<T>(0);
  parallel_for(*context.pool, outputs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      double sum = context.accumulate ? static_cast<double>(db[m]) : 0.0;
      for (int64_t i = 0; i < blocks_of(batch); ++i) {
        const auto valid = static_cast<int>(std::min<int64_t>(kLanes, batch - i * kLanes));
        sum += sum_lanes(dy + (i * outputs + m) * cells * kLanes, cells, valid);
      }
      db[m] = static_cast<T>(sum);
    }
  });
}

std::vector<Refusal> refusals(bool (*operands_in_lanes)(const KernelRequest&)) {
  return {unless_float(),
          beyond_axes(2),
          {"takes x and y in lanes of 16 images only",
           [=](const KernelRequest& request) { return !operands_in_lanes(request); }}};
}

// Share of the vector width that oneDNN's blocks of 16 channels use. It has kernels of their own
// for images of one to four channels.
double filled(int64_t channels) {
  if (channels == 1) return 0.4;
  if (channels <= 4) return 0.75;
  return static_cast<double>(channels) / static_cast<double>((channels + 15) / 16 * 16);
}

// Static cost, from measurements: lanes reach the same share of peak for any number of channels,
// oneDNN a little more, times what its blocks are filled. Depthwise kernels are bound by memory in
// both; in double there is nothing else.
double gain(const ConvGeometry& g, DType dtype) {
  if (dtype == DType::kFloat64) return 20;
  if (g.groups > 1 && g.group_channels() == 1) return 1;
  const double outputs = static_cast<double>(g.group_outputs()) /
                         static_cast<double>((g.group_outputs() + 15) / 16 * 16);
  return 0.9 / (filled(g.group_channels()) * outputs);
}

using Decode = ConvGeometry (*)(const KernelRequest&);

template <template <class> class K>
KernelDef lanes_kernel(const char* domain, const char* op, Decode decode) {
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "conv.lanes";
  kernel.speed = Speed::kBest;
  kernel.layouts = Layouts::kLanes;
  kernel.lanes_gain = [decode](const KernelRequest& request) {
    return gain(decode(request), request.out[0].dtype);
  };
  kernel.create = [decode](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    const ConvGeometry g = decode(request);
    if (request.out[0].dtype == DType::kFloat32) return std::make_unique<K<float>>(g);
    return std::make_unique<K<double>>(g);
  };
  return kernel;
}

}  // namespace

void register_conv_lanes(KernelRegistry& kernels) {
  KernelDef forward = lanes_kernel<Forward>("", "Conv", ConvGeometry::forward);
  forward.declines =
      refusals([](const KernelRequest& r) { return in_lanes(r.in[0]) && in_lanes(r.out[0]); });
  kernels.add(std::move(forward));

  KernelDef data = lanes_kernel<GradData>(kDomain, "ConvGradData", ConvGeometry::grad_data);
  data.declines =
      refusals([](const KernelRequest& r) { return in_lanes(r.out[0]) && in_lanes(r.in[1]); });
  kernels.add(std::move(data));

  KernelDef filter = lanes_kernel<GradFilter>(kDomain, "ConvGradFilter", ConvGeometry::grad_filter);
  filter.accumulates = true;
  filter.declines =
      refusals([](const KernelRequest& r) { return in_lanes(r.in[0]) && in_lanes(r.in[1]); });
  kernels.add(std::move(filter));

  KernelDef bias;
  bias.domain = kDomain;
  bias.op = "ConvGradBias";
  bias.name = "conv.lanes";
  bias.speed = Speed::kBest;
  bias.layouts = Layouts::kLanes;
  bias.accumulates = true;
  bias.declines = {unless_float()};
  bias.create = simple_kernel([](const KernelRequest& request, CpuContext& context) {
    dispatch_float(request.out[0].dtype, [&]<class T>() { grad_bias<T>(request, context); });
  });
  kernels.add(std::move(bias));
}

}  // namespace sardonyx::ops::conv
