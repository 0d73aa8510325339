// The gradients of a node test of the ONNX backend: d(sum seed . outputs) / d(float inputs) in
// double against central differences, and in float against double.
//
// A difference says nothing where the function has a kink, a jump or a pole. Two step sizes tell:
// the slopes on both sides of a smooth point come together as the step shrinks. Results that aren't
// finite have no part in the sum.
#include <algorithm>
#include <cmath>

#include "graph/onnx_import.h"
#include "ops/core/gradient_flow.h"
#include "ops/core/op.h"
#include "tests/run_cases/node_data.h"

namespace sardonyx::cases {

using graph::DType;
using graph::Tensor;

namespace {

// Powers of two: x + h and x - h are exact for what float32 holds, unless x is very large.
constexpr double kWideStep = 0x1p-13, kStep = 0x1p-17;
constexpr double kTolerance = 1e-5;
// Elements of an operand that are compared, at even distances.
constexpr int64_t kElements = 48;

// Of the sum, from both sides of a point.
struct Slopes {
  double left = 0, right = 0;
  double central() const { return (left + right) / 2; }
  double gap() const { return std::abs(right - left); }
};

runtime::Batch in_type(const runtime::Batch& batch, DType dtype) {
  runtime::Batch cast;
  for (const auto& [name, tensor] : batch.inputs) {
    const bool floats = graph::is_floating(tensor.dtype());
    cast.inputs.emplace_back(name, floats ? tensor.cast(dtype) : tensor);
  }
  return cast;
}

class GradientCheck {
 public:
  GradientCheck(Task& task, const NodeData& data, Known known) : task_(task) {
    model_ = data.model(task.model(), known);
    file_ = graph::import_model(model_);
    batch_ = in_type(data.batch(*file_.graph, known), DType::kFloat64);
  }

  void run() {
    find_operands();
    narrow_ = open(DType::kFloat32);
    make_seeds();
    session_ = open(DType::kFloat64);
    const NamedTensors exact = exact_gradients();
    for (const auto& [name, dx] : exact) compare_with_differences(name, dx);
    compare_with_float(exact);
    if (task_.points.checked == 0) throw NothingToCheck("no element away from kinks");
  }

 private:
  void find_operands() {
    std::string reason = "no float operand";
    for (const auto& [name, tensor] : batch_.inputs) {
      if (tensor.dtype() != DType::kFloat64 || tensor.numel() == 0) continue;
      const std::string none = without_gradient(file_.graph->find(name));
      if (none.empty()) {
        wanted_.push_back(name);
      } else {
        reason = "every operand is left out: " + none;
        task_.notes.push_back(kLeftOut + none);
      }
    }
    if (wanted_.empty()) throw NothingToCheck("{}", reason);
  }

  // Why no gradient reaches the operand, as the operators say that read it; "": one does.
  static std::string without_gradient(const graph::Value* operand) {
    std::string reason;
    for (const graph::Use& use : operand->uses()) {
      const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
      const ops::Port* port = op == nullptr ? nullptr : ops::port_of(*op, use.index);
      if (port == nullptr || port->no_gradient.empty()) return "";
      reason = fmt::format("{}, {}: {}", op->name, port->name, port->no_gradient);
    }
    return reason;
  }

  std::unique_ptr<runtime::Session> open(DType dtype) const {
    runtime::SessionOptions options = plain_options(task_);
    options.pipeline.respect_training_mode = true;
    options.pipeline.dtype = dtype;
    describe(options, batch_);
    return std::make_unique<runtime::Session>(model_, options);
  }

  void make_seeds() {
    uint64_t seed = 500;
    for (const auto& [name, y] :
         narrow_->forward(in_type(batch_, DType::kFloat32), passes::Mode::kTrain)) {
      if (!graph::is_floating(y.dtype()) || y.numel() == 0) continue;
      Tensor numbers = test::random_tensor(DType::kFloat64, y.shape(), 0.25, 1.5, ++seed);
      for (int64_t i = 0; i < y.numel(); ++i) {
        if (std::isfinite(y.as_double(i))) continue;
        numbers.mutable_data<double>()[i] = 0;
        left_out_ = true;
      }
      seeds_.emplace_back(name, std::move(numbers));
    }
    if (seeds_.empty()) throw NothingToCheck("no float result");
  }

  // Of all outputs; where there are several and some of them have no gradient, as running
  // statistics have none, of the first one.
  NamedTensors exact_gradients() {
    try {
      return gradients(*session_, batch_, DType::kFloat64);
    } catch (const NothingToCheck&) {
      if (seeds_.size() == 1) throw;
    }
    seeds_.resize(1);
    return gradients(*session_, batch_, DType::kFloat64);
  }

