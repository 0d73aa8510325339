// forward: outputs as stored, or the properties of a random operator (Dropout).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using graph::Tensor;
using nlohmann::json;

namespace {

// The stored outputs, or another complete set that the case accepts.
void check_outputs(const Task& task, const NamedTensors& got) {
  const test::Tolerance tolerance = tolerance_of(task.spec);
  const std::string difference =
      compare(got, read_list(task, task.spec.at("outputs")), tolerance, "output", Types::kEqual);
  if (difference.empty()) return;
  for (const json& other : task.spec.value("outputs_also_accepted", json::array())) {
    const NamedTensors want = read_list(task, other.at("outputs"));
    if (compare(got, want, tolerance, "output", Types::kEqual).empty()) return;
  }
  throw Mismatch("{}", difference);
}

class DropoutFacts {
 public:
  DropoutFacts(Task& task, const json& facts) : task_(task), facts_(facts) {
    batch_ = read_batch(task);
    output_ = facts.at("output");
  }

  void check() {
    const Tensor y = mask(batch_, 1);
    check_values(y);
    if (!y.identical(mask(batch_, 1))) throw Mismatch("the same seed gives another mask");
    if (y.identical(mask(batch_, 2))) throw Mismatch("another seed gives the same mask");
    if (facts_.value("gradient_of_ones_equals_output", false)) check_gradient(y);
    if (facts_.contains("runs")) check_micro_batches();
  }

 private:
  std::unique_ptr<runtime::Session> open(uint64_t seed, const runtime::Batch& batch) const {
    runtime::SessionOptions options = plain_options(task_);
    options.seed = seed;
    // Four micro-batches make one batch larger than the file says.
    options.pipeline.set_batch = batch.rows() != batch_.rows();
    describe(options, batch);
    return runtime::Session::open(task_.model(), options);
  }
  Tensor mask(const runtime::Batch& batch, uint64_t seed) const {
    return find_named(open(seed, batch)->forward(batch, passes::Mode::kTrain), output_, "output");
  }

  void check_values(const Tensor& y) const {
    const auto allowed = facts_.at("values_one_of").get<std::vector<double>>();
    int64_t zeros = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double value = y.as_double(i);
      if (std::none_of(allowed.begin(), allowed.end(),
                       [&](double a) { return std::abs(a - value) <= 1e-6; })) {
        throw Mismatch("element {} is {}, which is none of {}", i, value,
                       facts_["values_one_of"].dump());
      }
      if (value == 0) ++zeros;
    }
    const double fraction = static_cast<double>(zeros) / static_cast<double>(y.numel());
    const auto range = facts_.at("fraction_zero_between").get<std::vector<double>>();
    if (fraction < range[0] || fraction > range[1]) {
      throw Mismatch("{} of the elements are zero, expected {} to {}", fraction, range[0],
                     range[1]);
    }
  }

  void check_gradient(const Tensor& y) const {
    const Tensor& x = batch_.inputs.at(0).second;
    const auto gradients = open(1, batch_)->gradients(
        batch_, {{output_, x}}, {batch_.inputs[0].first}, passes::Mode::kTrain);
    if (const auto difference = test::difference(gradients.at(0).second, y, {0, 0})) {
      throw Mismatch("the gradient of ones is not the output: {}", *difference);
    }
  }

  // The mask belongs to the sample, so micro-batches of a step have the masks of their rows.
  void check_micro_batches() const {
    const int64_t rows = batch_.rows(), pieces = 4;
    runtime::Batch four;
    for (const auto& [name, tensor] : batch_.inputs) {
      four.inputs.emplace_back(name, test::repeat_rows(tensor, pieces * rows));
    }
    const Tensor y = mask(four, 1);
    for (int64_t i = 0; i < pieces; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        if (test::rows_of(y, i * rows, (i + 1) * rows)
                .identical(test::rows_of(y, j * rows, (j + 1) * rows))) {
          throw Mismatch("micro-batches {} and {} have the same mask", j, i);
        }
      }
    }
  }

  Task& task_;
  const json& facts_;
  runtime::Batch batch_;
  std::string output_;
};

}  // namespace

void run_forward(Task& task) {
  if (task.spec.contains("properties")) {
    DropoutFacts(task, task.spec["properties"]).check();
    return;
  }
  const runtime::Batch batch = read_batch(task);
  runtime::SessionOptions options = plain_options(task);
  describe(options, batch);
  check_outputs(task,
                runtime::Session::open(task.model(), options)->forward(batch, mode_of(task.spec)));
}

void run_gradient(Task& task) {
  const runtime::Batch batch = read_batch(task);
  const passes::Mode mode = mode_of(task.spec);
  runtime::SessionOptions options = plain_options(task);
  describe(options, batch);
  try {
    check_outputs(task, runtime::Session::open(task.model(), options)->forward(batch, mode));
    const auto session = runtime::Session::open(task.model(), options);
    std::vector<std::string> wrt;
    for (const json& entry : task.spec.at("grads")) wrt.push_back(entry.at("name"));
    const NamedTensors got =
        session->gradients(batch, read_list(task, task.spec.at("dy")), wrt, mode);
    const test::Tolerance tolerance = tolerance_of(task.spec);
    const std::string difference =
        compare(got, read_list(task, task.spec["grads"]), tolerance, "gradient", Types::kAny);
    bool accepted = difference.empty();
    for (const json& other : task.spec.value("grads_also_accepted", json::array())) {
      accepted = accepted || compare(got, read_list(task, other.at("grads")), tolerance, "gradient",
                                     Types::kAny)
                                 .empty();
    }
    if (!accepted) throw Mismatch("{}", difference);
    NamedTensors states;
    const json expected = task.spec.value("state_after", json::array());
    for (const json& entry : expected) {
      states.emplace_back(entry.at("name"), session->state(entry.at("name")));
    }
    const std::string moved =
        compare(states, read_list(task, expected), tolerance, "statistic", Types::kAny);
    if (!moved.empty()) throw Mismatch("{}", moved);
  } catch (const Error& refusal) {
    // The operator may be refused by name.
    if (!task.spec.value("stretch", false)) throw;
    task.notes.push_back(fmt::format("refused: {}", refusal.what()));
  }
}

}  // namespace sardonyx::cases
