#include "tests/support/tensors.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/support/error.h"

namespace sardonyx::test {

namespace {

uint64_t split_mix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::string position(int64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    at[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return graph::shape_str(at);
}

std::string number(double v) { return std::isnan(v) ? "nan" : fmt::format("{:.17g}", v); }

bool close(double got, double want, Tolerance tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance.atol + tolerance.rtol * std::abs(want);
}

void poison(Tensor& tensor) {
  if (tensor.numel() == 0) return;
  if (tensor.dtype() == DType::kFloat32) {
    for (float& v : tensor.mutable_data<float>()) v = std::numeric_limits<float>::quiet_NaN();
  } else if (tensor.dtype() == DType::kFloat64) {
    for (double& v : tensor.mutable_data<double>()) v = std::numeric_limits<double>::quiet_NaN();
  } else {
    const auto bytes = tensor.mutable_bytes();
    std::memset(bytes.data(), tensor.dtype() == DType::kBool ? 1 : 0x7f, bytes.size());
  }
}

}  // namespace

Tensor floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return Tensor::of<float>(std::move(shape), values);
}

Tensor doubles(std::vector<int64_t> shape, const std::vector<double>& values) {
  return Tensor::of<double>(std::move(shape), values);
}

Tensor ints(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>(std::move(shape), values);
}

Tensor bools(std::vector<int64_t> shape, const std::vector<bool>& values) {
  Tensor result(DType::kBool, std::move(shape));
  CHECK(result.numel() == static_cast<int64_t>(values.size()));
  const auto bytes = result.mutable_bytes();
  for (size_t i = 0; i < values.size(); ++i) bytes[i] = std::byte{values[i]};
  return result;
}

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, double low, double high,
                     uint64_t seed) {
  std::vector<double> values(graph::checked_numel(shape));
  uint64_t state = seed * 0x2545f4914f6cdd1dull + 1;
  const bool whole = !graph::is_floating(dtype);
  for (double& v : values) {
    const double u = static_cast<double>(split_mix(state) >> 11) * 0x1p-53;
    v = whole ? low + std::floor(u * (high - low + 1))
              : static_cast<double>(static_cast<float>(low + u * (high - low)));
  }
  return doubles(std::move(shape), values).cast(dtype);
}

std::optional<std::string> difference(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  if (got.shape() != want.shape()) {
    return fmt::format("got shape {}, expected {}", graph::shape_str(got.shape()),
                       graph::shape_str(want.shape()));
  }
  int64_t first = -1, count = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    if (close(got.as_double(i), want.as_double(i), tolerance)) continue;
    if (first < 0) first = i;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return fmt::format("element {} {}: got {}, expected {} ({} of {} elements differ)", first,
                     position(first, got.shape()), number(got.as_double(first)),
                     number(want.as_double(first)), count, got.numel());
}

Tensor to_lanes(const Tensor& plain, int64_t lanes) {
  const int64_t n = plain.shape().at(0);
  const int64_t blocks = (n + lanes - 1) / lanes;
  const int64_t rest = n == 0 ? 0 : plain.numel() / n;
  const auto size = static_cast<int64_t>(graph::dtype_size(plain.dtype()));
  Tensor stored(plain.dtype(), {blocks, rest, lanes});
  poison(stored);
  const std::byte* from = plain.bytes().data();
  std::byte* to = stored.mutable_bytes().data();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < rest; ++j) {
      const int64_t at = ((i / lanes) * rest + j) * lanes + i % lanes;
      std::memcpy(to + at * size, from + (i * rest + j) * size, size);
    }
  }
  return stored;
}

Tensor from_lanes(const Tensor& stored, const std::vector<int64_t>& shape, int64_t lanes) {
  Tensor plain(stored.dtype(), shape);
  const int64_t n = shape.at(0);
  const int64_t rest = n == 0 ? 0 : plain.numel() / n;
  const auto size = static_cast<int64_t>(graph::dtype_size(plain.dtype()));
  const std::byte* from = stored.bytes().data();
  std::byte* to = plain.mutable_bytes().data();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < rest; ++j) {
      const int64_t at = ((i / lanes) * rest + j) * lanes + i % lanes;
      std::memcpy(to + (i * rest + j) * size, from + at * size, size);
    }
  }
  return plain;
}

namespace {

// Calls f(element of the plain form, element of the stored form) for all.
template <class F>
void for_stored(const std::vector<int64_t>& shape, const std::vector<int32_t>& order, const F& f) {
  const size_t rank = shape.size();
  std::vector<int64_t> stride(rank, 1);
  for (size_t axis = rank; axis-- > 1;) stride[axis - 1] = stride[axis] * shape[axis];
  const int64_t count = graph::checked_numel(shape);
  for (int64_t stored = 0; stored < count; ++stored) {
    int64_t rest = stored, plain = 0;
    for (size_t i = rank; i-- > 0;) {
      const size_t axis = order.empty() ? i : static_cast<size_t>(order[i]);
      plain += rest % shape[axis] * stride[axis];
      rest /= shape[axis];
    }
    f(plain, stored);
  }
}

}  // namespace

Tensor to_order(const Tensor& plain, const std::vector<int32_t>& order) {
  Tensor stored(plain.dtype(), plain.shape());
  const size_t size = graph::dtype_size(plain.dtype());
  for_stored(plain.shape(), order, [&](int64_t from, int64_t to) {
    std::memcpy(stored.mutable_bytes().data() + to * size, plain.bytes().data() + from * size,
                size);
  });
  return stored;
}

Tensor from_order(const Tensor& stored, const std::vector<int32_t>& order) {
  Tensor plain(stored.dtype(), stored.shape());
  const size_t size = graph::dtype_size(plain.dtype());
  for_stored(plain.shape(), order, [&](int64_t to, int64_t from) {
    std::memcpy(plain.mutable_bytes().data() + to * size, stored.bytes().data() + from * size,
                size);
  });
  return plain;
}

Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t end) {
  std::vector<int64_t> shape = tensor.shape();
  const int64_t n = shape.at(0);
  shape[0] = end - begin;
  Tensor result(tensor.dtype(), shape);
  const size_t row = n == 0 ? 0 : tensor.bytes().size() / n;
  if (result.bytes().size() > 0) {
    std::memcpy(result.mutable_bytes().data(), tensor.bytes().data() + row * begin,
                result.bytes().size());
  }
  return result;
}

Tensor repeat_rows(const Tensor& tensor, int64_t count) {
  std::vector<int64_t> shape = tensor.shape();
  const int64_t n = shape.at(0);
  CHECK(n > 0 || count == 0);
  shape[0] = count;
  Tensor result(tensor.dtype(), shape);
  const size_t row = n == 0 ? 0 : tensor.bytes().size() / n;
  for (int64_t i = 0; i < count && row > 0; ++i) {
    std::memcpy(result.mutable_bytes().data() + row * i, tensor.bytes().data() + row * (i % n),
                row);
  }
  return result;
}

}  // namespace sardonyx::test
