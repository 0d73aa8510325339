// plan_memory: gives every value a place, makes the kernels ready, and writes the Plan.
//
// Places are handed out in execution order. A value shares its input's storage when it is a view,
// when the operator overwrites that input (aliases), or when the kernel may work in place and
// nobody reads the input again. A result that is bound to a state which nobody reads any more is
// written straight into the state, a member of a bucket straight into the bucket.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ops/core/cuda_context.h"
#include "passes/arena.h"
#include "passes/lower.h"
#include "passes/node_facts.h"
#include "passes/plan_kernels.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// Bytes that one or several values live in.
struct Storage {
  Space space = Space::kArena;
  size_t bytes = 0;
  size_t offset =
      0;          // known at once for states, constants, inputs; after planning for arena and local
  int first = 0;  // sequence numbers of the first write and the last read
  int last = 0;
  int region = -1;  // owner, for local storage
  std::vector<const Value*> values;
  std::vector<const Value*> open;  // those that a later node may still read
};

// Where a value lives: from byte `begin` of a storage on.
struct Place {
  int storage = -1;
  size_t begin = 0;
};

class Planner {
 public:
  Planner(Lowering lowering, const PassContext& context, StateTable& states)
      : lowering_(std::move(lowering)),
        graph_(*lowering_.graph),
        context_(context),
        states_(states),
        plan_(std::make_unique<Plan>()) {}

  std::unique_ptr<Plan> run() {
    states_.add(graph_);
    for (const graph::Binding& binding : graph_.bindings()) {
      takers_[binding.next].push_back(binding.state);
    }
    plan_->batch = context_.options.batch;
    plan_->threads = context_.target->threads();
    number_nodes();
    place_fixed();
    for (size_t r = 0; r < lowering_.regions.size(); ++r) place_region(static_cast<int>(r));
    extend_to_outputs();
    make_kernels();
    assign_local_memory();
    assign_arena();
    write_steps();
    write_ends();
    plan_->graph = std::move(lowering_.graph);
    return std::move(plan_);
  }

 private:
  // --- order
  // ----------------------------------------------------------------------------------------------
  void number_nodes() {
    int next = 0;
    for (size_t r = 0; r < lowering_.regions.size(); ++r) {
      first_seq_.push_back(next);
      for (const Node* node : lowering_.regions[r].nodes) {
        seq_[node] = next++;
        region_of_[node] = static_cast<int>(r);
      }
      last_seq_.push_back(std::max(next - 1, first_seq_.back()));
    }
    end_ = next;
  }

  bool blocked(int region) const { return lowering_.regions[region].block_rows > 0; }
  // A blocked region reads and writes its border values during its whole run.
  int border_first(const Node* node) const {
    const int region = region_of_.at(node);
    return blocked(region) ? first_seq_[region] : seq_.at(node);
  }
  int border_last(const Node* node) const {
    const int region = region_of_.at(node);
    return blocked(region) ? last_seq_[region] : seq_.at(node);
  }

  // As outlives_plan, which walks the bindings.
  bool outlives(const Value* value) const {
    return graph_.is_output(value) || takers_.contains(value);
  }

  bool stays_inside(const Value* value, int region) const {
    if (outlives(value)) return false;
    return std::all_of(value->uses().begin(), value->uses().end(), [&](const graph::Use& use) {
      if (region_of_.at(use.node) != region) return false;
      // A view shares the bytes, so they are inside only if the view stays inside, too.
      const bool view = ops::OpRegistry::get().at(*use.node).view && use.index == 0;
      return !view || stays_inside(use.node->output(0), region);
    });
  }

  // --- places
  // ---------------------------------------------------------------------------------------------
  int new_storage(Space space, size_t bytes, int first, int region = -1) {
    Storage storage;
    storage.space = space;
    storage.bytes = bytes;
    storage.first = storage.last = first;
    storage.region = region;
    storages_.push_back(std::move(storage));
    return static_cast<int>(storages_.size()) - 1;
  }

  int storage_of(const Value* value) const { return place_.at(value).storage; }

