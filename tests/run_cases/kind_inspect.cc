// inspect: facts about a file as `check`, `inspect` and a save without steps report them.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/run_cases/kit.h"
#include "tests/run_cases/save_facts.h"
#include "tests/support/shared_data.h"

namespace sardonyx::cases {

using nlohmann::json;
using Role = passes::ParameterRow::Role;

namespace {

class Facts {
 public:
  explicit Facts(Task& task) : task_(task), facts_(task.spec.at("facts")) {
    session_ = runtime::Session::open(task.model(), options());
    rows_ = rows_for(*session_, 2);
  }

  void check() {
    static const std::map<std::string, void (Facts::*)(const json&)> known = {
        {"data_inputs", &Facts::data_inputs},
        {"outputs", &Facts::outputs},
        {"trainable", &Facts::trainable},
        {"not_trainable", &Facts::not_trainable},
        {"state", &Facts::state},
        {"lifted", &Facts::lifted},
        {"parameter_count", &Facts::parameter_count},
        {"parameter_bytes", &Facts::parameter_bytes},
        {"counts", &Facts::counts},
        {"node_count", &Facts::node_count},
        {"opset", &Facts::opset},
        {"ir_version", &Facts::ir_version},
        {"producer", &Facts::producer},
        {"inferred_shapes", &Facts::inferred_shapes},
        {"hints_mention", &Facts::notices_mention},
        {"notice_mention", &Facts::notices_mention},
        {"warnings_mention", &Facts::notices_mention},
        {"loss_attach", &Facts::loss_attach},
        {"loss_output", &Facts::loss_output},
        {"label_input", &Facts::label_input},
        {"save", &Facts::save},
        {"option", &Facts::given},
    };
    for (const auto& [name, want] : facts_.items()) {
      const auto it = known.find(name);
      if (it == known.end()) throw Mismatch("run_cases knows no fact '{}'", name);
      what_ = name;
      (this->*it->second)(want);
    }
  }

 private:
  // The loss goes to the named output; a scalar one is the loss itself.
  runtime::SessionOptions options() const {
    runtime::SessionOptions options = plain_options(task_);
    const json option = facts_.value("option", json::object());
    options.pipeline.trainable.freeze = option.value("freeze", std::vector<std::string>());
    const std::string output = option.value("loss_output", facts_.value("loss_output", ""));
    if (output.empty()) return options;
    const auto file = runtime::Session::open(task_.model(), plain_options(task_));
    const graph::Value* value = file->imported().find(output);
    const bool scalar = value != nullptr && value->type.is_static() && value->type.numel() == 1;
    (scalar ? options.pipeline.loss.loss_output : options.pipeline.loss.output) = output;
    return options;
  }

  const std::vector<passes::ParameterRow>& rows() {
    if (table_.empty()) table_ = session_->parameters(rows_);
    return table_;
  }

  template <class A, class B>
  void equal(const A& got, const B& want) const {
    const json g = got, w = want;
    if (g != w) throw Mismatch("{} is {}, expected {}", what_, g.dump(), w.dump());
  }

  static std::vector<std::string> names(const std::vector<graph::Value*>& values) {
    std::vector<std::string> result;
    for (const graph::Value* value : values) result.push_back(value->name);
    return result;
  }

  void given(const json&) {}
  void data_inputs(const json& want) { equal(names(session_->data_inputs()), want); }
  void outputs(const json& want) { equal(names(session_->imported().outputs()), want); }
  void ir_version(const json& want) { equal(session_->imported().ir_version, want); }
  void producer(const json& want) { equal(session_->model().skeleton().producer_name(), want); }
  void node_count(const json& want) { equal(session_->imported().nodes().size(), want); }
  void loss_output(const json&) { rows(); }

  void opset(const json& want) {
    for (const auto& [domain, version] : want.items()) {
      equal(session_->imported().opsets.at(domain), version);
    }
  }

  void counts(const json& want) {
    for (const auto& [op, count] : want.items()) {
      int64_t found = 0;
      for (const graph::Node& node : session_->imported().nodes()) found += node.op == op ? 1 : 0;
      equal(found, count);
    }
  }

  std::map<std::string, json> of_role(Role role) {
    std::map<std::string, json> found;
    for (const passes::ParameterRow& row : rows()) {
      if (row.role == role) found[row.name] = row.type.shape();
    }
    return found;
  }

