#include "tools/largest_batch.h"

#include <algorithm>
#include <utility>

namespace sardonyx::tools {

namespace {

struct Point {
  int64_t rows = 0, bytes = 0;
};

// Rows for which a straight line through both points, or through the last one and the fixed bytes,
// reaches the budget.
int64_t reach(const Point& from, const Point& to, int64_t budget) {
  const double slope =
      static_cast<double>(to.bytes - from.bytes) / static_cast<double>(to.rows - from.rows);
  if (slope <= 0) return kMostRows;
  const double rows = static_cast<double>(to.rows) + static_cast<double>(budget - to.bytes) / slope;
  return static_cast<int64_t>(std::clamp(rows, 1.0, static_cast<double>(kMostRows)));
}

}  // namespace

std::optional<LargestBatch> largest_batch(int64_t budget, int64_t fixed_bytes, int64_t rows,
                                          int64_t bytes, const BytesOf& bytes_of) {
  Point before{0, fixed_bytes}, last{rows, bytes};
  Point fits, over{kMostRows + 1, 0};  // no rows fit, as far as is known, and so many surely don't
  bool tried_one = false;
  const auto note = [&](const Point& point) {
    tried_one |= point.rows == 1;
    if (point.bytes <= budget) {
      if (point.rows > fits.rows) fits = point;
    } else if (point.rows < over.rows) {
      over = point;
    }
  };
  note(last);
  for (int plan = 0; plan < kMostPlans && over.rows - fits.rows > 1; ++plan) {
    int64_t next = reach(before, last, budget);
    // The last word has a size that fits, a little below the line.
    if (plan + 1 == kMostPlans && fits.rows == 0) next = next * 3 / 4;
    next = std::clamp(next, fits.rows + 1, over.rows - 1);
    const std::optional<int64_t> found = bytes_of(next);
    if (!found) {
      over = {next, INT64_MAX};
      tried_one |= next == 1;
      continue;
    }
    if (next != last.rows) before = std::exchange(last, {next, *found});
    note({next, *found});
  }
  if (fits.rows == 0 && !tried_one) return std::nullopt;
  return LargestBatch{fits.rows, fits.bytes, fits.rows >= kMostRows};
}

}  // namespace sardonyx::tools
