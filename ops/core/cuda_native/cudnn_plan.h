// cuDNN's backend graph API: descriptors with an owner, and the way from operations to a plan.
//
// Planning needs no device: a PlanTarget is a handle or a description of one, and all the rest is
// the same for both (tests/cuda_native/ plans without a GPU).
#pragma once

#include <cudnn_graph.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sardonyx::ops::cudnn {

template <class T>
inline constexpr cudnnBackendAttributeType_t kAttributeType = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto kAttributeType<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr auto kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto kAttributeType<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kAttributeType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnGenStatsMode_t> = CUDNN_TYPE_GENSTATS_MODE;

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  template <class T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set_raw(name, kAttributeType<T>, values.size(), values.data());
  }
  template <class T>
  void set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    set(name, std::span<const T>(values));
  }
  template <class T>
  void set_one(cudnnBackendAttributeName_t name, T value) {
    set(name, std::span<const T>(&value, 1));
  }
  // Those that are set must be finalized, and stay.
  void set_descriptors(cudnnBackendAttributeName_t name, std::span<const Descriptor> values);
  void set_descriptor(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set_descriptors(name, {&value, 1});
  }
  // Throws Error with the library's reason.
  void finalize();

  // What a finalized descriptor holds, at most `most` values.
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, size_t most) const {
    std::vector<T> values(most);
    values.resize(get_raw(name, kAttributeType<T>, most, values.data()));
    return values;
  }
  // Fills `parts`, which needn't be finalized; returns how many there are.
  size_t get_descriptors(cudnnBackendAttributeName_t name, std::span<Descriptor> parts) const;

 private:
  struct Destroy {
    void operator()(void* descriptor) const noexcept;
  };
  void set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
               const void* values);
  size_t get_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t most,
                 void* values) const;

  std::unique_ptr<void, Destroy> descriptor_;
};

// What plans are made for: one of the two.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

// A device that needn't be there, by cuDNN's own description of one in JSON.
Descriptor device_properties(const std::string& json);

// A dense tensor. Sizes and strides are those of cuDNN: batch, channels, then the spatial axes.
struct TensorSpec {
  int64_t id = 0;
  std::vector<int64_t> sizes, strides;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  enum class Kind : uint8_t { kMemory, kVirtual };  // kVirtual: never stored
  Kind kind = Kind::kMemory;
};
Descriptor tensor(const TensorSpec& spec);

struct PlanLimits {
  size_t workspace_bytes = 0;
  // Engines with one of these notes are left out.
  std::vector<cudnnBackendNumericalNote_t> without;
};

struct Plan {
  Descriptor plan;
  size_t workspace_bytes = 0;
  int64_t engine = 0;
  std::vector<cudnnBackendNumericalNote_t> notes;  // how it rounds
};

// The first plan that can be made within the limits, in the order of the library's heuristic (mode
// A, then its fallbacks). Throws Error with the reasons when there is none.
Plan find_plan(const PlanTarget& target, std::span<const Descriptor> operations,
               const PlanLimits& limits);

}  // namespace sardonyx::ops::cudnn
