#include "tests/cuda_native/patterns.h"

namespace sardonyx::testing {

namespace {

using ops::cudnn::ConvolutionDesc;
using ops::cudnn::ConvolutionTensors;
using ops::cudnn::Descriptor;
using ops::cudnn::Pass;
using ops::cudnn::tensor;
using ops::cudnn::TensorSpec;
using Operations = std::vector<Descriptor>;

// Collects the operations of one graph; tensors get numbers of their own.
class Sketch {
 public:
  explicit Sketch(const ConvolutionDesc& desc)
      : desc_(desc), tensors_(ops::cudnn::convolution_tensors(desc)) {}

  ConvolutionTensors& convolution() { return tensors_; }
  // Like another, with its bytes in memory or as float between two operations.
  TensorSpec stored(TensorSpec like) {
    like.id = next_++;
    like.type = tensors_.x.type;
    like.kind = TensorSpec::Kind::kMemory;
    return like;
  }
  TensorSpec between(TensorSpec like, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    like.id = next_++;
    like.type = type;
    like.kind = TensorSpec::Kind::kVirtual;
    return like;
  }
  // One number per channel of `like`.
  TensorSpec per_channel(const TensorSpec& like, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return ops::cudnn::per_channel(next_++, like, type);
  }

  void add_convolution() {
    operations_.push_back(ops::cudnn::convolution_operation(desc_, tensors_));
  }
  // The result of mode(x, b), between two operations.
  TensorSpec pointwise(cudnnPointwiseMode_t mode, const TensorSpec& x, const TensorSpec& b) {
    const TensorSpec y = between(x);
    add_pointwise(mode, x, &b, y);
    return y;
  }
  // x * scale + bias; these two of `type`.
  TensorSpec affine(const TensorSpec& x, cudnnDataType_t type) {
    const TensorSpec scale = per_channel(x, type), bias = per_channel(x, type);
    return pointwise(CUDNN_POINTWISE_ADD, pointwise(CUDNN_POINTWISE_MUL, x, scale), bias);
  }
  void add_pointwise(cudnnPointwiseMode_t mode, const TensorSpec& x, const TensorSpec* b,
                     const TensorSpec& y) {
    operations_.push_back(ops::cudnn::pointwise_operation(mode, x, b, y));
  }
  // dx = dy where x > 0.
  void add_relu_gradient(const TensorSpec& dy, const TensorSpec& x, const TensorSpec& dx) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                             mode_of(CUDNN_POINTWISE_RELU_BWD));
    operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, tensor(dy));
    operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(x));
    operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, tensor(dx));
    add(std::move(operation));
  }
  // Sums and sums of squares per channel.
  void add_statistics(const TensorSpec& x) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    operation.set_one(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM);
    operation.set_one(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
    operation.set_descriptor(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, tensor(x));
    operation.set_descriptor(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, tensor(per_channel(x)));
    operation.set_descriptor(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, tensor(per_channel(x)));
    add(std::move(operation));
  }
  // The gradients of scale and bias, and what the gradient of x is made of.
  void add_norm_weights(const TensorSpec& dy, const TensorSpec& x, const TensorSpec& mean,
                        const TensorSpec& inverse_deviation, const TensorSpec& scale) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
    operation.set_one(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_DATA_FLOAT);
    const std::pair<cudnnBackendAttributeName_t, TensorSpec> parts[] = {
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dy},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, mean},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, inverse_deviation},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, scale},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, per_channel(x)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, per_channel(x)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, per_channel(x)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, per_channel(x)},
        {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, per_channel(x)}};
    for (const auto& [name, part] : parts) operation.set_descriptor(name, tensor(part));
    add(std::move(operation));
  }

  Operations take() { return std::move(operations_); }

 private:
  static Descriptor mode_of(cudnnPointwiseMode_t mode) {
    Descriptor descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    descriptor.set_one(CUDNN_ATTR_POINTWISE_MODE, mode);
    descriptor.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    descriptor.finalize();
    return descriptor;
  }
  void add(Descriptor operation) {
    operation.finalize();
    operations_.push_back(std::move(operation));
  }

  const ConvolutionDesc& desc_;
  ConvolutionTensors tensors_;
  int64_t next_ = 10;
  Operations operations_;
};

