// The ring: the sampler's batches in order, errors in their place, a clean stop at any moment.
#include "runtime/data/prefetch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "graph/support/error.h"
#include "runtime/data/synthetic.h"
#include "tests/runtime/data/files.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

// Sample i holds i and i + 0.5, its label is -i; `bad` throws.
class Counting final : public Dataset {
 public:
  explicit Counting(int64_t size, int64_t bad = -1) : Dataset(make_info(size)), bad_(bad) {}

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    int64_t index = pick.index;
    if (index == bad_) throw Error("sample {} is damaged", index);
    ++calls_;
    float values[2] = {static_cast<float>(index), static_cast<float>(index) + 0.5f};
    std::memcpy(room.data(), values, sizeof values);
    return room;
  }
  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override {
    int64_t value = -index;
    std::memcpy(room.data(), &value, sizeof value);
    return room;
  }
  int calls() const { return calls_; }

 private:
  static DatasetInfo make_info(int64_t size) {
    DatasetInfo info;
    info.name = "counting";
    info.size = size;
    info.sample = {DType::kFloat32, {2}};
    info.label = {DType::kInt64, {}};
    return info;
  }
  int64_t bad_;
  mutable std::atomic<int> calls_ = 0;
};

void expect_rows(const LoadedBatch& batch) {
  ASSERT_EQ(batch.samples.size(), static_cast<size_t>(batch.slice.count) * 8);
  ASSERT_EQ(batch.labels.size(), static_cast<size_t>(batch.slice.count) * 8);
  for (int64_t i = 0; i < batch.slice.count; ++i) {
    int64_t index = batch.indices[static_cast<size_t>(batch.slice.begin + i)];
    float sample = 0;
    int64_t label = 0;
    std::memcpy(&sample, &batch.samples[static_cast<size_t>(i) * 8 + 4], 4);
    std::memcpy(&label, &batch.labels[static_cast<size_t>(i) * 8], 8);
    EXPECT_EQ(sample, static_cast<float>(index) + 0.5f);
    EXPECT_EQ(label, -index);
  }
}

SamplerOptions options(int64_t batch) { return {batch, 3, SampleOrder::kShuffled, Tail::kKeep}; }

