#include "tests/support/plan_replay.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "graph/support/error.h"
#include "passes/arena.h"
#include "passes/requests.h"

namespace sardonyx::tests {

namespace {

using graph::Node;
using graph::Value;
using passes::Location;
using passes::Region;
using passes::Space;
using passes::Step;

// What stands in some bytes: a value (nullptr: nothing of use) and the address of its first byte.
struct Content {
  const Value* value = nullptr;
  size_t base = 0;
  bool partial = false;  // one thread's share of a sum
  friend bool operator==(const Content&, const Content&) = default;
};

struct Range {
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(const Range&, const Range&) = default;
};

class Memory {
 public:
  void write(Range range, Content content) {
    if (range.empty()) return;
    split(range.begin);
    split(range.end);
    pieces_.erase(pieces_.lower_bound(range.begin), pieces_.lower_bound(range.end));
    pieces_[range.begin] = {range.end, content};
  }

  // What stands there instead of `content`; nullptr when all of it does.
  const Content* intruder(Range range, const Content& content) const {
    static const Content kNothing;
    size_t at = range.begin;
    while (at < range.end) {
      auto piece = pieces_.upper_bound(at);
      if (piece == pieces_.begin()) return &kNothing;
      --piece;
      if (piece->second.end <= at) return &kNothing;
      if (piece->second.content != content) return &piece->second.content;
      at = piece->second.end;
    }
    return nullptr;
  }

 private:
  struct Piece {
    size_t end = 0;
    Content content;
  };

  void split(size_t at) {
    auto piece = pieces_.upper_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->first == at || piece->second.end <= at) return;
    pieces_[at] = piece->second;
    piece->second.end = at;
  }

  std::map<size_t, Piece> pieces_;  // by first byte
};

// Lifetimes as the replay saw them, per value in the arena.
struct Life {
  Range range;
  int first = 0, last = 0;
};

class Replayer {
 public:
  Replayer(const passes::Plan& plan, const passes::StateTable& states)
      : plan_(plan), graph_(*plan.graph), states_(states) {}

  PlanReplay run() {
    for (const Value* state : graph_.states()) {
      const size_t base = states_.find(state->name)->offset;
      memory_[Space::kState].write({base, base + state->type.bytes()}, {state, base});
    }
    for (const Region& region : plan_.regions) {
      if (region.blocked()) {
        run_blocked(region);
      } else {
        for (const Step& step : region.steps) {
          run_step(step, {&region, 0, 0, 0});
          ++time_;
        }
      }
    }
    finish();
    result_.needed_bytes = most_needed();
    return std::move(result_);
  }

 private:
  // Where a step runs. rows 0: on the whole batch.
  struct Place {
    const Region* region = nullptr;
    int thread = 0;
    int64_t block = 0;
    int64_t rows = 0;
  };

  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    result_.faults.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // --- addresses

  static bool in_memory(const Location& location) {
    return location.space == Space::kState || location.space == Space::kArena ||
           location.space == Space::kLocal;
  }
  static Space memory_of(const Location& location) {
    return location.space == Space::kState ? Space::kState : Space::kArena;
  }
  static size_t local_begin(const Place& place) {
    return place.region->local_offset + place.thread * place.region->local_bytes;
  }
  static size_t address(const Location& location, const Place& place) {
    return location.offset + (location.space == Space::kLocal ? local_begin(place) : 0);
  }
  Range range_of(const Location& location, const Value& value, const Place& place) const {
    const size_t begin =
        address(location, place) + static_cast<size_t>(place.block) * location.block_stride;
    return {begin, begin + passes::type_for(graph_, value, place.rows).bytes()};
  }

  // The value whose bytes these are, and where in them a view begins.
  static std::pair<const Value*, size_t> root_of(const Value* value) {
    size_t begin = 0;
    while (value->producer != nullptr) {
      const ops::OpDef& op = ops::OpRegistry::get().at(*value->producer);
      if (!op.view || value->slot != 0) break;
      if (op.view_begin) {
        begin += static_cast<size_t>(op.view_begin(*value->producer)) *
                 graph::dtype_size(value->type.dtype);
      }
      value = value->producer->input(0);
    }
    return {value, begin};
  }
  static Content content_of(const Value& value, size_t begin) {
    const auto [root, inside] = root_of(&value);
    return {root, begin - inside};
  }

