// Synthetic data: the same for ever, different between splits, and learnable.
#include "runtime/data/synthetic.h"

#include <gtest/gtest.h>

#include <cstring>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

std::vector<uint8_t> sample(const Dataset& data, int64_t index) {
  std::vector<uint8_t> out(data.info().sample.bytes());
  std::span<const std::byte> bytes =
      data.sample({index, 0}, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(bytes.data(), reinterpret_cast<const std::byte*>(out.data()));
  return out;
}

int64_t label(const Dataset& data, int64_t index) {
  int64_t value = 0;
  std::memcpy(&value, data.label(index, {}).data(), sizeof value);
  return value;
}

SyntheticTask task(std::vector<int64_t> shape, uint64_t seed = 1) {
  return {1000, std::move(shape), 10, {DType::kInt64, {}}, seed};
}

// Benchmarks compare losses across versions: a change here changes them.
TEST(Synthetic, the_bytes_are_fixed_for_ever) {
  auto data = make_synthetic({8, {5}, 2, {DType::kInt64, {}}, 42}, Split::kTrain);
  EXPECT_EQ(sample(*data, 0), (std::vector<uint8_t>{125, 149, 120, 127, 142}));
  EXPECT_EQ(sample(*data, 7), (std::vector<uint8_t>{102, 83, 50, 96, 94}));
}

TEST(Synthetic, samples_depend_on_index_seed_and_split) {
  auto data = make_synthetic(task({1, 8, 8}), Split::kTrain);
  EXPECT_EQ(sample(*data, 3), sample(*make_synthetic(task({1, 8, 8}), Split::kTrain), 3));
  EXPECT_NE(sample(*data, 3), sample(*data, 13));
  EXPECT_NE(sample(*data, 3), sample(*make_synthetic(task({1, 8, 8}, 2), Split::kTrain), 3));
  auto test = make_synthetic(task({1, 8, 8}), Split::kTest);
  EXPECT_NE(sample(*data, 3), sample(*test, 3));
  EXPECT_EQ(data->size(), 1000);
  EXPECT_EQ(test->size(), 200);
  EXPECT_EQ(label(*data, 13), 3);
}

// Nearest class mean, learned on one half of the training set, classifies the test set.
TEST(Synthetic, classes_can_be_learned_in_every_shape) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 28, 28}, {3, 8, 8}, {8, 8, 3}, {64}, {5, 7}}) {
    auto train = make_synthetic(task(shape), Split::kTrain);
    size_t elements = train->info().sample.bytes();
    std::vector<std::vector<double>> means(10, std::vector<double>(elements));
    for (int64_t i = 0; i < 500; ++i) {
      std::vector<uint8_t> x = sample(*train, i);
      for (size_t e = 0; e < elements; ++e) means[label(*train, i)][e] += x[e] / 50.0;
    }
    auto test = make_synthetic(task(shape), Split::kTest);
    int right = 0;
    for (int64_t i = 0; i < 200; ++i) {
      std::vector<uint8_t> x = sample(*test, i);
      int64_t best = 0;
      double least = 1e300;
      for (int64_t c = 0; c < 10; ++c) {
        double distance = 0;
        for (size_t e = 0; e < elements; ++e) {
          distance += (x[e] - means[c][e]) * (x[e] - means[c][e]);
        }
        if (distance < least) best = c;
        least = std::min(least, distance);
      }
      right += best == label(*test, i);
    }
    EXPECT_GT(right, 180) << graph::shape_str(shape);
  }
}

TEST(Synthetic, labels_take_the_asked_form) {
  SyntheticTask pixels = task({1, 4, 4});
  pixels.label = {DType::kInt32, {2, 2}};
  auto data = make_synthetic(pixels, Split::kTrain);
  std::array<int32_t, 4> values;
  std::memcpy(values.data(), data->label(8, {}).data(), sizeof values);
  EXPECT_EQ(values, (std::array<int32_t, 4>{8, 9, 0, 1}));
  SyntheticTask targets = task({4});
  targets.label = {DType::kFloat32, {3}};
  auto regression = make_synthetic(targets, Split::kTrain);
  std::array<float, 3> target;
  std::memcpy(target.data(), regression->label(5, {}).data(), sizeof target);
  for (float value : target) EXPECT_TRUE(value >= -1 && value < 1 && value != 0);
}

TEST(Synthetic, sizes_that_are_not_positive_are_refused) {
  EXPECT_THROW(make_synthetic({0, {4}}, Split::kTrain), Error);
  EXPECT_THROW(make_synthetic({4, {4}, 0}, Split::kTrain), Error);
  EXPECT_THROW(make_synthetic({4, {4, -1}}, Split::kTrain), Error);
}

}  // namespace
}  // namespace sardonyx::runtime
