// Kernels of GatherElements, GatherND, their gradients, ScatterElements and ScatterND: plain loops
// in the order of the indices, so that repeated indices always add up (or overwrite) alike.
#include <algorithm>

#include "graph/support/bytes.h"
#include "ops/core/axes.h"
#include "ops/core/integers.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace sardonyx::ops {

TupleGeometry::TupleGeometry(const std::vector<int64_t>& data, const std::vector<int64_t>& indices,
                             int64_t batch_dims)
    : length(indices.back()) {
  for (int64_t i = 0; i < batch_dims; ++i) batches *= indices[i];
  for (int64_t i = batch_dims; i < std::ssize(indices) - 1; ++i) tuples *= indices[i];
  const std::vector<int64_t> strides = row_major(data);
  for (int64_t i = batch_dims; i < std::ssize(data); ++i) batch_stride *= data[i];
  for (int64_t i = batch_dims + length; i < std::ssize(data); ++i) inner *= data[i];
  for (int64_t i = 0; i < length; ++i) {
    size.push_back(data[batch_dims + i]);
    stride.push_back(strides[batch_dims + i]);
  }
}

int64_t TupleGeometry::offset(const Indices& indices, int64_t b, int64_t t) const {
  int64_t at = b * batch_stride;
  for (int64_t i = 0; i < length; ++i) {
    at += indices.at((b * tuples + t) * length + i, size[i]) * stride[i];
  }
  return at;
}

namespace {

// --- Places

// f(position among the indices, offset in the data) for every index of an element-wise operator.
template <class F>
void for_each_element(const KernelRequest& request, const CpuContext& context,
                      const TensorType& data, F&& f) {
  const Indices indices(request, context, 1);
  const std::vector<int64_t> dims = data.shape();
  const std::vector<int64_t> strides = row_major(dims);
  const int axis = front_axis(request.node->get_int("axis", 0), data.rank());
  int64_t position = 0;
  for_each_index(request.in_shape(1), [&](const std::vector<int64_t>& index) {
    const int64_t entry = indices.at(position, dims[axis]);
    f(position++, offset_of(index, strides) + (entry - index[axis]) * strides[axis]);
  });
}

// f(offset among the slices, offset in the data, elements) for every tuple.
template <class F>
void for_each_tuple(const KernelRequest& request, const CpuContext& context, const TensorType& data,
                    F&& f) {
  const Indices indices(request, context, 1);
  const TupleGeometry g(data.shape(), request.in_shape(1), request.node->get_int("batch_dims", 0));
  for (int64_t b = 0; b < g.batches; ++b) {
    for (int64_t t = 0; t < g.tuples; ++t) {
      f((b * g.tuples + t) * g.inner, g.offset(indices, b, t), g.inner);
    }
  }
}

// --- Gather

void gather_elements(const KernelRequest& request, CpuContext& context) {
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    for_each_element(request, context, request.in[0],
                     [&](int64_t i, int64_t at) { context.out<T>(0)[i] = context.in<T>(0)[at]; });
  });
}

void gather_elements_grad(const KernelRequest& request, CpuContext& context) {
  if (!context.accumulate) zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    for_each_element(request, context, request.out[0],
                     [&](int64_t i, int64_t at) { context.out<T>(0)[at] += context.in<T>(0)[i]; });
  });
}

void gather_nd(const KernelRequest& request, CpuContext& context) {
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    for_each_tuple(request, context, request.in[0], [&](int64_t to, int64_t at, int64_t count) {
      std::copy_n(context.in<T>(0) + at, count, context.out<T>(0) + to);
    });
  });
}

void gather_nd_grad(const KernelRequest& request, CpuContext& context) {
  if (!context.accumulate) zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    for_each_tuple(request, context, request.out[0], [&](int64_t from, int64_t at, int64_t count) {
      for (int64_t k = 0; k < count; ++k) context.out<T>(0)[at + k] += context.in<T>(0)[from + k];
    });
  });
}

