// print(parse(print(g))) == print(g), and the graph behind the text is the same, over random graphs
// that use every feature of the text form.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "graph/names.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"

namespace sardonyx::graph {
namespace {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  std::unique_ptr<Graph> make() {
    graph_ = std::make_unique<Graph>();
    graph_->name = name();
    graph_->ir_version = below(20);
    for (int i = below(3); i > 0; --i) graph_->opsets[one_of(domains_)] = below(30);
    if (below(2) != 0) graph_->batch_symbol = name();
    for (int i = below(4); i > 0; --i) values_.push_back(graph_->add_input(new_name(), type()));
    for (int i = below(5); i > 0; --i) add_initializer();
    for (int i = below(8); i > 0; --i) add_node();
    for (int i = values_.empty() ? 0 : below(4); i > 0; --i) graph_->add_output(one_of(values_));
    for (Value* state : graph_->states()) {
      if (below(2) != 0) graph_->bind(state, one_of(values_));
    }
    return std::move(graph_);
  }

 private:
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % bound); }
  uint64_t bits() { return static_cast<uint64_t>(random_()) << 32 | random_(); }

  template <class List>
  typename List::value_type one_of(const List& list) {
    return list[below(static_cast<int64_t>(list.size()))];
  }

  std::string bytes() {
    std::string out;
    for (int64_t i = below(6); i > 0; --i) out += static_cast<char>(below(256));
    return out;
  }

  std::string name() {
    const std::vector<std::string> names{"x",   "w.1",   "226", "a/b:0",  "of",  "state", "float",
                                         "inf", "nan",   "a b", "\u5c42", "a.",  "_",     "-1",
                                         "",    "graph", "\"",  "[",      "z#y", "node 7"};
    return below(4) == 0 ? bytes() : one_of(names);
  }

  std::string new_name() { return fresh_name(*graph_, name()); }

  DType dtype() { return static_cast<DType>(1 + below(16)); }

  Layout layout() {
    Layout out;
    if (below(3) == 0) out.order = {0, 2, static_cast<int32_t>(below(30)), 1};
    for (int64_t i = below(3); i > 0; --i) {
      out.inner.push_back({static_cast<int32_t>(below(5)), static_cast<int32_t>(1 + below(64))});
    }
    if (!out.plain() && below(2) != 0) out.padding = Layout::Padding::kZero;
    return out;
  }

  Dim dim(bool known) {
    Dim out(known || below(2) != 0 ? below(4) : -1);
    if (below(3) == 0) {
      const std::string symbol = name();
      out.symbol = symbol.empty() ? "N" : symbol;
    }
    return out;
  }

  TensorType type() {
    if (below(6) == 0) return {};
    if (below(6) == 0) return TensorType::unranked(dtype());
    return type_of(dtype(), false);
  }

  TensorType type_of(DType dtype, bool known) {
    TensorType out(dtype, {});
    for (int64_t i = below(4); i > 0; --i) out.dims.push_back(dim(known));
    if (below(3) == 0) out.layout = layout();
    return out;
  }

  float real() {
    const float special[] = {0.0F, -0.0F, 1.0F, 0.1F, INFINITY, -INFINITY, NAN, 1e-45F, 3e38F};
    return below(2) != 0 ? special[below(std::size(special))]
                         : std::bit_cast<float>(static_cast<uint32_t>(random_()));
  }

  Tensor data(const TensorType& type) {
    Tensor out(type.dtype, type.shape());
    if (type.dtype == DType::kString) {
      std::vector<std::string> strings(out.numel());
      for (std::string& text : strings) text = bytes();
      return Tensor::of_strings(type.shape(), strings);
    }
    for (std::byte& byte : out.mutable_bytes()) byte = static_cast<std::byte>(below(256));
    if (type.dtype == DType::kFloat32) {
      for (float& value : out.mutable_data<float>()) value = real();
    }
    return out;
  }

  void add_initializer() {
    TensorType type = type_of(dtype(), true);
    Tensor bytes = data(type);
    if (below(2) != 0) {
      Value* value = graph_->add_constant(new_name(), bytes);
      value->type = type;
      values_.push_back(value);
    } else {
      const auto role = static_cast<StateRole>(below(6));
      values_.push_back(below(2) != 0 ? graph_->add_state(new_name(), type, role, bytes)
                                      : graph_->add_state(new_name(), this->type(), role));
    }
  }

  Attribute attribute() {
    switch (below(10)) {
      case 0:
        return static_cast<int64_t>(bits());
      case 1:
        return static_cast<double>(real());
      case 2:
        return std::bit_cast<double>(bits());
      case 3:
        return bytes();
      case 4:
        return std::vector<int64_t>(below(3), static_cast<int64_t>(bits()));
      case 5:
        return std::vector<double>(below(3),
                                   below(2) != 0 ? real() : std::bit_cast<double>(bits()));
      case 6:
        return std::vector<std::string>(below(3), bytes());
      case 7:
        return GraphAttribute{bytes(), std::vector<std::string>(below(3), name())};
      case 8:
        return AttributeReference{name()};
      default:
        return data(TensorType(dtype(), {below(3)}));
    }
  }

  void add_node() {
    std::vector<Value*> inputs;
    for (int64_t i = values_.empty() ? 0 : below(4); i > 0; --i) {
      inputs.push_back(below(4) != 0 ? one_of(values_) : nullptr);
    }
    Node* node = graph_->add_node(one_of(domains_), one_of(ops_), inputs,
                                  std::vector<std::string>(below(4)));
    for (int slot = 0; slot < node->num_outputs(); ++slot) {
      if (below(4) == 0) continue;
      Value* value = graph_->add_output_value(node, slot, new_name());
      value->type = type();
      values_.push_back(value);
    }
    if (below(2) != 0) node->name = name();
    if (below(3) == 0) node->forward_node = name();
    for (int64_t i = below(4); i > 0; --i) {
      const std::string key = name();
      node->attributes.insert_or_assign(key.empty() ? "a" : key, attribute());
    }
  }

  const std::vector<std::string> domains_{"", "sardonyx", "com.microsoft", "odd domain", "a."};
  const std::vector<std::string> ops_{"Relu", "Conv", "_f", "v2.Op", "2D", "of", "odd op"};
  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  std::vector<Value*> values_;
};

