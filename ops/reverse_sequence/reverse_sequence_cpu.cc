// One kernel: what stands behind the two axes is copied as a whole.
#include <algorithm>

#include "ops/core/elementwise.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

void check_lengths(const KernelRequest& request, const int64_t* lengths, int64_t count,
                   int64_t steps) {
  const auto* wrong =
      std::find_if(lengths, lengths + count, [&](int64_t n) { return n < 0 || n > steps; });
  if (wrong == lengths + count) return;
  throw Error("node {}: sequence {} has length {}, expected 0 to {}", request.node->label(),
              wrong - lengths, *wrong, steps);
}

void run_reverse(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> dims = request.in_shape(0);
  const bool batch_first = request.node->get_int("batch_axis", 1) == 0;
  const int64_t sequences = dims[batch_first ? 0 : 1], steps = dims[batch_first ? 1 : 0];
  const int64_t inner = Lines::over(dims, 0, 2).inner;
  const auto* lengths = context.in<int64_t>(1);
  check_lengths(request, lengths, sequences, steps);
  const auto place = [&](int64_t b, int64_t t) {
    return (batch_first ? b * steps + t : t * sequences + b) * inner;
  };
  dispatch_size(request.in[0].dtype, [&]<class T>() {
    const int64_t grain = 1 + kCheapGrain / (inner + 1);
    parallel_for(*context.pool, sequences * steps, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / steps, t = i % steps;
        const int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
        std::copy_n(context.in<T>(0) + place(b, from), inner, context.out<T>(0) + place(b, t));
      }
    });
  });
}

}  // namespace

void register_reverse_sequence_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "ReverseSequence";
  def.name = "reverse_sequence.ref";
  def.declines = {unless_sized()};
  def.create = simple_kernel(run_reverse);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
