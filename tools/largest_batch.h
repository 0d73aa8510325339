// The largest batch that fits into some memory: found with a few plans, since most need memory that
// grows evenly with the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace sardonyx::tools {

// More rows at once than anybody trains with.
inline constexpr int64_t kMostRows = 65536;
inline constexpr int kMostPlans = 4;

struct LargestBatch {
  int64_t rows = 0;   // the most of those planned that fit; 0: not even one
  int64_t bytes = 0;  // that these take
  bool more = false;  // kMostRows fit
};

// Bytes that `rows` rows take, of which `fixed_bytes` don't depend on them; nothing: there is no
// such plan.
using BytesOf = std::function<std::optional<int64_t>(int64_t rows)>;

// `rows` rows are known to take `bytes`. Asks for at most kMostPlans others, and only claims what
// it asked for. Nothing: no size fits of those that were tried, and one row wasn't among them.
std::optional<LargestBatch> largest_batch(int64_t budget, int64_t fixed_bytes, int64_t rows,
                                          int64_t bytes, const BytesOf& bytes_of);

}  // namespace sardonyx::tools
