// Products by own register blocks, at every instruction set of this processor: against the plain
// loops, for sizes around the edges of tiles, panels and pieces, and bit by bit over thread counts.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/matrix_product.h"

namespace sardonyx::ops::matrix {
namespace {

std::vector<Multiply<float>> tiled_products() {
  std::vector<Multiply<float>> all;
  for (const auto isa : {lanes::Isa::kBaseline, lanes::Isa::kAvx2, lanes::Isa::kAvx512}) {
    if (lanes::supported(isa)) all.push_back(tiled_product(isa));
  }
  return all;
}

// Tasks in threads of their own.
class Threads final : public ThreadPool {
 public:
  explicit Threads(int count) : count_(count) {}
  int size() const override { return count_; }
  void run(int count, FunctionRef<void(int)> task) override {
    std::vector<std::thread> threads;
    for (int i = 1; i < count; ++i) threads.emplace_back([&task, i] { task(i); });
    task(0);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int count_;
};

// Eighths: sums of products of these are exact in float.
float eighths(int64_t i) { return static_cast<float>((i * 37 + 11) % 17 - 8) / 8; }
float sines(int64_t i) { return std::sin(static_cast<float>(i)); }

struct Stored {
  std::vector<float> numbers;
  int64_t stride = 0;

  // Rows lie `gap` elements apart; nothing lies behind the last one.
  Stored(int64_t rows, int64_t columns, int64_t gap, float (*number)(int64_t))
      : numbers(rows * (columns + gap) - gap), stride(columns + gap) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = number(static_cast<int64_t>(i));
  }
  Rows<const float> rows() const { return {numbers.data(), stride}; }
};

std::vector<float> product(Multiply<float> function, const Product& p, int64_t gap, Write write,
                           float (*number)(int64_t), ThreadPool& pool) {
  const bool trans_a = p.trans_a == Trans::kYes, trans_b = p.trans_b == Trans::kYes;
  const Stored a(trans_a ? p.k : p.m, trans_a ? p.m : p.k, gap, number);
  const Stored b(trans_b ? p.n : p.k, trans_b ? p.k : p.n, gap, number);
  Stored c(p.m, p.n, gap, number);
  function(p, a.rows(), b.rows(), write, {c.numbers.data(), c.stride}, pool);
  return c.numbers;
}

std::string describe(const Product& p) {
  return std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) +
         (p.trans_a == Trans::kYes ? " at" : " a") + (p.trans_b == Trans::kYes ? " bt" : " b");
}

void expect_plain(Product p, int64_t gap) {
  SerialPool serial;
  Threads three(3);
  for (const Trans trans_a : {Trans::kNo, Trans::kYes}) {
    for (const Trans trans_b : {Trans::kNo, Trans::kYes}) {
      p.trans_a = trans_a;
      p.trans_b = trans_b;
      for (const Write write : {Write::kOverwrite, Write::kAdd}) {
        const auto expected = product(plain_product<float>(), p, gap, write, eighths, serial);
        for (const auto function : tiled_products()) {
          EXPECT_EQ(product(function, p, gap, write, eighths, serial), expected) << describe(p);
          EXPECT_EQ(product(function, p, gap, write, eighths, three), expected) << describe(p);
        }
      }
    }
  }
}

TEST(TiledProduct, equals_plain_loops_at_all_edges_of_a_register_block) {
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 13}) {
    for (const int64_t n : {1, 3, 4, 8, 15, 16, 17, 31, 32, 47, 48, 63, 64, 65, 130}) {
      expect_plain({.m = m, .n = n, .k = 5}, 0);
    }
  }
}

TEST(TiledProduct, equals_plain_loops_with_gaps_between_rows) {
  expect_plain({.m = 20, .n = 33, .k = 17}, 3);
  expect_plain({.m = 20, .n = 32, .k = 1}, 5);
}

TEST(TiledProduct, equals_plain_loops_over_several_pieces) {
  expect_plain({.m = 60, .n = 80, .k = 600}, 0);
  expect_plain({.m = 9, .n = 800, .k = 40}, 0);
  expect_plain({.m = 300, .n = 20, .k = 260}, 0);
}

TEST(TiledProduct, scales_the_product_alone) {
  expect_plain({.m = 7, .n = 20, .k = 300, .alpha = 0.25}, 0);
}

TEST(TiledProduct, has_the_same_bits_on_every_number_of_threads) {
  SerialPool serial;
  for (const Product& p :
       {Product{.m = 130, .n = 70, .k = 300}, Product{.m = 5, .n = 500, .k = 300},
        Product{.m = 300, .n = 900, .k = 33, .trans_a = Trans::kYes, .trans_b = Trans::kYes}}) {
    for (const auto function : tiled_products()) {
      const auto alone = product(function, p, 0, Write::kOverwrite, sines, serial);
      for (const int threads : {2, 3, 7}) {
        Threads pool(threads);
        EXPECT_EQ(product(function, p, 0, Write::kOverwrite, sines, pool), alone) << describe(p);
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx::ops::matrix
