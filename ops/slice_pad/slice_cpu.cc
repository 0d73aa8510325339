// Kernels of Slice and SliceGrad: strided boxes. In lanes of 16 images the lane is one more axis,
// taken whole; axis 0 must come through whole.
#include "ops/core/axes.h"
#include "ops/slice_pad/slice_pad_cpu.h"

namespace sardonyx::ops {

SliceBox slice_box(const KernelRequest& request) {
  const Node& node = *request.node;
  if (node.domain == kDomain) return {node.get_ints("starts", {}), node.get_ints("steps", {})};
  const std::vector<int64_t> dims = request.in_shape(0);
  const int rank = static_cast<int>(dims.size());
  SliceBox box{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 1)};
  const std::vector<int64_t> starts = request.ints(1), ends = request.ints(2);
  const auto axes = request.has_in(3) ? request.ints(3) : std::vector<int64_t>();
  const auto steps = request.has_in(4) ? request.ints(4) : std::vector<int64_t>();
  for (size_t i = 0; i < starts.size(); ++i) {
    const int axis = front_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], rank);
    const SliceRange range =
        slice_range(starts[i], ends[i], steps.empty() ? 1 : steps[i], dims[axis]);
    box.starts[axis] = range.start;
    box.steps[axis] = range.step;
  }
  return box;
}

namespace {

// Offset of the window's first element in the array, and strides of the window in it.
struct Window {
  int64_t at = 0;
  std::vector<int64_t> strides;
};

Window window_in(const std::vector<int64_t>& array, SliceBox box) {
  Window window;
  if (box.starts.size() < array.size()) {  // the lane
    box.starts.push_back(0);
    box.steps.push_back(1);
  }
  const std::vector<int64_t> strides = row_major(array);
  for (size_t i = 0; i < array.size(); ++i) {
    window.at += box.starts[i] * strides[i];
    window.strides.push_back(box.steps[i] * strides[i]);
  }
  return window;
}

}  // namespace

StridedBox slice_copy(const KernelRequest& request) {
  const std::vector<int64_t> to = stored_dims(request.out[0]);
  const Window window = window_in(stored_dims(request.in[0]), slice_box(request));
  return {to, window.strides, row_major(to), window.at, 0};
}

StridedBox slice_grad_copy(const KernelRequest& request) {
  const std::vector<int64_t> from = stored_dims(request.in[0]);
  const Window window = window_in(stored_dims(request.out[0]), slice_box(request));
  return {from, row_major(from), window.strides, 0, window.at};
}

namespace {

void slice_ref(const KernelRequest& request, CpuContext& context) {
  const Window window = window_in(request.in_shape(0), slice_box(request));
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    T* y = context.out<T>(0);
    for_each_index(request.out_shape(0), [&](const std::vector<int64_t>& index) {
      *y++ = context.in<T>(0)[window.at + offset_of(index, window.strides)];
    });
  });
}

void slice_grad_ref(const KernelRequest& request, CpuContext& context) {
  const Window window = window_in(request.out_shape(0), slice_box(request));
  zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    const T* dy = context.in<T>(0);
    for_each_index(request.in_shape(0), [&](const std::vector<int64_t>& index) {
      context.out<T>(0)[window.at + offset_of(index, window.strides)] = *dy++;
    });
  });
}

class SliceGradKernel final : public Kernel {
 public:
  explicit SliceGradKernel(const KernelRequest& request)
      : bytes_(request.out[0].bytes()), copy_(slice_grad_copy(request), request.out[0].dtype) {}
  void run(CpuContext& context) const override {
    zero_fill(*context.pool, context.outputs[0], bytes_);
    copy_.run(*context.pool, context.inputs[0], context.outputs[0]);
  }

 private:
  size_t bytes_;
  StridedCopy copy_;
};

// Blocks of lanes hold whole images: axis 0 is neither cut nor reversed.
Refusal unless_axis_0_is_whole() {
  return {"axis 0 must stay whole", [](const KernelRequest& request) {
            const SliceBox box = slice_box(request);
            return box.starts[0] != 0 || box.steps[0] != 1 ||
                   request.in[0].dims[0].value != request.out[0].dims[0].value;
          }};
}

}  // namespace

void register_slice_cpu(KernelRegistry& kernels) {
  add_window_kernels(kernels, "", "Slice", "slice", slice_ref, strided_kernel(slice_copy),
                     unless_sized(), unless_axis_0_is_whole());
  add_window_kernels(kernels, kDomain, "SliceGrad", "slice_grad", slice_grad_ref,
                     fast_kernel<SliceGradKernel>, unless_sized(), unless_axis_0_is_whole());
}

}  // namespace sardonyx::ops
