#include "passes/arena.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace sardonyx::passes {
namespace {

template <class Before>
std::vector<size_t> sorted(const std::vector<Buffer>& buffers, Before before) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return before(buffers[a], buffers[b]); });
  return order;
}

// The arena at one moment: what is free below its end, by place and by size.
class FreeList {
 public:
  // The smallest gap that fits; else the end, with the gap in front of it if there is one.
  size_t take(size_t bytes) {
    const auto fits = by_size_.lower_bound({bytes, 0});
    if (fits != by_size_.end()) {
      const auto [size, offset] = *fits;
      erase(by_offset_.find(offset));
      if (size > bytes) insert(offset + bytes, size - bytes);
      return offset;
    }
    size_t offset = end_;
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void give_back(size_t offset, size_t bytes) {
    const auto behind = by_offset_.lower_bound(offset);
    if (behind != by_offset_.begin()) {
      const auto before = std::prev(behind);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    if (behind != by_offset_.end() && behind->first == offset + bytes) {
      bytes += behind->second;
      erase(behind);
    }
    insert(offset, bytes);
  }

  size_t end() const { return end_; }

 private:
  using Gaps = std::map<size_t, size_t>;

  void insert(size_t offset, size_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void erase(Gaps::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    by_offset_.erase(gap);
  }

  Gaps by_offset_;
  std::set<std::pair<size_t, size_t>> by_size_;
  size_t end_ = 0;
};

// In order of time, as an allocator would see them: n log n.
size_t assign_in_time(std::vector<Buffer>& buffers, size_t alignment) {
  const auto order = sorted(buffers, [](const Buffer& a, const Buffer& b) {
    return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
  });
  const auto ends_later = [&](size_t a, size_t b) { return buffers[a].last > buffers[b].last; };
  std::priority_queue<size_t, std::vector<size_t>, decltype(ends_later)> alive(ends_later);
  FreeList free;
  for (const size_t index : order) {
    Buffer& buffer = buffers[index];
    for (; !alive.empty() && buffers[alive.top()].last < buffer.first; alive.pop()) {
      const Buffer& over = buffers[alive.top()];
      free.give_back(over.offset, align_up(over.bytes, alignment));
    }
    buffer.offset = 0;
    if (buffer.bytes == 0) continue;
    buffer.offset = free.take(align_up(buffer.bytes, alignment));
    alive.push(index);
  }
  return free.end();
}

}  // namespace

size_t assign_offsets(std::vector<Buffer>& buffers, size_t alignment) {
  if (buffers.size() > kManyBuffers) return assign_in_time(buffers, alignment);
  const auto order = sorted(buffers, [](const Buffer& a, const Buffer& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.last - a.first > b.last - b.first;
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
