// Two indexes over the positions of a node list, for passes that weigh lifetimes against each
// other. Both change and answer in logarithmic time, so that such a pass stays near-linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sardonyx::passes {

// Bytes alive at each position.
class ByteCurve {
 public:
  struct Peak {
    int64_t bytes = 0;
    int time = 0;  // the first one
  };

  explicit ByteCurve(const std::vector<int64_t>& bytes);
  // On [first, last]; nothing when first > last.
  void add(int first, int last, int64_t bytes);
  Peak peak() const { return {most_[1], time_[1]}; }

 private:
  void add(size_t node, int begin, int end, int first, int last, int64_t bytes);
  void gather(size_t node);

  int size_ = 1;                // leaves
  std::vector<int64_t> most_;   // of what is below, with everything that was added here and below
  std::vector<int64_t> added_;  // to all that is below
  std::vector<int> time_;
};

// The times at which an item counts: after < time <= until.
struct Span {
  int after = 0, until = -1;
};

// Items 0, 1, ... in the order of preference.
class SpanIndex {
 public:
  explicit SpanIndex(size_t count);  // none counts at any time
  void set(size_t item, Span span);
  // The first item that counts at this time.
  std::optional<size_t> first(int time) const;

 private:
  size_t size_ = 1;          // leaves
  std::vector<Span> spans_;  // of a pair: the earliest `after` and the latest `until`
};

}  // namespace sardonyx::passes
