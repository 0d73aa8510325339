#include "ops/core/strided.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sardonyx::ops {

namespace {

constexpr int64_t kGrain = 16384;  // elements worth a thread
constexpr int64_t kTile = 16;

StridedBox simplified(const StridedBox& box) {
  StridedBox result;
  result.src_at = box.src_at;
  result.dst_at = box.dst_at;
  for (size_t i = 0; i < box.dims.size(); ++i) {
    if (box.dims[i] == 1) continue;
    const bool joins = !result.dims.empty() && result.src.back() == box.src[i] * box.dims[i] &&
                       result.dst.back() == box.dst[i] * box.dims[i];
    if (joins) {
      result.dims.back() *= box.dims[i];
      result.src.back() = box.src[i];
      result.dst.back() = box.dst[i];
    } else {
      result.dims.push_back(box.dims[i]);
      result.src.push_back(box.src[i]);
      result.dst.push_back(box.dst[i]);
    }
  }
  if (result.dims.empty()) {
    result.dims = {1};
    result.src = result.dst = {1};
  }
  return result;
}

// Offsets of the position `flat` of a loop nest, and one step on.
class Odometer {
 public:
  Odometer(const std::vector<int64_t>& dims, const std::vector<int64_t>& src,
           const std::vector<int64_t>& dst, int64_t flat)
      : dims_(dims), src_(src), dst_(dst), index_(dims.size()) {
    for (size_t axis = dims.size(); axis-- > 0;) {
      index_[axis] = flat % dims[axis];
      flat /= dims[axis];
      src_at += index_[axis] * src[axis];
      dst_at += index_[axis] * dst[axis];
    }
  }
  void next() {
    for (size_t axis = dims_.size(); axis-- > 0;) {
      src_at += src_[axis];
      dst_at += dst_[axis];
      if (++index_[axis] < dims_[axis]) return;
      src_at -= index_[axis] * src_[axis];
      dst_at -= index_[axis] * dst_[axis];
      index_[axis] = 0;
    }
  }

  int64_t src_at = 0, dst_at = 0;

 private:
  const std::vector<int64_t>&dims_, &src_, &dst_;
  std::vector<int64_t> index_;
};

template <class T>
void copy_row(const T* src, int64_t src_step, T* dst, int64_t dst_step, int64_t count) {
  if (src_step == 1 && dst_step == 1) {
    std::memcpy(dst, src, count * sizeof(T));
  } else if (src_step == 0 && dst_step == 1) {
    std::fill_n(dst, count, *src);
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i * dst_step] = src[i * src_step];
  }
}

// dst[i * dst_step + j] = src[i + j * src_step]. The full tile goes through a buffer, so that both
// sides are read and written in whole vectors.
template <class T>
void copy_tile(const T* src, int64_t src_step, T* dst, int64_t dst_step, int64_t rows,
               int64_t columns) {
  if (rows == kTile && columns == kTile) {
    T tile[kTile][kTile];
    for (int64_t j = 0; j < kTile; ++j) {
      for (int64_t i = 0; i < kTile; ++i) tile[i][j] = src[i + j * src_step];
    }
    for (int64_t i = 0; i < kTile; ++i) std::memcpy(dst + i * dst_step, tile[i], sizeof(tile[i]));
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) dst[i * dst_step + j] = src[i + j * src_step];
  }
}

}  // namespace

StridedCopy::StridedCopy(StridedBox box, DType dtype)
    : box_(simplified(box)), dtype_(dtype), numel_(1) {
  for (int64_t size : box_.dims) numel_ *= size;
  const size_t last = box_.dims.size() - 1;
  if (box_.dst[last] != 1 || box_.src[last] == 1 || box_.dims[last] < 4) return;
  for (size_t axis = 0; axis < last; ++axis) {
    if (box_.src[axis] == 1 && box_.dims[axis] >= 4) tile_axis_ = static_cast<int>(axis);
  }
}

void StridedCopy::run(ThreadPool& pool, const void* src, void* dst) const {
  if (numel_ == 0) return;
  dispatch_size(dtype_, [&]<class T>() {
    const T* from = static_cast<const T*>(src) + box_.src_at;
    T* to = static_cast<T*>(dst) + box_.dst_at;
    tile_axis_ < 0 ? rows<T>(pool, from, to) : tiles<T>(pool, from, to);
  });
}

