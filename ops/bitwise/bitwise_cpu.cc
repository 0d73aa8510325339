// CPU kernels. Only the width of an element matters, so signed integers are computed as unsigned
// ones.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/core/binary_kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
// Narrow elements are shifted as 64 bits wide ones: a signed int, which they would become, may not
// overflow.
struct ShiftLeft {
  template <class T>
  T operator()(T x, T by) const {
    return by < std::numeric_limits<T>::digits ? static_cast<T>(uint64_t{x} << by) : T(0);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T x, T by) const {
    return by < std::numeric_limits<T>::digits ? static_cast<T>(x >> by) : T(0);
  }
};

// Of the bits of a signed integer: what is shifted in is its sign.
struct SignedShiftRight {
  template <class T>
  T operator()(T x, T by) const {
    const auto number = static_cast<std::make_signed_t<T>>(x);
    const T most = std::numeric_limits<T>::digits - 1;
    return static_cast<T>(number >> std::min(by, most));
  }
};

struct Bits {
  template <class T>
  using Result = T;
  template <class G>
  static void dispatch(DType dtype, G&& g) {
    dispatch_size(dtype, g);
  }
};

void run_not(const KernelRequest& request, CpuContext& context) {
  dispatch_size(request.in[0].dtype, [&]<class T>() {
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    parallel_for(*context.pool, request.out[0].physical_numel(), kCheapGrain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(~x[i]);
                 });
  });
}

// How an operator is run: plainly, and fast.
struct Ways {
  KernelFunction reference;
  std::unique_ptr<Kernel> (*fast)(const KernelRequest&);
};

template <class F>
Ways ways() {
  return {run_binary<F, Bits>, create_binary<F, Bits>};
}

Ways shift(const KernelRequest& request) {
  if (request.node->get_string("direction", "") == "LEFT") return ways<ShiftLeft>();
  switch (request.in[0].dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return ways<SignedShiftRight>();
    default:
      return ways<ShiftRight>();
  }
}

void run_shift(const KernelRequest& request, CpuContext& context) {
  shift(request).reference(request, context);
}

std::unique_ptr<Kernel> create_shift(const KernelRequest& request) {
  return shift(request).fast(request);
}

void add(KernelRegistry& kernels, const char* op, Ways ways) {
  KernelDef def;
  def.op = op;
  def.name = "bitwise.ref";
  def.create = simple_kernel(std::move(ways.reference));
  kernels.add(def);
  def.name = "bitwise.broadcast";
  def.speed = Speed::kOptimised;
  def.create = ways.fast;
  kernels.add(def);
  def.name = "bitwise.lanes";
  def.layouts = Layouts::kLanes;
  def.declines = broadcast_lanes_refusals();
  kernels.add(std::move(def));
}

}  // namespace

void register_bitwise_cpu(KernelRegistry& kernels) {
  add(kernels, "BitwiseAnd", ways<And>());
  add(kernels, "BitwiseOr", ways<Or>());
  add(kernels, "BitwiseXor", ways<Xor>());
  add(kernels, "BitShift", {run_shift, create_shift});
  KernelDef negation;
  negation.op = "BitwiseNot";
  negation.name = "bitwise.ref";
  negation.layouts = Layouts::kSameAll;
  negation.in_place = {{0, 0}};
  negation.create = simple_kernel(run_not);
  kernels.add(std::move(negation));
}

}  // namespace sardonyx::ops