  void put(const Value* value, Place place) {
    place_[value] = place;
    Storage& s = storages_[place.storage];
    s.values.push_back(value);
    s.open.push_back(value);
    for (const graph::Use& use : value->uses()) {
      const int last = s.space == Space::kLocal ? seq_.at(use.node) : border_last(use.node);
      s.last = std::max(s.last, last);
    }
  }

  void place_fixed() {
    for (const Value& value : graph_.values()) {
      if (value.kind == graph::ValueKind::kResult) continue;
      int storage = -1;
      if (value.is_state()) {
        storage = new_storage(Space::kState, value.type.bytes(), 0);
        storages_[storage].offset = states_.find(value.name)->offset;
      } else if (value.is_constant()) {
        storage = new_storage(Space::kConstant, value.data.bytes().size(), 0);
        storages_[storage].offset = plan_->constants.size();
        plan_->constants.push_back(value.data);
      } else if (value.uses().empty() && !graph_.is_output(&value)) {
        continue;  // nobody reads it, so nobody has to feed it
      } else {
        storage = new_storage(Space::kInput, value.type.bytes(), 0);
        storages_[storage].offset = plan_->inputs.size();
        plan_->inputs.push_back({value.name, value.type});
      }
      put(&value, {storage});
    }
  }

  void place_region(int region) {
    for (const Node* node : lowering_.regions[region].nodes) {
      const ops::OpDef& op = ops::OpRegistry::get().at(*node);
      for (int slot = 0; slot < node->num_outputs(); ++slot) {
        const Value* value = node->output(slot);
        if (value != nullptr) put(value, choose_place(*node, op, slot, region));
      }
    }
  }

  Place choose_place(const Node& node, const ops::OpDef& op, int slot, int region) {
    if (op.view && slot == 0) return viewed(node, op);
    for (const auto& [out, in] : ops::aliases_of(node)) {
      if (out == slot && node.input(in) != nullptr) return overwritten(node, in);
    }
    if (op.joins_at && slot == 0) return join_place(node);
    if (const Place place = place_in_join(node, slot, region); place.storage >= 0) return place;
    return {choose_storage(node, slot, region)};
  }

  Place viewed(const Node& node, const ops::OpDef& op) const {
    Place place = place_.at(node.input(0));
    if (op.view_begin) {
      const size_t size = graph::dtype_size(node.output(0)->type.dtype);
      place.begin += static_cast<size_t>(op.view_begin(node)) * size;
    }
    return place;
  }

  // --- joins: values that consist of others, which are written where they belong

  Place join_place(const Node& join) {
    if (const auto it = joins_.find(&join); it != joins_.end()) return {it->second};
    if (const int states = lie_in_states(join); states >= 0) return {states};
    return {new_join(join, seq_.at(&join))};
  }

  int new_join(const Node& join, int first) {
    return joins_[&join] = new_storage(Space::kArena, join.output(0)->type.bytes(), first);
  }

  static size_t member_begin(const Node& join, int i) {
    const std::vector<int64_t> begins = ops::OpRegistry::get().at(join).joins_at(join);
    return static_cast<size_t>(begins.at(i)) * graph::dtype_size(join.output(0)->type.dtype);
  }

  // A storage over the states in which all members stand already, in the right order; -1: they
  // don't.
  int lie_in_states(const Node& join) {
    size_t begin = 0;
    for (int i = 0; i < join.num_inputs(); ++i) {
      const Place& place = place_.at(join.input(i));
      const Storage& storage = storages_[place.storage];
      if (storage.space != Space::kState) return -1;
      const size_t at = storage.offset + place.begin - member_begin(join, i);
      if (i > 0 && at != begin) return -1;
      begin = at;
    }
    const int storage = new_storage(Space::kState, join.output(0)->type.bytes(), seq_.at(&join));
    storages_[storage].offset = begin;
    return storage;
  }