  void trainable(const json& want) {
    std::map<std::string, json> expected;
    for (const json& entry : want) expected[entry.at("name")] = entry.at("shape");
    equal(of_role(Role::kTrainable), expected);
  }

  void state(const json& want) {
    std::vector<std::string> found;
    for (const auto& [name, shape] : of_role(Role::kState)) found.push_back(name);
    equal(found, want);
  }

  void not_trainable(const json& want) {
    for (const json& entry : want) {
      const std::string name = entry.at("name");
      const auto it = std::find_if(rows().begin(), rows().end(),
                                   [&](const auto& row) { return row.name == name; });
      if (it == rows().end()) throw Mismatch("the table has no '{}'", name);
      if (it->role == Role::kTrainable) throw Mismatch("'{}' is trainable", name);
      if (!missing_words(it->reason, json::array({entry.at("reason_any")})).empty()) {
        throw Mismatch("the reason for '{}' is \"{}\", expected one of {}", name, it->reason,
                       entry["reason_any"].dump());
      }
    }
  }

  void lifted(const json& want) {
    std::set<std::string> found;
    for (const passes::ParameterRow& row : rows()) {
      if (row.role == Role::kTrainable && row.origin.kind == graph::Origin::Kind::kConstantNode) {
        found.insert(row.name);
      }
    }
    equal(found, want.get<std::set<std::string>>());
  }

  void parameter_count(const json& want) {
    int64_t count = 0;
    for (const auto& row : rows()) count += row.role == Role::kTrainable ? row.type.numel() : 0;
    equal(count, want);
  }

  void parameter_bytes(const json& want) {
    size_t bytes = 0;
    for (const auto& row : rows()) bytes += row.role == Role::kTrainable ? row.type.bytes() : 0;
    equal(bytes, want);
  }

  void inferred_shapes(const json& want) {
    runtime::SessionOptions options = plain_options(task_);
    options.pipeline.loss.kind = "none";
    const auto graph = runtime::Session::open(task_.model(), options)->evaluation_graph(rows_);
    for (const auto& [name, shape] : want.items()) {
      const graph::Value* value = graph->find(name);
      if (value == nullptr) throw Mismatch("the graph has no value '{}'", name);
      equal(value->type.shape(), shape);
    }
  }

  // Everything a user would have been told on the way to a plan.
  void notices_mention(const json& want) {
    std::string text;
    const auto add = [&](const runtime::Session& session) {
      for (const std::string& line : session.notices()) text += line + "\n";
    };
    runtime::SessionOptions options = plain_options(task_);
    options.pipeline.loss.kind = "none";
    const auto evaluated = runtime::Session::open(task_.model(), options);
    evaluated->evaluation_graph(rows_);
    add(*evaluated);
    try {
      rows();
    } catch (const Error&) {
      // A file without parameters still has its notices.
    }
    add(*session_);
    const std::string missing = missing_words(text, want);
    if (!missing.empty()) throw Mismatch("the notices lack {}: {}", missing, text);
  }

  void loss_attach(const json& want) {
    std::vector<std::string> found;
    const auto graph = session_->training_graph(rows_);
    for (const graph::Node& node : graph->nodes()) {
      if (node.op == "CrossEntropyLoss") found.push_back(node.input(0)->name);
    }
    equal(found, want);
  }

  void label_input(const json& want) {
    for (const graph::Value* input : session_->data_inputs()) {
      if (input->name == want && !graph::is_floating(input->type.dtype)) return;
    }
    throw Mismatch("there is no input '{}' for labels", want.get<std::string>());
  }

  void save(const json& want) { check_save(task_, *session_, want); }

  Task& task_;
  const json& facts_;
  std::unique_ptr<runtime::Session> session_;
  int64_t rows_ = 1;
  std::vector<passes::ParameterRow> table_;
  std::string what_;
};

}  // namespace

void run_inspect(Task& task) {
  try {
    Facts(task).check();
  } catch (const Error& error) {
    if (task.spec.value("accept_outcome", "") != "error") throw;
    task.notes.push_back(fmt::format("refused: {}", error.what()));
  }
}

}  // namespace sardonyx::cases
