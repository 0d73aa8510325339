// Recursive descent over graph/lexer.h; types, data and attributes are in parse_value.cc. The whole
// text is read before anything is linked, so a node may read a value that a later line makes
// (verify reports the order).
#include "graph/parse.h"

#include <fmt/format.h>

#include <array>

#include "graph/names.h"
#include "graph/parse_value.h"
#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

struct ParsedNode {
  Token start;
  std::string domain, op, name, forward_node;
  std::map<std::string, Attribute, std::less<>> attributes;
  std::vector<Token> outputs, inputs;
  std::vector<TensorType> types;  // of the outputs that are there; empty: not given
};

struct ParsedValue {
  Token name;
  TensorType type;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), graph_(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> run() {
    parse_header();
    graph_->name = lexer_.expect_name("the graph's name").name();
    for (const ParsedValue& input : parse_values()) {
      claim(input.name);
      graph_->add_input(input.name.name(), input.type);
    }
    lexer_.expect("=>");
    const std::vector<ParsedValue> outputs = parse_values();
    parse_initializers();
    lexer_.expect("{");
    while (!lexer_.accept("}")) parse_statement();
    if (lexer_.peek().kind != Token::Kind::kEnd) {
      Lexer::fail(lexer_.peek(), "the end of the text after '}'");
    }
    link_nodes();
    link_outputs(outputs);
    for (const auto& [state, next] : bindings_) bind(state, next);
    return std::move(graph_);
  }

 private:
  // --- reading
  // ----------------------------------------------------------------------------------------------

  void parse_header() {
    if (!lexer_.accept("<")) return;
    if (lexer_.accept(">")) return;
    do {
      const Token key = lexer_.expect_name("ir_version, opset_import or batch");
      lexer_.expect(":");
      if (key.text == "ir_version") {
        graph_->ir_version = parse_int(lexer_);
      } else if (key.text == "opset_import") {
        parse_opsets();
      } else if (key.text == "batch") {
        graph_->batch_symbol = lexer_.expect_name("the symbol of the batch axis").name();
      } else {
        Lexer::fail(key, "ir_version, opset_import or batch");
      }
    } while (lexer_.accept(","));
    lexer_.expect(">");
  }

  void parse_opsets() {
    lexer_.expect("[");
    if (lexer_.accept("]")) return;
    do {
      const std::string domain = lexer_.expect_name("a domain in quotes").name();
      lexer_.expect(":");
      graph_->opsets[domain] = parse_int(lexer_);
    } while (lexer_.accept(","));
    lexer_.expect("]");
  }

  // "float[2] x", or only "x".
  ParsedValue parse_value() {
    Token first = lexer_.expect_name("a value, with or without its type");
    const Token& after = lexer_.peek();
    const bool typed = first.kind == Token::Kind::kIdentifier &&
                       (after.is_name() || after.is("[") || after.is("@"));
    if (!typed) return {std::move(first), {}};
    TensorType type = parse_type(lexer_, first);
    return {lexer_.expect_name("a value's name"), std::move(type)};
  }

  std::vector<ParsedValue> parse_values() {
    std::vector<ParsedValue> values;
    lexer_.expect("(");
    if (lexer_.accept(")")) return values;
    do {
      values.push_back(parse_value());
    } while (lexer_.accept(","));
    lexer_.expect(")");
    return values;
  }

  void parse_initializers() {
    if (!lexer_.accept("<") || lexer_.accept(">")) return;
    do {
      parse_initializer();
    } while (lexer_.accept(","));
    lexer_.expect(">");
  }

  void parse_initializer() {
    StateRole role = StateRole::kNone;
    bool state = false;
    if (lexer_.peek().is_word("state")) {
      lexer_.next();
      lexer_.expect("(");
      role = parse_role();
      lexer_.expect(")");
      state = true;
    }
    const ParsedValue value = parse_value();
    claim(value.name);
    Tensor data;
    if (lexer_.accept("=")) {
      data = parse_data(lexer_, value.type);
    } else if (!state) {
      Lexer::fail(lexer_.peek(), "'=' and the bytes of the constant");
    }
    const std::string name = value.name.name();
    if (state) {
      graph_->add_state(name, value.type, role, std::move(data));
    } else {
      graph_->add_constant(name, std::move(data))->type = value.type;
    }
  }

  StateRole parse_role() {
    const Token word = lexer_.expect_name("a role");
    std::string known;
    for (const StateRole role :
         {StateRole::kNone, StateRole::kParameter, StateRole::kStatistic, StateRole::kOptimizer,
          StateRole::kAccumulator, StateRole::kCounter}) {
      if (word.text == role_name(role)) return role;
      known += (known.empty() ? "" : ", ") + std::string(role_name(role));
    }
    Lexer::fail(word, "a role: " + known);
  }

  void parse_statement() {
    ParsedNode node;
    node.start = lexer_.peek();
    if (lexer_.peek().is("[")) {
      lexer_.next();
      parse_bracket(node);
    }
    Token first = lexer_.expect_name("a node, a binding or '}'");
    const Token& after = lexer_.peek();
    if (after.is(":=") && node.start.text != "[") {
      lexer_.next();
      bindings_.emplace_back(std::move(first), lexer_.expect_name("the value that a state takes"));
      return;
    }
    if (after.is("=") || after.is(",")) {
      node.outputs.push_back(std::move(first));
      while (lexer_.accept(",")) node.outputs.push_back(lexer_.expect_name("an output's name"));
      lexer_.expect("=");
      first = lexer_.expect_name("an operator");
    }
    parse_call(node, first);
    nodes_.push_back(std::move(node));
  }

  // After "[": `conv1]`, `conv1_grad of conv1]`, `of conv1]`.
  void parse_bracket(ParsedNode& node) {
    std::string* target = &node.name;
    Token word;
    for (word = lexer_.bracket_word(); word.is_name(); word = lexer_.bracket_word()) {
      if (word.is_word("of") && target == &node.name) {
        target = &node.forward_node;
      } else {
        *target += (target->empty() ? "" : " ") + word.name();
      }
    }
    if (!word.is("]")) Lexer::fail(word, "a node's name or ']'");
    if (target->empty()) Lexer::fail(word, "a node's name");
  }

  // Operator (its first word is taken), attributes, inputs and the types in the comment.
  void parse_call(ParsedNode& node, const Token& first) {
    node.op = first.name();
    if (first.kind == Token::Kind::kString) {
      node.domain = first.string;
      lexer_.expect(".");
      node.op = lexer_.expect_name("an operator").name();
    } else if (const size_t dot = node.op.rfind('.'); dot != std::string::npos) {
      node.domain = node.op.substr(0, dot);
      node.op.erase(0, dot + 1);
    }
    if (lexer_.accept("<") && !lexer_.accept(">")) {
      do {
        const Token name = lexer_.expect_name("an attribute's name");
        lexer_.expect("=");
        if (!node.attributes.emplace(name.name(), parse_attribute(lexer_)).second) {
          Lexer::fail(name, "each attribute once");
        }
      } while (lexer_.accept(","));
      lexer_.expect(">");
    }
    lexer_.expect("(");
    if (!lexer_.peek().is(")")) {
      do {
        node.inputs.push_back(lexer_.expect_name("an input's name"));
      } while (lexer_.accept(","));
    }
    const Token close = lexer_.expect(")");
    parse_comment(node, close);
  }

  // A comment that is a list of types gives the types of the outputs; any other is only a comment.
  void parse_comment(ParsedNode& node, const Token& close) {
    if (close.comment.empty()) return;
    try {
      Lexer lexer(close.comment);
      do {
        node.types.push_back(parse_type(lexer, lexer.next()));
      } while (lexer.accept(","));
      if (lexer.peek().kind != Token::Kind::kEnd) node.types.clear();
    } catch (const Error&) {
      node.types.clear();
    }
    size_t outputs = 0;
    for (const Token& output : node.outputs) outputs += output.name().empty() ? 0 : 1;
    if (!node.types.empty() && node.types.size() != outputs) {
      Lexer::fail(close, fmt::format("{} types in the comment, one per output, not {}", outputs,
                                     node.types.size()));
    }
  }

  // --- linking
  // ----------------------------------------------------------------------------------------------

  void claim(const Token& name) {
    if (name.name().empty()) Lexer::fail(name, "a name that is not empty");
    if (graph_->find(name.name()) != nullptr) Lexer::fail(name, "a name that no other value has");
  }

  Value* find(const Token& name) {
    Value* value = graph_->find(name.name());
    if (value != nullptr) return value;
    std::vector<std::string> names;
    for (const Value& known : graph_->values()) names.push_back(known.name);
    const std::vector<std::string> near = near_names(name.name(), names);
    Lexer::fail(name, near.empty()
                          ? "the name of a value"
                          : fmt::format("the name of a value (near: {})", fmt::join(near, ", ")));
  }

  void link_nodes() {
    std::vector<Node*> made;
    for (ParsedNode& parsed : nodes_) {
      std::vector<std::string> outputs;
      for (const Token& output : parsed.outputs) outputs.push_back(output.name());
      const std::vector<std::string> left_out(outputs.size());
      Node* node = graph_->add_node(parsed.domain, parsed.op, {}, left_out);
      for (size_t i = 0, typed = 0; i < outputs.size(); ++i) {
        if (outputs[i].empty()) continue;
        claim(parsed.outputs[i]);
        Value* value = graph_->add_output_value(node, static_cast<int>(i), outputs[i]);
        if (!parsed.types.empty()) value->type = parsed.types[typed++];
      }
      node->name = std::move(parsed.name);
      node->forward_node = std::move(parsed.forward_node);
      node->attributes = std::move(parsed.attributes);
      made.push_back(node);
    }
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (size_t i = 0; i < nodes_[n].inputs.size(); ++i) {
        const Token& input = nodes_[n].inputs[i];
        graph_->set_input(made[n], static_cast<int>(i),
                          input.name().empty() ? nullptr : find(input));
      }
    }
  }

  void link_outputs(const std::vector<ParsedValue>& outputs) {
    for (const ParsedValue& output : outputs) {
      Value* value = find(output.name);
      graph_->add_output(value);
      if (output.type == TensorType{} || output.type == value->type) continue;
      if (value->kind != ValueKind::kResult) {
        Lexer::fail(output.name, fmt::format("type {} as where '{}' was declared",
                                             value->type.str(), value->name));
      }
      value->type = output.type;
    }
  }

  void bind(const Token& state, const Token& next) {
    Value* value = find(state);
    if (!value->is_state()) Lexer::fail(state, "a state before ':='");
    if (graph_->bound(value) != nullptr) Lexer::fail(state, "one binding per state");
    graph_->bind(value, find(next));
  }

  Lexer lexer_;
  std::unique_ptr<Graph> graph_;
  std::vector<ParsedNode> nodes_;
  std::vector<std::pair<Token, Token>> bindings_;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace sardonyx::graph
