// What the user asked for, as far as it changes the graph. Plain data, filled by the session; a
// pass reads only the part that concerns it. Defaults are those of semantics.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/init.h"
#include "graph/type.h"

namespace sardonyx::passes {

enum class Mode : uint8_t { kEval, kTrain };

// Which plan of an accumulated step is built.
enum class MicroBatch : uint8_t {
  kOnly,    // the whole step: gradients go straight into the update
  kFirst,   // gradients overwrite the accumulators
  kMiddle,  // gradients are added to the accumulators
  kLast,    // gradients are added, then reduced and applied
  kNone,    // a replica without samples: accumulators count as zero, then reduced and applied
  // Likewise where the others share their statistics, so that it takes part in each micro-batch.
  kNoneFirst,   // accumulators become zero
  kNoneMiddle,  // accumulators stay
  kNoneLast,    // accumulators are reduced and applied
};

constexpr bool has_samples(MicroBatch m) { return m <= MicroBatch::kLast; }
constexpr bool begins_step(MicroBatch m) {
  using enum MicroBatch;
  return m == kOnly || m == kFirst || m == kNone || m == kNoneFirst;
}
constexpr bool ends_step(MicroBatch m) {
  using enum MicroBatch;
  return m == kOnly || m == kLast || m == kNone || m == kNoneLast;
}

struct LossOptions {
  // cross_entropy | nll | mse | l1 | smooth_l1 | bce_with_logits | none (evaluation only)
  std::string kind = "cross_entropy";
  std::string output;       // graph output the loss reads; "": the only one that fits
  std::string loss_output;  // scalar output that already is the loss; "": attach one
  bool mean = true;         // false: --reduction sum, no division at all
  double label_smoothing = 0.0;
  std::optional<int64_t> ignore_index;
  std::vector<double> class_weights;  // one per class; empty: all 1
  graph::TensorType labels;  // type of the labels, batch axis first; undefined: int64 class numbers
};

// Losses of class numbers; all others take targets like the output that they read.
inline bool takes_classes(std::string_view loss) {
  return loss == "cross_entropy" || loss == "nll";
}

// Other numbers for the parameters whose name a glob matches; the first group that matches counts.
struct OptimizerGroup {
  std::string glob;
  double lr_factor = 1.0;  // of the rate of the step, so that the schedule holds for every group
  std::optional<double> weight_decay;
};

struct OptimizerOptions {
  // sgd | adam | adamw | adagrad | rmsprop | lion | lamb | lars
  std::string kind = "sgd";
  double momentum = 0.0;   // sgd, rmsprop, lars
  double dampening = 0.0;  // this and the next: sgd
  bool nesterov = false;
  double alpha = 0.99;    // rmsprop: share that the mean of squares keeps
  bool centered = false;  // rmsprop
  double trust = 0.001;   // lars
  double weight_decay = 0.0;
  double beta1 = 0.9, beta2 = 0.999;  // adam, adamw, lion, lamb
  double eps = 1e-8;                  // adam, adamw, adagrad, rmsprop, lamb
  // Of the true gradient, after the all-reduce; 0: no clipping.
  double clip_norm = 0.0, clip_value = 0.0;
  std::vector<OptimizerGroup> groups;
  bool decay_norms = true, decay_biases = true;  // false: --no-decay norm, bias
  double ema = 0.0;  // decay of the averaged weights "ema/NAME"; 0: there are none
};

// How gradients travel between replicas.
struct ReduceOptions {
  int replicas = 1;  // that take part in a step; 1: the graph has no AllReduce nodes
  graph::DType wire = graph::DType::kUndefined;  // kBFloat16 halves the traffic; undefined: as is
  int64_t bucket_bytes = int64_t{25} << 20;
  int64_t first_bucket_bytes = int64_t{1} << 20;  // small, so that the first one starts early
};

struct TrainableOptions {
  std::vector<std::string> freeze;  // globs
  std::vector<std::string> train;   // globs
  // The explicit list (API only): exactly these are trained, default rules aside.
  std::optional<std::vector<std::string>> exactly;
};

// Values that the file doesn't hold.
struct InitOptions {
  std::optional<graph::Init> how;  // --init; nothing: every value is the file's
  bool all = false;                // --reinit: nor are those that are trained
};

// What the gradient pipeline differentiates: d(sum of seeds . outputs)/d(wrt).
struct GradientOptions {
  std::vector<std::string>
      seeds;                     // outputs that get a seed input "dNAME"; empty: all float outputs
  std::vector<std::string> wrt;  // inputs or initializers; empty: all float inputs
};

// How much is computed again in the backward pass, so that it need not be kept.
struct RecomputeOptions {
  // Share of the operations of a step that may go into it, unless `rung` asks for more.
  double cost = 0.01;
  // Which plan of those that need less and less memory (Recomputed::rungs); 0: what is cheap only;
  // past the end: the last. -1: as 0, and the others aren't looked for.
  int rung = -1;
  // Bytes alive while a node runs, by its first output: of a plan in which nothing is computed
  // again. Empty: the pass estimates them, without what kernels and regions need or share.
  std::map<std::string, int64_t> alive;
};

// What convolutions and matrix products of float data are computed in.
enum class Precision : uint8_t {
  kAsStored,
  kTf32,      // ops::ProductMath::kTf32
  kBFloat16,  // so are the activations between them; weights, statistics and the loss stay float
};

// Which values lie with channels last, on devices whose kernels can.
enum class ChannelOrder : uint8_t {
  kByPrecision,  // where products run on tensor cores
  kFirst,        // none
  kLast,         // all that a kernel takes so
};

// Where nodes run that no kernel of the device takes.
enum class Fallback : uint8_t {
  kNone,  // nowhere: they are refused
  kCpu,   // on the CPU, with copies there and back in each run
};

struct PipelineOptions {
  Mode mode = Mode::kTrain;
  MicroBatch micro_batch = MicroBatch::kOnly;
  int64_t batch = 1;       // rows of this plan's (micro-)batch
  bool set_batch = false;  // --set-batch
  // Shape of one sample per input, from the data: binds dimensions the file leaves open.
  std::map<std::string, std::vector<int64_t>> sample_shapes;
  std::set<std::string> row_inputs;  // fed row by row: axis 0 is the batch, whatever it is called
  graph::DType dtype = graph::DType::kFloat32;  // of the file's floats: kFloat32 or kFloat64
  Precision precision = Precision::kAsStored;
  bool dropout = true;  // false: --no-dropout
  bool respect_training_mode = false;
  bool sample_variance = false;   // --bn-variance sample
  bool sync_statistics = false;   // --sync-bn
  bool update_statistics = true;  // in training: running statistics are bound to their next values
  LossOptions loss;
  OptimizerOptions optimizer;
  ReduceOptions reduce;
  RecomputeOptions recompute;
  TrainableOptions trainable;
  InitOptions init;
  GradientOptions gradient;
  // Region blocks: -1 chosen by the target, 0 never blocked, n: blocks of n images.
  int64_t block = -1;
  // -1 chosen by the target, 0 plain everywhere, 16: lanes wherever a kernel allows.
  int64_t lanes = -1;
  ChannelOrder channels = ChannelOrder::kByPrecision;
  Fallback fallback = Fallback::kNone;
  std::vector<std::string> skip;  // optional passes that are left out: experiments
  bool direct_only = false;     // --direct-only: no kernel that rounds in another basis (Winograd)
  bool reference_only = false;  // only reference kernels (the oracle of whole-graph tests)
  // Kernels of an earlier run, as in Plan::kernels. Other nodes, and those whose kernel can't serve
  // here (a notice of the plan), get the usual choice.
  std::map<std::string, std::string> kernels;
};

inline bool shares_statistics(const PipelineOptions& options) {
  return options.sync_statistics && options.mode == Mode::kTrain && options.reduce.replicas > 1;
}

}  // namespace sardonyx::passes
