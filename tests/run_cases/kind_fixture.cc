// fixture: a file as an exporter wrote it, and what five SGD steps on one batch must give.
//
// The gradient of step 1 is read from the momentum buffers after one step without weight decay at
// rate 0: by the rule of the first step they are the gradient.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/run_cases/kinks.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using graph::Tensor;
using nlohmann::json;

namespace {

struct Size {
  double largest = 0, norm = 0, probe = 0;
};

Size measure(const Tensor& tensor) {
  Size size;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double x = tensor.as_double(i);
    size.largest = std::isnan(x) ? x : std::max(size.largest, std::abs(x));
    size.norm += x * x;
    size.probe += x * std::cos(static_cast<double>(i));
  }
  size.norm = std::sqrt(size.norm);
  return size;
}

// Tensors of one kind (gradients, parameters) against what case.json says of each: whole where a
// file holds it, else norm, probe and the first 16 values.
class Summaries {
 public:
  Summaries(const Task& task, const char* what, const char* key, const char* files,
            double tolerance)
      : task_(task), what_(what), tolerance_(tolerance) {
    const json& expected = task.spec.at("expected");
    summaries_ = expected.at(key);
    if (expected.contains(fmt::format("{}_norm", key))) {
      norms_ = expected[fmt::format("{}_norm", key)];
    }
    if (task.spec.contains("files")) files_ = task.spec["files"].value(files, json::object());
    for (const auto& [name, summary] : summaries_.items()) {
      for (const json& x : summary.at("head")) {
        largest_ = std::max(largest_, std::abs(x.get<double>()));
      }
      largest_norm_ = std::max(largest_norm_, norm_of(name));
    }
    for (const auto& [name, file] : files_.items()) {
      largest_ = std::max(largest_, measure(read_tensor(task.file(file))).largest);
    }
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& [name, summary] : summaries_.items()) result.push_back(name);
    return result;
  }
  double largest() const { return largest_; }

  void check(const std::string& name, const Tensor& got) const {
    const Size size = measure(got);
    const json& summary = summaries_.at(name);
    const double norm = norm_of(name);
    expect(name, "norm", size.norm, norm, tolerance_ * (norm + 1e-3 * largest_norm_));
    expect(
        name, "probe", size.probe, summary.at("probe"),
        tolerance_ * (norm + 1e-3 * largest_norm_) * std::sqrt(static_cast<double>(got.numel())));
    if (files_.contains(name)) {
      compare_whole(name, got, read_tensor(task_.file(files_[name])));
      return;
    }
    const json& head = summary.at("head");
    double largest = norm / std::sqrt(static_cast<double>(std::max<int64_t>(got.numel(), 1)));
    for (const json& x : head) largest = std::max(largest, std::abs(x.get<double>()));
    for (size_t i = 0; i < head.size(); ++i) {
      expect(name, fmt::format("element {}", i), got.as_double(static_cast<int64_t>(i)), head[i],
             tolerance_ * (largest + 1e-3 * largest_));
    }
  }

 private:
  double norm_of(const std::string& name) const {
    const json& holder = norms_.contains(name) ? norms_[name] : summaries_.at(name).at("norm");
    return holder.get<double>();
  }

  void expect(const std::string& name, const std::string& where, double got, double want,
              double room) const {
    if (!(std::abs(got - want) <= room)) {
      throw Mismatch("{} '{}': {} is {}, expected {} within {:.3g}", what_, name, where, got, want,
                     room);
    }
  }

  void compare_whole(const std::string& name, const Tensor& got, const Tensor& want) const {
    if (got.numel() != want.numel()) throw Mismatch("{} '{}' has another size", what_, name);
    const double room = tolerance_ * (measure(want).largest + 1e-3 * largest_);
    for (int64_t i = 0; i < got.numel(); ++i) {
      expect(name, fmt::format("element {}", i), got.as_double(i), want.as_double(i), room);
    }
  }

  const Task& task_;
  const char* what_;
  double tolerance_;
  json summaries_, norms_ = json::object(), files_ = json::object();
  double largest_ = 0, largest_norm_ = 0;
};

