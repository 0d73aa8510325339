#include "passes/baked_batch.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/names.h"
#include "graph/support/text.h"
#include "ops/core/gradient_flow.h"
#include "ops/core/infer.h"
#include "ops/core/rows_apart.h"
#include "passes/fold.h"
#include "passes/prime_rows.h"

namespace sardonyx::passes {

namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::TensorType;
using graph::Value;
using support::in_quotes;

constexpr int64_t kMostNumbers = 64;  // of a constant that lists sizes
constexpr int kMostSteps = 8;         // from a node back to a constant

// Where the batch is in a value: `per_row` entries of `axis` per row. Of these, `before` stand in
// front of the batch in the order of the elements (its stride is that much smaller); -1: unknown.
// `doubtful`: another axis could be it, too, in a file of one row.
struct Place {
  int axis = 0;
  int64_t per_row = 1, before = 1;
  bool doubtful = false;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int64_t product(const std::vector<graph::Dim>& dims, int begin, int end) {
  int64_t result = 1;
  for (int i = begin; i < end; ++i) result *= dims[static_cast<size_t>(i)].value;
  return result;
}

bool lists_numbers(const Value& value) {
  return value.is_constant() && graph::is_integer(value.type.dtype) && value.data.rank() <= 1 &&
         value.data.numel() <= kMostNumbers;
}

Tensor with_numbers(const Tensor& like, const std::vector<int64_t>& numbers) {
  return Tensor::of<int64_t>(like.shape(), numbers).cast(like.dtype());
}

// One slice of `axis`; undefined when they differ.
Tensor equal_slice(const Tensor& tensor, int axis) {
  if (!tensor.defined() || tensor.numel() == 0) return {};
  std::vector<int64_t> shape = tensor.shape();
  const auto outer = static_cast<size_t>(
      std::accumulate(shape.begin(), shape.begin() + axis, int64_t{1}, std::multiplies<>()));
  const auto count = static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  shape[static_cast<size_t>(axis)] = 1;
  Tensor slice(tensor.dtype(), shape);
  const size_t bytes = slice.bytes().size() / outer;
  for (size_t i = 0; i < outer; ++i) {
    const auto first = tensor.bytes().subspan(i * count * bytes, bytes);
    for (size_t row = 1; row < count; ++row) {
      const auto other = tensor.bytes().subspan((i * count + row) * bytes, bytes);
      if (!std::ranges::equal(first, other)) return {};
    }
    std::ranges::copy(first, slice.mutable_bytes().subspan(i * bytes).begin());
  }
  return slice;
}

class Finder {
 public:
  Finder(const Graph& graph, const PassContext& context, int64_t rows)
      : rows_(rows), loss_(mean_loss(context)), base_(bound_to_rows(graph, context, rows)) {
    PassContext own;
    own.options = context.options;
    own.unsupported = context.unsupported;
    find_pass("infer_shapes")->run(*base_, own);
    for (const UnsupportedNode& node : own.unsupported) faulty_.insert(node.output);
    prime_ = prime_above_numbers(*base_, std::max(rows, context.options.batch));
    probe_ = bound_to_rows(graph, context, prime_);
  }

  BakedBatch run() {
    for (const Value* input : probe_->inputs()) note_place(*input, {});
    int position = 0;
    std::vector<Node*> nodes;
    for (Node& node : probe_->nodes()) {
      nodes.push_back(&node);
      positions_.emplace(&node, position++);
    }
    Folder folder(*probe_);
    for (Node* node : nodes) {
      if (is_unknown(*node)) {
        forget(*node);
        continue;
      }
      const std::string why = make_follow(*node);
      if (!why.empty()) {
        found_.faults.emplace_back(positions_.at(node), why);
        forget(*node);
        continue;
      }
      folder.fold_shape_arithmetic(*node);
    }
    ask_other_readers();
    found_.rows = rows_;
    for (const auto& [name, place] : places_) {
      found_.axes.emplace(name, std::pair(place.axis, place.per_row));
    }
    return std::move(found_);
  }

 private:
  // --- types

  // The value that is the loss, of which a mean is taken; "": another.
  static std::string mean_loss(const PassContext& context) {
    return context.options.loss.mean ? context.options.loss.loss_output : "";
  }

