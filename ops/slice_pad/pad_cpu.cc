// Kernels of Pad and PadGrad. Per axis a table says which element of x stands under an element of
// y; the tables don't depend on the other axes, so all modes are one loop. In lanes of 16 images
// the lane is one more axis without pads; axis 0 has none either.
#include <algorithm>
#include <cstring>

#include "ops/core/axes.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/slice_pad/slice_pad_cpu.h"

namespace sardonyx::ops {

int64_t PadAxis::source(int64_t i, PadMode mode) const {
  const int64_t position = i - std::max<int64_t>(begin, 0), count = kept();
  const auto modulo = [position](int64_t n) { return (position % n + n) % n; };
  if (position >= 0 && position < count) return first() + position;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return first() + std::clamp<int64_t>(position, 0, count - 1);
    case PadMode::kWrap:
      return first() + modulo(count);
    case PadMode::kReflect:
      break;
  }
  if (count == 1) return first();
  const int64_t there_and_back = modulo(2 * (count - 1));
  return first() + std::min(there_and_back, 2 * (count - 1) - there_and_back);
}

std::vector<PadAxis> pad_axes(const KernelRequest& request) {
  const Node& node = *request.node;
  const bool grad = node.domain == kDomain;
  const std::vector<int64_t> dims = (grad ? request.out[0] : request.in[0]).shape();
  const int rank = static_cast<int>(dims.size());
  const std::vector<int64_t> pads = grad ? node.get_ints("pads", {}) : request.ints(1);
  std::vector<PadAxis> result;
  for (int64_t dim : dims) result.push_back({0, 0, dim});
  if (!grad && request.has_in(3)) {
    const std::vector<int64_t> axes = request.ints(3);
    for (size_t i = 0; i < axes.size(); ++i) {
      PadAxis& axis = result[front_axis(axes[i], rank)];
      axis.begin = pads[i];
      axis.end = pads[axes.size() + i];
    }
  } else {
    for (int i = 0; i < rank; ++i) {
      result[i].begin = pads[i];
      result[i].end = pads[rank + i];
    }
  }
  return result;
}

namespace {

// Axes as stored: in lanes there is one more, and axis 0 counts blocks.
std::vector<PadAxis> stored_axes(const KernelRequest& request) {
  std::vector<PadAxis> axes = pad_axes(request);
  const bool grad = request.node->domain == kDomain;
  const std::vector<int64_t> dims = stored_dims(grad ? request.out[0] : request.in[0]);
  axes.resize(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) axes[i].dim = dims[i];
  if (axes.empty()) axes.push_back({0, 0, 1});
  return axes;
}

std::vector<int64_t> sizes_of(const std::vector<PadAxis>& axes) {
  std::vector<int64_t> sizes;
  for (const PadAxis& axis : axes) sizes.push_back(axis.size());
  return sizes;
}

std::vector<int64_t> dims_of(const std::vector<PadAxis>& axes) {
  std::vector<int64_t> dims;
  for (const PadAxis& axis : axes) dims.push_back(axis.dim);
  return dims;
}

template <class T>
T fill_value(const KernelRequest& request, const CpuContext& context) {
  T value{};
  if (const Tensor* constant = request.constant(2)) {
    std::memcpy(&value, constant->cast(request.out[0].dtype).bytes().data(), sizeof(T));
  } else if (request.has_in(2)) {
    value = *context.in<T>(2);
  }
  return value;
}

// Offset in x of an element of y; -1: the constant.
int64_t source_offset(const std::vector<int64_t>& index, const std::vector<PadAxis>& axes,
                      const std::vector<int64_t>& strides, PadMode mode) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const int64_t source = axes[axis].source(index[axis], mode);
    if (source < 0) return -1;
    offset += source * strides[axis];
  }
  return offset;
}

void pad_ref(const KernelRequest& request, CpuContext& context) {
  const std::vector<PadAxis> axes = pad_axes(request);
  const std::vector<int64_t> strides = row_major(dims_of(axes));
  const PadMode mode = pad_mode(*request.node);
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    const T fill = fill_value<T>(request, context);
    T* y = context.out<T>(0);
    for_each_index(request.out_shape(0), [&](const std::vector<int64_t>& index) {
      const int64_t at = source_offset(index, axes, strides, mode);
      *y++ = at < 0 ? fill : context.in<T>(0)[at];
    });
  });
}

void pad_grad_ref(const KernelRequest& request, CpuContext& context) {
  const std::vector<PadAxis> axes = pad_axes(request);
  const std::vector<int64_t> strides = row_major(dims_of(axes));
  const PadMode mode = pad_mode(*request.node);
  zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    const T* dy = context.in<T>(0);
    for_each_index(request.in_shape(0), [&](const std::vector<int64_t>& index) {
      const int64_t at = source_offset(index, axes, strides, mode);
      if (at >= 0) context.out<T>(0)[at] += *dy;
      ++dy;
    });
  });
}