  // --- one step

  void expect(const Location& location, Range range, const Content& content,
              const std::string& reader) {
    const Content* found = memory_[memory_of(location)].intruder(range, content);
    if (found == nullptr) return;
    fail("{} reads '{}' and finds {}", reader, content.value->name,
         found->value == nullptr ? "nothing of use" : "'" + found->value->name + "'");
  }

  void read(const Step& step, int i, const Place& place) {
    const Value* value = step.node->input(i);
    const Location& location = step.inputs.at(i);
    const bool absent = value == nullptr || passes::accumulate_slot(*step.node) == i;
    if (absent != (location.space == Space::kNone)) {
      fail("{}: input {} is given or left out wrongly", step.node->label(), i);
    }
    if (absent) return;
    if (location.space == Space::kConstant) {
      if (!plan_.constants.at(location.offset).identical(root_of(value).first->data)) {
        fail("{}: input {} is another constant", step.node->label(), i);
      }
    } else if (location.space == Space::kInput) {
      if (plan_.inputs.at(location.offset).name != root_of(value).first->name) {
        fail("{}: input {} is another input", step.node->label(), i);
      }
    } else {
      const Range range = range_of(location, *value, place);
      const Content content = content_of(*value, address(location, place));
      expect(location, range, content, step.node->label());
      if (location.space == Space::kArena) touch(content);
    }
  }

  bool summed(const Step& step, int slot, const Place& place) const {
    return place.region->blocked() && !ops::carries_batch(graph_, step.node->output(slot));
  }

  void write(const Step& step, int slot, const Place& place) {
    const Value* value = step.node->output(slot);
    if (value == nullptr) return;
    const Location& location = step.outputs.at(slot);
    if (!in_memory(location)) return fail("{} writes where nothing may be", step.node->label());
    const Range range = range_of(location, *value, place);
    const Content content{value, address(location, place), summed(step, slot, place)};
    Memory& memory = memory_[memory_of(location)];
    if (content.partial) {
      expect(location, range, content, step.node->label());
    } else if (slot == 0 && passes::accumulate_slot(*step.node) >= 0) {
      const Value* sum = step.node->input(passes::accumulate_slot(*step.node));
      expect(location, range, content_of(*sum, range.begin), step.node->label());
    }
    memory.write(range, content);
    if (location.space == Space::kArena) live(content, value->type.bytes());
  }

  // The kernel reads and writes at the same time: what may share bytes is said by the operator.
  void check_sharing(const Step& step, const Place& place) {
    const Node& node = *step.node;
    const size_t local = place.region->blocked() ? local_begin(place) : 0;
    const Range workspace{local + step.workspace_offset,
                          local + step.workspace_offset + step.workspace_bytes};
    for (int slot = 0; slot < node.num_outputs(); ++slot) {
      if (node.output(slot) == nullptr || !in_memory(step.outputs.at(slot))) continue;
      const Location& to = step.outputs[slot];
      const Range written = range_of(to, *node.output(slot), place);
      if (memory_of(to) == Space::kArena && written.meets(workspace)) {
        fail("{}: output {} lies in the workspace", node.label(), slot);
      }
      for (int other = 0; other < slot; ++other) {
        if (node.output(other) == nullptr || memory_of(to) != memory_of(step.outputs[other])) {
          continue;
        }
        if (written.meets(range_of(step.outputs[other], *node.output(other), place))) {
          fail("{}: outputs {} and {} share bytes", node.label(), other, slot);
        }
      }
      for (int i = 0; i < node.num_inputs(); ++i) {
        const Location& from = step.inputs.at(i);
        if (node.input(i) == nullptr || !in_memory(from) || memory_of(from) != memory_of(to)) {
          continue;
        }
        const Range read = range_of(from, *node.input(i), place);
        if (!written.meets(read)) continue;
        ++result_.in_place;
        if (!may_share(step, slot, i, written, read)) {
          fail("{} ({}) writes output {} over input {}", node.label(), step.def->name, slot, i);
        }
      }
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Location& from = step.inputs.at(i);
      if (node.input(i) == nullptr || !in_memory(from) || memory_of(from) != Space::kArena) {
        continue;
      }
      if (range_of(from, *node.input(i), place).meets(workspace)) {
        fail("{}: input {} lies in the workspace", node.label(), i);
      }
    }
    memory_[Space::kArena].write(workspace, {});
    if (!place.region->blocked()) lives_.push_back({aligned(workspace), time_, time_});
  }