// --- Scatter

template <class T>
T reduced(T old, T update, char reduction) {
  switch (reduction) {
    case 'a':
      return wrapped_sum(old, update);
    case 'm':
      return wrapped_product(old, update);
    case '>':
      return std::max(old, update);
    default:
      return std::min(old, update);
  }
}

// write(f): calls f(offset in the updates, offset in y, elements) for every index.
template <class Write>
void scatter(const KernelRequest& request, CpuContext& context, Write&& write) {
  if (context.outputs[0] != context.inputs[0] && request.out[0].bytes() > 0) {
    copy_bytes(context.outputs[0], context.inputs[0], request.out[0].bytes());
  }
  const std::string name = request.node->get_string("reduction", "none");
  if (name == "none") {
    dispatch_size(request.out[0].dtype, [&]<class T>() {
      write([&](int64_t from, int64_t at, int64_t count) {
        std::copy_n(context.in<T>(2) + from, count, context.out<T>(0) + at);
      });
    });
    return;
  }
  const char reduction = name == "add" ? 'a' : name == "mul" ? 'm' : name == "max" ? '>' : '<';
  const auto reduce = [&]<class T>() {
    write([&](int64_t from, int64_t at, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        T& y = context.out<T>(0)[at + k];
        y = reduced(y, context.in<T>(2)[from + k], reduction);
      }
    });
  };
  if (request.out[0].dtype == DType::kInt32) return reduce.template operator()<int32_t>();
  if (request.out[0].dtype == DType::kInt64) return reduce.template operator()<int64_t>();
  dispatch_float(request.out[0].dtype, reduce);
}

void scatter_elements(const KernelRequest& request, CpuContext& context) {
  scatter(request, context, [&](auto&& put) {
    for_each_element(request, context, request.out[0],
                     [&](int64_t i, int64_t at) { put(i, at, 1); });
  });
}

void scatter_nd(const KernelRequest& request, CpuContext& context) {
  scatter(request, context,
          [&](auto&& put) { for_each_tuple(request, context, request.out[0], put); });
}

// --- Registration

Refusal unless_reducible() {
  return {"reduces float, double, int32 and int64 only", [](const KernelRequest& request) {
            if (request.node->get_string("reduction", "none") == "none") return false;
            const DType dtype = request.out[0].dtype;
            return dtype != DType::kInt32 && dtype != DType::kInt64 &&
                   unless_float().applies(request);
          }};
}

void add(KernelRegistry& kernels, const char* op, const char* name, KernelFunction function) {
  KernelDef def;
  def.op = op;
  def.name = name;
  def.declines = {unless_sized()};
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

void add_gradient(KernelRegistry& kernels, const char* op, const char* name,
                  KernelFunction function) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = name;
  def.accumulates = true;
  def.declines = {unless_float()};
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

void add_scatter(KernelRegistry& kernels, const char* op, const char* name,
                 KernelFunction function) {
  KernelDef def;
  def.op = op;
  def.name = name;
  def.in_place = {{0, 0}};
  def.declines = {unless_sized(), unless_reducible()};
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

}  // namespace

void register_indexed_cpu(KernelRegistry& kernels) {
  add(kernels, "GatherElements", "gather_elements.ref", gather_elements);
  add(kernels, "GatherND", "gather_nd.ref", gather_nd);
  add_gradient(kernels, "GatherElementsGrad", "gather_elements_grad.ref", gather_elements_grad);
  add_gradient(kernels, "GatherNDGrad", "gather_nd_grad.ref", gather_nd_grad);
  add_scatter(kernels, "ScatterElements", "scatter_elements.ref", scatter_elements);
  add_scatter(kernels, "Scatter", "scatter.ref", scatter_elements);
  add_scatter(kernels, "ScatterND", "scatter_nd.ref", scatter_nd);
  kernels.add(composed_kernel("TensorScatter", "tensor_scatter.ref", write_tensor_scatter));
}

}  // namespace sardonyx::ops
