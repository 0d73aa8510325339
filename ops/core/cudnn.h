// Convolutions of cuDNN behind a thin wrapper over its graph API: one Convolution is one plan, made
// for fixed shapes. ops/core/cuda_native/cudnn.cc is the library, tests/support/host_cuda/ plain
// loops.
//
// Filters lie as the activations do: KCRS with channels first, KRSC with channels last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/type.h"
#include "ops/core/cuda.h"
#include "ops/core/product_math.h"

namespace sardonyx::ops::cudnn {

// One per device and thread. Loads the library when it is made; throws Error when it isn't there.
class Handle {
 public:
  Handle();
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

enum class Pass : uint8_t { kForward, kData, kFilter };
// bfloat16 data are always added up in float.
using Math = ProductMath;
// kTransformed: Winograd and Fourier transforms too, which round a few times more.
enum class Rounding : uint8_t { kSum, kTransformed };
enum class Order : uint8_t { kChannelsFirst, kChannelsLast };  // of x and y; filters alike
// kPerOutput, of a forward pass: one number of the type of y per output, added before y is rounded.
enum class Bias : uint8_t { kNone, kPerOutput };

// y [n,k,out...] = x [n,c,in...] * w [k,c/groups,kernel...]; all sizes logical, channels second.
struct ConvolutionShape {
  int64_t n = 0, c = 0, k = 0, groups = 1;
  std::vector<int64_t> in, kernel, out;  // one entry per spatial axis
  std::vector<int64_t> pads_begin, pads_end, strides, dilations;
};

struct ConvolutionDesc {
  Pass pass = Pass::kForward;
  ConvolutionShape shape;
  graph::DType dtype = graph::DType::kFloat32;  // of x, w and y
  Math math = Math::kFloat32;
  Order order = Order::kChannelsLast;
  Bias bias = Bias::kNone;
  size_t workspace_limit = size_t{256} << 20;
  Rounding rounding = Rounding::kSum;
};

class Convolution {
 public:
  // The best plan by the library's heuristic within the workspace limit. Throws Error with the
  // library's reason when no engine takes it.
  static std::unique_ptr<Convolution> make(Handle& handle, const ConvolutionDesc& desc);
  virtual ~Convolution() = default;
  virtual size_t workspace_bytes() const = 0;
  virtual std::string engine() const = 0;  // "eng 7", for traces
  // kForward: a = x, b = w, out = y.  kData: a = dy, b = w, out = dx.  kFilter: a = x, b = dy,
  // out = dw. 16-byte aligned. `bias` is for descriptions with one.
  virtual void run(Handle& handle, cuda::Stream stream, const void* a, const void* b,
                   const void* bias, void* out, void* workspace) const = 0;
};

}  // namespace sardonyx::ops::cudnn