  // The place of a result inside the join that takes it; storage -1: it needs one of its own.
  Place place_in_join(const Node& node, int slot, int region) {
    const Value* value = node.output(slot);
    const graph::Use* taker = only_join(value);
    if (taker == nullptr || ops::carries_batch(graph_, value)) return {};
    const auto it = joins_.find(taker->node);
    const int storage =
        it != joins_.end()
            ? it->second
            : new_join(*taker->node, blocked(region) ? first_seq_[region] : seq_.at(&node));
    return {storage, member_begin(*taker->node, taker->index)};
  }

  // The one use of a value, or of a view of it, in a join, when all others come before that join
  // (which is about to be overwritten).
  const graph::Use* only_join(const Value* value) const {
    if (outlives(value)) return nullptr;
    const graph::Use* taker = nullptr;
    int last = -1;
    for (const graph::Use& use : value->uses()) {
      const ops::OpDef& op = ops::OpRegistry::get().at(*use.node);
      const graph::Use* join = op.joins_at ? &use
                               : op.view && use.index == 0 && !op.view_begin
                                   ? only_join(use.node->output(0))
                                   : nullptr;
      if (join == nullptr) {
        last = std::max(last, border_last(use.node));
      } else if (taker != nullptr) {
        return nullptr;
      } else {
        taker = join;
      }
    }
    return taker != nullptr && last < seq_.at(taker->node) ? taker : nullptr;
  }

  int choose_storage(const Node& node, int slot, int region) {
    const Value* value = node.output(slot);
    const size_t bytes = type_for(graph_, *value, 0).bytes();
    if (const int state = state_to_write(value); state >= 0) return state;
    if (!blocked(region)) {
      if (const int shared = in_place(node, slot, Space::kArena, bytes); shared >= 0) return shared;
      return new_storage(Space::kArena, bytes, seq_.at(&node));
    }
    if (ops::carries_batch(graph_, value) && stays_inside(value, region)) {
      const size_t block = type_for(graph_, *value, lowering_.regions[region].block_rows).bytes();
      if (const int shared = in_place(node, slot, Space::kLocal, block); shared >= 0) return shared;
      return new_storage(Space::kLocal, block, seq_.at(&node), region);
    }
    return new_storage(Space::kArena, bytes, first_seq_[region]);
  }

  Place overwritten(const Node& node, int in) const {
    const Place place = place_.at(node.input(in));
    const Space space = storages_[place.storage].space;
    CHECK(space == Space::kState || space == Space::kArena,
          "node {} overwrites input {}, which is read-only", node.label(), in);
    return place;
  }

  // The storage of the state that `value` is bound to, if the old value is read by nobody from here
  // on.
  int state_to_write(const Value* value) const {
    const auto takers = takers_.find(value);
    if (takers == takers_.end()) return -1;
    for (const Value* state : takers->second) {
      if (!state->type.same_storage(value->type)) continue;
      const int written = border_first(value->producer);
      const int storage = storage_of(state);
      const bool read_later = std::any_of(
          storages_[storage].values.begin(), storages_[storage].values.end(), [&](const Value* v) {
            if (outlives(v)) return true;
            return std::any_of(v->uses().begin(), v->uses().end(), [&](const graph::Use& use) {
              return border_last(use.node) >= written && !overwrites(*value, use);
            });
          });
      if (!read_later) return storage;
    }
    return -1;
  }

  // The kernel that makes the value may write it where it reads this operand.
  bool overwrites(const Value& value, const graph::Use& use) const {
    const auto kernel = lowering_.kernels.find(value.producer);
    if (use.node != value.producer || blocked(region_of_.at(use.node))) return false;
    if (kernel == lowering_.kernels.end() || kernel->second == nullptr) return false;
    const auto& pairs = kernel->second->in_place;
    return std::find(pairs.begin(), pairs.end(), std::pair(value.slot, use.index)) != pairs.end();
  }