  // Behind what can't be typed with the file's own rows nothing is known, and nothing is claimed.
  bool is_unknown(const Node& node) const {
    if (ops::OpRegistry::get().find(node) == nullptr) return true;
    const auto unknown = [&](const Value* value) {
      return value != nullptr && unknown_.contains(value);
    };
    if (std::ranges::any_of(node.inputs(), unknown)) return true;
    return std::ranges::any_of(node.outputs(), [&](const Value* value) {
      if (value == nullptr) return false;
      const Value* base = base_->find(value->name);
      return base == nullptr || !base->type.is_static() || faulty_.contains(value->name);
    });
  }

  void forget(Node& node) {
    for (Value* value : node.outputs()) {
      if (value == nullptr) continue;
      value->type = TensorType::unranked(DType::kUndefined);
      unknown_.insert(value);
    }
  }

  const Place* place(const Value* value) const {
    const auto it = value == nullptr ? places_.end() : places_.find(value->name);
    return it == places_.end() ? nullptr : &it->second;
  }

  // An operand as far as its numbers are read: null where nothing is but its type.
  static const Value* read(const Node& node, int slot) {
    const ops::Port* port = ops::port_of(ops::OpRegistry::get().at(node), slot);
    return port != nullptr && port->type_only ? nullptr : node.input(slot);
  }

  static std::vector<const Value*> reads(const Node& node) {
    std::vector<const Value*> values;
    for (int slot = 0; slot < node.num_inputs(); ++slot) values.push_back(read(node, slot));
    return values;
  }

  // For each operand the axis of the batch; -1: it has none.
  std::vector<int> batch_axes(const Node& node) const {
    std::vector<int> axes;
    for (const Value* value : reads(node)) axes.push_back(place(value) ? place(value)->axis : -1);
    return axes;
  }

  // --- does a node follow?

  // Where the batch is in a value, by its two types. "": it follows.
  std::string find_place(const Value& value, std::optional<Place>& place) const {
    const TensorType& file = base_->find(value.name)->type;
    const TensorType& type = value.type;
    if (!type.is_static() || type.rank() != file.rank()) {
      return fmt::format("the type of its output {} isn't known", in_quotes(value.name));
    }
    for (int i = 0; i < type.rank(); ++i) {
      const int64_t size = type.dims[i].value, was = file.dims[i].value;
      if (size == was) continue;
      const bool counts_rows = size % prime_ == 0 && size / prime_ * rows_ == was;
      if (!counts_rows || place) {
        return fmt::format(
            "axis {} of its output {} has {} elements in the file, and {} (rule R1)", i,
            in_quotes(value.name), was,
            place ? "so would two axes be the batch"
                  : fmt::format(
                        "would have {} if there were {} rows, which neither stays so nor follows",
                        size, prime_));
      }
      place = Place{i, size / prime_, size == prime_ ? 1 : -1, false};
    }
    return "";
  }

  static bool keeps_elements(const Node& node) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    return op->view && node.input(0) != nullptr && node.output(0) != nullptr &&
           node.input(0)->type.is_static() && node.output(0)->type.is_static() &&
           node.input(0)->type.numel() == node.output(0)->type.numel();
  }

  // Of a view: the batch must stay where it is in the order of the elements.
  static std::string keep_position(const Node& node, const Place& from, Place& to) {
    const auto& in = node.input(0)->type.dims;
    const auto& out = node.output(0)->type.dims;
    const auto refuse = [&] {
      return fmt::format("the batch would stand between other elements in {} than in {} (rule R2)",
                         in_quotes(node.output(0)->name), in_quotes(node.input(0)->name));
    };
    if (from.before < 0) return refuse();
    const int64_t before = product(in, 0, from.axis) * from.before;
    const int64_t behind =
        from.per_row / from.before * product(in, from.axis + 1, static_cast<int>(in.size()));
    const int64_t outer = product(out, 0, to.axis);
    const int64_t inner = product(out, to.axis + 1, static_cast<int>(out.size()));
    if (outer == 0 || inner == 0 || before % outer != 0 || behind % inner != 0) return refuse();
    to.before = before / outer;
    if (to.before * (behind / inner) != to.per_row) return refuse();
    const auto is_one = [&](int axis) {
      return axis >= 0 && axis < std::ssize(out) && out[static_cast<size_t>(axis)].value == 1;
    };
    to.doubtful = from.doubtful && (is_one(to.axis - 1) || is_one(to.axis + 1));
    return "";
  }

