#include "passes/timeline.h"

#include <algorithm>
#include <limits>

namespace sardonyx::passes {

namespace {

constexpr int64_t kNothing = std::numeric_limits<int64_t>::min() / 2;  // behind the end

}  // namespace

ByteCurve::ByteCurve(const std::vector<int64_t>& bytes) {
  while (size_ < static_cast<int>(bytes.size())) size_ *= 2;
  const auto leaves = static_cast<size_t>(size_);
  most_.assign(2 * leaves, kNothing);
  added_.assign(2 * leaves, 0);
  time_.assign(2 * leaves, 0);
  for (size_t i = 0; i < leaves; ++i) time_[leaves + i] = static_cast<int>(i);
  std::copy(bytes.begin(), bytes.end(), most_.begin() + size_);
  for (size_t node = leaves; --node > 0;) gather(node);
}

void ByteCurve::gather(size_t node) {
  const size_t left = 2 * node, right = left + 1;
  const size_t higher = most_[right] > most_[left] ? right : left;
  most_[node] = most_[higher] + added_[node];
  time_[node] = time_[higher];
}

void ByteCurve::add(int first, int last, int64_t bytes) { add(1, 0, size_, first, last, bytes); }

void ByteCurve::add(size_t node, int begin, int end, int first, int last, int64_t bytes) {
  if (first > last || last < begin || first >= end) return;
  if (first <= begin && end <= last + 1) {
    most_[node] += bytes;
    added_[node] += bytes;
    return;
  }
  const int middle = (begin + end) / 2;
  add(2 * node, begin, middle, first, last, bytes);
  add(2 * node + 1, middle, end, first, last, bytes);
  gather(node);
}

SpanIndex::SpanIndex(size_t count) {
  while (size_ < count) size_ *= 2;
  spans_.assign(2 * size_, {std::numeric_limits<int>::max(), -1});
}

void SpanIndex::set(size_t item, Span span) {
  if (span.until <= span.after) span = {std::numeric_limits<int>::max(), -1};
  size_t node = size_ + item;
  spans_[node] = span;
  while ((node /= 2) > 0) {
    const Span &left = spans_[2 * node], &right = spans_[2 * node + 1];
    spans_[node] = {std::min(left.after, right.after), std::max(left.until, right.until)};
  }
}

std::optional<size_t> SpanIndex::first(int time) const {
  std::vector<size_t> open = {1};
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (time <= spans_[node].after || time > spans_[node].until) continue;
    if (node >= size_) return node - size_;
    open.push_back(2 * node + 1);
    open.push_back(2 * node);
  }
  return std::nullopt;
}

}  // namespace sardonyx::passes