  // Nodes are placed in order, so a value whose last reader has passed stays closed.
  bool is_free_for(Storage& storage, const Node& node, int in) {
    const int now = seq_.at(&node);
    std::erase_if(storage.open, [&](const Value* value) {
      return !outlives(value) && std::ranges::all_of(value->uses(), [&](const graph::Use& use) {
        return seq_.at(use.node) < now;
      });
    });
    return std::ranges::all_of(storage.open, [&](const Value* value) {
      return !outlives(value) && std::ranges::all_of(value->uses(), [&](const graph::Use& use) {
        return seq_.at(use.node) < now || (use.node == &node && use.index == in);
      });
    });
  }

  int in_place(const Node& node, int slot, Space space, size_t bytes) {
    const auto kernel = lowering_.kernels.find(&node);
    if (kernel == lowering_.kernels.end() || kernel->second == nullptr) return -1;
    for (const auto& [out, input] : kernel->second->in_place) {
      const int in = input;  // clang 14 lets no lambda capture a structured binding
      const Value* value = node.input(in);
      if (out != slot || value == nullptr) continue;
      const int storage = storage_of(value);
      Storage& s = storages_[storage];
      if (s.space != space || s.bytes != bytes || taken_by(node, slot, storage)) continue;
      if (is_free_for(s, node, in)) return storage;
    }
    return -1;
  }

  // Another output of the same node already sits there.
  bool taken_by(const Node& node, int slot, int storage) const {
    for (int other = 0; other < slot; ++other) {
      const Value* value = node.output(other);
      if (value != nullptr && storage_of(value) == storage) return true;
    }
    return false;
  }

  void extend_to_outputs() {
    for (const Value* value : graph_.outputs()) storages_[storage_of(value)].last = end_;
    for (const graph::Binding& b : graph_.bindings()) storages_[storage_of(b.next)].last = end_;
  }

  // --- kernels and memory
  // --------------------------------------------------------------------------------- An output of
  // a blocked region that is summed over the blocks.
  bool summed(const Node& node, const Value* value) const {
    return blocked(region_of_.at(&node)) && !ops::carries_batch(graph_, value);
  }

  void make_kernels() {
    for (size_t r = 0; r < lowering_.regions.size(); ++r) {
      const RegionSpec& spec = lowering_.regions[r];
      Region region;
      if (spec.block_rows > 0) {
        region.block_rows = spec.block_rows;
        region.blocks = (plan_->batch + spec.block_rows - 1) / spec.block_rows;
        region.tail_rows = plan_->batch % spec.block_rows;
      } else {
        region.block_rows = plan_->batch;
      }
      for (const Node* node : spec.nodes) {
        if (ops::OpRegistry::get().at(*node).view) continue;
        region.steps.push_back(make_step(*node, spec.block_rows));
        if (region.tail_rows > 0) region.tail_steps.push_back(make_step(*node, region.tail_rows));
      }
      plan_->regions.push_back(std::move(region));
    }
  }

  Step make_step(const Node& node, int64_t rows) const {
    Step step;
    step.node = &node;
    step.def = lowering_.kernels.at(&node);
    const bool falls_back = step.def->device != context_.target->device();
    ops::KernelRequest request = request_for(graph_, node, rows);
    if (!falls_back) request = on_target(std::move(request), context_);
    const ops::ScopedLibraryThreads threads(falls_back ? context_.target->host_threads()
                                            : rows > 0 ? 1
                                                       : plan_->threads);
    with_context([&] { return "preparing kernel " + step.def->name + " of " + node.label(); },
                 [&] { step.kernel = step.def->create(request); });
    if (falls_back) step.kernel = ops::on_host(std::move(step.kernel), request);
    step.output_types = request.out;
    step.workspace_bytes = step.kernel->workspace_bytes();
    const ops::OpDef& op = ops::OpRegistry::get().at(node);
    if (op.flops) step.flops = op.flops(request);
    std::vector<bool> adds;
    for (const Value* value : node.outputs()) {
      adds.push_back(value != nullptr && summed(node, value));
    }
    if (accumulate_slot(node) >= 0) adds.at(0) = true;
    if (std::find(adds.begin(), adds.end(), true) != adds.end()) make_accumulating(step, adds);
    return step;
  }

