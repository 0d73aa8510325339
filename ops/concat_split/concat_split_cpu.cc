// Kernels of Concat and Split: one strided copy per part, between the part and its place in the
// whole. Sizes come from the types alone.
#include <cstring>
#include <limits>

#include "graph/support/bytes.h"
#include "ops/concat_split/concat_split.h"
#include "ops/core/axes.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

int axis_of(const KernelRequest& request) {
  return front_axis(request.node->get_int("axis", 0), request.in[0].rank());
}

// --- Reference

int64_t product(const std::vector<int64_t>& dims, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t i = begin; i < end; ++i) result *= dims[i];
  return result;
}

void concat_ref(const KernelRequest& request, CpuContext& context) {
  const int axis = axis_of(request);
  const std::vector<int64_t> dims = request.out_shape(0);
  const auto inner = static_cast<int64_t>(graph::dtype_size(request.out[0].dtype)) *
                     product(dims, axis + 1, dims.size());
  auto* y = context.out<std::byte>(0);
  for (int64_t row = 0; row < product(dims, 0, axis); ++row) {
    for (int i = 0; i < static_cast<int>(request.in.size()); ++i) {
      const int64_t bytes = request.in[i].dims[axis].value * inner;
      if (bytes > 0) std::memcpy(y, context.in<std::byte>(i) + row * bytes, bytes);
      y += bytes;
    }
  }
}

// Where each output begins along the axis; outputs that are left out take their room too.
std::vector<int64_t> split_starts(const KernelRequest& request, int axis) {
  std::optional<std::vector<int64_t>> listed;
  if (request.has_in(1)) listed = request.ints(1);
  std::vector<int64_t> starts{0};
  for (int64_t size : split_sizes(*request.node, request.in[0].dims[axis].value, listed)) {
    starts.push_back(starts.back() + size);
  }
  return starts;
}

void split_ref(const KernelRequest& request, CpuContext& context) {
  const int axis = axis_of(request);
  const std::vector<int64_t> dims = request.in_shape(0), starts = split_starts(request, axis);
  const int64_t outer = product(dims, 0, axis);
  const auto inner = static_cast<int64_t>(graph::dtype_size(request.in[0].dtype)) *
                     product(dims, axis + 1, dims.size());
  for (int i = 0; i < static_cast<int>(request.out.size()); ++i) {
    if (!request.has_out(i)) continue;
    const int64_t bytes = (starts[i + 1] - starts[i]) * inner;
    for (int64_t row = 0; row < outer && bytes > 0; ++row) {
      copy_bytes(context.out<std::byte>(i) + row * bytes,
                 context.in<std::byte>(0) + (row * dims[axis] + starts[i]) * inner, bytes);
    }
  }
}

// --- Strided

}  // namespace

std::vector<PartCopy> concat_copies(const KernelRequest& request) {
  const int axis = stored_axis(request.out[0], axis_of(request));
  const std::vector<int64_t> strides = row_major(stored_dims(request.out[0]));
  std::vector<PartCopy> parts;
  int64_t at = 0;
  for (size_t i = 0; i < request.in.size(); ++i) {
    const std::vector<int64_t> dims = stored_dims(request.in[i]);
    parts.push_back({static_cast<int>(i), {dims, row_major(dims), strides, 0, at * strides[axis]}});
    at += dims[axis];
  }
  return parts;
}

std::vector<PartCopy> split_copies(const KernelRequest& request) {
  const std::vector<int64_t> strides = row_major(stored_dims(request.in[0]));
  const std::vector<int64_t> starts = split_starts(request, axis_of(request));
  const int axis = stored_axis(request.in[0], axis_of(request));
  std::vector<PartCopy> parts;
  for (int i = 0; i < static_cast<int>(request.out.size()); ++i) {
    if (!request.has_out(i)) continue;
    const std::vector<int64_t> dims = stored_dims(request.out[i]);
    parts.push_back({i, {dims, strides, row_major(dims), starts[i] * strides[axis]}});
  }
  return parts;
}

namespace {

class PartsKernel : public Kernel {
 protected:
  struct Part {
    int operand;
    StridedCopy copy;
  };
  PartsKernel(const std::vector<PartCopy>& parts, DType dtype) {
    for (const PartCopy& part : parts) parts_.push_back({part.operand, {part.box, dtype}});
  }
  std::vector<Part> parts_;
};

class ConcatKernel final : public PartsKernel {
 public:
  explicit ConcatKernel(const KernelRequest& request)
      : PartsKernel(concat_copies(request), request.out[0].dtype) {}
  void run(CpuContext& context) const override {
    for (const Part& part : parts_) {
      part.copy.run(*context.pool, context.inputs[part.operand], context.outputs[0]);
    }
  }
};

class SplitKernel final : public PartsKernel {
 public:
  explicit SplitKernel(const KernelRequest& request)
      : PartsKernel(split_copies(request), request.in[0].dtype) {}
  void run(CpuContext& context) const override {
    for (const Part& part : parts_) {
      part.copy.run(*context.pool, context.inputs[0], context.outputs[part.operand]);
    }
  }
};

// --- Registration

template <class Strided>
void add(KernelRegistry& kernels, const std::string& op, const std::string& room,
         KernelFunction reference, int data_inputs) {
  KernelDef def;
  def.op = op;
  def.name = room + ".ref";
  def.declines = {unless_sized()};
  def.create = simple_kernel(std::move(reference));
  kernels.add(def);

  def.name = room + ".strided";
  def.speed = Speed::kPlain;
  def.create = [](const KernelRequest& request) { return std::make_unique<Strided>(request); };
  kernels.add(def);

  def.name = room + ".lanes";
  def.speed = Speed::kOptimised;
  def.layouts = Layouts::kLanes;
  def.declines = {unless_sized(),
                  unless_in_lanes(data_inputs),
                  {"axis 0 must stay whole",
                   [](const KernelRequest& request) { return axis_of(request) == 0; }}};
  kernels.add(def);
}

}  // namespace

void register_concat_split_cpu(KernelRegistry& kernels) {
  add<ConcatKernel>(kernels, "Concat", "concat", concat_ref, std::numeric_limits<int>::max());
  add<SplitKernel>(kernels, "Split", "split", split_ref, 1);
}

}  // namespace sardonyx::ops
