#include "passes/drop_chain.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sardonyx::passes {

namespace {

// A rung saves at least this part of what the first one needs; the last may save less.
constexpr int64_t kRungs = 64;
// Of Runs::kShort and kLong; both also bound what one drop changes.
constexpr size_t kLeastShort = 16, kLeastLong = 64;
// So often a candidate is tried that makes it worse.
constexpr int kTries = 3;

}  // namespace

DropChain::DropChain(graph::Graph& graph, const RecomputeOptions& options, Runs runs)
    : kept_(kept_values(graph, options)),
      curve_(kept_.alive),
      choices_(kept_.candidates.size()),
      by_worth_(kept_.candidates.size()),
      rank_(kept_.candidates.size()),
      saving_(kept_.candidates.size()),
      neutral_(kept_.candidates.size()) {
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].again = kept_.candidates[i].first_backward;
  }
  for (const KeptResult& result : kept_.results) last_.push_back(result.last_use);
  const auto worth = [&](int i) {
    const DropCandidate& candidate = kept_.candidates[i];
    return static_cast<double>(kept_.results[candidate.result].bytes) / candidate.work;
  };
  std::iota(by_worth_.begin(), by_worth_.end(), 0);
  std::ranges::stable_sort(by_worth_, [&](int a, int b) { return worth(a) > worth(b); });
  for (size_t i = 0; i < by_worth_.size(); ++i) rank_[by_worth_[i]] = i;
  kept_bytes_ = curve_.peak().bytes;
  drop_cheap(options.cost * kept_.operations);
  add_rung();
  if (options.rung >= 0) drop_all(runs);
}

DropChain DropChain::lowest(graph::Graph& graph, const RecomputeOptions& options) {
  DropChain runs_short(graph, options, Runs::kShort);
  if (options.rung < 0) return runs_short;
  DropChain runs_long(graph, options, Runs::kLong);
  const bool is_lower = runs_long.rungs_.back().bytes < runs_short.rungs_.back().bytes;
  return is_lower ? std::move(runs_long) : std::move(runs_short);
}

// --- which

void DropChain::drop_cheap(double most_work) {
  refresh_all(Phase::kCheap);
  double left = most_work;
  for (int i = 0; (i = best_at(curve_.peak().time)) >= 0;) {
    if (kept_.candidates[i].work > left) {
      choices_[i].aside = true;
      refresh(i);
      continue;
    }
    left -= kept_.candidates[i].work;
    drop(i);
    refresh_behind_drop(i);
  }
}

void DropChain::drop_all(Runs runs) {
  refresh_all(Phase::kAll);
  const auto count = static_cast<double>(choices_.size());
  most_moves_ = std::max(runs == Runs::kShort ? kLeastShort : kLeastLong,
                         static_cast<size_t>(std::sqrt(count)));
  std::vector<int> tries(choices_.size()), aside;
  ByteCurve::Peak peak = curve_.peak();
  for (int i = 0; (i = best_at(peak.time)) >= 0;) {
    drop(i);
    const ByteCurve::Peak now = curve_.peak();
    if (journal_.moves > most_moves_ || now.bytes > peak.bytes) {
      take_back(i);
      choices_[i].aside = true;
      refresh(i);
      if (++tries[i] < kTries) aside.push_back(i);
      continue;
    }
    refresh_behind_drop(i);
    peak = now;
    if (peak.bytes >= rungs_.back().bytes) continue;
    add_rung();
    for (const int other : std::exchange(aside, {})) {
      choices_[other].aside = false;
      refresh(other);
    }
  }
}

int DropChain::best_at(int time) const {
  for (const SpanIndex* index : {&saving_, &neutral_}) {
    if (const auto item = index->first(time)) return by_worth_[*item];
  }
  return -1;
}

void DropChain::add_rung() {
  const Rung rung{order_.size(), curve_.peak().bytes, work_};
  const bool is_near = rungs_.size() > 1 &&
                       rungs_[rungs_.size() - 2].bytes - rung.bytes < rungs_.front().bytes / kRungs;
  if (is_near) rungs_.pop_back();
  rungs_.push_back(rung);
}

// --- when a candidate may go

// All operands are there when it is computed again, or small.
bool DropChain::operands_live_on(int candidate) const {
  const int again = choices_[candidate].again;
  const int64_t bytes = kept_.results[kept_.candidates[candidate].result].bytes;
  return std::ranges::all_of(kept_.candidates[candidate].operands, [&](int operand) {
    const KeptResult& result = kept_.results[operand];
    if (16 * result.bytes <= bytes) return true;
    const bool is_dropped = result.candidate >= 0 && choices_[result.candidate].dropped;
    return last_[operand] >= again && !(is_dropped && choices_[result.candidate].again > again);
  });
}

// The times at which dropping it saves at least `least` bytes. From the last use of an operand on,
// that one lives instead.
Span DropChain::gaining(int candidate, int64_t least) const {
  const DropCandidate& what = kept_.candidates[candidate];
  const int again = choices_[candidate].again;
  std::vector<int> operands = what.operands;
  std::ranges::sort(operands, {}, [&](int operand) { return last_[operand]; });
  int64_t saved = kept_.results[what.result].bytes;
  for (const int operand : operands) {
    if (last_[operand] >= again) break;
    saved -= kept_.results[operand].bytes;
    if (saved < least) return {what.last_forward, last_[operand]};
  }
  return {what.last_forward, again - 1};
}

