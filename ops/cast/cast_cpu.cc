// The CPU kernels: one conversion for all pairs of types (graph/tensor_cast.cc), in one thread for
// plain tensors and in any number of threads over whatever layout. BitCast copies.
#include <cstring>

#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

namespace {

void convert(const KernelRequest& request, CpuContext& context, int64_t begin, int64_t end) {
  const DType from = request.in[0].dtype, to = request.out[0].dtype;
  const auto* x = context.in<std::byte>(0) + begin * static_cast<int64_t>(graph::dtype_size(from));
  auto* y = context.out<std::byte>(0) + begin * static_cast<int64_t>(graph::dtype_size(to));
  graph::cast_elements(from, x, to, y, end - begin);
}

void run_reference(const KernelRequest& request, CpuContext& context) {
  convert(request, context, 0, request.out[0].numel());
}

void run_threaded(const KernelRequest& request, CpuContext& context) {
  parallel_for(*context.pool, request.out[0].physical_numel(), kCheapGrain,
               [&](int64_t begin, int64_t end) { convert(request, context, begin, end); });
}

void run_bit_cast(const KernelRequest& request, CpuContext& context) {
  const auto size = static_cast<int64_t>(graph::dtype_size(request.in[0].dtype));
  parallel_for(*context.pool, request.out[0].physical_numel(), kCheapGrain,
               [&](int64_t begin, int64_t end) {
                 std::memcpy(context.out<std::byte>(0) + begin * size,
                             context.in<std::byte>(0) + begin * size, (end - begin) * size);
               });
}

}  // namespace

void register_cast_cpu(KernelRegistry& kernels) {
  for (const char* op : {"Cast", "CastLike"}) {
    KernelDef def;
    def.op = op;
    def.name = "cast.ref";
    def.create = simple_kernel(run_reference);
    kernels.add(def);
    def.name = "cast.threaded";
    def.speed = Speed::kOptimised;
    def.layouts = Layouts::kAny;
    // CastLike's second operand may have any shape and layout, which Layouts::kSameAll would
    // refuse.
    def.declines = {{"takes x and y of equal layout only", [](const KernelRequest& request) {
                       return !(request.in[0].layout == request.out[0].layout);
                     }}};
    def.create = simple_kernel(run_threaded);
    kernels.add(std::move(def));
  }
  KernelDef bits;
  bits.op = "BitCast";
  bits.name = "cast.ref";
  bits.layouts = Layouts::kSameAll;
  bits.create = simple_kernel(run_bit_cast);
  kernels.add(std::move(bits));
}

}  // namespace sardonyx::ops