class Fixture {
 public:
  explicit Fixture(Task& task) : task_(task), expected_(task.spec.at("expected")) {
    batch_.inputs.emplace_back(task.spec.at("input").get<std::string>(),
                               read_tensor(task.file("input_0.pb")));
    batch_.labels = read_tensor(task.file("labels.pb"));
  }

  void check() {
    check_output();
    check_gradients();
    const Kink* kink = kink_of(task_.which.id);
    if (kink == nullptr || task_.variant.dtype == "f64") return check_training();
    check_losses(*runtime::Session::open(task_.model(), training()), kink->step);
    precision_ = Precision::kGoldens;
    check_gradients();
    check_training();
  }

  // Which tensors the default rule would have chosen.
  void compare_default_rule() {
    std::set<std::string> found;
    try {
      runtime::SessionOptions options = training();
      options.pipeline.trainable.exactly.reset();
      for (const auto& row : runtime::Session::open(task_.model(), options)->parameters(rows())) {
        if (row.role == passes::ParameterRow::Role::kTrainable) found.insert(row.name);
      }
    } catch (const Error& error) {
      task_.notes.push_back(fmt::format("default rule: {}", error.what()));
      return;
    }
    const auto want = expected_.at("trainable").get<std::set<std::string>>();
    std::vector<std::string> names;
    for (const std::string& name : found) {
      if (!want.contains(name)) names.push_back("+" + name);
    }
    for (const std::string& name : want) {
      if (!found.contains(name)) names.push_back("-" + name);
    }
    std::string line = names.empty() ? "same" : fmt::format("{} differ:", names.size());
    for (size_t i = 0; i < names.size() && i < 4; ++i) line += " " + names[i];
    task_.notes.push_back("default rule: " + line);
  }

 private:
  int64_t rows() const { return batch_.rows(); }
  double tolerance(const char* kind) const {
    return precision_ == Precision::kGoldens ? kGoldenDigits
                                             : expected_.at("tolerance").at(kind).get<double>();
  }

  runtime::SessionOptions training() const {
    runtime::SessionOptions options = plain_options(task_);
    passes::PipelineOptions& pipeline = options.pipeline;
    if (precision_ == Precision::kGoldens) pipeline.dtype = graph::DType::kFloat64;
    const std::string loss = task_.spec.at("loss");
    pipeline.loss.kind = loss == "softmax_cross_entropy" ? "cross_entropy" : loss;
    pipeline.loss.output = task_.spec.at("graph_output");
    const json& optimizer = expected_.at("optimizer");
    pipeline.optimizer.momentum = optimizer.at("momentum");
    pipeline.optimizer.weight_decay = optimizer.at("weight_decay");
    pipeline.optimizer.nesterov = optimizer.at("nesterov");
    pipeline.dropout = false;
    pipeline.trainable.exactly = expected_.at("trainable").get<std::vector<std::string>>();
    describe(options, batch_);
    return options;
  }

  void check_output() const {
    runtime::SessionOptions options = plain_options(task_);
    describe(options, batch_);
    const std::string name = task_.spec.at("graph_output");
    const auto outputs =
        runtime::Session::open(task_.model(), options)->forward(batch_, passes::Mode::kEval);
    const Tensor want = read_tensor(task_.file("output_0.pb"));
    // The output is onnxruntime's, which computes a float16 file in float16: by so much the float64
    // reference differs from it.
    const double reference = task_.spec.at("inference_check").at("max_rel_error");
    const double room = (1e-4 + 2 * reference) * measure(want).largest;
    if (const auto difference =
            test::difference(find_named(outputs, name, "output"), want, {1e-4, room})) {
      throw Mismatch("output '{}': {}", name, *difference);
    }
  }