template <class T>
void StridedCopy::rows(ThreadPool& pool, const T* src, T* dst) const {
  const int64_t length = box_.dims.back(), src_step = box_.src.back(), dst_step = box_.dst.back();
  const auto outer = [](std::vector<int64_t> v) {
    v.pop_back();
    return v;
  };
  const std::vector<int64_t> dims = outer(box_.dims), from = outer(box_.src), to = outer(box_.dst);
  // Cut by element, not by row: few long rows go to all threads too.
  parallel_for(pool, numel_, kGrain, [&](int64_t begin, int64_t end) {
    Odometer at(dims, from, to, begin / length);
    for (int64_t i = begin % length, left = end - begin; left > 0; at.next(), i = 0) {
      const int64_t count = std::min(length - i, left);
      copy_row(src + at.src_at + i * src_step, src_step, dst + at.dst_at + i * dst_step, dst_step,
               count);
      left -= count;
    }
  });
}

template <class T>
void StridedCopy::tiles(ThreadPool& pool, const T* src, T* dst) const {
  const size_t last = box_.dims.size() - 1;
  std::vector<int64_t> dims, from, to;
  for (size_t axis = 0; axis < last; ++axis) {
    if (static_cast<int>(axis) == tile_axis_) continue;
    dims.push_back(box_.dims[axis]);
    from.push_back(box_.src[axis]);
    to.push_back(box_.dst[axis]);
  }
  const int64_t height = box_.dims[tile_axis_], width = box_.dims[last];
  const int64_t src_step = box_.src[last], dst_step = box_.dst[tile_axis_];
  // The strip of 16 rows is the innermost outer axis.
  const int64_t strips = (height + kTile - 1) / kTile;
  dims.push_back(strips);
  from.push_back(kTile);
  to.push_back(kTile * dst_step);
  const int64_t units = numel_ / (height * width) * strips;
  const int64_t grain = std::max<int64_t>(1, kGrain / (kTile * width));
  parallel_for(pool, units, grain, [&](int64_t begin, int64_t end) {
    Odometer at(dims, from, to, begin);
    for (int64_t unit = begin; unit < end; ++unit, at.next()) {
      const int64_t rows = std::min(kTile, height - unit % strips * kTile);
      for (int64_t j = 0; j < width; j += kTile) {
        copy_tile(src + at.src_at + j * src_step, src_step, dst + at.dst_at + j, dst_step, rows,
                  std::min(kTile, width - j));
      }
    }
  });
}

namespace {

class StridedKernel final : public Kernel {
 public:
  StridedKernel(StridedBox box, DType dtype) : copy_(std::move(box), dtype) {}
  void run(CpuContext& context) const override {
    copy_.run(*context.pool, context.inputs[0], context.outputs[0]);
  }

 private:
  StridedCopy copy_;
};

}  // namespace

std::function<std::unique_ptr<Kernel>(const KernelRequest&)> strided_kernel(
    StridedBox (*box_of)(const KernelRequest&)) {
  return [box_of](const KernelRequest& request) {
    return std::make_unique<StridedKernel>(box_of(request), request.out[0].dtype);
  };
}

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

std::vector<int64_t> stored_dims(const TensorType& type) {
  std::vector<int64_t> dims = type.shape();
  if (const int lanes = type.layout.lane_count(); lanes > 0) {
    dims[0] = (dims[0] + lanes - 1) / lanes;
    dims.push_back(lanes);
  } else {
    CHECK(type.layout.inner.empty(), "{} has no dense form", type.str());
    for (size_t i = 0; i < type.layout.order.size(); ++i) {
      dims[i] = type.dims[type.layout.order[i]].value;
    }
  }
  return dims;
}

int stored_axis(const TensorType& type, int axis) {
  const std::vector<int32_t>& order = type.layout.order;
  if (order.empty()) return axis;
  return static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
}

void zero_fill(ThreadPool& pool, void* data, size_t bytes) {
  parallel_for(pool, static_cast<int64_t>(bytes), 1 << 16, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<std::byte*>(data) + begin, 0, end - begin);
  });
}

int64_t offset_of(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[axis];
  return offset;
}

}  // namespace sardonyx::ops
