#include "graph/verify.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

// Where things stand that belong to the graph. A flat table: large graphs are verified behind each
// of some thirty passes, and most of that was a set's memory.
template <class Thing, class Place>
class Places {
 public:
  explicit Places(size_t count) : entries_(std::bit_ceil(2 * count + 1)) {}

  void put(const Thing* thing, Place place) { entries_[slot(thing)] = {thing, place}; }
  // nullptr: it belongs to none, or another graph.
  const Place* find(const Thing* thing) const {
    const Entry& entry = entries_[slot(thing)];
    return thing != nullptr && entry.thing == thing ? &entry.place : nullptr;
  }
  bool contains(const Thing* thing) const { return find(thing) != nullptr; }
  const Place& at(const Thing* thing) const { return entries_[slot(thing)].place; }

 private:
  struct Entry {
    const Thing* thing = nullptr;
    Place place = {};
  };

  // The one of `thing`, or a free one.
  size_t slot(const Thing* thing) const {
    const size_t mask = entries_.size() - 1;
    const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(thing));
    size_t at = (address * 0x9e3779b97f4a7c15ULL >> 32) & mask;
    while (entries_[at].thing != nullptr && entries_[at].thing != thing) at = (at + 1) & mask;
    return at;
  }

  std::vector<Entry> entries_;
};

class Verifier {
 public:
  Verifier(const Graph& graph, const AliasQuery& aliases, const AliasQuery& views)
      : graph_(graph),
        aliases_(aliases),
        values_(graph.values().size()),
        places_(graph.nodes().size()) {
    for (const Value& value : graph_.values()) values_.put(&value, true);
    int64_t index = 0, first_slot = 0;
    for (const Node& node : graph_.nodes()) {
      places_.put(&node, {index++, first_slot});
      first_slot += node.num_inputs();
    }
    slots_ = first_slot;
    for (const Binding& binding : graph_.bindings()) state_of_.emplace(binding.next, binding.state);
    if (views) find_views(views);
  }

  void run() {
    for (const Value& value : graph_.values()) check_value(value);
    check_uses();
    for (const Node& node : graph_.nodes()) check_node(node);
    check_signature();
    check_bindings();
    if (aliases_) {
      for (const Node& node : graph_.nodes()) check_aliases(node);
    }
    if (count_ == 0) return;
    if (count_ > kShown) found_ += fmt::format("\n  ... and {} more", count_ - kShown);
    throw Error("graph '{}' is not valid:{}", graph_.name, found_);
  }

