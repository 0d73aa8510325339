// Sums among threads: exact where the numbers are, the same bits on every rank, and no rank that
// waits for ever when another fails, leaves or disagrees.
#include "runtime/collectives/local.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "graph/support/error.h"
#include "graph/tensor.h"
#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using ops::Communicator;

// Runs body(rank) on a thread per rank; what each threw, "" for nothing.
struct Outcome {
  std::vector<std::string> errors, internal_errors;
};
Outcome on_ranks(int ranks, const std::function<void(int)>& body) {
  Outcome outcome;
  outcome.errors.resize(static_cast<size_t>(ranks));
  outcome.internal_errors.resize(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        outcome.errors[static_cast<size_t>(rank)] = error.what();
      } catch (const InternalError& error) {
        outcome.internal_errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

void expect_no_error(const Outcome& outcome) {
  for (const std::string& error : outcome.errors) EXPECT_EQ(error, "");
  for (const std::string& error : outcome.internal_errors) EXPECT_EQ(error, "");
}

template <class T>
constexpr DType kType = std::is_same_v<T, float> ? DType::kFloat32 : DType::kFloat64;

template <class T>
void start(Communicator& communicator, std::vector<T>& data, ops::ThreadPool& pool) {
  communicator.start_sum(data.data(), data.size(), kType<T>, kType<T>, pool);
}

template <class T>
using PerRank = std::vector<std::vector<T>>;

// Whole numbers below 64 times a power of two: any order of additions is exact.
template <class T>
PerRank<T> whole_numbers(int ranks, size_t count) {
  PerRank<T> data(static_cast<size_t>(ranks));
  for (size_t rank = 0; rank < data.size(); ++rank) {
    for (size_t i = 0; i < count; ++i) {
      data[rank].push_back(std::ldexp(static_cast<T>((7 * i + 13 * rank) % 64), -3));
    }
  }
  return data;
}

template <class T>
std::vector<T> sum_in_rank_order(const PerRank<T>& data) {
  std::vector<T> sum = data[0];
  for (size_t rank = 1; rank < data.size(); ++rank) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += data[rank][i];
  }
  return sum;
}

template <class T>
void check_sums(int ranks, const std::vector<size_t>& counts, Waiting waiting) {
  LocalGroup group(ranks, waiting);
  for (const size_t count : counts) {
    PerRank<T> data = whole_numbers<T>(ranks, count);
    const std::vector<T> expected = sum_in_rank_order(data);
    expect_no_error(on_ranks(ranks, [&](int rank) {
      ops::SerialPool pool;
      std::vector<T>& own = data[static_cast<size_t>(rank)];
      start(group.rank(rank), own, pool);
      group.rank(rank).wait(own.data(), pool);
    }));
    for (const std::vector<T>& own : data) {
      EXPECT_TRUE(own == expected) << ranks << " ranks, " << count << " elements";
    }
  }
}

TEST(LocalGroup, sums_of_any_size_over_one_to_eight_ranks_are_exact) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const std::vector<size_t> counts = {0, 1, 3, 15, 16, 17, 127, 1000, 65537};
    check_sums<float>(ranks, counts, Waiting::kSleep);
    check_sums<double>(ranks, counts, Waiting::kSpin);
  }
  for (const int ranks : {2, 3, 8}) check_sums<float>(ranks, {1000003}, Waiting::kSleep);
}

TEST(LocalGroup, terms_are_added_in_rank_order_on_every_rank) {
  constexpr int kRanks = 5;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  PerRank<float> data(kRanks, std::vector<float>(1001));
  for (auto& own : data) {
    for (float& value : own)
      value = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 40));
  }
  const std::vector<float> expected = sum_in_rank_order(data);
  LocalGroup group(kRanks, Waiting::kSleep);
  expect_no_error(on_ranks(kRanks, [&](int rank) {
    WorkerPool pool(2);
    std::vector<float>& own = data[static_cast<size_t>(rank)];
    start(group.rank(rank), own, pool);
    group.rank(rank).wait(own.data(), pool);
  }));
  for (const auto& own : data) EXPECT_TRUE(own == expected);
}

TEST(LocalGroup, a_pool_with_several_threads_gives_the_bits_of_one_thread) {
  PerRank<float> data = whole_numbers<float>(2, 300001);
  const std::vector<float> expected = sum_in_rank_order(data);
  LocalGroup group(2, Waiting::kSleep);
  expect_no_error(on_ranks(2, [&](int rank) {
    WorkerPool pool(3);
    std::vector<float>& own = data[static_cast<size_t>(rank)];
    start(group.rank(rank), own, pool);
    group.rank(rank).wait(own.data(), pool);
  }));
  for (const auto& own : data) EXPECT_TRUE(own == expected);
}

