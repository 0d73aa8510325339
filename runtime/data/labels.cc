// Linear scans; they run once per data set.
#include "runtime/data/labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "graph/support/error.h"
#include "runtime/class_names.h"
#include "runtime/data/element.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

constexpr const char* kOneHot =
    "; if they are one-hot, give class indices, as labels.argmax(axis=1) does";

// "index 5" of a vector, "index [1,2]" of a matrix.
std::string index_text(int64_t flat, const std::vector<int64_t>& shape) {
  if (shape.size() == 1) return std::to_string(flat);
  std::vector<int64_t> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return graph::shape_str(index);
}

std::string type_text(const Tensor& tensor) {
  return std::string(graph::dtype_name(tensor.dtype())) + graph::shape_str(tensor.shape());
}

std::vector<int64_t> with_batch(int64_t samples, const std::vector<int64_t>& shape) {
  std::vector<int64_t> result{samples};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

void check_shape(const Tensor& labels, const std::vector<int64_t>& expected,
                 std::string_view hint_for_extra_axis, const std::string& name) {
  if (labels.rank() >= 1) check_same_count(expected[0], name, labels.shape()[0], name);
  if (labels.shape() == expected) return;
  bool extra = labels.shape().size() == expected.size() + 1;
  throw Error("{}: labels have shape {} (rank {}), expected {}{}", name,
              graph::shape_str(labels.shape()), labels.rank(), graph::shape_str(expected),
              extra ? hint_for_extra_axis : "");
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504.0;
    case DType::kBFloat16:
      return 3.3895313892515355e38;
    case DType::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

void check_not_empty(int64_t count, const std::string& name) {
  if (count == 0) throw Error("{}: there are 0 samples, expected at least 1", name);
}

void check_same_count(int64_t samples, const std::string& samples_name, int64_t labels,
                      const std::string& labels_name) {
  if (samples == labels) return;
  throw Error("{} samples in {}, but {} labels in {}: the counts must agree", samples, samples_name,
              labels, labels_name);
}

void check_not_floating(const Tensor& labels, const std::string& name) {
  if (!graph::is_floating(labels.dtype())) return;
  const char* hint = labels.rank() > 1 ? kOneHot : "";
  for (int64_t i = 0; i < labels.numel(); ++i) {
    double value = labels.as_double(i);
    if (value == std::floor(value)) continue;
    throw Error(
        "{}: label {} at index {} is not a class number; labels are {}, expected integers{}; if "
        "they are values and no classes, give --loss mse",
        name, value, index_text(i, labels.shape()), type_text(labels), hint);
  }
  throw Error(
      "{}: labels are {}, expected integers. All values are whole numbers: save them as int64, "
      "with "
      ".astype(np.int64){}; if they are values and no classes, give --loss mse",
      name, type_text(labels), hint);
}

namespace {

// Who gives the names of classes means their places.
std::string place_of(const std::string& label, const std::vector<std::string>& names) {
  const std::string list = "; the model calls its classes " + class_names_str(names);
  const auto place = std::ranges::find(names, label);
  return place == names.end()
             ? list
             : fmt::format("{}, so give {} for {}", list, place - names.begin(), label);
}

}  // namespace

void check_class_labels(const Tensor& labels, const ClassLabels& expected,
                        const std::string& name) {
  check_not_empty(expected.samples, name);
  check_shape(labels, with_batch(expected.samples, expected.sample_shape), kOneHot, name);
  check_not_floating(labels, name);
  if (!graph::is_integer(labels.dtype())) {
    throw Error("{}: labels are {}, expected integers", name, type_text(labels));
  }
  for (int64_t i = 0; i < labels.numel(); ++i) {
    const int64_t value = labels.as_int(i);
    const bool countable = is_within(labels, i, integer_range(DType::kInt64));
    if (countable && value >= 0 && value < expected.classes) continue;
    if (countable && expected.ignore_index && value == *expected.ignore_index) continue;
    std::string hint;
    if (value == expected.classes) hint = "; class numbers start at 0";
    if (countable && value < 0) hint = "; to leave samples out give --ignore-index";
    if (!expected.names.empty()) hint = place_of(integer_text(labels, i), expected.names);
    throw Error("{}: label {} at index {} is out of range, expected 0..{} ({} classes){}", name,
                integer_text(labels, i), index_text(i, labels.shape()), expected.classes - 1,
                expected.classes, hint);
  }
}

void check_class_labels(const Dataset& dataset, ClassLabels expected) {
  const DatasetInfo& info = dataset.info();
  const int64_t classes = expected.classes;
  expected.samples = info.size;
  if (info.label.dtype == DType::kUndefined) {
    throw Error("{}: has no labels, but the loss needs class numbers", info.name);
  }
  if (const Tensor* labels = dataset.labels()) {
    if (info.classes > classes) {
      throw Error("{}: the data have {} classes, but the model tells {} apart", info.name,
                  info.classes, classes);
    }
    check_class_labels(*labels, expected, info.name);
    return;
  }
  if (info.label.shape != expected.sample_shape || info.classes > classes) {
    throw Error("{}: labels are {} with {} classes, the loss expects {} with {} classes", info.name,
                info.label.str(), info.classes, graph::shape_str(expected.sample_shape), classes);
  }
}

void check_targets(const Tensor& targets, int64_t samples, const std::vector<int64_t>& sample_shape,
                   const std::string& name) {
  check_not_empty(samples, name);
  check_shape(targets, with_batch(samples, sample_shape), "", name);
  if (targets.dtype() == DType::kString) {
    throw Error("{}: targets are strings, expected numbers", name);
  }
  check_finite(targets, targets.dtype(), name);
}

void check_shares(const Tensor& targets, const std::string& name) {
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const double value = targets.as_double(i);
    if (value >= 0 && value <= 1) continue;
    throw Error("{}: target {} at index {} is no probability: loss bce_with_logits expects 0 to 1",
                name, value, index_text(i, targets.shape()));
  }
}

void check_finite(const Tensor& values, DType to, const std::string& name) {
  if (!graph::is_floating(values.dtype())) return;
  double limit = largest(values.dtype());
  if (graph::is_floating(to)) limit = std::min(limit, largest(to));
  for (int64_t i = 0; i < values.numel(); ++i) {
    double value = values.as_double(i);
    if (std::abs(value) <= limit) continue;
    if (std::isfinite(value)) {
      throw Error("{}: value {} at index {} is not finite as {} (largest: {})", name, value,
                  index_text(i, values.shape()), graph::dtype_name(to), limit);
    }
    throw Error("{}: value {} at index {} is not finite", name, value,
                index_text(i, values.shape()));
  }
}

}  // namespace sardonyx::runtime
