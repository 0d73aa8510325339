#include "passes/arena.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace sardonyx::passes {

size_t assign_offsets(std::vector<Buffer>& buffers, size_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (buffers[a].bytes != buffers[b].bytes) return buffers[a].bytes > buffers[b].bytes;
    return buffers[a].last - buffers[a].first > buffers[b].last - buffers[b].first;
  });
  // What is asked of all of them for each one: small, and side by side.
  struct Placed {
    int first, last;
    size_t offset, end;
  };
  size_t total = 0;
  std::vector<Placed> placed;  // sorted by offset
  for (const size_t index : order) {
    Buffer& buffer = buffers[index];
    const size_t bytes = align_up(buffer.bytes, alignment);
    // The smallest gap that fits, between placed buffers alive at the same time; else behind them.
    size_t best = SIZE_MAX, best_gap = SIZE_MAX, end = 0;
    for (const Placed& o : placed) {
      if (o.last < buffer.first || o.first > buffer.last) continue;
      if (o.offset > end && o.offset - end >= bytes && o.offset - end < best_gap) {
        best = end;
        best_gap = o.offset - end;
        if (best_gap == bytes) break;  // none is smaller
      }
      end = std::max(end, o.end);
    }
    buffer.offset = best != SIZE_MAX ? best : end;
    total = std::max(total, buffer.offset + bytes);
    const auto at = std::ranges::upper_bound(placed, buffer.offset, {}, &Placed::offset);
    placed.insert(at, {buffer.first, buffer.last, buffer.offset, buffer.offset + bytes});
  }
  return total;
}

LivenessBound liveness_bound(const std::vector<Buffer>& buffers) {
  std::map<int, std::ptrdiff_t> change;
  for (const Buffer& buffer : buffers) {
    const auto bytes = static_cast<std::ptrdiff_t>(align_up(buffer.bytes));
    change[buffer.first] += bytes;
    change[buffer.last + 1] -= bytes;
  }
  LivenessBound bound;
  std::ptrdiff_t alive = 0;
  for (const auto& [time, delta] : change) {
    alive += delta;
    if (static_cast<size_t>(std::max<std::ptrdiff_t>(alive, 0)) > bound.bytes) {
      bound = {static_cast<size_t>(alive), time};
    }
  }
  return bound;
}

}  // namespace sardonyx::passes
