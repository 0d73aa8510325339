// NonZero is one scan in the order of the elements; it runs while constants are folded, hardly ever
// in a plan. Compress is its parts.
#include "ops/core/data_shape.h"
#include "ops/core/dispatch.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/nonzero/nonzero.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

void run_nonzero(const KernelRequest& request, CpuContext& context) {
  const int64_t planned = request.out_shape(0)[1];
  int64_t* y = context.out<int64_t>(0);
  int64_t at = 0, found = 0;
  dispatch_element(request.in[0].dtype, [&]<class T>() {
    for_each_index(request.in_shape(0), [&](const std::vector<int64_t>& index) {
      if (context.in<T>(0)[at++] == T(0)) return;
      for (size_t axis = 0; axis < index.size() && found < planned; ++axis) {
        y[static_cast<int64_t>(axis) * planned + found] = index[axis];
      }
      ++found;
    });
  });
  require_planned_size(request, found, planned);
}

}  // namespace

void register_nonzero_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "NonZero";
  def.name = "nonzero.ref";
  def.declines = {unless_elements()};
  def.create = simple_kernel(run_nonzero);
  kernels.add(std::move(def));
  kernels.add(composed_kernel("Compress", "compress.ref", nonzero::write_compress));
}

}  // namespace sardonyx::ops
