// What recompute would rather compute again than keep: a sequence of values to drop, which depends
// on the graph alone and on no limit. So whoever has a limit takes the first piece of the sequence
// with which a plan keeps it, and a larger limit is never refused where a smaller one was kept.
//
// A greedy chain: at the worst moment, what saves most for its work. Some of it pays only together
// with what follows, so a rung (a piece that counts) is only what needs less than all before it.
#pragma once

#include <utility>
#include <vector>

#include "passes/kept_values.h"
#include "passes/timeline.h"

namespace sardonyx::passes {

class DropChain {
 public:
  struct Rung {
    size_t drops = 0;   // of the sequence
    int64_t bytes = 0;  // alive at the worst moment, by estimate
    double work = 0;    // that the drops cost, in operations
  };
  struct Drop {
    graph::Value* value = nullptr;
    graph::Node* before = nullptr;  // it is computed again there
  };

  // Of values that are computed again together, since each is made of the one before. kShort: at
  // most the square root of all, which keeps least of a long chain: as many ends of runs as there
  // are values inside the one run that is back. kLong: at least 64, so any in a usual network.
  enum class Runs : uint8_t { kShort, kLong };

  DropChain(graph::Graph& graph, const RecomputeOptions& options, Runs runs);
  // With the runs that get lower.
  static DropChain lowest(graph::Graph& graph, const RecomputeOptions& options);

  // The first: what is cheap; all others only if options.rung asks for one.
  const std::vector<Rung>& rungs() const { return rungs_; }
  int64_t kept_bytes() const { return kept_bytes_; }  // with nothing dropped
  double step_work() const { return kept_.work; }
  bool is_backward(const graph::Node* node) const;
  // In the order of the forward pass.
  std::vector<Drop> drops(const Rung& rung) const;

 private:
  // What changes of a candidate and of a result.
  struct Choice {
    int again = kNever;  // when it would be computed again
    bool dropped = false, aside = false;
  };
  enum class Phase : uint8_t { kCheap, kAll };
  // Of one drop, so that it can be taken back.
  struct Journal {
    struct Number {
      int* place;
      int before;
    };
    struct Piece {
      int first, last;
      int64_t bytes;
    };
    std::vector<Number> numbers;
    std::vector<Piece> curve;
    std::vector<int> results;  // that live otherwise now
    size_t moves = 0;          // of values that were dropped before
  };
  struct Moved {
    int candidate, from;  // -1: it was not computed again
  };

  void drop_cheap(double most_work);
  void drop_all(Runs runs);
  int best_at(int time) const;  // -1: none

  bool operands_live_on(int candidate) const;
  Span gaining(int candidate, int64_t least) const;
  void refresh(int candidate);
  void refresh_all(Phase phase);
  void refresh_behind_drop(int candidate);

  void drop(int candidate);
  void take_back(int candidate);
  int last_with_copies(int result) const;
  void move_reader(int result, int from, int to, std::vector<Moved>& moved);
  void set(int& place, int value);
  void add(int first, int last, int64_t bytes);
  void add_rung();

  KeptValues kept_;
  ByteCurve curve_;
  std::vector<Choice> choices_;
  std::vector<int> last_;      // use of each result, by copies too
  std::vector<int> by_worth_;  // candidates, by bytes per operation, the most first
  std::vector<size_t> rank_;   // of each candidate in it
  // Those that save bytes at a time, and those that cost none there: what they read then lives
  // instead, and may go next.
  SpanIndex saving_, neutral_;
  Phase phase_ = Phase::kCheap;
  Journal journal_;
  size_t most_moves_ = std::numeric_limits<size_t>::max();
  std::vector<int> order_;  // of the drops
  double work_ = 0;         // of them
  int64_t kept_bytes_ = 0;
  std::vector<Rung> rungs_;
};

}  // namespace sardonyx::passes
