// CPU kernels: plain reference loops, and threaded ones walked by Broadcast. Only the width of an
// element matters, so signed integers are computed as unsigned ones.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "ops/core/broadcast.h"
#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
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

template <class F>
void run_reference(const KernelRequest& request, CpuContext& context) {
  dispatch_size(request.in[0].dtype, [&]<class T>() {
    const BroadcastOffset a(request, 0), b(request, 1);
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      context.out<T>(0)[i] = F()(context.in<T>(0)[a(i)], context.in<T>(1)[b(i)]);
    }
  });
}

template <class F>
class BitsKernel final : public Kernel {
 public:
  explicit BitsKernel(const KernelRequest& request)
      : dtype_(request.in[0].dtype), walk_(request, 0, 1) {}

  void run(CpuContext& context) const override {
    dispatch_size(dtype_, [&]<class T>() {
      parallel_for(*context.pool, walk_.numel(), kCheapGrain, [&](int64_t begin, int64_t end) {
        walk_.visit(begin, end, [&](int64_t rows, int64_t cols, int64_t at, const int64_t* x) {
          const int64_t a_step = walk_.col_stride(0), b_step = walk_.col_stride(1);
          T* y = context.out<T>(0) + at;
          for (int64_t r = 0; r < rows; ++r) {
            const T* a = context.in<T>(0) + x[0] + r * walk_.row_stride(0);
            const T* b = context.in<T>(1) + x[1] + r * walk_.row_stride(1);
            for (int64_t i = 0; i < cols; ++i) *y++ = F()(a[i * a_step], b[i * b_step]);
          }
        });
      });
    });
  }

 private:
  DType dtype_;
  Broadcast walk_;
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

template <class F>
std::unique_ptr<Kernel> create(const KernelRequest& request) {
  return std::make_unique<BitsKernel<F>>(request);
}

// How an operator is run: plainly, and fast.
struct Ways {
  KernelFunction reference;
  std::unique_ptr<Kernel> (*fast)(const KernelRequest&);
};

template <class F>
Ways ways() {
  return {run_reference<F>, create<F>};
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