 private:
  struct Place {
    int64_t index = 0;       // in the node list
    int64_t first_slot = 0;  // inputs of all nodes before it
  };
  static constexpr int64_t kShown = 20;

  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (++count_ > kShown) return;
    found_ += "\n  " + fmt::format(format, std::forward<Args>(args)...);
  }

  bool owns(const Value* value) const { return values_.contains(value); }

  void check_value(const Value& value) {
    const std::string& name = value.name;
    if (name.empty()) fail("a value has no name");
    if (!name.empty() && graph_.find(name) != &value) {
      fail("value '{}' is not what its name finds: names change through Graph::rename", name);
    }
    if (value.kind == ValueKind::kResult) {
      if (value.producer == nullptr || !places_.contains(value.producer)) {
        fail("result '{}' has no node in this graph", name);
      } else if (value.producer->output(value.slot) != &value) {
        fail("result '{}' is not output {} of node {}", name, value.slot, value.producer->label());
      }
    } else if (value.producer != nullptr) {
      fail("'{}' has a node but is no result", name);
    }
    if (value.role != StateRole::kNone && !value.is_state()) {
      fail("'{}' has role {} but is no state", name, role_name(value.role));
    }
    check_data(value);
  }

  void check_data(const Value& value) {
    const bool may_hold = value.is_constant() || value.is_state();
    if (!value.data.defined()) {
      if (value.is_constant()) fail("constant '{}' has no bytes", value.name);
      return;
    }
    if (!may_hold) {
      fail("'{}' holds bytes but is neither constant nor state", value.name);
    } else if (value.data.dtype() != value.type.dtype || !value.type.is_static() ||
               value.data.shape() != value.type.shape()) {
      fail("'{}' has type {}, its bytes {}", value.name, value.type.str(), value.data.type().str());
    }
  }

  // The use lists and the inputs of the nodes are the same set: each use is an input, none is
  // listed twice, and each input is listed.
  void check_uses() {
    std::vector<bool> listed(slots_, false);
    for (const Value& value : graph_.values()) {
      for (const Use& use : value.uses()) {
        const Place* place = places_.find(use.node);
        if (place == nullptr) {
          fail("'{}' is used by a node that is not in this graph", value.name);
        } else if (use.node->input(use.index) != &value) {
          fail("'{}' lists a use at input {} of node {}, which reads something else", value.name,
               use.index, use.node->label());
        } else if (listed[place->first_slot + use.index]) {
          fail("'{}' lists input {} of node {} twice", value.name, use.index, use.node->label());
        } else {
          listed[place->first_slot + use.index] = true;
        }
      }
    }
    for (const Node& node : graph_.nodes()) {
      const int64_t first = places_.at(&node).first_slot;
      for (int i = 0; i < node.num_inputs(); ++i) {
        if (node.input(i) != nullptr && owns(node.input(i)) && !listed[first + i]) {
          fail("input {} of node {} is missing in the use list of '{}'", i, node.label(),
               node.input(i)->name);
        }
      }
    }
  }

  void check_node(const Node& node) {
    if (node.graph() != &graph_) fail("node {} belongs to another graph", node.label());
    if (node.op.empty()) fail("node {} has no operator", node.label());
    const int64_t here = places_.at(&node).index;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Value* input = node.input(i);
      if (input == nullptr) continue;
      if (!owns(input)) {
        fail("input {} of node {} is a value of another graph", i, node.label());
        continue;
      }
      const Place* producer = places_.find(input->producer);
      if (producer != nullptr && producer->index >= here) {
        fail("node {} reads '{}' before node {} makes it", node.label(), input->name,
             input->producer->label());
      }
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value* output = node.output(i);
      if (output == nullptr) continue;
      if (!owns(output)) {
        fail("output {} of node {} is a value of another graph", i, node.label());
      } else if (output->producer != &node || output->kind != ValueKind::kResult) {
        fail("output {} of node {} doesn't name it as its node", i, node.label());
      }
    }
  }

  void check_signature() {
    std::unordered_set<const Value*> listed;
    for (const Value* input : graph_.inputs()) {
      if (!owns(input)) {
        fail("a graph input is a value of another graph");
        continue;
      }
      if (input->kind != ValueKind::kInput) fail("graph input '{}' is no input", input->name);
      if (!listed.insert(input).second) fail("graph input '{}' is listed twice", input->name);
    }
    for (const Value& value : graph_.values()) {
      if (value.kind == ValueKind::kInput && !listed.contains(&value)) {
        fail("input '{}' is missing in the graph's inputs", value.name);
      }
    }
    for (const Value* output : graph_.outputs()) {
      if (!owns(output)) fail("a graph output is a value of another graph");
    }
  }

  void check_bindings() {
    std::unordered_set<const Value*> bound;
    for (const auto& [state, next] : graph_.bindings()) {
      if (!owns(state) || !owns(next)) {
        fail("a binding names a value of another graph");
        continue;
      }
      if (!state->is_state()) fail("'{}' is bound but is no state", state->name);
      if (!bound.insert(state).second) fail("state '{}' is bound twice", state->name);
      if (state->type.is_static() && next->type.is_static() &&
          !state->type.same_storage(next->type)) {
        fail("state '{}' has type {}, it is bound to '{}' of type {}", state->name,
             state->type.str(), next->name, next->type.str());
      }
    }
  }

  void check_aliases(const Node& node) {
    for (const auto& [output_slot, input_slot] : aliases_(node)) {
      const Value* written = node.output(output_slot);
      const Value* old = node.input(input_slot);
      if (written == nullptr || old == nullptr || !owns(written) || !owns(old)) continue;
      check_overwrite(node, *old, *written);
    }
  }

  void find_views(const AliasQuery& views) {
    for (const Node& node : graph_.nodes()) {
      for (const auto& [output_slot, input_slot] : views(node)) {
        const Value* view = node.output(output_slot);
        const Value* whole = node.input(input_slot);
        if (view == nullptr || whole == nullptr || !owns(view) || !owns(whole)) continue;
        bytes_of_.emplace(view, whole);
        views_of_[whole].push_back(view);
      }
    }
  }

  // All values with the bytes of `value`, itself first.
  std::vector<const Value*> same_bytes(const Value& value) const {
    std::vector<const Value*> found{&value};
    std::unordered_set<const Value*> seen{&value};
    for (size_t i = 0; i < found.size(); ++i) {
      const auto add = [&](const Value* other) {
        if (seen.insert(other).second) found.push_back(other);
      };
      if (const auto whole = bytes_of_.find(found[i]); whole != bytes_of_.end()) add(whole->second);
      if (const auto views = views_of_.find(found[i]); views != views_of_.end()) {
        for (const Value* view : views->second) add(view);
      }
    }
    return found;
  }

  // `node` writes `written` over `old`: from there on nothing may read `old`, under any name.
  void check_overwrite(const Node& node, const Value& old, const Value& written) {
    const auto overwrites = fmt::format("node {} overwrites '{}'", node.label(), old.name);
    if (old.type.is_static() && written.type.is_static() && !old.type.same_storage(written.type)) {
      fail("{} of type {} with '{}' of type {}", overwrites, old.type.str(), written.name,
           written.type.str());
    }
    for (const Value* value : same_bytes(old)) {
      check_last_read(
          *value, places_.at(&node).index,
          value == &old ? overwrites : fmt::format("{} and with it '{}'", overwrites, value->name));
    }
  }

  void check_last_read(const Value& old, int64_t overwritten, const std::string& overwrites) {
    if (old.is_constant()) fail("{}, a constant", overwrites);
    if (old.is_state() && graph_.bound(&old) == nullptr) {
      fail("{}, a state that is not bound: it would change without a binding", overwrites);
    }
    for (const Use& use : old.uses()) {
      const Place* reader = places_.find(use.node);
      if (reader != nullptr && reader->index > overwritten) {
        fail("{}, which node {} reads later", overwrites, use.node->label());
      }
    }
    if (graph_.is_output(&old)) fail("{}, which is a graph output", overwrites);
    if (const auto binding = state_of_.find(&old); binding != state_of_.end()) {
      fail("{}, to which state '{}' is bound", overwrites, binding->second->name);
    }
  }

  const Graph& graph_;
  const AliasQuery& aliases_;
  Places<Value, bool> values_;
  Places<Node, Place> places_;
  std::unordered_map<const Value*, const Value*> state_of_;  // bound value -> a state that takes it
  std::unordered_map<const Value*, const Value*> bytes_of_;  // view -> the value it shows
  std::unordered_map<const Value*, std::vector<const Value*>> views_of_;
  int64_t slots_ = 0;
  int64_t count_ = 0;
  std::string found_;
};

}  // namespace

void verify(const Graph& graph, const AliasQuery& aliases, const AliasQuery& views) {
  Verifier(graph, aliases, views).run();
}

}  // namespace sardonyx::graph