  static bool may_share(const Step& step, int slot, int input, Range written, Range read) {
    const ops::OpDef& op = ops::OpRegistry::get().at(*step.node);
    if (op.joins_at && slot == 0) {
      const size_t size = graph::dtype_size(step.node->output(0)->type.dtype);
      const auto at = static_cast<size_t>(op.joins_at(*step.node).at(input)) * size;
      return read.begin == written.begin + at;
    }
    const auto listed = [&](const std::vector<std::pair<int, int>>& pairs) {
      return std::find(pairs.begin(), pairs.end(), std::pair(slot, input)) != pairs.end();
    };
    return written == read && (listed(step.def->in_place) || listed(ops::aliases_of(*step.node)));
  }

  void run_step(const Step& step, const Place& place) {
    for (int i = 0; i < step.node->num_inputs(); ++i) read(step, i, place);
    check_sharing(step, place);
    for (int slot = 0; slot < step.node->num_outputs(); ++slot) write(step, slot, place);
  }

  // --- blocked regions

  // Each thread goes through its own blocks in order; how the threads meet is open. Three orders:
  // one after the other, the same backwards, and in turns, step by step.
  enum class Order : uint8_t { kForwards, kBackwards, kInTurns };

  void run_blocked(const Region& region) {
    const int steps = static_cast<int>(region.steps.size());
    region_ = &region;
    region_end_ = time_ + std::max(steps - 1, 0);
    const auto before = memory_;
    for (const Order order : {Order::kForwards, Order::kBackwards, Order::kInTurns}) {
      memory_ = before;
      run_threads(region, order);
    }
    const Range local{region.local_offset,
                      region.local_offset + plan_.threads * region.local_bytes};
    lives_.push_back({aligned(local), time_, region_end_});
    add_partials(region);
    region_ = nullptr;
    time_ = region_end_ + 1;
  }

  void run_threads(const Region& region, Order order) {
    std::vector<std::vector<std::pair<const Step*, Place>>> work(plan_.threads);
    for (int thread = 0; thread < plan_.threads; ++thread) {
      start_thread(region, thread);
      for (int64_t block = region.blocks * thread / plan_.threads;
           block < region.blocks * (thread + 1) / plan_.threads; ++block) {
        const bool tail = region.tail_rows > 0 && block == region.blocks - 1;
        for (const Step& step : tail ? region.tail_steps : region.steps) {
          work[thread].push_back(
              {&step, {&region, thread, block, tail ? region.tail_rows : region.block_rows}});
        }
      }
    }
    if (order == Order::kBackwards) std::reverse(work.begin(), work.end());
    if (order != Order::kInTurns) {
      for (const auto& of_thread : work) {
        for (const auto& [step, place] : of_thread) run_step(*step, place);
      }
      return;
    }
    for (size_t i = 0; !work.empty(); ++i) {
      std::erase_if(work, [&](const auto& of_thread) { return i >= of_thread.size(); });
      for (const auto& of_thread : work) run_step(*of_thread[i].first, of_thread[i].second);
    }
  }

  void start_thread(const Region& region, int thread) {
    const size_t begin = local_begin({&region, thread, 0, 0});
    memory_[Space::kArena].write({begin, begin + region.local_bytes}, {});
    for (const passes::Reduction& sum : region.sums) {
      const size_t at = begin + sum.partial_offset;
      memory_[Space::kArena].write({at, at + bytes_of(sum)}, {value_of(region, sum), at, true});
    }
  }

  static size_t bytes_of(const passes::Reduction& sum) {
    return sum.count * graph::dtype_size(sum.dtype);
  }

  const Value* value_of(const Region& region, const passes::Reduction& sum) const {
    for (const Step& step : region.steps) {
      for (int slot = 0; slot < step.node->num_outputs(); ++slot) {
        const Value* value = step.node->output(slot);
        if (value == nullptr || ops::carries_batch(graph_, value)) continue;
        if (step.outputs.at(slot).offset == sum.partial_offset && value->type.numel() > 0) {
          return value;
        }
      }
    }
    return nullptr;
  }

