#include "ops/core/sizes.h"

#include "graph/support/error.h"
#include "graph/type.h"

namespace sardonyx::ops {

namespace {

int64_t in_range(__int128 result, int64_t a, char sign, int64_t b) {
  if (result > graph::kMaxElements || result < -graph::kMaxElements) {
    throw Error("{} {} {} is beyond the largest size, 2^62", a, sign, b);
  }
  return static_cast<int64_t>(result);
}

}  // namespace

int64_t checked_sum(int64_t a, int64_t b) { return in_range(__int128{a} + b, a, '+', b); }

int64_t checked_product(int64_t a, int64_t b) { return in_range(__int128{a} * b, a, '*', b); }

}  // namespace sardonyx::ops
