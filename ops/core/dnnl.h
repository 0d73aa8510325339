// The part of oneDNN that kernels use, as values that own what they hold; oneDNN's own headers stay
// in dnnl.cc.
//
// One process-wide CPU engine. A primitive is made once (that compiles code) and run often, from
// several threads at once: operands are bound per run, scratch memory is handed in. oneDNN cuts the
// work for the number of threads it finds when a primitive is made, and some primitives wait for
// all of them: a primitive must be made and run under the same library_threads
// (ops/core/parallel.h). Errors: Error when oneDNN fails; a primitive it can't make is nullopt.
// Built without oneDNN (SARDONYX_ONEDNN=OFF) there is nothing here but version(), which is empty:
// kernels on top of it stand in NAME_dnnl.cc, and NAME_no_dnnl.cc takes their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sardonyx::ops::dnnl {

// "2.6.3"; "" in a build without oneDNN.
std::string version();

using Dims = std::vector<int64_t>;

// How a float tensor lies in memory.
class Format {
 public:
  static Format plain(const Dims& dims);
  static Format strided(const Dims& dims, const Dims& strides);
  // The primitive chooses; ask it afterwards.
  static Format any(const Dims& dims);

  size_t bytes() const;
  friend bool operator==(const Format& a, const Format& b);

  struct Impl;  // dnnl.cc
  explicit Format(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;  // shared: immutable
};

// Operands by their role in the forward operation.
enum class Operand : uint8_t { kSrc, kWeights, kBias, kDst, kDiffSrc, kDiffWeights, kDiffDst };

struct Binding {
  Operand operand;
  const void* data;
};

class Primitive {
 public:
  struct Impl;  // dnnl.cc
  explicit Primitive(std::unique_ptr<Impl> impl);
  Primitive(Primitive&&) noexcept;
  Primitive& operator=(Primitive&&) noexcept;
  ~Primitive();

  const Format& format(Operand operand) const;
  size_t scratchpad_bytes() const;
  // "jit:avx512_core", ...: oneDNN's name of the implementation.
  const char* name() const;
  // CHECK: every operand is bound.
  void run(std::initializer_list<Binding> bindings, std::span<std::byte> scratchpad) const;

 private:
  std::unique_ptr<Impl> impl_;
};

enum class Algorithm : uint8_t { kDirect, kWinograd };

// Strides and pads per spatial axis; dilation 1 = none, as in ONNX.
struct Convolution {
  Format src, weights, dst;
  std::optional<Format> bias;  // forward only
  Dims strides, dilations, pad_begin, pad_end;
  Algorithm algorithm = Algorithm::kDirect;
};

std::optional<Primitive> convolution_forward(const Convolution& convolution);
std::optional<Primitive> convolution_grad_data(const Convolution& convolution);
std::optional<Primitive> convolution_grad_filter(const Convolution& convolution);

enum class ReorderMode : uint8_t { kCopy, kAdd };

// kSrc -> kDst; kAdd adds to what kDst holds.
Primitive reorder(const Format& from, const Format& to, ReorderMode mode = ReorderMode::kCopy);

}  // namespace sardonyx::ops::dnnl
