// Both directions by the meetings of blocks and cells: a thread owns images of one channel, and a
// cell sums its blocks in row-major order of taps, in double.
#include <algorithm>
#include <vector>

#include "ops/core/refusals.h"
#include "ops/core/window.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

int64_t planes(const TensorType& image) { return image.dims[0].value * image.dims[1].value; }

void col2im(const KernelRequest& request, CpuContext& context) {
  const Window window = window_of(*request.node, spatial(request.out[0]), request.ints(2));
  const Meetings cells(window, CellsOf::kInput);
  const int64_t blocks = window.out_cells(), size = blocks * window.taps(), image = cells.cells();
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    parallel_for(*context.pool, planes(request.out[0]), 1, [&](int64_t begin, int64_t end) {
      std::vector<Meeting> meetings;
      for (int64_t cell = 0; cell < image; ++cell) {
        cells.of(cell, meetings);
        for (int64_t plane = begin; plane < end; ++plane) {
          double sum = 0;
          for (const Meeting& at : meetings) {
            sum += static_cast<double>(x[plane * size + at.second * blocks + at.first]);
          }
          y[plane * image + cell] = static_cast<T>(sum);
        }
      }
    });
  });
}

void im2col(const KernelRequest& request, CpuContext& context) {
  const Window window =
      window_of(*request.node, spatial(request.in[0]), request.node->get_ints("block_shape", {}));
  const Meetings places(window, CellsOf::kOutput);
  const int64_t blocks = window.out_cells(), size = blocks * window.taps();
  const int64_t image = window.in_cells();
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    const T* y = context.in<T>(0);
    T* x = context.out<T>(0);
    parallel_for(*context.pool, planes(request.in[0]), 1, [&](int64_t begin, int64_t end) {
      std::fill(x + begin * size, x + end * size, T{0});
      std::vector<Meeting> meetings;
      for (int64_t block = 0; block < blocks; ++block) {
        places.of(block, meetings);
        for (int64_t plane = begin; plane < end; ++plane) {
          for (const Meeting& at : meetings) {
            x[plane * size + at.second * blocks + block] = y[plane * image + at.first];
          }
        }
      }
    });
  });
}

KernelDef reference(const char* domain, const char* op, KernelFunction function) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "col2im.ref";
  def.declines = {unless_float()};
  def.create = simple_kernel(std::move(function));
  return def;
}

}  // namespace

void register_col2im_cpu(KernelRegistry& kernels) {
  kernels.add(reference("", "Col2Im", col2im));
  kernels.add(reference(kDomain, "Im2Col", im2col));
}

}  // namespace sardonyx::ops
