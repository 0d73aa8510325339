// Kernels of Gemm, MatMul and GemmGradWeight from a Backend (one function that multiplies), and of
// GemmGradBias. The functions stand in ops/core/matrix_product.h, kernels over lanes of images in
// gemm_lanes.cc.
#include <algorithm>
#include <cstring>

#include "ops/core/refusals.h"
#include "ops/gemm/gemm.h"

namespace sardonyx::ops {

namespace gemm {

namespace {

int64_t product_of(const std::vector<int64_t>& shape, size_t count) {
  int64_t n = 1;
  for (size_t i = 0; i < count; ++i) n *= shape[i];
  return n;
}

// Offsets of the matrices of an operand with leading axes `own`, for each matrix of the output.
std::vector<int64_t> matrix_offsets(std::vector<int64_t> own, const std::vector<int64_t>& leading,
                                    int64_t matrix) {
  own.insert(own.begin(), leading.size() - own.size(), 1);
  std::vector<int64_t> offsets{0};
  int64_t stride = matrix;
  std::vector<int64_t> strides(own.size());
  for (size_t i = own.size(); i-- > 0;) {
    strides[i] = own[i] == 1 ? 0 : stride;
    stride *= own[i];
  }
  for (size_t i = 0; i < leading.size(); ++i) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * leading[i]);
    for (int64_t offset : offsets) {
      for (int64_t j = 0; j < leading[i]; ++j) next.push_back(offset + j * strides[i]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

}  // namespace

GemmShape GemmShape::of(const KernelRequest& request) {
  const std::vector<int64_t> a = request.in_shape(0), y = request.out_shape(0);
  GemmShape shape;
  Product& product = shape.product;
  product.trans_a = trans_of(*request.node, "transA");
  product.trans_b = trans_of(*request.node, "transB");
  product.alpha = request.node->get_float("alpha", 1);
  product.m = y[0];
  product.n = y[1];
  product.k = a[product.trans_a == Trans::kYes ? 0 : 1];
  shape.beta = request.node->get_float("beta", 1);
  shape.reads_c = request.has_in(2) && shape.beta != 0;
  if (!shape.reads_c) return shape;
  std::vector<int64_t> c = request.in_shape(2);
  c.insert(c.begin(), 2 - c.size(), 1);
  shape.c_column_stride = c[1] == 1 ? 0 : 1;
  shape.c_row_stride = c[0] == 1 ? 0 : c[1];
  return shape;
}

MatMulShape MatMulShape::of(const KernelRequest& request) {
  std::vector<int64_t> a = request.in_shape(0), b = request.in_shape(1);
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  MatMulShape shape;
  Product& product = shape.product;
  product.trans_a = trans_of(*request.node, "trans_a");
  product.trans_b = trans_of(*request.node, "trans_b");
  const int64_t a_rows = a.end()[-2], a_columns = a.end()[-1];
  product.m = product.trans_a == Trans::kYes ? a_columns : a_rows;
  product.k = product.trans_a == Trans::kYes ? a_rows : a_columns;
  product.n = product.trans_b == Trans::kYes ? b.end()[-2] : b.end()[-1];
  const std::vector<int64_t> a_leading(a.begin(), a.end() - 2), b_leading(b.begin(), b.end() - 2);
  if (product_of(b, b_leading.size()) == 1 && b.size() <= a.size() &&
      product.trans_a == Trans::kNo) {
    // All matrices of a meet the same b: they are one tall matrix.
    product.m *= product_of(a, a_leading.size());
    shape.a_offsets = shape.b_offsets = {0};
    return shape;
  }
  std::vector<int64_t> leading(std::max(a_leading.size(), b_leading.size()), 1);
  for (const auto* own : {&a_leading, &b_leading}) {
    for (size_t i = 0; i < own->size(); ++i) {
      int64_t& dim = leading[leading.size() - own->size() + i];
      if ((*own)[i] != 1) dim = (*own)[i];
    }
  }
  shape.a_offsets = matrix_offsets(a_leading, leading, a_rows * a_columns);
  shape.b_offsets = matrix_offsets(b_leading, leading, b.end()[-2] * b.end()[-1]);
  return shape;
}

Product grad_weight_product(const KernelRequest& request) {
  const std::vector<int64_t> a = request.in_shape(0), dw = request.out_shape(0);
  Product product;
  product.m = dw[0];
  product.n = dw[1];
  product.k = product_of(a, a.size() - 1);
  product.trans_a = Trans::kYes;
  product.alpha = request.node->get_float("alpha", 1);
  return product;
}

namespace {

template <class T>
void multiply(Multiply<T> function, const Product& p, const T* a, const T* b, Write write, T* c,
              ThreadPool& pool) {
  matrix::multiply<T>(function, p, {a, p.trans_a == Trans::kYes ? p.m : p.k},
                      {b, p.trans_b == Trans::kYes ? p.k : p.n}, write, {c, p.n}, pool);
}

template <class T>
void put_c(const GemmShape& shape, const T* c, Write write, T* y, ThreadPool& pool) {
  const T beta = static_cast<T>(shape.beta);
  const int64_t n = shape.product.n;
  parallel_for(pool, shape.product.m, std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const T* from = c + i * shape.c_row_stride;
                   T* to = y + i * n;
                   if (write == Write::kOverwrite && beta == T{1} && shape.c_column_stride == 1) {
                     std::memcpy(to, from, n * sizeof(T));
                     continue;
                   }
                   for (int64_t j = 0; j < n; ++j) {
                     const T term = beta * from[j * shape.c_column_stride];
                     to[j] = write == Write::kAdd ? to[j] + term : term;
                   }
                 }
               });
}

// A kernel of one element type: State is made once, Run is the function.
template <class State>
class StateKernel final : public Kernel {
 public:
  using Run = void (*)(const State& state, const Backend& backend, CpuContext& context);
  StateKernel(State state, const Backend& backend, Run run)
      : state_(std::move(state)), backend_(backend), run_(run) {}
  void run(CpuContext& context) const override { run_(state_, backend_, context); }

