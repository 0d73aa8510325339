// Kernels of y = f(a, b), element by element with numpy broadcasting: the plain loop, and a
// threaded one that Broadcast walks.
//
// Types::dispatch(dtype of a, g) calls g.operator()<T>() with the type in which a and b are read;
// the elements of y are Types::Result<T>.
#pragma once

#include "ops/core/broadcast.h"
#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

template <class F, class Types>
void run_binary(const KernelRequest& request, CpuContext& context) {
  Types::dispatch(request.in[0].dtype, [&]<class T>() {
    const BroadcastOffset a(request, 0), b(request, 1);
    auto* y = context.out<typename Types::template Result<T>>(0);
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) y[i] = F()(context.in<T>(0)[a(i)], context.in<T>(1)[b(i)]);
  });
}

template <class F, class Types>
class BinaryKernel final : public Kernel {
 public:
  explicit BinaryKernel(const KernelRequest& request)
      : dtype_(request.in[0].dtype), walk_(request, 0, 1) {}

  void run(CpuContext& context) const override {
    Types::dispatch(dtype_, [&]<class T>() {
      parallel_for(*context.pool, walk_.numel(), kCheapGrain, [&](int64_t begin, int64_t end) {
        walk_.visit(begin, end, [&](int64_t rows, int64_t cols, int64_t at, const int64_t* x) {
          const int64_t a_step = walk_.col_stride(0), b_step = walk_.col_stride(1);
          auto* y = context.out<typename Types::template Result<T>>(0) + at;
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

template <class F, class Types>
std::unique_ptr<Kernel> create_binary(const KernelRequest& request) {
  return std::make_unique<BinaryKernel<F, Types>>(request);
}

}  // namespace sardonyx::ops