TEST(Prefetch, batches_are_those_of_the_sampler_at_every_depth) {
  auto data = std::make_shared<Counting>(50);
  for (int depth : {0, 1, 2, 5}) {
    Sampler sampler(50, options(8));
    Prefetcher loader(data, Sampler(50, options(8)), {.depth = depth, .batches = 20, .slice = {}});
    for (int step = 0; step < 20; ++step) {
      Draw draw = sampler.next();
      const LoadedBatch* batch = loader.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_TRUE(std::ranges::equal(batch->indices, draw.indices));
      EXPECT_EQ(batch->epoch, draw.epoch);
      EXPECT_EQ(batch->number, draw.number);
      EXPECT_EQ(batch->last_of_epoch, draw.last_of_epoch);
      EXPECT_EQ(batch->next, draw.next);
      expect_rows(*batch);
    }
    EXPECT_EQ(loader.next(), nullptr);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Prefetch, a_batch_stays_until_the_next_call) {
  Prefetcher loader(std::make_shared<Counting>(100), Sampler(100, options(4)), {.depth = 2});
  for (int step = 0; step < 10; ++step) {
    const LoadedBatch* batch = loader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    expect_rows(*batch);
  }
}

// The next batch, once it is there.
const LoadedBatch* upcoming(Prefetcher& loader) {
  const LoadedBatch* batch = loader.peek();
  for (int i = 0; i < 1000 && batch == nullptr; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    batch = loader.peek();
  }
  return batch;
}

TEST(Prefetch, the_next_batch_is_seen_beside_the_one_in_use) {
  Prefetcher loader(std::make_shared<Counting>(100), Sampler(100, options(4)),
                    {.depth = 2, .batches = 10});
  for (int step = 0; step < 9; ++step) {
    const LoadedBatch* batch = loader.next();
    const LoadedBatch* next = upcoming(loader);
    ASSERT_NE(next, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    expect_rows(*batch);
    expect_rows(*next);
    ASSERT_EQ(loader.peek(), next);
  }
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_EQ(loader.peek(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(Prefetch, a_damaged_batch_is_not_seen_ahead) {
  SamplerOptions in_order{4, 0, SampleOrder::kSequential, Tail::kKeep};
  Prefetcher loader(std::make_shared<Counting>(20, 5), Sampler(20, in_order), {.depth = 2});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(loader.peek(), nullptr);
  EXPECT_THROW(loader.next(), Error);
  Prefetcher none(std::make_shared<Counting>(20), Sampler(20, in_order), {.depth = 0});
  none.next();
  EXPECT_EQ(none.peek(), nullptr);
}

TEST(Prefetch, no_more_is_read_ahead_than_asked) {
  auto data = std::make_shared<Counting>(100);
  Prefetcher loader(data, Sampler(100, options(4)), {.depth = 2});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(data->calls(), 3 * 4);
}

TEST(Prefetch, an_error_comes_in_the_place_of_its_batch) {
  SamplerOptions in_order{4, 0, SampleOrder::kSequential, Tail::kKeep};
  for (int depth : {0, 2}) {
    Prefetcher loader(std::make_shared<Counting>(20, 9), Sampler(20, in_order), {.depth = depth});
    expect_rows(*loader.next());
    expect_rows(*loader.next());
    EXPECT_EQ(testing::error_of([&] { loader.next(); }), "sample 9 is damaged");
  }
  Prefetcher again(std::make_shared<Counting>(20, 1), Sampler(20, in_order), {.depth = 2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(testing::error_of([&] { again.next(); }), "sample 1 is damaged");
  }
}

// Takes a while for each sample, the longer the smaller its number.
class Slow final : public Dataset {
 public:
  explicit Slow(int64_t size, std::vector<int64_t> bad = {})
      : Dataset(Counting(size).info()), counting_(size), bad_(std::move(bad)) {}
  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(400 - 20 * (pick.index % 16)));
    if (std::ranges::count(bad_, pick.index) > 0) throw Error("sample {} is damaged", pick.index);
    return counting_.sample(pick, room);
  }
  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override {
    return counting_.label(index, room);
  }

 private:
  Counting counting_;
  std::vector<int64_t> bad_;
};

TEST(Prefetch, more_threads_join_when_the_consumer_waits_and_change_no_batch) {
  auto data = std::make_shared<Slow>(160);
  Prefetcher loader(data, Sampler(160, options(16)), {.batches = 20, .most_threads = 4});
  EXPECT_EQ(loader.threads(), 1);
  Sampler sampler(160, options(16));
  while (const LoadedBatch* batch = loader.next()) {
    EXPECT_TRUE(std::ranges::equal(batch->indices, sampler.next().indices));
    expect_rows(*batch);
  }
  EXPECT_EQ(loader.threads(), 4);
}

TEST(Prefetch, one_thread_is_enough_for_a_slow_consumer) {
  auto data = std::make_shared<Counting>(1000);
  Prefetcher loader(data, Sampler(1000, options(4)), {.batches = 20, .most_threads = 4});
  while (loader.next() != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_LT(loader.threads(), 4);
}

TEST(Prefetch, of_several_damaged_rows_the_first_one_is_told) {
  for (int round = 0; round < 10; ++round) {
    // Batch 5 of 8; the later rows fail sooner.
    auto data = std::make_shared<Slow>(128, std::vector<int64_t>{82, 86, 91, 95, 100});
    Prefetcher loader(data, Sampler(128, {16, 0, SampleOrder::kSequential, Tail::kKeep}),
                      {.most_threads = 4});
    for (int batch = 0; batch < 5; ++batch) expect_rows(*loader.next());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(testing::error_of([&] { loader.next(); }), "sample 82 is damaged");
    }
  }
}

TEST(Prefetch, only_the_slice_of_this_process_is_filled) {
  auto data = std::make_shared<Counting>(10);
  // The second of two processes, halves rounded up for the first.
  SliceOf slice = [](int64_t size) {
    int64_t first = (size + 1) / 2;
    return BatchSlice{first, size - first};
  };
  Prefetcher loader(data, Sampler(10, options(7)), {.depth = 1, .batches = 2, .slice = slice});
  const LoadedBatch* batch = loader.next();
  EXPECT_EQ(batch->indices.size(), 7u);
  EXPECT_EQ(batch->slice.count, 3);
  expect_rows(*batch);
  EXPECT_EQ(batch->samples_of(5, 2).data(), batch->samples.data() + 8);
  EXPECT_EQ(batch->labels_of(4, 1).data(), batch->labels.data());
  EXPECT_THROW(batch->samples_of(3, 1), InternalError);
  EXPECT_THROW(batch->samples_of(6, 2), InternalError);
  batch = loader.next();
  EXPECT_EQ(batch->slice.count, 1);
  expect_rows(*batch);
  EXPECT_EQ(data->calls(), 4);
}

TEST(Prefetch, stops_cleanly_whenever_it_is_destroyed) {
  auto data = std::make_shared<Counting>(1000);
  for (int taken = 0; taken < 30; ++taken) {
    Prefetcher loader(data, Sampler(1000, options(16)), {.depth = 3});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

TEST(Prefetch, resumes_where_a_batch_says) {
  auto data = std::make_shared<Counting>(50);
  Prefetcher whole(data, Sampler(50, options(8)), {.depth = 2});
  SamplerPosition position;
  for (int i = 0; i < 9; ++i) position = whole.next()->next;
  Prefetcher resumed(data, Sampler(50, options(8), position), {.depth = 2});
  for (int i = 0; i < 9; ++i) {
    EXPECT_TRUE(std::ranges::equal(resumed.next()->indices, whole.next()->indices));
  }
}

}  // namespace
}  // namespace sardonyx::runtime