 private:
  State state_;
  Backend backend_;
  Run run_;
};

template <class T>
Multiply<T> function_of(const Backend& backend) {
  if constexpr (std::is_same_v<T, float>) {
    return backend.f32;
  } else {
    return backend.f64;
  }
}

Write write_of(const CpuContext& context) {
  return context.accumulate ? Write::kAdd : Write::kOverwrite;
}

template <class T>
void run_gemm(const GemmShape& shape, const Backend& backend, CpuContext& context) {
  Write write = write_of(context);
  T* y = context.out<T>(0);
  if (shape.reads_c) {
    put_c(shape, context.in<T>(2), write, y, *context.pool);
    write = Write::kAdd;
  }
  multiply(function_of<T>(backend), shape.product, context.in<T>(0), context.in<T>(1), write, y,
           *context.pool);
}

template <class T>
void run_matmul(const MatMulShape& shape, const Backend& backend, CpuContext& context) {
  const Product& p = shape.product;
  const auto one = [&](int64_t i, ThreadPool& pool) {
    multiply(function_of<T>(backend), p, context.in<T>(0) + shape.a_offsets[i],
             context.in<T>(1) + shape.b_offsets[i], write_of(context),
             context.out<T>(0) + i * p.m * p.n, pool);
  };
  const int64_t count = static_cast<int64_t>(shape.a_offsets.size());
  if (count < context.pool->size()) {
    for (int64_t i = 0; i < count; ++i) one(i, *context.pool);
    return;
  }
  parallel_for(*context.pool, count, 1, [&](int64_t begin, int64_t end) {
    SerialPool serial;
    for (int64_t i = begin; i < end; ++i) one(i, serial);
  });
}

template <class T>
void run_grad_weight(const Product& product, const Backend& backend, CpuContext& context) {
  multiply(function_of<T>(backend), product, context.in<T>(0), context.in<T>(1), write_of(context),
           context.out<T>(0), *context.pool);
}

template <class State>
std::unique_ptr<Kernel> make(State state, const Backend& backend, const KernelRequest& request,
                             typename StateKernel<State>::Run f32,
                             typename StateKernel<State>::Run f64) {
  return std::make_unique<StateKernel<State>>(std::move(state), backend,
                                              request.in[0].dtype == DType::kFloat32 ? f32 : f64);
}

Refusal unless_multiplied(const Backend& backend) {
  if (backend.f64 == nullptr) return unless_float32();
  if (backend.f32 != nullptr) return unless_float();
  return {"takes double only",
          [](const KernelRequest& request) { return request.in[0].dtype != DType::kFloat64; }};
}

// Where own tiles beat a library, which packs both operands of every product: small matrices, b as
// it is stored transposed, and tall products of a as it is stored transposed. `decode` gives the
// product of a request.
template <class F>
Refusal unless_tiles_pay(F decode) {
  return {"is slower than oneDNN at most large products of a plain b, and at few columns",
          [decode](const KernelRequest& request) {
            const Product p = decode(request);
            constexpr double kSmall = 4 << 20;
            const bool small =
                static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) <=
                kSmall;
            const bool tall = p.trans_a == Trans::kYes && p.m > 2 * p.n;
            return p.n < 16 || !(small || tall || p.trans_b == Trans::kYes);
          },
          RefusalKind::kSlow};
}

// `slow`: whether a kernel for the float type declines where another is expected to be faster.
enum class Slow : uint8_t { kTaken, kDeclined };

void add_backend(KernelRegistry& kernels, const Backend& backend, Slow slow = Slow::kTaken) {
  KernelDef def;
  const auto declines = [&](auto decode) {
    std::vector<Refusal> refusals = {unless_multiplied(backend)};
    if (slow == Slow::kDeclined) refusals.push_back(unless_tiles_pay(decode));
    return refusals;
  };
  def.name = backend.name;
  def.speed = backend.speed;
  def.accumulates = true;
  def.op = "Gemm";
  def.declines = declines([](const KernelRequest& r) { return GemmShape::of(r).product; });
  def.create = [backend](const KernelRequest& request) {
    return make(GemmShape::of(request), backend, request, run_gemm<float>, run_gemm<double>);
  };
  kernels.add(def);
  def.op = "MatMul";
  def.declines = declines([](const KernelRequest& r) { return MatMulShape::of(r).product; });
  def.create = [backend](const KernelRequest& request) {
    return make(MatMulShape::of(request), backend, request, run_matmul<float>, run_matmul<double>);
  };
  kernels.add(def);
  def.domain = kDomain;
  def.op = "GemmGradWeight";
  def.declines = declines(grad_weight_product);
  def.create = [backend](const KernelRequest& request) {
    return make(grad_weight_product(request), backend, request, run_grad_weight<float>,
                run_grad_weight<double>);
  };
  kernels.add(def);
}

// Columns are added up in groups that fit the registers; rows run innermost, so that memory is
// walked once.
template <class T>
void sum_rows(const T* x, int64_t rows, int64_t columns, double scale, Write write, T* sums,
              ThreadPool& pool) {
  constexpr int64_t kGroup = 32;
  parallel_for(pool, (columns + kGroup - 1) / kGroup, 1 + 16384 / (kGroup * (rows + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t group = begin; group < end; ++group) {
                   const int64_t first = group * kGroup;
                   const int64_t count = std::min(kGroup, columns - first);
                   double sum[kGroup] = {};
                   for (int64_t i = 0; i < rows; ++i) {
                     const T* row = x + i * columns + first;
                     if (count == kGroup) {
                       for (int64_t j = 0; j < kGroup; ++j) sum[j] += static_cast<double>(row[j]);
                     } else {
                       for (int64_t j = 0; j < count; ++j) sum[j] += static_cast<double>(row[j]);
                     }
                   }
                   for (int64_t j = 0; j < count; ++j) {
                     T& out = sums[first + j];
                     const double start = write == Write::kAdd ? static_cast<double>(out) : 0.0;
                     out = static_cast<T>(start + scale * sum[j]);
                   }
                 }
               });
}

void run_grad_bias(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> shape = request.in_shape(0);
  const double scale = request.node->get_float("scale", 1);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    sum_rows(context.in<T>(0), product_of(shape, shape.size() - 1), shape.back(), scale,
             write_of(context), context.out<T>(0), *context.pool);
  });
}

}  // namespace

}  // namespace gemm

void register_gemm_cpu(KernelRegistry& kernels) {
  gemm::add_backend(kernels, {"gemm.ref", Speed::kReference, matrix::plain_product<float>(),
                              matrix::plain_product<double>()});
  const auto dnnl = matrix::dnnl_product();
  gemm::add_backend(kernels, {"gemm.tiles", Speed::kOptimised, matrix::tiled_product(), nullptr},
                    dnnl != nullptr ? gemm::Slow::kDeclined : gemm::Slow::kTaken);
  if (dnnl != nullptr) {
    gemm::add_backend(kernels, {"gemm.onednn", Speed::kOptimised, dnnl, nullptr});
  }
  gemm::add_backend(kernels, {"gemm.eigen", Speed::kPlain, nullptr, matrix::eigen_product()});
  KernelDef bias;
  bias.domain = kDomain;
  bias.op = "GemmGradBias";
  bias.name = "gemm.ref";
  bias.accumulates = true;
  bias.create = simple_kernel(gemm::run_grad_bias);
  kernels.add(bias);
  gemm::add_lanes_kernels(kernels);
  gemm::add_integer_kernels(kernels);
}

}  // namespace sardonyx::ops