TEST(LocalGroup, sums_in_flight_may_be_waited_for_in_any_order) {
  LocalGroup group(3, Waiting::kSleep);
  std::vector<PerRank<double>> sums;
  std::vector<std::vector<double>> expected;
  for (const size_t count : {5, 0, 1000, 64, 129}) {
    sums.push_back(whole_numbers<double>(3, count));
    expected.push_back(sum_in_rank_order(sums.back()));
  }
  expect_no_error(on_ranks(3, [&](int rank) {
    ops::SerialPool pool;
    const auto own = [&](int sum) -> std::vector<double>& {
      return sums[static_cast<size_t>(sum)][static_cast<size_t>(rank)];
    };
    for (int sum = 0; sum < 5; ++sum) start(group.rank(rank), own(sum), pool);
    for (int i = 0; i < 5; ++i) group.rank(rank).wait(own((i * 2 + rank) % 5).data(), pool);
  }));
  for (size_t sum = 0; sum < sums.size(); ++sum) {
    for (const auto& own : sums[sum]) EXPECT_TRUE(own == expected[sum]) << "sum " << sum;
  }
}

TEST(LocalGroup, more_sums_in_flight_than_the_group_keeps_places_for) {
  constexpr size_t kSums = 300;
  LocalGroup group(2, Waiting::kSleep);
  PerRank<double> data(2, std::vector<double>(kSums));
  for (size_t i = 0; i < kSums; ++i) data[0][i] = data[1][i] = static_cast<double>(i);
  expect_no_error(on_ranks(2, [&](int rank) {
    ops::SerialPool pool;
    auto& own = data[static_cast<size_t>(rank)];
    for (double& value : own) {
      group.rank(rank).start_sum(&value, 1, DType::kFloat64, DType::kFloat64, pool);
    }
    for (const double& value : own) group.rank(rank).wait(&value, pool);
  }));
  for (size_t i = 0; i < kSums; ++i) {
    EXPECT_EQ(data[0][i], 2.0 * static_cast<double>(i));
    EXPECT_EQ(data[1][i], 2.0 * static_cast<double>(i));
  }
}

// Every round each rank fills its memory anew, so a late write of another rank would be seen.
TEST(LocalGroup, thousands_of_rounds_out_of_step_stay_exact) {
  constexpr int kRanks = 3, kRounds = 3000;
  LocalGroup group(kRanks, Waiting::kSleep);
  std::atomic<int> wrong{0};
  expect_no_error(on_ranks(kRanks, [&](int rank) {
    std::mt19937 random(static_cast<unsigned>(rank));
    ops::SerialPool pool;
    Communicator& communicator = group.rank(rank);
    std::array<std::vector<float>, 2> data;
    for (int round = 0; round < kRounds; ++round) {
      for (size_t s = 0; s < data.size(); ++s) {
        data[s].assign(static_cast<size_t>(round % 97) + 40 * s, static_cast<float>(rank + round));
        start(communicator, data[s], pool);
        for (unsigned i = random() % 4; i > 0; --i) communicator.progress(pool);
        if (random() % 256 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      for (const auto& own : data) {
        communicator.wait(own.data(), pool);
        const auto expected = static_cast<float>(3 * round + 3);
        for (const float value : own) wrong += value == expected ? 0 : 1;
      }
    }
  }));
  EXPECT_EQ(wrong, 0);
}

TEST(LocalGroup, with_bfloat16_on_the_wire_terms_and_result_are_rounded) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  // 1 + 2^-8 and 1 + 3 * 2^-8 lie halfway between two values: to even.
  PerRank<float> data = {{1.00390625f, 1.01171875f, 0.1f, 3e38f, -0.0f, kInf, 1.0f, NAN, 256.0f},
                         {0.0f, 0.0f, 0.2f, 3e38f, -0.0f, 1.0f, 0.00390625f, 1.0f, 1.0f}};
  const auto rounded = [](float value) {
    return graph::bfloat16_to_float(graph::float_to_bfloat16(value));
  };
  std::vector<float> expected;
  for (size_t i = 0; i < data[0].size(); ++i) {
    expected.push_back(rounded(rounded(data[0][i]) + rounded(data[1][i])));
  }
  EXPECT_EQ(expected[0], 1.0f);
  EXPECT_EQ(expected[1], 1.015625f);
  EXPECT_EQ(expected[8], 256.0f);
  LocalGroup group(2, Waiting::kSleep);
  expect_no_error(on_ranks(2, [&](int rank) {
    ops::SerialPool pool;
    std::vector<float>& own = data[static_cast<size_t>(rank)];
    group.rank(rank).start_sum(own.data(), own.size(), DType::kFloat32, DType::kBFloat16, pool);
    group.rank(rank).wait(own.data(), pool);
  }));
  for (const auto& own : data) {
    for (size_t i = 0; i < own.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(own[i]));
      } else {
        EXPECT_EQ(own[i], expected[i]) << i;
        EXPECT_EQ(std::signbit(own[i]), std::signbit(expected[i])) << i;
      }
    }
  }
}

// What a step does with its communicator; `at` is called before each place where it could fail.
void three_sums(Communicator& communicator, PerRank<float>& data,
                const std::function<void(int)>& at) {
  ops::SerialPool pool;
  at(0);
  start(communicator, data[0], pool);
  at(1);
  communicator.progress(pool);
  at(2);
  start(communicator, data[1], pool);
  at(3);
  communicator.wait(data[0].data(), pool);
  at(4);
  start(communicator, data[2], pool);
  communicator.progress(pool);
  at(5);
  communicator.wait(data[1].data(), pool);
  at(6);
  communicator.wait(data[2].data(), pool);
}

