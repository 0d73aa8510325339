// CPU kernels: plain reference loops, and threaded loops walked by Broadcast. Where moves bytes, so
// it knows only element sizes; booleans are bytes 0 and 1.
#include <limits>

#include "ops/core/binary_kernel.h"
#include "ops/core/dispatch.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct LessOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct GreaterOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct And {
  bool operator()(uint8_t a, uint8_t b) const { return a != 0 && b != 0; }
};
struct Or {
  bool operator()(uint8_t a, uint8_t b) const { return a != 0 || b != 0; }
};
struct Xor {
  bool operator()(uint8_t a, uint8_t b) const { return (a != 0) != (b != 0); }
};

// Booleans are compared as bytes.
struct Comparison {
  template <class T>
  using Result = uint8_t;
  template <class G>
  static void dispatch(DType dtype, G&& g) {
    dispatch_number(dtype == DType::kBool ? DType::kUint8 : dtype, g);
  }
};

void run_not(const KernelRequest& request, CpuContext& context) {
  const auto* x = context.in<uint8_t>(0);
  auto* y = context.out<uint8_t>(0);
  parallel_for(*context.pool, request.out[0].physical_numel(), kCheapGrain,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) y[i] = x[i] == 0;
               });
}

// `test` is asked for every x, whatever the layout.
template <class T, class F>
void run_test(const KernelRequest& request, CpuContext& context, F test) {
  const T* x = context.in<T>(0);
  auto* y = context.out<uint8_t>(0);
  parallel_for(*context.pool, request.out[0].physical_numel(), kCheapGrain,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) y[i] = test(x[i]);
               });
}

void run_is_nan(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype,
                 [&]<class T>() { run_test<T>(request, context, [](T x) { return x != x; }); });
}

void run_is_inf(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const bool negative = request.node->get_int("detect_negative", 1) != 0;
    const bool positive = request.node->get_int("detect_positive", 1) != 0;
    run_test<T>(request, context,
                [=](T x) { return (positive && x == kInfinity) || (negative && x == -kInfinity); });
  });
}

void run_where(const KernelRequest& request, CpuContext& context) {
  dispatch_size(request.in[1].dtype, [&]<class T>() {
    const BroadcastOffset c(request, 0), x(request, 1), y(request, 2);
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      context.out<T>(0)[i] =
          context.in<uint8_t>(0)[c(i)] != 0 ? context.in<T>(1)[x(i)] : context.in<T>(2)[y(i)];
    }
  });
}

class WhereKernel final : public Kernel {
 public:
  explicit WhereKernel(const KernelRequest& request)
      : dtype_(request.in[1].dtype), walk_(request, 0, 2) {}

  void run(CpuContext& context) const override {
    dispatch_size(dtype_, [&]<class T>() {
      parallel_for(*context.pool, walk_.numel(), kCheapGrain,
                   [&](int64_t begin, int64_t end) { select<T>(context, begin, end); });
    });
  }

 private:
  template <class T>
  void select(CpuContext& context, int64_t begin, int64_t end) const {
    walk_.visit(begin, end, [&](int64_t rows, int64_t cols, int64_t at, const int64_t* first) {
      const int64_t c_step = walk_.col_stride(0);
      const int64_t x_step = walk_.col_stride(1), y_step = walk_.col_stride(2);
      T* out = context.out<T>(0) + at;
      for (int64_t r = 0; r < rows; ++r) {
        const auto* c = context.in<uint8_t>(0) + first[0] + r * walk_.row_stride(0);
        const T* x = context.in<T>(1) + first[1] + r * walk_.row_stride(1);
        const T* y = context.in<T>(2) + first[2] + r * walk_.row_stride(2);
        for (int64_t i = 0; i < cols; ++i) {
          *out++ = c[i * c_step] != 0 ? x[i * x_step] : y[i * y_step];
        }
      }
    });
  }

  DType dtype_;
  Broadcast walk_;
};

KernelDef kernel(const char* op, const char* name, Speed speed) {
  KernelDef def;
  def.op = op;
  def.name = name;
  def.speed = speed;
  def.declines = {{"takes float, double, integers and bool only", [](const KernelRequest& request) {
                     const DType dtype = request.in[0].dtype;
                     return dtype != DType::kBool && !is_dispatched_number(dtype);
                   }}};
  return def;
}

template <class F>
void add(KernelRegistry& kernels, const char* op) {
  KernelDef reference = kernel(op, "compare_select.ref", Speed::kReference);
  reference.create = simple_kernel(run_binary<F, Comparison>);
  kernels.add(std::move(reference));
  KernelDef fast = kernel(op, "compare_select.broadcast", Speed::kOptimised);
  fast.create = create_binary<F, Comparison>;
  KernelDef lanes = fast;
  lanes.name = "compare_select.lanes";
  lanes.layouts = Layouts::kLanes;
  lanes.declines = joined(lanes.declines, broadcast_lanes_refusals());
  kernels.add(std::move(fast));
  kernels.add(std::move(lanes));
}

void add_test(KernelRegistry& kernels, const char* op, KernelFunction run) {
  KernelDef def = kernel(op, "compare_select.ref", Speed::kReference);
  def.layouts = Layouts::kSameAll;
  def.declines = {unless_float()};
  def.create = simple_kernel(std::move(run));
  kernels.add(std::move(def));
}

void add_where(KernelRegistry& kernels) {
  KernelDef reference = kernel("Where", "compare_select.ref", Speed::kReference);
  reference.declines.clear();
  reference.create = simple_kernel(run_where);
  kernels.add(reference);
  KernelDef plain = kernel("Where", "compare_select.broadcast", Speed::kOptimised);
  plain.declines.clear();
  plain.in_place = {{0, 1}, {0, 2}};
  plain.create = [](const KernelRequest& request) {
    return std::make_unique<WhereKernel>(request);
  };
  KernelDef lanes = plain;
  lanes.name = "compare_select.lanes";
  lanes.layouts = Layouts::kLanes;
  lanes.declines = broadcast_lanes_refusals();
  kernels.add(std::move(plain));
  kernels.add(std::move(lanes));
}

}  // namespace

void register_compare_select_cpu(KernelRegistry& kernels) {
  add<Equal>(kernels, "Equal");
  add<Less>(kernels, "Less");
  add<Greater>(kernels, "Greater");
  add<LessOrEqual>(kernels, "LessOrEqual");
  add<GreaterOrEqual>(kernels, "GreaterOrEqual");
  add<And>(kernels, "And");
  add<Or>(kernels, "Or");
  add<Xor>(kernels, "Xor");
  KernelDef negation = kernel("Not", "compare_select.ref", Speed::kReference);
  negation.layouts = Layouts::kSameAll;
  negation.in_place = {{0, 0}};
  negation.create = simple_kernel(run_not);
  kernels.add(std::move(negation));
  add_test(kernels, "IsNaN", run_is_nan);
  add_test(kernels, "IsInf", run_is_inf);
  add_where(kernels);
}

}  // namespace sardonyx::ops
