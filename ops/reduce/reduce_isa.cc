// Sums in vectors, compiled once per instruction set; reduce_cpu.cc picks a copy. Runs of a few
// thousand elements are added in T, the runs in double: as exact as the plain loop in double for
// all purposes, at full vector width.
#include "ops/reduce/reduce.h"

namespace sardonyx::ops::reduce::SARDONYX_ISA {

namespace {

constexpr int64_t kRun = 4096;    // elements of a row between two additions in double
constexpr int64_t kRows = 64;     // the same for rows of columns
constexpr int kPartials = kTile;  // independent sums of a row: the compiler's vectors

template <class T>
double row_sum(const T* x, int64_t n) {
  double total = 0;
  while (n >= kPartials) {
    const int64_t run = (n < kRun ? n : kRun) / kPartials * kPartials;
    T part[kPartials] = {};
    for (int64_t i = 0; i < run; i += kPartials) {
      for (int j = 0; j < kPartials; ++j) part[j] += x[i + j];
    }
    for (int j = 0; j < kPartials; ++j) total += static_cast<double>(part[j]);
    x += run;
    n -= run;
  }
  for (int64_t i = 0; i < n; ++i) total += static_cast<double>(x[i]);
  return total;
}

template <class T, int kCols>
void fixed_columns(const T* x, int64_t rows, int64_t stride, double* total) {
  while (rows > 0) {
    const int64_t run = rows < kRows ? rows : kRows;
    T part[kCols] = {};
    for (int64_t r = 0; r < run; ++r) {
      for (int j = 0; j < kCols; ++j) part[j] += x[r * stride + j];
    }
    for (int j = 0; j < kCols; ++j) total[j] += static_cast<double>(part[j]);
    x += run * stride;
    rows -= run;
  }
}

template <class T>
void column_sums(const T* x, int64_t rows, int64_t stride, int64_t cols, double* total) {
  if (cols == kTile) return fixed_columns<T, kTile>(x, rows, stride, total);
  int64_t done = 0;
  for (; done + 16 <= cols; done += 16) {
    fixed_columns<T, 16>(x + done, rows, stride, total + done);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = done; j < cols; ++j) total[j] += static_cast<double>(x[r * stride + j]);
  }
}

template <class T>
void valid_column_sums(const T* x, int64_t rows, int64_t stride, int64_t cols, int64_t valid,
                       double* total) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < cols; j += 16) {
      for (int64_t lane = 0; lane < valid; ++lane) {
        total[j + lane] += static_cast<double>(x[r * stride + j + lane]);
      }
    }
  }
}

template <class T>
constexpr Loops<T> kLoops = {row_sum<T>, column_sums<T>, valid_column_sums<T>};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::reduce::SARDONYX_ISA