// y = conv(x, w) + bias
Operations conv_bias(const ConvolutionDesc& desc) {
  ConvolutionDesc with_bias = desc;
  with_bias.bias = ops::cudnn::Bias::kPerOutput;
  return ops::cudnn::convolution_operations(with_bias);
}

// y = relu(conv(x, w) + bias)
Operations conv_bias_relu(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  TensorSpec& y = sketch.convolution().y;
  const TensorSpec out = sketch.stored(y);
  y = sketch.between(y);
  sketch.add_convolution();
  const TensorSpec sum = sketch.pointwise(CUDNN_POINTWISE_ADD, y, sketch.per_channel(y));
  sketch.add_pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, out);
  return sketch.take();
}

// y = conv(x, w), and the sums per channel that its BatchNorm needs.
Operations conv_statistics(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  sketch.add_convolution();
  sketch.add_statistics(sketch.convolution().y);
  return sketch.take();
}

// The same with the BatchNorm and Relu before it: x is what they get.
Operations norm_relu_conv_statistics(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  TensorSpec& x = sketch.convolution().x;
  const TensorSpec normalized = sketch.affine(x, x.type);
  x = sketch.between(x, x.type);
  sketch.add_pointwise(CUDNN_POINTWISE_RELU_FWD, normalized, nullptr, x);
  sketch.add_convolution();
  sketch.add_statistics(sketch.convolution().y);
  return sketch.take();
}

// out = relu(y * scale + bias + z): what ends a block of a ResNet.
Operations norm_add_relu(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  const TensorSpec y = sketch.convolution().y;
  const TensorSpec sum =
      sketch.pointwise(CUDNN_POINTWISE_ADD, sketch.affine(y, CUDNN_DATA_FLOAT), sketch.stored(y));
  sketch.add_pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, sketch.stored(y));
  return sketch.take();
}

// dx where the Relu before the convolution let x through.
Operations data_relu(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  TensorSpec& dx = sketch.convolution().x;
  const TensorSpec out = sketch.stored(dx), x = sketch.stored(dx);
  dx = sketch.between(dx);
  sketch.add_convolution();
  sketch.add_relu_gradient(dx, x, out);
  return sketch.take();
}

// The same, the Relu computed again from the BatchNorm's input, and the sums for its gradient.
Operations data_relu_norm(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  TensorSpec& dx = sketch.convolution().x;
  const TensorSpec x = sketch.stored(dx), masked = sketch.stored(dx);
  const TensorSpec mean = sketch.per_channel(x), inverse_deviation = sketch.per_channel(x),
                   scale = sketch.per_channel(x), bias = sketch.per_channel(x);
  dx = sketch.between(dx);
  sketch.add_convolution();
  const TensorSpec centred = sketch.pointwise(CUDNN_POINTWISE_SUB, x, mean);
  const TensorSpec unit = sketch.pointwise(CUDNN_POINTWISE_MUL, centred, inverse_deviation);
  const TensorSpec scaled = sketch.pointwise(CUDNN_POINTWISE_MUL, unit, scale);
  const TensorSpec normalized = sketch.pointwise(CUDNN_POINTWISE_ADD, scaled, bias);
  sketch.add_relu_gradient(dx, normalized, masked);
  sketch.add_norm_weights(masked, x, mean, inverse_deviation, scale);
  return sketch.take();
}

// dw of a convolution whose input is computed again: relu(x * scale + bias).
Operations norm_relu_filter(const ConvolutionDesc& desc) {
  Sketch sketch(desc);
  TensorSpec& x = sketch.convolution().x;
  const TensorSpec normalized = sketch.affine(x, x.type);
  x = sketch.between(x, x.type);
  sketch.add_pointwise(CUDNN_POINTWISE_RELU_FWD, normalized, nullptr, x);
  sketch.add_convolution();
  return sketch.take();
}

}  // namespace

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = {
      {"conv_bias", Pass::kForward, conv_bias},
      {"conv_bias_relu", Pass::kForward, conv_bias_relu},
      {"conv_statistics", Pass::kForward, conv_statistics},
      {"norm_relu_conv_statistics", Pass::kForward, norm_relu_conv_statistics},
      {"norm_add_relu", Pass::kForward, norm_add_relu},
      {"data_relu", Pass::kData, data_relu},
      {"data_relu_norm", Pass::kData, data_relu_norm},
      {"norm_relu_filter", Pass::kFilter, norm_relu_filter}};
  return all;
}

}  // namespace sardonyx::testing
