// ops/core/cublas.h by cuBLASLt, which is loaded with the first Handle.
#include "ops/core/cublas.h"

#include <cublasLt.h>

#include "graph/support/error.h"
#include "ops/core/cuda_native/cublas_layout.h"
#include "ops/core/cuda_native/cublas_library.h"

namespace sardonyx::ops::cublas {

namespace {

using graph::DType;

// Of all operands; cublas.h asks it of the callers.
constexpr uint32_t kAlignment = 16;

struct DestroyDesc {
  void operator()(cublasLtMatmulDesc_t desc) const noexcept {
    CublasLibrary::get().destroy_desc(desc);
  }
};
using OwnedDesc = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyDesc>;

struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const noexcept {
    CublasLibrary::get().destroy_layout(layout);
  }
};
using OwnedLayout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const noexcept {
    CublasLibrary::get().destroy_preference(preference);
  }
};
using OwnedPreference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};

Types types_of(const ProductDesc& desc) {
  switch (desc.dtype) {
    case DType::kFloat32:
      return {CUDA_R_32F, CUDA_R_32F,
              desc.math == Math::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DType::kFloat64:
      return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::kBFloat16:
      return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::kFloat16:
      return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      throw InternalError(fmt::format("a matrix product of {}", graph::dtype_name(desc.dtype)));
  }
}

template <class T>
void set(const OwnedDesc& desc, cublasLtMatmulDescAttributes_t name, const T& value) {
  const CublasLibrary& library = CublasLibrary::get();
  library.check(library.set_desc(desc.get(), name, &value, sizeof(T)), "describing a product");
}

cublasOperation_t operation(Trans trans) {
  return trans == Trans::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cublasLtEpilogue_t epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kBiasRelu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kNone:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

OwnedDesc describe(const ProductDesc& desc, const ColumnMajorProduct& product) {
  const CublasLibrary& library = CublasLibrary::get();
  const Types types = types_of(desc);
  cublasLtMatmulDesc_t made = nullptr;
  library.check(library.create_desc(&made, types.compute, types.scale), "describing a product");
  OwnedDesc owned(made);
  set(owned, CUBLASLT_MATMUL_DESC_TRANSA, operation(product.trans_first));
  set(owned, CUBLASLT_MATMUL_DESC_TRANSB, operation(product.trans_second));
  set(owned, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(desc.epilogue));
  return owned;
}

OwnedLayout layout_of(const Matrix& matrix, const ProductDesc& desc) {
  const CublasLibrary& library = CublasLibrary::get();
  cublasLtMatrixLayout_t made = nullptr;
  library.check(library.create_layout(&made, types_of(desc).data, matrix.rows, matrix.columns,
                                      matrix.leading),
                "describing a matrix");
  OwnedLayout layout(made);
  const auto batch = static_cast<int32_t>(desc.batch);
  library.check(library.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
                "describing a batch of matrices");
  library.check(library.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                   &matrix.stride, sizeof(matrix.stride)),
                "describing a batch of matrices");
  return layout;
}

// Sums that are cut into parts are added up in the type they are made in, in a fixed order.
OwnedPreference preference_of(const ProductDesc& desc) {
  const CublasLibrary& library = CublasLibrary::get();
  cublasLtMatmulPreference_t made = nullptr;
  library.check(library.create_preference(&made), "describing what is wanted");
  OwnedPreference preference(made);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
    library.check(library.set_preference(made, name, &value, sizeof(value)),
                  "describing what is wanted");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(desc.workspace_limit));
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(operand, kAlignment);
  }
  return preference;
}

}  // namespace

struct Handle::Impl {
  cublasLtHandle_t handle = nullptr;

  Impl() {
    const CublasLibrary& library = CublasLibrary::get();
    library.check(library.create(&handle), "starting it");
  }
  ~Impl() { CublasLibrary::get().destroy(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

Handle::Handle() : impl_(std::make_unique<Impl>()) {}
Handle::~Handle() = default;

namespace {

class PlannedProduct : public Product {
 public:
  PlannedProduct(Handle& handle, const ProductDesc& desc)
      : desc_(desc), product_(column_major(desc)) {
    const CublasLibrary& library = CublasLibrary::get();
    const OwnedPreference preference = preference_of(desc);
    int found = 0;
    const cublasStatus_t status =
        library.heuristic(handle.impl().handle, operation_.get(), first_.get(), second_.get(),
                          out_.get(), out_.get(), preference.get(), 1, &algorithm_, &found);
    library.check(status, "planning a product");
    if (found == 0) throw Error("no algorithm of cuBLAS takes the product");
    library.check(algorithm_.state, "planning a product");
  }

  size_t workspace_bytes() const override { return algorithm_.workspaceSize; }

  void run(Handle& handle, cuda::Stream stream, const void* a, const void* b, const void* bias,
           void* c, void* workspace) const override {
    const CublasLibrary& library = CublasLibrary::get();
    // Pointers change from call to call, and several threads may run one Product.
    cublasLtMatmulDescOpaque_t operation = *operation_;
    if (desc_.epilogue != Epilogue::kNone) {
      library.check(
          library.set_desc(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
          "naming the bias");
    }
    const auto alpha = static_cast<float>(desc_.alpha), beta = static_cast<float>(desc_.beta);
    const bool wide = desc_.dtype == DType::kFloat64;
    const cublasStatus_t status = library.matmul(
        handle.impl().handle, &operation, wide ? static_cast<const void*>(&desc_.alpha) : &alpha, b,
        first_.get(), a, second_.get(), wide ? static_cast<const void*>(&desc_.beta) : &beta, c,
        out_.get(), c, out_.get(), &algorithm_.algo, workspace, algorithm_.workspaceSize,
        reinterpret_cast<cudaStream_t>(stream));
    library.check(status, "running a product");
  }

 private:
  ProductDesc desc_;
  ColumnMajorProduct product_;
  OwnedDesc operation_ = describe(desc_, product_);
  OwnedLayout first_ = layout_of(product_.first, desc_);
  OwnedLayout second_ = layout_of(product_.second, desc_);
  OwnedLayout out_ = layout_of(product_.out, desc_);
  cublasLtMatmulHeuristicResult_t algorithm_ = {};
};

}  // namespace

std::unique_ptr<Product> Product::make(Handle& handle, const ProductDesc& desc) {
  return std::make_unique<PlannedProduct>(handle, desc);
}

}  // namespace sardonyx::ops::cublas