  // Of a node that moves or changes elements, in a file of one row: what its operands have merged
  // with the batch, or could have taken for it, must stay apart.
  std::string keep_apart(Node& node) const {
    const Value* doubtful = nullptr;
    for (const Value* value : reads(node)) {
      if (place(value) != nullptr && is_doubtful(*place(value))) doubtful = value;
    }
    if (doubtful == nullptr || ops::keeps_rows_apart(node, batch_axes(node))) return "";
    const Place& from = *place(doubtful);
    return fmt::format(
        "it may mix what stands along axis {} of {}, where {}, so that samples would meet (rule "
        "R4)",
        from.axis, in_quotes(doubtful->name),
        from.per_row > 1 ? fmt::format("the one row of the file has {} elements", from.per_row)
                         : "the one row of the file is one of several axes of size 1");
  }

  bool is_doubtful(const Place& place) const {
    return rows_ == 1 && (place.per_row > 1 || place.doubtful);
  }

  // The batch is lost in a sum that is the loss.
  bool sums_the_loss(Node& node, int slot) const {
    if (loss_.empty() || node.output(slot)->name != loss_) return false;
    return ops::role_in_front(node, batch_axes(node), slot) == ops::BatchRole::kSum;
  }

  using Places = std::vector<std::optional<Place>>;  // by output

  std::string follows(Node& node, Places& places) {
    try {
      ops::infer_node(node);
    } catch (const Error& error) {
      return fmt::format("tried with {} rows: {}", prime_, first_line(error.what()));
    }
    places.assign(static_cast<size_t>(node.num_outputs()), {});
    const auto has_batch = [&](const Value* value) { return place(value) != nullptr; };
    const bool fed = std::ranges::any_of(reads(node), has_batch);
    const ops::OpDef& op = ops::OpRegistry::get().at(node);
    const bool view = keeps_elements(node);
    for (int i = 0; i < node.num_outputs(); ++i) {
      const Value* value = node.output(i);
      if (value == nullptr || (value->uses().empty() && !probe_->is_output(value))) continue;
      std::optional<Place>& to = places[static_cast<size_t>(i)];
      std::string why = find_place(*value, to);
      if (why.empty() && fed && !to && !value->uses().empty() && !op.reads_only_shapes) {
        why = fmt::format(
            "its output {} has no batch axis any more, and numbers behind it may count rows (rule "
            "R5)",
            in_quotes(value->name));
      }
      if (why.empty() && fed && !to && sums_the_loss(node, i)) {
        why = fmt::format(
            "the loss {} is a sum over the batch, and a factor in front of it may be one over the "
            "rows of the file (rule R5); with --reduction sum it is taken as it is",
            in_quotes(value->name));
      }
      if (why.empty()) why = keep_output(*value, to);
      if (why.empty() && to && i == 0 && view && has_batch(node.input(0))) {
        why = keep_position(node, *place(node.input(0)), *to);
      } else if (why.empty() && to) {
        why = inherit(node, *to);
        if (why.empty() && fed) why = keep_apart(node);
      }
      if (!why.empty()) return why;
    }
    return "";
  }

  // Axis 0 of an output of the file is the batch there: it must stay that.
  std::string keep_output(const Value& value, const std::optional<Place>& place) const {
    if (!probe_->is_output(&value) || value.type.rank() < 2) return "";
    const bool first = place && place->axis == 0 && place->per_row == 1;
    if (first || base_->find(value.name)->type.dims[0].value != rows_) return "";
    return fmt::format("axis 0 of the output {} would not be the batch", in_quotes(value.name));
  }

  // Of a node that moves whole axes.
  std::string inherit(const Node& node, Place& to) const {
    const Value* first = nullptr;
    for (const Value* value : reads(node)) {
      const Place* from = place(value);
      if (from == nullptr) continue;
      to.doubtful |= from->doubtful;
      if (from->per_row != to.per_row) continue;
      if (first == nullptr) {
        first = value;
        to.before = from->before;
      } else if (to.per_row > 1 && from->before != to.before) {
        return fmt::format(
            "the batch stands between other elements in its input {} than in {} (rule R2)",
            in_quotes(value->name), in_quotes(first->name));
      }
    }
    return "";
  }

  void note_place(const Value& value, std::optional<Place> known) {
    if (!known) find_place(value, known);
    if (known) places_.insert_or_assign(value.name, *known);
  }

  // --- changes that may make it follow

  struct Change {
    int slot = 0;
    int64_t element = -1;  // of the integers in that slot; -1: the operand gets the batch
    int axis = -1;         // there
    int64_t less = 0;      // of that integer
    std::vector<BakedConstant> constants;
    Places places;  // of the node's outputs then
  };

