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

// What the library calls the types of attributes. Others have none, so that they don't compile.
template <class T>
struct AttributeType;
#define ATTRIBUTE_TYPE(type, name)                                           \
  template <>                                                                \
  struct AttributeType<type> {                                               \
    static constexpr cudnnBackendAttributeType_t kValue = CUDNN_TYPE_##name; \
  };
ATTRIBUTE_TYPE(int64_t, INT64)
ATTRIBUTE_TYPE(bool, BOOLEAN)
ATTRIBUTE_TYPE(float, FLOAT)
ATTRIBUTE_TYPE(double, DOUBLE)
ATTRIBUTE_TYPE(char, CHAR)
ATTRIBUTE_TYPE(void*, VOID_PTR)
ATTRIBUTE_TYPE(cudnnHandle_t, HANDLE)
ATTRIBUTE_TYPE(cudnnDataType_t, DATA_TYPE)
ATTRIBUTE_TYPE(cudnnConvolutionMode_t, CONVOLUTION_MODE)
ATTRIBUTE_TYPE(cudnnBackendHeurMode_t, HEUR_MODE)
ATTRIBUTE_TYPE(cudnnBackendNumericalNote_t, NUMERICAL_NOTE)
ATTRIBUTE_TYPE(cudnnPointwiseMode_t, POINTWISE_MODE)
ATTRIBUTE_TYPE(cudnnGenStatsMode_t, GENSTATS_MODE)
#undef ATTRIBUTE_TYPE

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  template <class T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set_raw(name, AttributeType<T>::kValue, values.size(), values.data());
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
    values.resize(get_raw(name, AttributeType<T>::kValue, most, values.data()));
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
