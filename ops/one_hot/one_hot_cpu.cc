// One kernel: a line along the new axis is filled by one thread. Values are moved by their size.
#include <utility>

#include "ops/core/axes.h"
#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/integers.h"
#include "ops/core/kernel.h"
#include "ops/core/lines.h"

namespace sardonyx::ops {

namespace {

// Where in its line index i stands; -1: nowhere.
template <class I>
int64_t place(I index, int64_t depth) {
  int64_t i = 0;
  if constexpr (std::is_floating_point_v<I>) {
    i = element_of<int64_t>(index);
  } else if (std::in_range<int64_t>(index)) {
    i = static_cast<int64_t>(index);
  } else {
    return -1;
  }
  if (i < 0) i += depth;
  return i >= 0 && i < depth ? i : -1;
}

void run_one_hot(const KernelRequest& request, CpuContext& context) {
  const int axis = front_axis(request.node->get_int("axis", -1), request.out[0].rank());
  const Lines lines = Lines::along(request.out_shape(0), axis);
  dispatch_number(request.in[0].dtype, [&]<class I>() {
    dispatch_size(request.in[2].dtype, [&]<class T>() {
      const T *values = context.in<T>(2), off = values[0], on = values[1];
      cut_lines(*context.pool, lines, kCheapGrain, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          T* y = context.out<T>(0) + lines.first(line);
          for (int64_t i = 0; i < lines.length; ++i) y[i * lines.inner] = off;
          const int64_t at = place(context.in<I>(0)[line], lines.length);
          if (at >= 0) y[at * lines.inner] = on;
        }
      });
    });
  });
}

}  // namespace

void register_one_hot_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "OneHot";
  def.name = "one_hot.ref";
  def.declines = {{"takes float, double and integers as indices, values of 1, 2, 4 or 8 bytes",
                   [](const KernelRequest& request) {
                     const size_t size = graph::dtype_size(request.in[2].dtype);
                     return !is_dispatched_number(request.in[0].dtype) || size == 0 || size > 8;
                   }}};
  def.create = simple_kernel(run_one_hot);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