TEST(LocalGroup, a_rank_that_fails_anywhere_stops_all_others_with_its_message) {
  constexpr int kRanks = 3;
  // From here on a rank may have added up all its slices: the others need nothing more of it.
  constexpr int kWorkIsDone = 5;
  for (const Waiting waiting : {Waiting::kSleep, Waiting::kSpin}) {
    LocalGroup group(kRanks, waiting);
    for (int place = 0; place < 7; ++place) {
      for (int bad = 0; bad < kRanks; ++bad) {
        std::vector<PerRank<float>> data(kRanks, PerRank<float>(3, std::vector<float>(50, 1.0f)));
        const auto body = [&](int rank, int failing) {
          try {
            three_sums(group.rank(rank), data[static_cast<size_t>(rank)], [&](int at) {
              if (rank == failing && at == place) throw Error("no more at {}", at);
            });
          } catch (...) {
            group.abort(rank, std::current_exception());
            throw;
          }
        };
        const Outcome outcome = on_ranks(kRanks, [&](int rank) { body(rank, bad); });
        for (int rank = 0; rank < kRanks; ++rank) {
          const std::string& error = outcome.errors[static_cast<size_t>(rank)];
          const std::string cause = fmt::format("no more at {}", place);
          if (rank == bad) {
            EXPECT_EQ(error, cause);
          } else if (!error.empty() || place < kWorkIsDone) {
            EXPECT_EQ(error, fmt::format("rank {} stopped: {}", bad, cause));
          }
        }
        EXPECT_EQ(group.failed_rank(), bad);
        ASSERT_NE(group.failure(), nullptr);
        EXPECT_THROW(std::rethrow_exception(group.failure()), Error);
        group.reset();
        data.assign(kRanks, PerRank<float>(3, std::vector<float>(50, 1.0f)));
        expect_no_error(on_ranks(kRanks, [&](int rank) { body(rank, -1); }));
        EXPECT_EQ(data[0][2][49], 3.0f);
        EXPECT_EQ(group.failed_rank(), -1);
        group.reset();
      }
    }
  }
}

struct Described {
  size_t count;
  DType dtype, wire;
};

TEST(LocalGroup, ranks_that_disagree_about_a_sum_all_say_so) {
  const Described agreed{4, DType::kFloat32, DType::kFloat32};
  for (const Described& other : {Described{5, DType::kFloat32, DType::kFloat32},
                                 Described{4, DType::kFloat64, DType::kFloat64},
                                 Described{4, DType::kFloat32, DType::kBFloat16}}) {
    LocalGroup group(3, Waiting::kSleep);
    std::vector<std::vector<double>> memory(3, std::vector<double>(8));
    const Outcome outcome = on_ranks(3, [&](int rank) {
      const Described& sum = rank == 1 ? other : agreed;
      ops::SerialPool pool;
      double* data = memory[static_cast<size_t>(rank)].data();
      group.rank(rank).start_sum(data, sum.count, sum.dtype, sum.wire, pool);
      group.rank(rank).wait(data, pool);
    });
    for (const std::string& error : outcome.internal_errors) {
      EXPECT_NE(error.find("sum 1 has"), std::string::npos) << error;
    }
  }
}

TEST(LocalGroup, nobody_waits_for_a_rank_that_left) {
  LocalGroup group(2, Waiting::kSleep);
  PerRank<float> data(2, std::vector<float>(4, 1.0f));
  const Outcome outcome = on_ranks(2, [&](int rank) {
    ops::SerialPool pool;
    std::vector<float>& own = data[static_cast<size_t>(rank)];
    start(group.rank(rank), own, pool);
    group.rank(rank).wait(own.data(), pool);
    if (rank == 1) return group.leave(1);
    start(group.rank(0), own, pool);
    group.rank(0).wait(own.data(), pool);
  });
  EXPECT_EQ(outcome.internal_errors[1], "");
  EXPECT_NE(outcome.internal_errors[0].find("rank 0 waits for sum 2, rank 1 took part in 1 only"),
            std::string::npos)
      << outcome.internal_errors[0];
}

TEST(LocalGroup, leaving_with_a_sum_in_flight_is_refused) {
  LocalGroup group(2, Waiting::kSleep);
  ops::SerialPool pool;
  std::vector<float> data(3);
  start(group.rank(0), data, pool);
  EXPECT_THROW(group.leave(0), InternalError);
}

TEST(LocalGroup, a_sum_that_was_not_started_or_of_other_types_is_refused) {
  LocalGroup group(1, Waiting::kSleep);
  ops::SerialPool pool;
  int64_t data[2] = {1, 2};
  EXPECT_THROW(group.rank(0).wait(data, pool), InternalError);
  EXPECT_THROW(group.rank(0).start_sum(data, 2, DType::kInt64, DType::kInt64, pool), InternalError);
  EXPECT_THROW(group.rank(0).start_sum(data, 2, DType::kFloat64, DType::kBFloat16, pool),
               InternalError);
}

}  // namespace
}  // namespace sardonyx::runtime
