#include "graph/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

constexpr std::align_val_t kAlignment{64};

struct FreeAligned {
  void operator()(std::byte* bytes) const { ::operator delete(bytes, kAlignment); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;

AlignedBytes allocate(size_t size) {
  if (size == 0) return nullptr;
  void* bytes = ::operator new(size, kAlignment, std::nothrow);
  if (bytes == nullptr) throw Error("out of memory: a tensor needs {} bytes", size);
  return AlignedBytes(static_cast<std::byte*>(bytes));
}

size_t byte_size(DType dtype, const std::vector<int64_t>& shape) {
  return TensorType(dtype, to_dims(shape)).bytes();
}

}  // namespace

struct Tensor::Buffer {
  AlignedBytes owned;                      // null while borrowed
  std::shared_ptr<const void> keep_alive;  // of borrowed bytes
  std::once_flag realign_once;
  AlignedBytes realigned;  // copy of borrowed bytes that stand at an odd address
};

Tensor::Tensor(DType dtype, std::vector<int64_t> shape)
    : dtype_(dtype), shape_(std::move(shape)), numel_(checked_numel(shape_)) {
  CHECK(dtype != DType::kUndefined);
  size_ = byte_size(dtype_, shape_);
  if (dtype == DType::kString) strings_.resize(numel_);
  buffer_ = std::make_shared<Buffer>();
  buffer_->owned = allocate(size_);
  data_ = buffer_->owned.get();
  if (size_ != 0) std::memset(data_, 0, size_);
}

Tensor Tensor::borrow(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> keep_alive) {
  CHECK(dtype_size(dtype) != 0, "{} tensors have no bytes", dtype_name(dtype));
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.numel_ = checked_numel(tensor.shape_);
  tensor.size_ = byte_size(dtype, tensor.shape_);
  CHECK(tensor.size_ == bytes.size(), "{} bytes for {}", bytes.size(), tensor.type().str());
  tensor.buffer_ = std::make_shared<Buffer>();
  tensor.buffer_->keep_alive = std::move(keep_alive);
  tensor.data_ = const_cast<std::byte*>(bytes.data());
  return tensor;
}

Tensor Tensor::of_strings(std::vector<int64_t> shape, std::vector<std::string> values) {
  Tensor tensor(DType::kString, std::move(shape));
  CHECK(static_cast<int64_t>(values.size()) == tensor.numel_, "{} strings for {}", values.size(),
        shape_str(tensor.shape_));
  tensor.strings_ = std::move(values);
  return tensor;
}

std::span<std::byte> Tensor::mutable_bytes() {
  if (size_ == 0) return {};
  if (!buffer_->owned || buffer_.use_count() > 1) {
    auto copy = std::make_shared<Buffer>();
    copy->owned = allocate(size_);
    std::memcpy(copy->owned.get(), data_, size_);
    data_ = copy->owned.get();
    buffer_ = std::move(copy);
  }
  return {data_, size_};
}

const std::byte* Tensor::aligned_data() const {
  alignas(64) static constexpr std::byte kNothing[64] = {};
  return size_ == 0 ? kNothing : aligned(dtype_size(dtype_));
}

const std::byte* Tensor::aligned(size_t alignment) const {
  if (reinterpret_cast<uintptr_t>(data_) % alignment == 0) return data_;
  std::call_once(buffer_->realign_once, [this] {
    buffer_->realigned = allocate(size_);
    std::memcpy(buffer_->realigned.get(), data_, size_);
  });
  return buffer_->realigned.get();
}

void Tensor::check_element(DType wanted) const {
  const bool half_bits =
      wanted == DType::kUint16 && (dtype_ == DType::kFloat16 || dtype_ == DType::kBFloat16);
  CHECK(dtype_ == wanted || half_bits, "{} tensor read as {}", dtype_name(dtype_),
        dtype_name(wanted));
}

Tensor Tensor::reshaped(std::vector<int64_t> shape) const {
  CHECK(defined() && checked_numel(shape) == numel_, "{} reshaped to {}", shape_str(shape_),
        shape_str(shape));
  Tensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

bool Tensor::identical(const Tensor& other) const {
  if (dtype_ != other.dtype_ || shape_ != other.shape_ || strings_ != other.strings_) return false;
  return size_ == 0 || data_ == other.data_ || std::memcmp(data_, other.data_, size_) == 0;
}

template <class T>
Tensor Tensor::of(std::vector<int64_t> shape, const std::vector<T>& values) {
  Tensor tensor(dtype_of<T>(), std::move(shape));
  CHECK(static_cast<int64_t>(values.size()) == tensor.numel_, "{} values for {}", values.size(),
        shape_str(tensor.shape_));
  std::span<T> out = tensor.mutable_data<T>();
  for (size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return tensor;
}

template <class T>
std::span<const T> Tensor::data() const {
  check_element(dtype_of<T>());
  return {reinterpret_cast<const T*>(aligned(alignof(T))), static_cast<size_t>(numel_)};
}

template <class T>
std::span<T> Tensor::mutable_data() {
  check_element(dtype_of<T>());
  return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<size_t>(numel_)};
}

#define INSTANTIATE(T, kind)                                                  \
  template <>                                                                 \
  DType dtype_of<T>() {                                                       \
    return DType::kind;                                                       \
  }                                                                           \
  template Tensor Tensor::of<T>(std::vector<int64_t>, const std::vector<T>&); \
  template std::span<const T> Tensor::data<T>() const;                        \
  template std::span<T> Tensor::mutable_data<T>();

INSTANTIATE(float, kFloat32)
INSTANTIATE(double, kFloat64)
INSTANTIATE(int8_t, kInt8)
INSTANTIATE(int16_t, kInt16)
INSTANTIATE(int32_t, kInt32)
INSTANTIATE(int64_t, kInt64)
INSTANTIATE(uint8_t, kUint8)
INSTANTIATE(uint16_t, kUint16)
INSTANTIATE(uint32_t, kUint32)
INSTANTIATE(uint64_t, kUint64)
INSTANTIATE(bool, kBool)
#undef INSTANTIATE

}  // namespace sardonyx::graph
