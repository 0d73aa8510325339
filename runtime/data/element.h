// Elements of data arrays: byte order and conversion between numeric types.
//
// `RowConverter` is the inner loop of the loader: one row from the stored type and axis order to
// those of the model's input, scaled and normalised. uint8 to a floating type goes through a table
// of 256 entries per channel, so its arithmetic is done once, in float: (v / 255 - mean) / std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "graph/type.h"

namespace sardonyx::runtime {

// Reverses the bytes of each element. CHECK: the span holds whole elements.
void reverse_elements(std::span<std::byte> data, size_t element_bytes);

// Bool and integers to integers and floats, floats to floats.
bool can_convert(graph::DType from, graph::DType to);

// What an integer type holds, or a part of it.
struct IntegerRange {
  int64_t low = 0;
  uint64_t high = 0;
};
// Of bool: 0 and 1; of a type that is no integer: that of int64.
IntegerRange integer_range(graph::DType dtype);
// Whether element `i` of a tensor of bool or integers lies in the range; uint64 counts in full.
bool is_within(const graph::Tensor& values, int64_t i, const IntegerRange& range);
std::string integer_text(const graph::Tensor& values, int64_t i);

// uint8 to floating: kUnit divides by 255. Other types are never scaled.
enum class PixelScale : uint8_t { kUnit, kRaw };

// A row is channels x plane elements; the strides (in elements) say where channel c, pixel p
// stands.
struct RowConversion {
  struct Strides {
    int64_t channel = 0;
    int64_t pixel = 1;
    friend bool operator==(const Strides&, const Strides&) = default;
  };
  graph::DType from = graph::DType::kUndefined;
  graph::DType to = graph::DType::kUndefined;
  int64_t channels = 1;
  int64_t plane = 0;
  Strides source;
  Strides target;
  PixelScale scale = PixelScale::kUnit;
  std::vector<float> mean;  // one per channel; both empty: no normalisation
  std::vector<float> std;
};

class RowConverter {
 public:
  // CHECK: can_convert; mean and std are empty or have one entry per channel, and the target is
  // floating.
  explicit RowConverter(RowConversion conversion);

  // The bytes stay as they are.
  bool identity() const;
  // Integers that don't fit a narrower target type wrap; callers check the values beforehand.
  void convert(std::span<const std::byte> from, std::span<std::byte> to) const;

 private:
  bool uses_table() const;
  void build_table();
  template <class T>
  void look_up(const std::byte* from, std::byte* to) const;
  template <class Wide>
  void convert_blocks(const std::byte* from, std::byte* to) const;

  RowConversion c_;
  std::vector<std::byte> table_;  // [channels][256] target elements
};

}  // namespace sardonyx::runtime
