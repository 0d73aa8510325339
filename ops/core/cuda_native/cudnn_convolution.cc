#include "ops/core/cuda_native/cudnn_convolution.h"

#include <tuple>

#include "graph/support/error.h"

namespace sardonyx::ops::cudnn {

namespace {

using graph::DType;

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    default:
      throw InternalError(fmt::format("a convolution of {}", graph::dtype_name(dtype)));
  }
}

cudnnDataType_t sum_type(DType dtype) {
  return dtype == DType::kFloat64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// cuDNN knows no convolution over one axis: it gets a first one of size 1.
std::vector<int64_t> over_two_axes(std::vector<int64_t> values, int64_t of_the_other) {
  if (values.size() == 1) values.insert(values.begin(), of_the_other);
  return values;
}

// Dense; axis 1 is the innermost one with channels last.
std::vector<int64_t> strides_of(const std::vector<int64_t>& sizes, Order order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  if (order == Order::kChannelsLast) {
    strides[1] = 1;
    step = sizes[1];
  }
  for (size_t i = sizes.size(); i-- > 0;) {
    if (i == 1 && order == Order::kChannelsLast) continue;
    strides[i] = step;
    step *= sizes[i];
  }
  return strides;
}

TensorSpec spec_of(int64_t id, int64_t outer, int64_t channels, const std::vector<int64_t>& spatial,
                   const ConvolutionDesc& desc) {
  TensorSpec spec;
  spec.id = id;
  spec.type = data_type(desc.dtype);
  spec.sizes = {outer, channels};
  const std::vector<int64_t> axes = over_two_axes(spatial, 1);
  spec.sizes.insert(spec.sizes.end(), axes.begin(), axes.end());
  spec.strides = strides_of(spec.sizes, desc.order);
  return spec;
}

Descriptor geometry(const ConvolutionDesc& desc) {
  const ConvolutionShape& shape = desc.shape;
  Descriptor geometry(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  geometry.set_one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sum_type(desc.dtype));
  geometry.set_one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  const std::vector<int64_t> begin = over_two_axes(shape.pads_begin, 0);
  geometry.set_one(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(begin.size()));
  geometry.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, begin);
  geometry.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, over_two_axes(shape.pads_end, 0));
  geometry.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, over_two_axes(shape.strides, 1));
  geometry.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, over_two_axes(shape.dilations, 1));
  geometry.finalize();
  return geometry;
}

// What the three operations call the same things.
struct OperationNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t geometry, x, w, y, alpha, beta;
};

OperationNames names_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case Pass::kData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Pass::kFilter:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

}  // namespace

ConvolutionTensors convolution_tensors(const ConvolutionDesc& desc) {
  const ConvolutionShape& s = desc.shape;
  int64_t x = kTensorA, w = kTensorB, y = kTensorOut;
  if (desc.pass == Pass::kData) std::swap(x, y);  // (dy, w) -> dx
  if (desc.pass == Pass::kFilter)
    std::tie(w, y) = std::tuple(kTensorOut, kTensorB);  // (x, dy) -> dw
  return {spec_of(x, s.n, s.c, s.in, desc), spec_of(w, s.k, s.c / s.groups, s.kernel, desc),
          spec_of(y, s.n, s.k, s.out, desc)};
}

Descriptor convolution_operation(const ConvolutionDesc& desc, const ConvolutionTensors& tensors) {
  const OperationNames names = names_of(desc.pass);
  Descriptor operation(names.operation);
  operation.set_descriptor(names.geometry, geometry(desc));
  operation.set_descriptor(names.x, tensor(tensors.x));
  operation.set_descriptor(names.w, tensor(tensors.w));
  operation.set_descriptor(names.y, tensor(tensors.y));
  if (desc.dtype == DType::kFloat64) {
    operation.set_one(names.alpha, 1.0);
    operation.set_one(names.beta, 0.0);
  } else {
    operation.set_one(names.alpha, 1.0f);
    operation.set_one(names.beta, 0.0f);
  }
  operation.finalize();
  return operation;
}

Descriptor pointwise_operation(cudnnPointwiseMode_t mode, const TensorSpec& x, const TensorSpec* b,
                               const TensorSpec& y) {
  Descriptor what(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set_one(CUDNN_ATTR_POINTWISE_MODE, mode);
  what.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  what.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(x));
  if (b != nullptr) operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(*b));
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(y));
  operation.finalize();
  return operation;
}

TensorSpec per_channel(int64_t id, const TensorSpec& like, cudnnDataType_t type) {
  const int64_t channels = like.sizes[1];
  TensorSpec spec;
  spec.id = id;
  spec.type = type;
  spec.sizes.assign(like.sizes.size(), 1);
  spec.strides.assign(like.sizes.size(), channels);
  spec.sizes[1] = channels;
  spec.strides[1] = 1;
  return spec;
}

std::vector<Descriptor> convolution_operations(const ConvolutionDesc& desc) {
  constexpr int64_t kSum = kTensorBias + 1;
  ConvolutionTensors tensors = convolution_tensors(desc);
  std::vector<Descriptor> operations;
  if (desc.bias == Bias::kNone) {
    operations.push_back(convolution_operation(desc, tensors));
    return operations;
  }
  const TensorSpec out = tensors.y, bias = per_channel(kTensorBias, out, out.type);
  tensors.y.id = kSum;
  tensors.y.type = CUDNN_DATA_FLOAT;
  tensors.y.kind = TensorSpec::Kind::kVirtual;
  operations.push_back(convolution_operation(desc, tensors));
  operations.push_back(pointwise_operation(CUDNN_POINTWISE_ADD, tensors.y, &bias, out));
  return operations;
}

PlanLimits convolution_limits(const ConvolutionDesc& desc) {
  PlanLimits limits{
      desc.workspace_limit,
      {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
       CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}};
  if (desc.rounding == Rounding::kSum) {
    for (const auto note :
         {CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}) {
      limits.without.push_back(note);
    }
  }
  // On float data tensor cores multiply TF32.
  if (desc.dtype == DType::kFloat32 && desc.math == Math::kFloat32) {
    limits.without.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  return limits;
}

Plan plan_convolution(const PlanTarget& target, const ConvolutionDesc& desc) {
  const std::vector<Descriptor> operations = convolution_operations(desc);
  return find_plan(target, operations, convolution_limits(desc));
}

}  // namespace sardonyx::ops::cudnn
