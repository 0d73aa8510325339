// One kernel per operator: a matrix is one thread's, eliminated in double.
//
// Both pivots of a step, row and column, are chosen: what is left of a singular matrix is then as
// small as it can be, and its cofactors come out right without dividing by it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

// x with its rows and columns in another order is L U: L (unit diagonal) and U lie in one matrix in
// the workspace, behind it which row and column of x each one was.
class Elimination {
 public:
  Elimination(int64_t n, double* workspace)
      : n_(n), lu_(workspace), rows_(workspace + n * n), columns_(rows_ + n), side_(columns_ + n) {}

  static int64_t numel(int64_t n) { return n * (n + 3); }

  template <class T>
  void factor(const T* x) {
    std::copy(x, x + n_ * n_, lu_);
    std::iota(rows_, rows_ + n_, 0.0);
    std::iota(columns_, columns_ + n_, 0.0);
    sign_ = 1;
    for (int64_t k = 0; k < n_; ++k) {
      choose_pivot(k);
      if (at(k, k) == 0) return;  // and all behind it
      for (int64_t i = k + 1; i < n_; ++i) {
        const double factor = at(i, k) /= at(k, k);
        for (int64_t j = k + 1; j < n_; ++j) at(i, j) -= factor * at(k, j);
      }
    }
  }

  double determinant() const { return leading(n_); }

  // dx = dy times the cofactors. With d the last pivot and U1 what stands before it, the column
  // (l1, l) of inverse(L) gives the column (w1, w) of adj(U) inverse(L): w = det(U1) l and
  // w1 = det(U1) inverse(U1) (d l1 - u l), u being what stands above d.
  template <class T>
  void cofactors(double dy, T* dx) const {
    std::fill(dx, dx + n_ * n_, T(0));
    if (n_ == 0 || (n_ > 1 && at(n_ - 2, n_ - 2) == 0)) return;  // two are missing: all are zero
    const double scale = dy * leading(n_ - 1);
    const int64_t last = n_ - 1;
    double* w = side_;
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t r = 0; r < n_; ++r) {
        w[r] = r == i ? 1 : 0;
        for (int64_t k = i; k < r; ++k) w[r] -= at(r, k) * w[k];
      }
      for (int64_t r = last; r-- > 0;) {
        w[r] = at(last, last) * w[r] - at(r, last) * w[last];
        for (int64_t k = r + 1; k < last; ++k) w[r] -= at(r, k) * w[k];
        w[r] /= at(r, r);
      }
      T* row = dx + static_cast<int64_t>(rows_[i]) * n_;
      for (int64_t j = 0; j < n_; ++j) {
        row[static_cast<int64_t>(columns_[j])] = static_cast<T>(scale * w[j]);
      }
    }
  }

 private:
  double& at(int64_t i, int64_t j) const { return lu_[i * n_ + j]; }

  // The sign of the permutations times the first `count` pivots.
  double leading(int64_t count) const {
    double product = sign_;
    for (int64_t k = 0; k < count; ++k) product *= at(k, k);
    return product;
  }

  // NaN beats all: it must reach the result.
  static bool beats(double a, double b) {
    return std::isnan(a) ? !std::isnan(b) : std::abs(a) > std::abs(b);
  }

  void choose_pivot(int64_t k) {
    int64_t row = k, column = k;
    for (int64_t i = k; i < n_; ++i) {
      for (int64_t j = k; j < n_; ++j) {
        if (beats(at(i, j), at(row, column))) row = i, column = j;
      }
    }
    if (row != k) {
      std::swap_ranges(&at(k, 0), &at(k, 0) + n_, &at(row, 0));
      std::swap(rows_[k], rows_[row]);
      sign_ = -sign_;
    }
    if (column != k) {
      for (int64_t i = 0; i < n_; ++i) std::swap(at(i, k), at(i, column));
      std::swap(columns_[k], columns_[column]);
      sign_ = -sign_;
    }
  }

  int64_t n_;
  double *lu_, *rows_, *columns_, *side_;
  double sign_ = 1;
};

// The operator on matrix `i`.
using Step = void (*)(CpuContext& context, DType dtype, Elimination& elimination, int64_t i,
                      int64_t numel);

void determinant_of(CpuContext& context, DType dtype, Elimination& elimination, int64_t i,
                    int64_t numel) {
  dispatch_float(dtype, [&]<class T>() {
    elimination.factor(context.in<T>(0) + i * numel);
    context.out<T>(0)[i] = static_cast<T>(elimination.determinant());
  });
}

void gradient_of(CpuContext& context, DType dtype, Elimination& elimination, int64_t i,
                 int64_t numel) {
  dispatch_float(dtype, [&]<class T>() {
    elimination.factor(context.in<T>(0) + i * numel);
    elimination.cofactors(context.in<T>(1)[i], context.out<T>(0) + i * numel);
  });
}

class DetKernel final : public Kernel {
 public:
  DetKernel(const KernelRequest& request, Step step)
      : step_(step),
        dtype_(request.in[0].dtype),
        n_(request.in_shape(0).back()),
        threads_(std::max(library_threads, 1)) {
    const std::vector<int64_t> shape = request.in_shape(0);
    matrices_ = graph::checked_numel({shape.begin(), shape.end() - 2});
  }

  size_t workspace_bytes() const override {
    return threads_ * Elimination::numel(n_) * sizeof(double);
  }

  void run(CpuContext& context) const override {
    const auto pieces =
        static_cast<int>(std::min<int64_t>({matrices_, threads_, context.pool->size()}));
    if (pieces == 0) return;
    auto* workspace = reinterpret_cast<double*>(context.workspace.data());
    context.pool->run(pieces, [&](int piece) {
      Elimination elimination(n_, workspace + piece * Elimination::numel(n_));
      for (int64_t i = matrices_ * piece / pieces; i < matrices_ * (piece + 1) / pieces; ++i) {
        step_(context, dtype_, elimination, i, n_ * n_);
      }
    });
  }

 private:
  Step step_;
  DType dtype_;
  int64_t n_, matrices_ = 0;
  int threads_;
};

KernelDef kernel(const char* domain, const char* op, Step step) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "det.ref";
  def.declines = {unless_float()};
  def.create = [step](const KernelRequest& request) {
    return std::make_unique<DetKernel>(request, step);
  };
  return def;
}

}  // namespace

void register_det_cpu(KernelRegistry& kernels) {
  kernels.add(kernel("", "Det", determinant_of));
  kernels.add(kernel(kDomain, "DetGrad", gradient_of));
}

}  // namespace sardonyx::ops