// Rows are runs of the last stored axis; its middle lies in both arrays alike.
class PadRows : public Kernel {
 protected:
  explicit PadRows(const KernelRequest& request)
      : dtype_(request.out[0].dtype),
        mode_(pad_mode(*request.node)),
        axes_(stored_axes(request)),
        last_(axes_.back()),
        x_strides_(row_major(dims_of(axes_))),
        y_strides_(row_major(sizes_of(axes_))) {
    axes_.pop_back();
    for (int64_t i = 0; i < last_.size(); ++i) sources_.push_back(last_.source(i, mode_));
    middle_ = std::max<int64_t>(last_.begin, 0);
    length_ = std::max<int64_t>(last_.kept(), 0);
  }

  // f(position) for the elements of a row of y outside its middle.
  template <class F>
  void for_border(F&& f) const {
    for (int64_t i = 0; i < std::min(middle_, last_.size()); ++i) f(i);
    for (int64_t i = middle_ + length_; i < last_.size(); ++i) f(i);
  }

  DType dtype_;
  PadMode mode_;
  std::vector<PadAxis> axes_;  // without the last
  PadAxis last_;
  std::vector<int64_t> x_strides_, y_strides_;
  std::vector<int64_t> sources_;  // of the last axis
  int64_t middle_ = 0, length_ = 0;
};

int64_t product(const std::vector<int64_t>& dims) {
  int64_t result = 1;
  for (int64_t dim : dims) result *= dim;
  return result;
}

class PadKernel final : public PadRows {
 public:
  explicit PadKernel(const KernelRequest& request) : PadRows(request), request_(request) {}

  void run(CpuContext& context) const override {
    dispatch_size(dtype_, [&]<class T>() { rows<T>(context); });
  }

 private:
  template <class T>
  void rows(CpuContext& context) const {
    const T fill = fill_value<T>(request_, context);
    const std::vector<int64_t> sizes = sizes_of(axes_);
    const int64_t grain = 16384 / std::max<int64_t>(1, last_.size());
    parallel_for(*context.pool, product(sizes), grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* y = context.out<T>(0) + row * last_.size();
        const int64_t from = row_source(row, sizes);
        if (from < 0) {
          std::fill_n(y, last_.size(), fill);
          continue;
        }
        const T* x = context.in<T>(0) + from;
        if (length_ > 0) std::memcpy(y + middle_, x + last_.first(), length_ * sizeof(T));
        for_border([&](int64_t i) { y[i] = sources_[i] < 0 ? fill : x[sources_[i]]; });
      }
    });
  }

  int64_t row_source(int64_t row, const std::vector<int64_t>& sizes) const {
    int64_t offset = 0;
    for (size_t axis = axes_.size(); axis-- > 0;) {
      const int64_t source = axes_[axis].source(row % sizes[axis], mode_);
      if (source < 0) return -1;
      offset += source * x_strides_[axis];
      row /= sizes[axis];
    }
    return offset;
  }

  KernelRequest request_;
};

// Row by row of dx: each row collects the rows of dy that came from it, in order.
class PadGradKernel final : public PadRows {
 public:
  explicit PadGradKernel(const KernelRequest& request) : PadRows(request) {
    for (const PadAxis& axis : axes_) {
      targets_.emplace_back();
      if (axis.identity()) continue;
      targets_.back().resize(axis.dim);
      for (int64_t i = 0; i < axis.size(); ++i) {
        const int64_t source = axis.source(i, mode_);
        if (source >= 0) targets_.back()[source].push_back(i);
      }
    }
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      const std::vector<int64_t> dims = dims_of(axes_);
      const int64_t grain = 16384 / std::max<int64_t>(1, last_.dim);
      parallel_for(*context.pool, product(dims), grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          T* dx = context.out<T>(0) + row * last_.dim;
          std::fill_n(dx, last_.dim, T{0});
          collect(row, axes_.size(), context.in<T>(0), dx);
        }
      });
    });
  }

 private:
  // Adds the rows of dy over the axes in front of `axis`, of which `row` is the position in dx.
  template <class T>
  void collect(int64_t row, size_t axis, const T* dy, T* dx) const {
    if (axis == 0) return add_row(dy, dx);
    --axis;
    const int64_t position = row % axes_[axis].dim;
    row /= axes_[axis].dim;
    if (axes_[axis].identity()) return collect(row, axis, dy + position * y_strides_[axis], dx);
    for (int64_t i : targets_[axis][position]) collect(row, axis, dy + i * y_strides_[axis], dx);
  }

  template <class T>
  void add_row(const T* dy, T* dx) const {
    for (int64_t i = 0; i < length_; ++i) dx[last_.first() + i] += dy[middle_ + i];
    for_border([&](int64_t i) {
      if (sources_[i] >= 0) dx[sources_[i]] += dy[i];
    });
  }

  std::vector<std::vector<std::vector<int64_t>>> targets_;  // axis, position in dx: positions in dy
};

Refusal when_axis_0_is_padded() {
  return {"axis 0 must stay whole",
          [](const KernelRequest& request) { return !pad_axes(request)[0].identity(); }};
}

}  // namespace

void register_pad_cpu(KernelRegistry& kernels) {
  add_window_kernels(kernels, "", "Pad", "pad", pad_ref, fast_kernel<PadKernel>, unless_sized(),
                     when_axis_0_is_padded());
  add_window_kernels(kernels, kDomain, "PadGrad", "pad_grad", pad_grad_ref,
                     fast_kernel<PadGradKernel>, unless_float(), when_axis_0_is_padded());
}

}  // namespace sardonyx::ops