  void add_partials(const Region& region) {
    for (const passes::Reduction& sum : region.sums) {
      if (sum.count == 0) continue;
      const Value* value = value_of(region, sum);
      for (int thread = 0; thread < plan_.threads; ++thread) {
        const size_t at = local_begin({&region, thread, 0, 0}) + sum.partial_offset;
        expect({Space::kArena}, {at, at + bytes_of(sum)}, {value, at, true}, "the sum of partials");
      }
      const Range target{sum.target.offset, sum.target.offset + bytes_of(sum)};
      if (sum.accumulate) {
        const Value* old = value->producer->input(passes::accumulate_slot(*value->producer));
        expect(sum.target, target, content_of(*old, target.begin), "the sum of partials");
      }
      memory_[memory_of(sum.target)].write(target, {value, target.begin});
      if (sum.target.space == Space::kArena) live({value, target.begin}, bytes_of(sum));
    }
  }

  // --- the end of a step

  void finish() {
    for (const passes::StateCopy& copy : plan_.copies) {
      const Value* next = nullptr;
      for (const graph::Binding& binding : graph_.bindings()) {
        if (states_.find(binding.state->name)->offset == copy.state_offset) next = binding.next;
      }
      if (next == nullptr) {
        fail("a copy goes to no bound state");
        continue;
      }
      if (in_memory(copy.from)) {
        const Content content = content_of(*next, copy.from.offset);
        expect(copy.from, {copy.from.offset, copy.from.offset + copy.bytes}, content, "a copy");
        if (copy.from.space == Space::kArena) touch(content);
      }
      memory_[Space::kState].write({copy.state_offset, copy.state_offset + copy.bytes},
                                   content_of(*next, copy.state_offset));
    }
    for (const Value* state : graph_.states()) {
      const size_t base = states_.find(state->name)->offset;
      const Value* next = graph_.bound(state);
      expect({Space::kState}, {base, base + state->type.bytes()},
             content_of(next != nullptr ? *next : *state, base), "the next step");
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const Location& location = plan_.outputs[i].location;
      if (!in_memory(location)) continue;
      const Value& value = *graph_.outputs()[i];
      const Content content = content_of(value, location.offset);
      expect(location, range_of(location, value, {}), content, "the caller");
      if (location.space == Space::kArena) touch(content);
    }
  }

  // --- lifetimes

  static Range aligned(Range range) {
    return {range.begin, range.begin + passes::align_up(range.end - range.begin)};
  }

  void live(const Content& content, size_t bytes) {
    const Life life{aligned({content.base, content.base + bytes}), time_,
                    region_ != nullptr ? region_end_ : time_};
    const auto [it, fresh] = life_of_.try_emplace(content.value, lives_.size());
    if (fresh) lives_.push_back(life);
  }

  void touch(const Content& content) {
    const auto it = life_of_.find(content.value);
    if (it == life_of_.end()) return;
    Life& life = lives_[it->second];
    life.last = std::max(life.last, region_ != nullptr ? region_end_ : time_);
  }

  size_t most_needed() const {
    size_t most = 0;
    for (int time = 0; time <= time_; ++time) {
      std::vector<Range> ranges;
      for (const Life& life : lives_) {
        if (life.first <= time && time <= life.last) ranges.push_back(life.range);
      }
      std::sort(ranges.begin(), ranges.end(),
                [](const Range& a, const Range& b) { return a.begin < b.begin; });
      size_t covered = 0, end = 0;
      for (const Range& range : ranges) {
        covered += std::max(range.end, std::max(end, range.begin)) - std::max(end, range.begin);
        end = std::max(end, range.end);
      }
      most = std::max(most, covered);
    }
    return most;
  }

  const passes::Plan& plan_;
  const graph::Graph& graph_;
  const passes::StateTable& states_;
  std::map<Space, Memory> memory_;
  PlanReplay result_;
  int time_ = 0;
  const Region* region_ = nullptr;  // the blocked region that is running
  int region_end_ = 0;
  std::vector<Life> lives_;
  std::unordered_map<const Value*, size_t> life_of_;
};

}  // namespace

PlanReplay replay(const passes::Plan& plan, const passes::StateTable& states) {
  return Replayer(plan, states).run();
}

}  // namespace sardonyx::tests