  // Places of the partial sums and workspaces of blocked regions.
  void assign_local_memory() {
    for (size_t r = 0; r < plan_->regions.size(); ++r) {
      if (!blocked(static_cast<int>(r))) continue;
      Region& region = plan_->regions[r];
      const int first = first_seq_[r], last = last_seq_[r];
      std::vector<Buffer> buffers;
      std::vector<size_t*> targets;
      const auto add = [&](size_t bytes, int from, int to, size_t* target) {
        buffers.push_back({bytes, from, to});
        targets.push_back(target);
      };
      for (Storage& s : storages_) {
        if (s.space == Space::kLocal && s.region == static_cast<int>(r)) {
          add(s.bytes, s.first, s.last, &s.offset);
        }
      }
      collect_sums(region, static_cast<int>(r));
      for (Reduction& sum : region.sums) {
        add(sum.count * graph::dtype_size(sum.dtype), first, last, &sum.partial_offset);
      }
      for (auto* steps : {&region.steps, &region.tail_steps}) {
        for (Step& step : *steps) {
          const int seq = seq_.at(step.node);
          if (step.workspace_bytes > 0) add(step.workspace_bytes, seq, seq, &step.workspace_offset);
        }
      }
      // Whole pages per thread: no cache line of one thread's memory is another's.
      region.local_bytes = align_up(std::max<size_t>(assign_offsets(buffers), 1), 4096);
      for (size_t i = 0; i < buffers.size(); ++i) *targets[i] = buffers[i].offset;
    }
  }

  void collect_sums(Region& region, int index) {
    for (const Node* node : lowering_.regions[index].nodes) {
      for (int slot = 0; slot < node->num_outputs(); ++slot) {
        const Value* value = node->output(slot);
        if (value == nullptr || !summed(*node, value)) continue;
        Reduction sum;
        sum.count = static_cast<size_t>(value->type.numel());
        sum.dtype = value->type.dtype;
        sum.accumulate = slot == 0 && accumulate_slot(*node) >= 0;
        sum_index_[value] = region.sums.size();
        region.sums.push_back(sum);
      }
    }
  }

  void assign_arena() {
    std::vector<ArenaSpan>& spans = plan_->arena;
    std::vector<size_t*> targets;
    const auto add = [&](ArenaSpan span, size_t* target) {
      spans.push_back(std::move(span));
      targets.push_back(target);
    };
    for (Storage& s : storages_) {
      if (s.space == Space::kArena) add({0, s.bytes, s.first, s.last, s.values}, &s.offset);
    }
    for (size_t r = 0; r < plan_->regions.size(); ++r) {
      Region& region = plan_->regions[r];
      const int index = static_cast<int>(r);
      if (blocked(index)) {
        const size_t bytes = region.local_bytes * plan_->threads;
        add({0, bytes, first_seq_[r], last_seq_[r], {}, nullptr, index}, &region.local_offset);
        continue;
      }
      for (Step& step : region.steps) {
        const int seq = seq_.at(step.node);
        if (step.workspace_bytes == 0) continue;
        add({0, step.workspace_bytes, seq, seq, {}, step.node}, &step.workspace_offset);
      }
    }
    std::vector<Buffer> buffers;
    for (const ArenaSpan& span : spans) buffers.push_back({span.bytes, span.first, span.last});
    const bool cuda = context_.target->device() == ops::Device::kCuda;
    plan_->arena_bytes = assign_offsets(buffers, cuda ? kDeviceAlignment : kAlignment);
    for (size_t i = 0; i < buffers.size(); ++i) *targets[i] = spans[i].offset = buffers[i].offset;

    MemoryReport& memory = plan_->memory;
    memory.state_bytes = states_.bytes();
    memory.arena_bytes = plan_->arena_bytes;
    const LivenessBound bound = liveness_bound(buffers);
    memory.liveness_bound_bytes = bound.bytes;
    for (const Buffer& buffer : buffers) memory.sum_bytes += align_up(buffer.bytes);
    for (const auto& [node, seq] : seq_) {
      if (seq == bound.time) memory.peak_node = node->label();
    }
    count_alive(buffers);
  }

