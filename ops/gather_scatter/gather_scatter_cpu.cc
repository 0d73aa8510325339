// Kernels of Gather and GatherGrad, and the reading of indices. The data are seen as [outer,
// entries, inner]; in lanes of 16 images the lane belongs to inner. (The element-wise operators of
// the room: indexed_cpu.cc.)
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace sardonyx::ops {

Indices::Indices(const KernelRequest& request, const CpuContext& context, int input)
    : request_(request), count_(request.in[input].numel()), input_(input) {
  if (request.in[input].dtype == DType::kInt32) {
    narrow_ = context.in<int32_t>(input);
  } else {
    wide_ = context.in<int64_t>(input);
  }
}

void Indices::out_of_range(int64_t i, int64_t index, int64_t size) const {
  std::vector<int64_t> position = request_.in_shape(input_);
  for (size_t axis = position.size(); axis-- > 0;) {
    const int64_t length = position[axis];
    position[axis] = i % length;
    i /= length;
  }
  throw Error("node {}: index {} at {} of the indices is out of range for {} entries ({} to {})",
              request_.node->label(), index, graph::shape_str(position), size, -size, size - 1);
}

namespace {

struct GatherGeometry {
  int64_t outer = 1, entries = 0, inner = 1;

  // `data`: type of x, or of dx.
  GatherGeometry(const KernelRequest& request, const TensorType& data) {
    const std::vector<int64_t> dims = stored_dims(data);
    const int axis = front_axis(request.node->get_int("axis", 0), data.rank());
    entries = dims[axis];
    for (int i = 0; i < std::ssize(dims); ++i) {
      if (i != axis) (i < axis ? outer : inner) *= dims[i];
    }
  }
};

void gather_ref(const KernelRequest& request, CpuContext& context) {
  const GatherGeometry g(request, request.in[0]);
  const Indices indices(request, context, 1);
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    T* y = context.out<T>(0);
    for (int64_t o = 0; o < g.outer; ++o) {
      for (int64_t i = 0; i < indices.count(); ++i) {
        const T* x = context.in<T>(0) + (o * g.entries + indices.at(i, g.entries)) * g.inner;
        for (int64_t k = 0; k < g.inner; ++k) *y++ = x[k];
      }
    }
  });
}

void gather_rows(const KernelRequest& request, CpuContext& context) {
  const GatherGeometry g(request, request.in[0]);
  const Indices indices(request, context, 1);
  const int64_t count = indices.count();
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    parallel_for(*context.pool, g.outer * count, 16384 / std::max<int64_t>(1, g.inner),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const int64_t entry = indices.at(row % count, g.entries);
                     std::copy_n(context.in<T>(0) + (row / count * g.entries + entry) * g.inner,
                                 g.inner, context.out<T>(0) + row * g.inner);
                   }
                 });
  });
}

// Adds columns [begin, end) of the rows of one outer position, in the order of the indices.
template <class T>
void add_columns(const GatherGeometry& g, const Indices& indices, const T* dy, T* dx, int64_t begin,
                 int64_t end) {
  for (int64_t i = 0; i < indices.count(); ++i) {
    T* to = dx + indices.at(i, g.entries) * g.inner;
    for (int64_t k = begin; k < end; ++k) to[k] += dy[i * g.inner + k];
  }
}

void gather_grad_ref(const KernelRequest& request, CpuContext& context) {
  const GatherGeometry g(request, request.out[0]);
  const Indices indices(request, context, 1);
  if (!context.accumulate) zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    for (int64_t o = 0; o < g.outer; ++o) {
      add_columns(g, indices, context.in<T>(0) + o * indices.count() * g.inner,
                  context.out<T>(0) + o * g.entries * g.inner, 0, g.inner);
    }
  });
}

// Threads share no element of dx, so equal indices are added in order whatever their number.
void gather_grad_rows(const KernelRequest& request, CpuContext& context) {
  const GatherGeometry g(request, request.out[0]);
  const Indices indices(request, context, 1);
  if (!context.accumulate) zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    const auto add = [&](int64_t o, int64_t begin, int64_t end) {
      add_columns(g, indices, context.in<T>(0) + o * indices.count() * g.inner,
                  context.out<T>(0) + o * g.entries * g.inner, begin, end);
    };
    const int64_t per_row = std::max<int64_t>(1, indices.count());
    if (g.outer >= context.pool->size()) {
      parallel_for(*context.pool, g.outer, 16384 / (per_row * std::max<int64_t>(1, g.inner)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t o = begin; o < end; ++o) add(o, 0, g.inner);
                   });
    } else {
      parallel_for(*context.pool, g.inner, std::max<int64_t>(16, 16384 / per_row),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t o = 0; o < g.outer; ++o) add(o, begin, end);
                   });
    }
  });
}

// Lanes hold the images of one block side by side: an index must be the same for all of them.
std::vector<Refusal> lanes_refusals(Refusal types) {
  return {std::move(types),
          unless_in_lanes(1),
          {"indices must not carry the batch",
           [](const KernelRequest& request) { return !request.in[1].layout.plain(); }},
          {"axis 0 must stay whole", [](const KernelRequest& request) {
             return front_axis(request.node->get_int("axis", 0), request.out[0].rank()) == 0;
           }}};
}

void add(KernelRegistry& kernels, const KernelDef& like, const char* name, Speed speed,
         Layouts layouts, std::vector<Refusal> declines, KernelFunction function) {
  KernelDef def = like;
  def.name = name;
  def.speed = speed;
  def.layouts = layouts;
  def.declines = std::move(declines);
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

}  // namespace

void register_gather_scatter_cpu(KernelRegistry& kernels) {
  KernelDef gather;
  gather.op = "Gather";
  add(kernels, gather, "gather.ref", Speed::kReference, Layouts::kPlain, {unless_sized()},
      gather_ref);
  add(kernels, gather, "gather.rows", Speed::kPlain, Layouts::kPlain, {unless_sized()},
      gather_rows);
  add(kernels, gather, "gather.lanes", Speed::kOptimised, Layouts::kLanes,
      lanes_refusals(unless_sized()), gather_rows);

  KernelDef grad;
  grad.domain = kDomain;
  grad.op = "GatherGrad";
  grad.accumulates = true;
  add(kernels, grad, "gather_grad.ref", Speed::kReference, Layouts::kPlain, {unless_float()},
      gather_grad_ref);
  add(kernels, grad, "gather_grad.rows", Speed::kPlain, Layouts::kPlain, {unless_float()},
      gather_grad_rows);
  add(kernels, grad, "gather_grad.lanes", Speed::kOptimised, Layouts::kLanes,
      lanes_refusals(unless_float()), gather_grad_rows);

  register_indexed_cpu(kernels);
}

}  // namespace sardonyx::ops
