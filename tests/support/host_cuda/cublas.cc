// ops/core/cublas.h on the host: products added up in double, by Eigen.
#include "ops/core/cublas.h"

#include <Eigen/Core>
#include <algorithm>
#include <utility>

#include "graph/support/error.h"
#include "tests/support/host_cuda/libraries.h"
#include "tests/support/host_cuda/streams.h"

namespace sardonyx::ops::cublas {

struct Handle::Impl {
  int device;
};

Handle::Handle() : impl_(new Impl{host_cuda::current_device("cublas")}) {}
Handle::~Handle() = default;

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using host_cuda::Rounded;

constexpr size_t kWorkspace = 4096;

class HostProduct final : public Product {
 public:
  explicit HostProduct(const ProductDesc& desc) : desc_(desc) {}
  size_t workspace_bytes() const override { return std::min(kWorkspace, desc_.workspace_limit); }
  void run(Handle& handle, cuda::Stream stream, const void* a, const void* b, const void* bias,
           void* c, void* workspace) const override;

 private:
  // Elements from the first of the first product to the last of the last one.
  size_t count(int64_t size, int64_t stride) const {
    return static_cast<size_t>(desc_.batch > 0 && size > 0 ? (desc_.batch - 1) * stride + size : 0);
  }
  bool has_bias() const { return desc_.epilogue != Epilogue::kNone; }
  void compute(const std::vector<double>& a, const std::vector<double>& b,
               const std::vector<double>& bias, std::vector<double>& c) const;

  ProductDesc desc_;
};

void HostProduct::run(Handle& handle, cuda::Stream stream, const void* a, const void* b,
                      const void* bias, void* c, void* workspace) const {
  host_cuda::Work work;
  work.name = fmt::format("cublas product [{},{}] x [{},{}]", desc_.m, desc_.k, desc_.k, desc_.n);
  host_cuda::check_stream(work.name, stream);
  CHECK(handle.impl().device == host_cuda::current_device(work.name),
        "{}: the handle belongs to another device", work.name);
  const size_t size = graph::dtype_size(desc_.dtype);
  const size_t a_count = count(desc_.m * desc_.k, desc_.stride_a);
  const size_t b_count = count(desc_.k * desc_.n, desc_.stride_b);
  const size_t c_count = count(desc_.m * desc_.n, desc_.stride_c);
  const size_t bias_count = has_bias() ? static_cast<size_t>(desc_.n) : 0;
  if (c_count == 0) return;
  const auto* a_cells = a_count == 0 ? nullptr : operand(work, "a", a, a_count * size);
  const auto* b_cells = b_count == 0 ? nullptr : operand(work, "b", b, b_count * size);
  const auto* bias_cells = has_bias() ? operand(work, "bias", bias, bias_count * size) : nullptr;
  auto* c_cells = operand(work, "c", c, c_count * size);
  host_cuda::check_workspace(work.name, workspace);
  auto* scratch = operand(work, "workspace", workspace, workspace_bytes());
  const auto rounded = desc_.math == Math::kTf32 ? Rounded::kTf32 : Rounded::kNot;
  work.run = [=, this_copy = *this] {
    host_cuda::scribble(scratch, this_copy.workspace_bytes());
    const graph::DType dtype = this_copy.desc_.dtype;
    const auto a_values = host_cuda::load(dtype, a_cells, a_count, rounded);
    const auto b_values = host_cuda::load(dtype, b_cells, b_count, rounded);
    const auto bias_values = host_cuda::load(dtype, bias_cells, bias_count, Rounded::kNot);
    auto c_values = host_cuda::load(dtype, c_cells, c_count, Rounded::kNot);
    this_copy.compute(a_values, b_values, bias_values, c_values);
    host_cuda::store(dtype, c_values, c_cells);
  };
  host_cuda::enqueue(stream, host_cuda::Kind::kKernel, std::move(work));
}

Matrix matrix(const double* values, int64_t rows, int64_t columns, Trans trans) {
  if (trans == Trans::kNo) return Eigen::Map<const Matrix>(values, rows, columns);
  return Eigen::Map<const Matrix>(values, columns, rows).transpose();
}

void HostProduct::compute(const std::vector<double>& a, const std::vector<double>& b,
                          const std::vector<double>& bias, std::vector<double>& c) const {
  const auto [m, n, k] = std::tuple(desc_.m, desc_.n, desc_.k);
  for (int64_t i = 0; i < desc_.batch; ++i) {
    Eigen::Map<Matrix> result(c.data() + i * desc_.stride_c, m, n);
    // With beta = 0 nobody reads what c holds, NaN too.
    if (desc_.beta == 0) {
      result.setZero();
    } else {
      result *= desc_.beta;
    }
    if (k > 0) {
      result += desc_.alpha * (matrix(a.data() + i * desc_.stride_a, m, k, desc_.trans_a) *
                               matrix(b.data() + i * desc_.stride_b, k, n, desc_.trans_b));
    }
    if (has_bias()) result.rowwise() += Eigen::Map<const Eigen::RowVectorXd>(bias.data(), n);
    if (desc_.epilogue == Epilogue::kBiasRelu) {
      result = result.unaryExpr([](double x) { return x < 0 ? 0 : x; });
    }
  }
}

}  // namespace

std::unique_ptr<Product> Product::make(Handle& handle, const ProductDesc& desc) {
  host_cuda::check_engine("cublas", desc.dtype);
  CHECK(handle.impl().device == host_cuda::current_device("cublas"),
        "cublas: planning with a handle that belongs to another device");
  CHECK(desc.m >= 0 && desc.n >= 0 && desc.k >= 0 && desc.batch >= 0);
  return std::make_unique<HostProduct>(desc);
}

}  // namespace sardonyx::ops::cublas