  void count_alive(const std::vector<Buffer>& buffers) {
    std::vector<size_t> alive(static_cast<size_t>(end_) + 2);  // wraps around below zero and back
    for (const Buffer& buffer : buffers) {
      alive[static_cast<size_t>(buffer.first)] += align_up(buffer.bytes);
      alive[static_cast<size_t>(buffer.last) + 1] -= align_up(buffer.bytes);
    }
    std::partial_sum(alive.begin(), alive.end(), alive.begin());
    for (Region& region : plan_->regions) {
      for (Step& step : region.steps) {
        step.alive_bytes = alive[static_cast<size_t>(seq_.at(step.node))];
      }
    }
  }

  // --- the plan
  // -------------------------------------------------------------------------------------------
  Location locate(const Value* value, int region) const {
    if (value == nullptr) return {};
    const Storage& s = storages_[storage_of(value)];
    Location location{s.space, s.offset + place_.at(value).begin, 0};
    if (region >= 0 && blocked(region) && s.space != Space::kLocal &&
        ops::carries_batch(graph_, value)) {
      location.block_stride =
          type_for(graph_, *value, lowering_.regions[region].block_rows).bytes();
    }
    return location;
  }

  void write_steps() {
    for (size_t r = 0; r < plan_->regions.size(); ++r) {
      Region& region = plan_->regions[r];
      for (auto* steps : {&region.steps, &region.tail_steps}) {
        for (Step& step : *steps) write_operands(step, region, static_cast<int>(r));
      }
      for (const auto& [value, index] : sum_index_) {
        if (region_of_.at(value->producer) == static_cast<int>(r)) {
          region.sums[index].target = locate(value, -1);
        }
      }
    }
  }

  void write_operands(Step& step, const Region& region, int index) const {
    const int skipped = accumulate_slot(*step.node);
    for (int i = 0; i < step.node->num_inputs(); ++i) {
      step.inputs.push_back(i == skipped ? Location{} : locate(step.node->input(i), index));
    }
    for (const Value* value : step.node->outputs()) {
      if (value != nullptr && summed(*step.node, value)) {
        step.outputs.push_back(
            {Space::kLocal, region.sums[sum_index_.at(value)].partial_offset, 0});
      } else {
        step.outputs.push_back(locate(value, index));
      }
    }
  }

  void write_ends() {
    for (const Value* value : graph_.outputs()) {
      plan_->outputs.push_back({value->name, value->type, locate(value, -1)});
    }
    for (const graph::Binding& binding : graph_.bindings()) {
      const Location from = locate(binding.next, -1);
      const size_t offset = states_.find(binding.state->name)->offset;
      if (from.space == Space::kState && from.offset == offset) continue;
      CHECK(from.space != Space::kState || graph_.bound(binding.next) == nullptr,
            "state '{}' takes the value of state '{}', which changes too", binding.state->name,
            binding.next->name);
      plan_->copies.push_back({from, offset, binding.state->type.bytes()});
    }
  }

  Lowering lowering_;
  Graph& graph_;
  const PassContext& context_;
  StateTable& states_;
  std::unique_ptr<Plan> plan_;
  std::unordered_map<const Node*, int> seq_;
  std::unordered_map<const Node*, int> region_of_;
  std::unordered_map<const Value*, std::vector<const Value*>> takers_;  // states, by next value
  std::vector<int> first_seq_, last_seq_;
  int end_ = 0;
  std::vector<Storage> storages_;
  std::unordered_map<const Value*, Place> place_;
  std::unordered_map<const Node*, int> joins_;  // storage of a join in the arena
  std::map<const Value*, size_t> sum_index_;    // index into the region's sums
};

}  // namespace

std::unique_ptr<Plan> plan_memory(Lowering lowering, const PassContext& context,
                                  StateTable& states) {
  return Planner(std::move(lowering), context, states).run();
}

}  // namespace sardonyx::passes