  NamedTensors gradients(runtime::Session& session, const runtime::Batch& batch,
                         DType dtype) const {
    NamedTensors seeds;
    for (const auto& [name, seed] : seeds_) seeds.emplace_back(name, seed.cast(dtype));
    try {
      return session.gradients(batch, seeds, wanted_, passes::Mode::kTrain);
    } catch (const Error& error) {
      const std::string reason = reason_in(error.what());
      if (reason.empty()) throw;
      throw NothingToCheck("{}", reason);
    }
  }

  // "...\n  node NAME: OPERATOR has no gradient: REASON\n..." or "node NAME is not differentiable:
  // REASON\n...": from the operator on, or the reason. "": the error is about something else.
  static std::string reason_in(const std::string& text) {
    const size_t refused = text.find(" is not differentiable: "),
                 none = text.find(" has no gradient: ");
    if (refused == std::string::npos && none == std::string::npos) return "";
    const size_t begin =
        refused != std::string::npos ? text.find(": ", refused) : text.rfind(": ", none);
    return text.substr(begin + 2, text.find('\n', begin) - begin - 2);
  }

  // The sum, and what it is made of without signs: rounding is relative to that.
  struct Sum {
    double value = 0, magnitude = 0;
  };
  Sum sum(const runtime::Batch& batch) const {
    Sum total;
    const NamedTensors got = session_->forward(batch, passes::Mode::kTrain);
    for (const auto& [name, seed] : seeds_) {
      const Tensor& y = find_named(got, name, "output");
      for (int64_t i = 0; i < y.numel(); ++i) {
        if (seed.as_double(i) == 0) continue;
        const double part = seed.as_double(i) * y.as_double(i);
        total.value += part;
        total.magnitude += std::abs(part);
      }
    }
    return total;
  }

  void compare_with_differences(const std::string& name, const Tensor& dx) {
    const Sum here = sum(batch_);
    const double noise = 0x1p-49 * here.magnitude / kStep;
    const int64_t stride = std::max<int64_t>(1, dx.numel() / kElements);
    for (int64_t i = 0; i < dx.numel(); i += stride) {
      const Slopes wide = slopes(name, i, kWideStep, here.value);
      const Slopes near = slopes(name, i, kStep, here.value);
      const double tolerance = kTolerance * std::max(1.0, std::abs(near.central())) + noise;
      // Only results that were left out depend on it: no change times a slope of infinity.
      const bool at_pole =
          left_out_ && std::isnan(dx.as_double(i)) && near.left == 0 && near.right == 0;
      if (at_pole || !is_smooth(wide, near, tolerance)) {
        ++task_.points.kinks;
        continue;
      }
      ++task_.points.checked;
      if (!(std::abs(dx.as_double(i) - near.central()) <= 2 * tolerance)) {
        throw Mismatch("gradient of '{}': element {} of {} is {}, central differences say {}", name,
                       i, graph::shape_str(dx.shape()), dx.as_double(i), near.central());
      }
    }
  }

  static bool is_smooth(const Slopes& wide, const Slopes& near, double tolerance) {
    return std::abs(wide.central() - near.central()) <= tolerance &&
           near.gap() <= tolerance + wide.gap() / 8;
  }

  Slopes slopes(const std::string& name, int64_t element, double step, double here) const {
    return {(here - shifted(name, element, -step)) / step,
            (shifted(name, element, step) - here) / step};
  }

  double shifted(const std::string& name, int64_t element, double by) const {
    runtime::Batch batch = batch_;
    for (auto& [operand, tensor] : batch.inputs) {
      if (operand == name) tensor.mutable_data<double>()[element] += by;
    }
    return sum(batch).value;
  }

  // The kernels of float are others than those of double.
  void compare_with_float(const NamedTensors& exact) const {
    const NamedTensors got = gradients(*narrow_, in_type(batch_, DType::kFloat32), DType::kFloat32);
    for (const auto& [name, dx] : exact) {
      double largest = 1;
      for (const double value : dx.to_doubles()) {
        if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
      }
      const test::Tolerance tolerance{1e-3, 1e-4 * largest};
      const Tensor& found = find_named(got, name, "gradient");
      if (const auto difference = test::difference(found, dx, tolerance)) {
        throw Mismatch("gradient of '{}' in float: {}", name, *difference);
      }
    }
  }

  Task& task_;
  std::shared_ptr<const graph::Model> model_;
  graph::ImportedModel file_;
  runtime::Batch batch_;
  std::unique_ptr<runtime::Session> session_, narrow_;  // in double, in float
  std::vector<std::string> wanted_;
  NamedTensors seeds_;
  bool left_out_ = false;  // some results aren't finite
};

}  // namespace

void run_node_gradient(Task& task) {
  for (const NodeData& data : data_sets(task.folder)) {
    with_enough_known({Known::kNothing, Known::kIntegers, Known::kLists, Known::kAll},
                      [&](Known known) { GradientCheck(task, data, known).run(); });
  }
}

}  // namespace sardonyx::cases
