// Models: imported and prepared for training without a kernel, and small ones trained.
//
// The protobuf field model_version chooses how a model is run, so that a mutation reaches the
// options too and a saved input says everything.
#include <onnx/onnx_pb.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "graph/dot.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/support/error.h"
#include "runtime/session.h"
#include "tests/fuzz/target.h"
#include "tests/support/shared_data.h"

namespace sardonyx::fuzz {
namespace {

namespace fs = std::filesystem;
using graph::DType;
using graph::Tensor;
using runtime::Session;

// Sizes of what is trained: a model that needs more is left alone.
constexpr double kMostFlops = 2e7;
constexpr size_t kMostBytes = size_t{16} << 20;

// A model's folder with files for external data: one below it, one beside it, links.
const fs::path& model_folder() {
  static const testing::TemporaryFolder kFolder;
  static const fs::path kModels = [] {
    const fs::path models = kFolder.path() / "models";
    fs::create_directories(models / "inside");
    for (const fs::path& place : {models / "weights.bin", models / "inside" / "weights.bin",
                                  kFolder.path() / "weights.bin"}) {
      std::ofstream(place, std::ios::binary) << std::string(4096, '\0');
    }
    fs::create_symlink("weights.bin", models / "link.bin");
    fs::create_symlink("../weights.bin", models / "out.bin");
    return models;
  }();
  return kModels;
}

// Where a model is saved; empty.
fs::path saved_model() {
  const fs::path folder = model_folder().parent_path() / "saved";
  fs::remove_all(folder);
  fs::create_directory(folder);
  return folder / "model.onnx";
}

std::shared_ptr<const graph::Model> open_model(Bytes bytes) {
  return graph::Model::from_bytes(
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), model_folder());
}

// Bits of a number, taken from its low end.
class Bits {
 public:
  explicit Bits(int64_t value) : left_(static_cast<uint64_t>(value)) {}
  uint64_t take(int count) {
    const uint64_t bits = left_ & ((uint64_t{1} << count) - 1);
    left_ >>= count;
    return bits;
  }
  bool flag() { return take(1) == 1; }

 private:
  uint64_t left_;
};

// What the data hold.
enum class Values : uint8_t { kSmall, kZeros, kNotFinite, kLarge };

struct Settings {
  runtime::SessionOptions session;
  Values values = Values::kSmall;
  bool accumulate = false;
};

// Eight entries each: what is there twice is drawn more often.
void draw_loss(Bits& bits, passes::LossOptions& loss) {
  static constexpr const char* kLosses[] = {
      "cross_entropy", "mse", "nll", "l1", "smooth_l1", "bce_with_logits", "cross_entropy", "mse"};
  loss.kind = kLosses[bits.take(3)];
  if (bits.flag() && loss.kind == "cross_entropy") loss.label_smoothing = 0.1;
}

void draw_optimizer(Bits& bits, passes::OptimizerOptions& optimizer) {
  static constexpr const char* kOptimizers[] = {"sgd",     "adam", "adamw", "adagrad",
                                                "rmsprop", "lion", "lamb",  "lars"};
  optimizer.kind = kOptimizers[bits.take(3)];
  const bool variant = bits.flag();
  const bool has_momentum =
      optimizer.kind == "sgd" || optimizer.kind == "rmsprop" || optimizer.kind == "lars";
  optimizer.momentum = variant && has_momentum ? 0.9 : 0;
  optimizer.centered = variant && optimizer.kind == "rmsprop";
}

Settings settings_of(const graph::Model& model) {
  Bits bits(model.skeleton().model_version());
  Settings result;
  runtime::SessionOptions& options = result.session;
  options.threads = 1;
  result.values =
      bits.flag() && bits.flag() ? Values{static_cast<uint8_t>(bits.take(2))} : Values::kSmall;
  passes::PipelineOptions& pipeline = options.pipeline;
  draw_loss(bits, pipeline.loss);
  draw_optimizer(bits, pipeline.optimizer);
  pipeline.dtype = bits.flag() ? DType::kFloat64 : DType::kFloat32;
  static constexpr int64_t kLanes[] = {-1, -1, 0, 16};
  pipeline.lanes = kLanes[bits.take(2)];
  static constexpr int64_t kBlocks[] = {-1, -1, 0, 1};
  pipeline.block = kBlocks[bits.take(2)];
  pipeline.reference_only = bits.flag() && bits.flag();
  result.accumulate = bits.flag();
  if (bits.flag()) options.memory_budget = 1 << 20;
  if (bits.flag()) pipeline.optimizer.clip_norm = 1;
  return result;
}

int64_t rows_of(const Session& session) {
  for (const graph::Value* input : session.data_inputs()) {
    if (!input->type.ranked || input->type.dims.empty()) continue;
    return input->type.dims[0].known() ? input->type.dims[0].value : 2;
  }
  return 2;
}

// Sizes that the file leaves open are 3.
std::map<std::string, std::vector<int64_t>> sample_shapes(const Session& session) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const graph::Value* input : session.data_inputs()) {
    if (!input->type.ranked || input->type.dims.empty()) continue;
    auto& shape = shapes[input->name];
    for (size_t i = 1; i < input->type.dims.size(); ++i) {
      const graph::Dim& dim = input->type.dims[i];
      shape.push_back(dim.known() ? dim.value : 3);
    }
  }
  return shapes;
}