  // In `vanishing_gradient` or `untouched`.
  bool listed(const char* list, const std::string& name) const {
    const json& names = expected_.at(list);
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // What the loss doesn't depend on is no state: the file's value stands.
  Tensor value_after(const runtime::Session& session, const std::string& name) const {
    return listed("untouched", name) ? session.imported().find(name)->data : session.state(name);
  }

  void check_gradients() const {
    runtime::SessionOptions options = training();
    options.pipeline.optimizer.momentum = 0.9;
    options.pipeline.optimizer.nesterov = false;
    options.pipeline.optimizer.weight_decay = 0;
    const auto session = runtime::Session::open(task_.model(), options);
    session->train_step(batch_, {{rows()}}, 0.0);
    const Summaries gradients(task_, "gradient", "grad", "grads", tolerance("grad_rel"));
    for (const std::string& name : gradients.names()) {
      if (listed("untouched", name)) continue;
      const Tensor got = session->state("momentum/" + name);
      if (!listed("vanishing_gradient", name)) {
        gradients.check(name, got);
      } else if (const double largest = measure(got).largest;
                 !(largest <= 1e-4 * gradients.largest())) {
        throw Mismatch("gradient '{}' should vanish, but reaches {}", name, largest);
      }
    }
    check_statistics(*session);
  }

  void check_statistics(const runtime::Session& session) const {
    for (const json& layer : expected_.at("running_stats_step1")) {
      check_statistic(session, layer.at("mean"), layer.at("new_mean"));
      check_statistic(session, layer.at("var"), layer.at("new_var_population"));
    }
  }

  void check_statistic(const runtime::Session& session, const std::string& name,
                       const json& want) const {
    const Tensor got = session.state(name);
    const double rel = tolerance("param_rel");
    for (size_t i = 0; i < want.size(); ++i) {
      const double x = got.as_double(static_cast<int64_t>(i)), y = want[i];
      if (!(std::abs(x - y) <= rel * (std::abs(y) + 1e-3))) {
        throw Mismatch("statistic '{}': element {} is {}, expected {}", name, i, x, y);
      }
    }
  }

  // Before each of the first `steps` updates.
  void check_losses(runtime::Session& session, size_t steps) const {
    const json& losses = expected_.at("loss_step");
    const double rel = tolerance("loss_rel");
    for (size_t i = 0; i < std::min(steps, losses.size()); ++i) {
      const double want = losses[i];
      const double got =
          session.train_step(batch_, {{rows()}}, expected_.at("optimizer").at("lr")).loss;
      if (!(std::abs(got - want) <= rel * std::abs(want))) {
        throw Mismatch("loss of step {} is {}, expected {}", i + 1, got, want);
      }
    }
  }

  void check_training() const {
    const auto session = runtime::Session::open(task_.model(), training());
    check_losses(*session, SIZE_MAX);
    const Summaries parameters(task_, "parameter", "param_after", "params_after",
                               tolerance("param_rel"));
    for (const std::string& name : parameters.names()) {
      parameters.check(name, value_after(*session, name));
    }
    check_saved(*session);
  }

  // The saved file computes what the session does, as far as the types of the file hold it.
  void check_saved(runtime::Session& session) const {
    const std::string name = task_.spec.at("graph_output");
    const auto saved = task_.scratch / "trained.onnx";
    session.save(saved);
    runtime::SessionOptions options = plain_options(task_);
    describe(options, batch_);
    const auto again = runtime::Session::open(saved, options);
    const auto want = session.forward(batch_, passes::Mode::kEval);
    const auto got = again->forward(batch_, passes::Mode::kEval);
    const bool half = std::ranges::any_of(again->imported().values(), [](const auto& value) {
      return value.type.dtype == graph::DType::kFloat16;
    });
    const double room = half ? 4e-3 : 1e-5;
    const Tensor& expected = find_named(want, name, "output");
    if (const auto difference = test::difference(find_named(got, name, "output"), expected,
                                                 {room, room * measure(expected).largest})) {
      throw Mismatch("output '{}' of the saved file: {}", name, *difference);
    }
  }

  // kGoldens: in float64, to the digits that the goldens are written with.
  enum class Precision : uint8_t { kOfCase, kGoldens };
  static constexpr double kGoldenDigits = 1e-8;

  static const Kink* kink_of(const std::string& id) {
    const auto* kink = std::ranges::find(kKinks, id, &Kink::fixture);
    return kink == std::end(kKinks) ? nullptr : kink;
  }

  Task& task_;
  const json& expected_;
  runtime::Batch batch_;
  Precision precision_ = Precision::kOfCase;
};

}  // namespace

void run_fixture(Task& task) {
  Fixture fixture(task);
  fixture.compare_default_rule();
  fixture.check();
}

}  // namespace sardonyx::cases