void DropChain::refresh(int candidate) {
  const DropCandidate& what = kept_.candidates[candidate];
  const Choice& choice = choices_[candidate];
  const bool is_open = !choice.dropped && !choice.aside && choice.again != kNever &&
                       choice.again <= what.overwritten;
  Span saving, neutral;
  if (is_open && phase_ == Phase::kAll) {
    saving = gaining(candidate, 1);
    neutral = gaining(candidate, 0);
  } else if (is_open && what.cheap && operands_live_on(candidate)) {
    saving = {what.last_forward, choice.again - 1};
  }
  saving_.set(rank_[candidate], saving);
  neutral_.set(rank_[candidate], neutral);
}

void DropChain::refresh_all(Phase phase) {
  phase_ = phase;
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].aside = false;
    refresh(static_cast<int>(i));
  }
}

void DropChain::refresh_behind_drop(int candidate) {
  refresh(candidate);
  for (const int changed : journal_.results) {
    const KeptResult& result = kept_.results[changed];
    if (result.candidate >= 0) refresh(result.candidate);
    for (const int reader : result.readers) refresh(reader);
  }
}

// --- what a drop changes

void DropChain::drop(int candidate) {
  const DropCandidate& what = kept_.candidates[candidate];
  journal_ = {};
  journal_.results.push_back(what.result);
  choices_[candidate].dropped = true;
  order_.push_back(candidate);
  work_ += what.work;
  add(what.last_forward + 1, choices_[candidate].again - 1, -kept_.results[what.result].bytes);
  std::vector<Moved> moved = {{candidate, -1}};
  while (!moved.empty() && journal_.moves <= most_moves_) {
    const Moved reader = moved.back();
    moved.pop_back();
    for (const int operand : kept_.candidates[reader.candidate].operands) {
      move_reader(operand, reader.from, choices_[reader.candidate].again, moved);
    }
  }
}

// A copy that reads the result is made at `to` now. What was dropped itself comes back before that.
void DropChain::move_reader(int result, int from, int to, std::vector<Moved>& moved) {
  const KeptResult& read = kept_.results[result];
  if (read.candidate >= 0 && to < choices_[read.candidate].again) {
    Choice& source = choices_[read.candidate];
    if (source.dropped) {
      add(to, source.again - 1, read.bytes);
      moved.push_back({read.candidate, source.again});
      ++journal_.moves;
    }
    set(source.again, to);
    journal_.results.push_back(result);
  }
  int last = std::max(last_[result], to);
  if (from == last_[result] && to < from) last = last_with_copies(result);
  if (last == last_[result]) return;
  add(last_[result] + 1, last, read.bytes);
  add(last + 1, last_[result], -read.bytes);
  set(last_[result], last);
  journal_.results.push_back(result);
}

int DropChain::last_with_copies(int result) const {
  int last = kept_.results[result].last_use;
  for (const int reader : kept_.results[result].readers) {
    if (choices_[reader].dropped) last = std::max(last, choices_[reader].again);
  }
  return last;
}

void DropChain::set(int& place, int value) {
  journal_.numbers.push_back({&place, place});
  place = value;
}

void DropChain::add(int first, int last, int64_t bytes) {
  if (first > last) return;
  journal_.curve.push_back({first, last, bytes});
  curve_.add(first, last, bytes);
}

void DropChain::take_back(int candidate) {
  for (size_t i = journal_.numbers.size(); i-- > 0;) {
    *journal_.numbers[i].place = journal_.numbers[i].before;
  }
  for (const auto& piece : journal_.curve) curve_.add(piece.first, piece.last, -piece.bytes);
  choices_[candidate].dropped = false;
  order_.pop_back();
  work_ -= kept_.candidates[candidate].work;
}

// --- for the graph

bool DropChain::is_backward(const graph::Node* node) const {
  const auto it = kept_.position.find(node);
  return it != kept_.position.end() && it->second >= kept_.backward;
}

std::vector<DropChain::Drop> DropChain::drops(const Rung& rung) const {
  std::vector<int> again(choices_.size(), kNever);
  std::vector<uint8_t> is_dropped(choices_.size(), 0);
  for (size_t i = 0; i < rung.drops; ++i) is_dropped[order_[i]] = 1;
  // Readers stand behind what they read.
  for (size_t i = choices_.size(); i-- > 0;) {
    again[i] = kept_.candidates[i].first_backward;
    for (const int reader : kept_.results[kept_.candidates[i].result].readers) {
      if (is_dropped[reader] != 0) again[i] = std::min(again[i], again[reader]);
    }
  }
  std::vector<Drop> drops;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (is_dropped[i] == 0) continue;
    drops.push_back({kept_.candidates[i].value, kept_.nodes[again[i]]});
  }
  return drops;
}

}  // namespace sardonyx::passes