// What the text must carry, apart from the text itself.
void expect_same(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.ir_version, b.ir_version);
  EXPECT_EQ(a.opsets, b.opsets);
  EXPECT_EQ(a.batch_symbol, b.batch_symbol);
  EXPECT_EQ(a.values().size(), b.values().size());
  for (const Value& value : a.values()) {
    const Value* other = b.find(value.name);
    ASSERT_NE(other, nullptr) << value.name;
    EXPECT_EQ(value.kind, other->kind);
    EXPECT_EQ(value.role, other->role);
    EXPECT_EQ(value.type, other->type) << value.name << " " << value.type.str();
    EXPECT_TRUE(value.data.identical(other->data)) << value.name;
    EXPECT_EQ(value.slot, other->slot);
    EXPECT_EQ(value.uses().size(), other->uses().size());
  }
  ASSERT_EQ(a.nodes().size(), b.nodes().size());
  auto other = b.nodes().begin();
  for (const Node& node : a.nodes()) {
    EXPECT_EQ(node.domain, other->domain);
    EXPECT_EQ(node.op, other->op);
    EXPECT_EQ(node.name, other->name);
    EXPECT_EQ(node.forward_node, other->forward_node);
    EXPECT_EQ(node.num_inputs(), other->num_inputs());
    EXPECT_EQ(node.num_outputs(), other->num_outputs());
    ASSERT_EQ(node.attributes.size(), other->attributes.size());
    for (const auto& [key, value] : node.attributes) {
      ASSERT_TRUE(other->has(key));
      EXPECT_TRUE(same_attribute(value, other->attributes.at(key))) << print(value);
    }
    ++other;
  }
}

TEST(RoundTrip, random_graphs_read_back_as_they_were) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const auto graph = RandomGraph(seed).make();
    const std::string text = print(*graph);
    std::unique_ptr<Graph> read;
    ASSERT_NO_THROW(read = parse(text)) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print(*read), text) << "seed " << seed;
    expect_same(*graph, *read);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << text;
    EXPECT_EQ(print(*graph->clone()), text);
  }
}

TEST(RoundTrip, the_options_do_not_disturb_reading) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const auto graph = RandomGraph(seed).make();
    PrintOptions options;
    options.types = false;
    options.max_elements = 1;
    options.origins = true;
    const std::string text = print(*graph, options);
    ASSERT_NO_THROW(parse(text)) << "seed " << seed << "\n" << text;
  }
}

TEST(RoundTrip, every_float32_attribute_that_is_tried_keeps_its_bits) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const auto graph = parse("g () => () { Op<a = " + print(Attribute(value)) + ">() }");
    ASSERT_TRUE(same_attribute(graph->nodes().front().attributes.at("a"), value)) << value;
  }
}

}  // namespace
}  // namespace sardonyx::graph