  std::vector<Change> changes(const Node& node) const {
    std::vector<Change> result;
    for (int slot = 0; slot < node.num_inputs(); ++slot) {
      const Value* value = read(node, slot);
      if (value == nullptr || place(value) != nullptr || unknown_.contains(value)) continue;
      if (lists_numbers(*value)) {
        const std::vector<int64_t> numbers = value->data.to_ints();
        for (size_t i = 0; i < numbers.size(); ++i) {
          const bool may_count = numbers[i] > 0 && numbers[i] < kNoLimit;
          if (may_count && numbers[i] % rows_ == 0 && numbers[i] % prime_ != 0) {
            result.push_back({slot, static_cast<int64_t>(i), -1, 0, {}, {}});
          }
        }
      }
      for (int axis = 0; axis < value->type.rank(); ++axis) {
        if (value->type.dims[axis].value == rows_) result.push_back({slot, -1, axis, 0, {}, {}});
      }
    }
    return result;
  }

  // The operand under a change, as a value of its own.
  Value* changed(const Node& node, const Change& change) {
    const Value* value = node.input(change.slot);
    if (change.element >= 0) {
      std::vector<int64_t> numbers = value->data.to_ints();
      int64_t& number = numbers[static_cast<size_t>(change.element)];
      number = number / rows_ * prime_ - change.less;
      return probe_->add_constant(graph::fresh_name(*probe_, "baked"),
                                  with_numbers(value->data, numbers));
    }
    TensorType type = value->type;
    type.dims[static_cast<size_t>(change.axis)] = prime_;
    Value* stand_in = probe_->add_input(graph::fresh_name(*probe_, "baked"), std::move(type));
    places_.insert_or_assign(stand_in->name, Place{change.axis, 1, 1});
    return stand_in;
  }

  // Runs `body` with the changes made, then takes them back.
  template <class Body>
  auto with_changes(Node& node, const std::vector<const Change*>& made, Body&& body) {
    std::vector<std::pair<int, Value*>> before;
    for (const Change* change : made) {
      before.emplace_back(change->slot, node.input(change->slot));
      probe_->set_input(&node, change->slot, changed(node, *change));
    }
    const auto result = body();
    for (const auto& [slot, value] : before) {
      Value* stand_in = node.input(slot);
      probe_->set_input(&node, slot, value);
      drop(stand_in);
    }
    return result;
  }

  void drop(Value* stand_in) {
    places_.erase(stand_in->name);
    if (stand_in->is_constant()) return probe_->remove(stand_in);
    std::vector<Value*> inputs = probe_->inputs();
    std::erase(inputs, stand_in);
    probe_->set_inputs(std::move(inputs));
  }

  // The constants of the file behind a change; empty: there are none.
  std::vector<BakedConstant> constants_behind(Node& node, const Change& change, int steps) {
    const Value* value = node.input(change.slot);
    BakedConstant constant{positions_.at(&node), change.slot, {}, change.axis, {}};
    if (change.element >= 0) {
      std::vector<int64_t> numbers = value->data.to_ints();
      for (size_t i = 0; i < numbers.size(); ++i) {
        const bool here = static_cast<int64_t>(i) == change.element;
        const int64_t unit = here ? rows_ : numbers[i] > 0 ? prime_ : INT64_MAX;
        if (numbers[i] % unit != 0 || unit == INT64_MAX) continue;
        constant.counts.emplace_back(static_cast<int64_t>(i), numbers[i] / unit);
        numbers[i] = numbers[i] / unit * rows_;
      }
      constant.data = with_numbers(value->data, numbers);
      return {constant};
    }
    const bool elsewhere = std::ranges::any_of(given_, [&](const auto& given) {
      return given.first == value && given.second != change.axis;
    });
    if (elsewhere) return {};
    if (value->is_constant()) {
      // One that --init will give values has none yet.
      if (value->origin.kind == graph::Origin::Kind::kGraphInput) return {};
      constant.data = equal_slice(value->data, change.axis);
      if (!constant.data.defined()) return {};
      return {constant};
    }
    if (value->producer == nullptr || steps == 0) return {};
    // The other readers of an operand are asked at the end.
    if (steps < kMostSteps && value->uses().size() != 1) return {};
    return constants_of(*value->producer, *value, change.axis, steps - 1);
  }