Tensor fill(DType dtype, std::vector<int64_t> shape, Values values, int64_t most) {
  Tensor numbers(DType::kFloat64, std::move(shape));
  auto data = numbers.mutable_data<double>();
  const bool floating = graph::is_floating(dtype);
  for (size_t i = 0; i < data.size(); ++i) {
    const double small = floating ? static_cast<double>(i * 37 % 41) / 20 - 1
                                  : static_cast<double>(i % static_cast<size_t>(most));
    switch (values) {
      case Values::kSmall:
        data[i] = small;
        break;
      case Values::kZeros:
        break;
      case Values::kNotFinite:
        data[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : small;
        break;
      case Values::kLarge:
        data[i] = i % 2 == 0 ? 3e30 : -3e30;
        break;
    }
  }
  return numbers.cast(dtype);
}

size_t bytes_of(const graph::TensorType& type) {
  double bytes = 8;
  for (const graph::Dim& dim : type.dims) {
    if (!dim.known()) throw Error("a size is not known");
    bytes *= static_cast<double>(dim.value);
  }
  return bytes < 1e18 ? static_cast<size_t>(bytes) : SIZE_MAX;
}

// The model with its data, when it is small enough.
class Training {
 public:
  explicit Training(Bytes bytes) : model_(open_model(bytes)), settings_(settings_of(*model_)) {
    session_ = std::make_unique<Session>(model_, settings_.session);
    rows_ = rows_of(*session_);
    if (rows_ < 1 || rows_ > 64) throw Error("too many rows");
    for (const graph::Value* input : session_->data_inputs()) small(input->type.dims.size() < 16);
    const auto shapes = sample_shapes(*session_);
    session_->describe_data(shapes, {});
    describe_labels(shapes);
    require_small();
    feed(shapes);
  }

  void run() {
    const runtime::Cut cut = settings_.accumulate && rows_ > 1
                                 ? runtime::Cut{{rows_ / 2, rows_ - rows_ / 2}}
                                 : runtime::Cut{{rows_}};
    bool trained = false;
    const bool stepped = accepts([&] {
      for (int step = 0; step < 2; ++step) {
        trained |= !session_->train_step(batch_, cut, 0.01, runtime::NonFinite::kSkip).skipped;
      }
    });
    accepts([&] { session_->evaluate(batch_, rows_); });
    accepts([&] { session_->forward(batch_, passes::Mode::kEval); });
    if (!stepped || !trained) return;
    const fs::path saved = saved_model();
    if (!accepts([&] { session_->save(saved); })) return;
    // What was written is a model again.
    try {
      Session::open(saved, settings_.session);
    } catch (const Error& error) {
      throw InternalError(fmt::format("the saved model can't be read: {}", error.what()));
    }
  }

 private:
  static void small(bool is_small) {
    if (!is_small) throw Error("too large for this target");
  }

  // Class numbers, or targets of the type of the scores.
  void describe_labels(const std::map<std::string, std::vector<int64_t>>& shapes) {
    const runtime::Examination found = session_->examine(rows_);
    scores_ = found.scores;
    if (!scores_.ranked || scores_.dtype == DType::kUndefined) return;
    graph::TensorType labels = scores_;
    if (passes::takes_classes(settings_.session.pipeline.loss.kind)) {
      labels.dtype = DType::kInt64;
      if (labels.dims.size() > 1) labels.dims.erase(labels.dims.begin() + 1);
    }
    small(bytes_of(labels) <= kMostBytes);
    labels_ = labels;
    session_->describe_data(shapes, labels);
  }

  void require_small() {
    const std::unique_ptr<passes::Plan> plan = session_->draft_plan(rows_);
    double flops = 0;
    for (const passes::Region& region : plan->regions) {
      for (const passes::Step& step : region.steps) {
        flops += step.flops * static_cast<double>(region.blocks);
      }
    }
    small(flops <= kMostFlops && plan->memory.state_bytes + plan->arena_bytes <= kMostBytes);
  }

  void feed(const std::map<std::string, std::vector<int64_t>>& shapes) {
    for (const graph::Value* input : session_->data_inputs()) {
      std::vector<int64_t> shape;
      if (const auto known = shapes.find(input->name); known != shapes.end()) {
        shape = known->second;
        shape.insert(shape.begin(), rows_);
      }
      small(bytes_of({DType::kFloat64, graph::to_dims(shape)}) <= kMostBytes);
      batch_.inputs.emplace_back(input->name, fill(input->type.dtype, shape, settings_.values, 4));
    }
    if (!labels_.ranked || labels_.dtype == DType::kUndefined) return;
    // Of probabilities: zeros and ones.
    const bool binary = settings_.session.pipeline.loss.kind == "bce_with_logits";
    const int64_t classes = scores_.dims.size() > 1 && !binary ? scores_.dims[1].value : 2;
    batch_.labels = fill(binary ? DType::kInt64 : labels_.dtype, labels_.shape(), settings_.values,
                         std::max<int64_t>(classes, 1))
                        .cast(labels_.dtype);
  }

  std::shared_ptr<const graph::Model> model_;
  Settings settings_;
  std::unique_ptr<Session> session_;
  int64_t rows_ = 0;
  graph::TensorType scores_, labels_;
  runtime::Batch batch_;
};

void check_round_trip(const graph::Graph& graph) {
  const std::string text = graph::print(graph);
  CHECK(graph::print(*graph::parse(text)) == text, "a graph has another text when it is read back");
}

}  // namespace

void run_import(Bytes bytes) {
  std::unique_ptr<Session> session;
  if (!accepts([&] {
        const auto model = open_model(bytes);
        session = std::make_unique<Session>(model, settings_of(*model).session);
      })) {
    return;
  }
  static_cast<void>(graph::to_dot(session->imported()));
  check_round_trip(session->imported());
  const int64_t rows = rows_of(*session);
  accepts([&] {
    session->describe_data(sample_shapes(*session), {});
    session->examine(rows);
  });
  accepts([&] { check_round_trip(*session->training_graph(rows)); });
  accepts([&] { session->evaluation_graph(rows); });
  accepts([&] { session->save(saved_model()); });
}

void run_training(Bytes bytes) {
  accepts([&] { Training(bytes).run(); });
}

}  // namespace sardonyx::fuzz
