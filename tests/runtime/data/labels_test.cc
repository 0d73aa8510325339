// Checks of labels, targets and values: what passes, what is said of the rest.
#include "runtime/data/labels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/data/synthetic.h"
#include "tests/runtime/data/files.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using testing::error_of;

std::string check(const Tensor& labels, const ClassLabels& expected) {
  return error_of([&] { check_class_labels(labels, expected, "data"); });
}

TEST(Labels, integers_in_range_pass_whatever_their_width) {
  EXPECT_EQ(check(Tensor::of<uint8_t>({3}, {0, 2, 1}), {3, {}, 3, {}}), "no error");
  EXPECT_EQ(check(Tensor::of<int64_t>({3}, {0, 2, 1}), {3, {}, 3, {}}), "no error");
  EXPECT_EQ(check(Tensor::of<int16_t>({2, 2}, {0, 1, 1, 0}), {2, {2}, 2, {}}), "no error");
}

TEST(Labels, out_of_range_gives_index_value_and_classes) {
  EXPECT_EQ(check(Tensor::of<int64_t>({3}, {1, 2, 3}), {3, {}, 3, {}}),
            "data: label 3 at index 2 is out of range, expected 0..2 (3 classes); class numbers "
            "start at 0");
  EXPECT_EQ(check(Tensor::of<int32_t>({2, 2}, {0, 1, 9, 0}), {2, {2}, 2, {}}),
            "data: label 9 at index [1,0] is out of range, expected 0..1 (2 classes)");
}

TEST(Labels, the_ignored_label_passes_and_no_other_negative) {
  Tensor labels = Tensor::of<int64_t>({3}, {0, -1, 1});
  EXPECT_EQ(check(labels, {3, {}, 2, -1}), "no error");
  EXPECT_EQ(
      check(labels, {3, {}, 2, -100}),
      "data: label -1 at index 1 is out of range, expected 0..1 (2 classes); to leave samples "
      "out give --ignore-index");
}

TEST(Labels, floats_are_refused_even_when_whole) {
  EXPECT_EQ(check(Tensor::of<float>({2}, {0.f, 1.5f}), {2, {}, 2, {}}),
            "data: label 1.5 at index 1 is not a class number; labels are float[2], expected "
            "integers; if they are values and no classes, give --loss mse");
  EXPECT_EQ(check(Tensor::of<double>({2}, {0., 1.}), {2, {}, 2, {}}),
            "data: labels are double[2], expected integers. All values are whole numbers: save "
            "them as int64, with .astype(np.int64); if they are values and no classes, give --loss "
            "mse");
  EXPECT_NE(check(Tensor::of<float>({1}, {NAN}), {1, {}, 2, {}}), "no error");
}

TEST(Labels, shapes_and_counts_are_compared) {
  EXPECT_EQ(check(Tensor::of<int64_t>({2}, {0, 1}), {3, {}, 2, {}}),
            "3 samples in data, but 2 labels in data: the counts must agree");
  EXPECT_EQ(check(Tensor::of<int64_t>({2, 2}, {1, 0, 0, 1}), {2, {}, 2, {}}),
            "data: labels have shape [2,2] (rank 2), expected [2]; if they are one-hot, give "
            "class indices, as labels.argmax(axis=1) does");
  EXPECT_NE(check(Tensor::of<int64_t>({}, {1}), {1, {}, 2, {}}), "no error");
  EXPECT_EQ(check(Tensor(DType::kInt64, {0}), {0, {}, 2, {}}),
            "data: there are 0 samples, expected at least 1");
}

// As a signed number the first would be the index that is left out.
TEST(Labels, unsigned_labels_do_not_wrap) {
  EXPECT_EQ(check(Tensor::of<uint64_t>({1}, {~uint64_t{0}}), {1, {}, 2, -1}),
            "data: label 18446744073709551615 at index 0 is out of range, expected 0..1 (2 "
            "classes)");
  EXPECT_EQ(check(Tensor::of<uint64_t>({1}, {1}), {1, {}, 2, {}}), "no error");
}

TEST(Labels, computed_labels_are_checked_by_their_type) {
  auto data = make_synthetic({8, {4}, 10, {DType::kInt64, {}}, 0}, Split::kTrain);
  EXPECT_EQ(error_of([&] { check_class_labels(*data, {0, {}, 10, {}}); }), "no error");
  EXPECT_EQ(error_of([&] { check_class_labels(*data, {0, {}, 12, {}}); }), "no error");
  EXPECT_NE(error_of([&] { check_class_labels(*data, {0, {}, 9, {}}); }), "no error");
  EXPECT_NE(error_of([&] { check_class_labels(*data, {0, {4}, 10, {}}); }), "no error");
}

TEST(Labels, targets_need_the_shape_and_finite_numbers) {
  auto targets = [](const Tensor& t) {
    return error_of([&] { check_targets(t, 2, {1}, "data"); });
  };
  EXPECT_EQ(targets(Tensor::of<float>({2, 1}, {1.f, 2.f})), "no error");
  EXPECT_EQ(targets(Tensor::of<int64_t>({2, 1}, {1, 2})), "no error");
  EXPECT_EQ(targets(Tensor::of<float>({2}, {1.f, 2.f})),
            "data: labels have shape [2] (rank 1), expected [2,1]");
  EXPECT_EQ(targets(Tensor::of<float>({2, 1}, {1.f, INFINITY})),
            "data: value inf at index [1,0] is not finite");
}

TEST(Labels, values_that_no_float_can_hold_are_not_finite) {
  auto finite = [](const Tensor& t, DType to) {
    return error_of([&] { check_finite(t, to, "data"); });
  };
  Tensor big = Tensor::of<double>({2}, {0, 1e39});
  EXPECT_EQ(finite(big, DType::kFloat64), "no error");
  EXPECT_NE(finite(big, DType::kFloat32).find("value 1e+39 at index 1 is not finite as float"),
            std::string::npos);
  Tensor edge = Tensor::of<double>({1}, {std::numeric_limits<float>::max()});
  EXPECT_EQ(finite(edge, DType::kFloat32), "no error");
  EXPECT_NE(finite(Tensor::of<float>({1}, {70000.f}), DType::kFloat16), "no error");
}

}  // namespace
}  // namespace sardonyx::runtime