  // Those that give `value`, the only result of `node`, the batch on this axis.
  std::vector<BakedConstant> constants_of(Node& node, const Value& value, int axis, int steps) {
    if (node.num_outputs() != 1 || probe_->is_output(&value)) return {};
    const TensorType old = value.type;
    TensorType wanted = old;
    wanted.dims[static_cast<size_t>(axis)] = prime_;
    std::vector<std::vector<BakedConstant>> accepted;
    for (const Change& change : changes(node)) {
      const bool gives = with_changes(node, {&change}, [&] {
        try {
          ops::infer_node(node);
          return node.output(0)->type.same_storage(wanted);
        } catch (const Error&) {
          return false;
        }
      });
      node.output(0)->type = old;
      if (!gives) continue;
      std::vector<BakedConstant> constants = constants_behind(node, change, steps);
      if (!constants.empty()) accepted.push_back(std::move(constants));
    }
    return accepted.size() == 1 ? accepted[0] : std::vector<BakedConstant>();
  }

  // A node that moves whole axes has the batch on the axis of an operand, from one end or the
  // other.
  bool keeps_axis(const Node& node, const Places& places) const {
    if (keeps_elements(node)) return true;
    bool fed = false, same = false;
    for (const Value* value : reads(node)) {
      const Place* from = place(value);
      if (from == nullptr) continue;
      fed = true;
      for (int i = 0; i < node.num_outputs(); ++i) {
        const std::optional<Place>& to = places[static_cast<size_t>(i)];
        if (!to || to->per_row != from->per_row) continue;
        same |= to->axis == from->axis ||
                node.output(i)->type.rank() - to->axis == value->type.rank() - from->axis;
      }
    }
    return same || !fed;
  }

  std::vector<Change> accepted(Node& node) {
    std::vector<Change> result;
    for (Change& change : changes(node)) {
      const bool follows_then = with_changes(node, {&change}, [&] {
        return follows(node, change.places).empty() && keeps_axis(node, change.places);
      });
      if (!follows_then || !matters(node, change)) continue;
      change.constants = constants_behind(node, change, kMostSteps);
      if (!change.constants.empty()) result.push_back(std::move(change));
    }
    return result;
  }

  // Whether one row less would be another result: an end of a Slice far behind the last row is a
  // limit, no count.
  bool matters(Node& node, Change change) {
    if (change.element < 0 || node.output(0) == nullptr) return true;
    const TensorType type = node.output(0)->type;
    change.less = 1;
    return with_changes(node, {&change}, [&] {
      Places places;
      return !follows(node, places).empty() || !node.output(0)->type.same_storage(type);
    });
  }

  // Every operand that could get the batch, each on one axis only: states of a recurrent layer.
  std::vector<Change> accepted_together(Node& node) {
    std::vector<Change> together;
    for (Change& change : changes(node)) {
      if (change.element >= 0) continue;
      change.constants = constants_behind(node, change, kMostSteps);
      if (change.constants.empty()) continue;
      if (!together.empty() && together.back().slot == change.slot) return {};
      together.push_back(std::move(change));
    }
    if (together.size() < 2) return {};
    std::vector<const Change*> made;
    for (const Change& change : together) made.push_back(&change);
    const bool follows_then = with_changes(node, made, [&] {
      return follows(node, together[0].places).empty() && keeps_axis(node, together[0].places);
    });
    return follows_then ? together : std::vector<Change>();
  }

  // In a file of one row several entries of a target may be the batch, and the target as it is may
  // merge it. One on an axis of its own comes first, before that the axis it had, then the first
  // one that merges it; R4 then proves it. Returns whether there were several axes of its own.
  bool choose(const Node& node, const std::optional<Place>& as_is,
              std::vector<Change>& found) const {
    const Place* from = place(node.input(0));
    if (rows_ != 1 || from == nullptr || !keeps_elements(node)) return false;
    const auto order = [&](const Place& to) {
      const bool merged = to.per_row > 1;
      return std::pair(merged, merged || to.axis != from->axis ? to.axis : -1);
    };
    const auto of_change = [&](const Change& change) { return order(*change.places[0]); };
    std::set<int> own;
    for (const Change& change : found) {
      if (change.places[0]->per_row == 1) own.insert(change.places[0]->axis);
    }
    if (as_is && as_is->per_row == 1) own.insert(as_is->axis);
    if (!found.empty()) {
      const Change best = *std::ranges::min_element(found, {}, of_change);
      found.clear();
      if (!as_is || of_change(best) < order(*as_is)) found.push_back(best);
    }
    return own.size() > 1;
  }

