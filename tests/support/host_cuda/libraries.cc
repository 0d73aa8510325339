#include "tests/support/host_cuda/libraries.h"

#include <bit>
#include <cstring>

#include "graph/support/error.h"
#include "graph/tensor.h"
#include "tests/support/host_cuda/host_cuda.h"

namespace sardonyx::host_cuda {

namespace {

using graph::DType;

// The 10 bits of mantissa that tensor cores take of a float.
float tf32(float value) {
  constexpr uint32_t kDropped = 13;
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  const uint32_t half = (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  return std::bit_cast<float>((bits + half) >> kDropped << kDropped);
}

template <class T, class F>
std::vector<double> read(const std::byte* cells, size_t count, const F& f) {
  std::vector<double> values(count);
  const auto* elements = reinterpret_cast<const T*>(cells);
  for (size_t i = 0; i < count; ++i) values[i] = f(elements[i]);
  return values;
}

template <class T, class F>
void write(const std::vector<double>& values, std::byte* cells, const F& f) {
  auto* elements = reinterpret_cast<T*>(cells);
  for (size_t i = 0; i < values.size(); ++i) elements[i] = f(values[i]);
}

}  // namespace

void check_dtype(const char* library, DType dtype) {
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16) return;
  throw Error("{} (host stand-in): no engine for {}", library, graph::dtype_name(dtype));
}

void check_engine(const char* library, DType dtype) {
  check_dtype(library, dtype);
  if (!machine().no_engines.empty()) throw Error("{}", machine().no_engines);
}

std::vector<double> load(DType dtype, const std::byte* cells, size_t count, Rounded rounded) {
  switch (dtype) {
    case DType::kFloat64:
      return read<double>(cells, count, [](double x) { return x; });
    case DType::kBFloat16:
      return read<uint16_t>(cells, count, graph::bfloat16_to_float);
    default:
      if (rounded == Rounded::kTf32) return read<float>(cells, count, tf32);
      return read<float>(cells, count, [](float x) { return x; });
  }
}

void store(DType dtype, const std::vector<double>& values, std::byte* cells) {
  switch (dtype) {
    case DType::kFloat64:
      return write<double>(values, cells, [](double x) { return x; });
    case DType::kBFloat16:
      return write<uint16_t>(
          values, cells, [](double x) { return graph::float_to_bfloat16(static_cast<float>(x)); });
    default:
      return write<float>(values, cells, [](double x) { return static_cast<float>(x); });
  }
}

void check_workspace(const std::string& who, const void* workspace) {
  CHECK(reinterpret_cast<uintptr_t>(workspace) % 256 == 0,
        "{}: the workspace {} is not 256-byte aligned", who, workspace);
}

void scribble(std::byte* workspace, size_t bytes) { std::memset(workspace, 0xa5, bytes); }

}  // namespace sardonyx::host_cuda