  void make(Node& node, const Change& change) {
    Value* operand = node.input(change.slot);
    if (change.element < 0 && !operand->is_constant()) given_.emplace_back(operand, change.axis);
    probe_->set_input(&node, change.slot, changed(node, change));
    for (const BakedConstant& constant : change.constants) {
      const bool known = std::ranges::any_of(found_.constants, [&](const BakedConstant& other) {
        return other.node == constant.node && other.slot == constant.slot;
      });
      if (!known) found_.constants.push_back(constant);
    }
  }

  // What got the batch through its producer gets it for all its readers.
  void ask_other_readers() {
    for (const auto& [value, axis] : given_) {
      found_.axes.emplace(value->name, std::pair(axis, int64_t{1}));
      for (const graph::Use& use : value->uses()) {
        if (unknown_.contains(use.node->output(0))) continue;
        found_.faults.emplace_back(
            positions_.at(use.node),
            fmt::format("its input {} would get the batch on axis {}, which another node needs "
                        "there (rule R3)",
                        in_quotes(value->name), axis));
      }
    }
  }

  // "": the node follows, now.
  std::string make_follow(Node& node) {
    Places places;
    std::string why = follows(node, places);
    const bool ambiguous =
        rows_ == 1 && why.empty() && keeps_elements(node) && place(node.input(0)) != nullptr;
    bool doubtful = false;
    if (!why.empty() || ambiguous) {
      std::vector<Change> found = accepted(node);
      doubtful = choose(node, why.empty() ? places[0] : std::nullopt, found);
      if (found.size() > 1) return several(node, found);
      if (found.empty() && !why.empty()) found = accepted_together(node);
      if (found.empty() && !why.empty()) return why + held(node);
      for (const Change& change : found) make(node, change);
      why = follows(node, places);
      CHECK(why.empty(), "{}", why);
    }
    for (int i = 0; i < node.num_outputs(); ++i) {
      std::optional<Place>& to = places[static_cast<size_t>(i)];
      if (!to) continue;
      to->doubtful |= doubtful;
      places_.insert_or_assign(node.output(i)->name, *to);
    }
    return "";
  }

  static std::string several(const Node& node, const std::vector<Change>& found) {
    std::string text = "several of its numbers could be the batch:";
    for (const Change& change : found) {
      text += change.element >= 0 ? fmt::format(" element {} of", change.element)
                                  : fmt::format(" axis {} of", change.axis);
      text += fmt::format(" {},", in_quotes(node.input(change.slot)->name));
    }
    text.pop_back();
    return text + " (rule R3)";
  }

  // What there would be to change, and isn't known to be the batch.
  std::string held(const Node& node) const {
    std::string text;
    std::unordered_set<int> told;
    for (const Change& change : changes(node)) {
      const Value* value = node.input(change.slot);
      if (!told.insert(change.slot).second || slot_is_weight(node, change.slot)) continue;
      text += fmt::format("{} {} {}", text.empty() ? "; no single change of" : " or",
                          in_quotes(value->name), value->type.str());
    }
    return text.empty() ? text : text + " makes it follow";
  }

  static bool slot_is_weight(const Node& node, int slot) {
    const ops::OpDef& op = ops::OpRegistry::get().at(node);
    return op.parameter_slot && op.parameter_slot(slot) != ops::ParameterSlot::kNone;
  }

  int64_t rows_, prime_ = 0;
  std::string loss_;
  std::unique_ptr<Graph> base_, probe_;
  std::unordered_set<std::string> faulty_;
  std::unordered_set<const Value*> unknown_;
  std::unordered_map<const Node*, int> positions_;
  std::unordered_map<std::string, Place> places_;  // by the name of the value
  std::vector<std::pair<Value*, int>> given_;      // the batch by their producers, on this axis
  BakedBatch found_;
};

}  // namespace

std::unique_ptr<Graph> bound_to_rows(const Graph& graph, const PassContext& context, int64_t rows) {
  std::unique_ptr<Graph> bound = graph.clone();
  PassContext own;
  own.options = context.options;
  own.options.batch = rows;
  own.options.set_batch = true;
  find_pass("bind_batch")->run(*bound, own);
  return bound;
}

BakedBatch find_baked_batch(const Graph& graph, const PassContext& context) {
  for (const Value* input : graph.inputs()) {
    if (!input->type.ranked || input->type.dims.empty()) continue;
    const graph::Dim& first = input->type.dims[0];
    if (!first.known() || first.value == 0) return {};
    return Finder(graph, context, first.value).run();
  }
  return {};
}

}  // namespace sardonyx::passes
