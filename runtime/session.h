// The public C++ class: a model, its plans and its states. Everything else (command line, tests,
// plug-ins) uses it.
//
//   auto session = Session::open("lenet.onnx", options);
//   StepResult r = session->train_step(batch, {{64, 64}}, 0.1);  // one replica, two micro-batches
//   session->save("trained.onnx");
//
// Plans are made when a (kind, rows) is first asked for, or ahead by prepare_*. The first training
// plan decides blocks and layouts for the whole session, so the same calls give the same bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/onnx_import.h"
#include "passes/lower.h"
#include "passes/pass_manager.h"
#include "runtime/kernel_choices.h"
#include "runtime/measuring_tuner.h"
#include "runtime/open_sizes.h"
#include "runtime/replicas.h"

namespace sardonyx::runtime {

struct SessionOptions {
  passes::PipelineOptions pipeline;
  std::vector<std::string> devices = {"cpu"};  // one replica each
  int threads = 0;                             // in all; 0: all cores
  uint64_t seed = 0;
  int64_t memory_budget = 0;  // bytes of states and arenas in training, all replicas; 0: any
  KernelChoices replay;       // from a checkpoint; a kernel that can't serve here gives a notice
  // Training plans take what is the fastest by measurement, for nodes that `replay` doesn't name.
  bool tune = false;
  StopWish stop_tuning;      // asked between measurements; empty: never
  KernelClock tuning_clock;  // empty: runs the kernels on the first replica
  // Called after each pass of the first pipeline that runs ("--dump"-style tools).
  passes::Instruments instruments;
};

// Rows of one global batch: every tensor has the batch axis first.
struct Batch {
  std::vector<std::pair<std::string, graph::Tensor>>
      inputs;            // by graph input; "" names the only one
  graph::Tensor labels;  // undefined when the file computes its own loss
  // Of each row its number in the data set, for messages; empty: not known.
  std::vector<int64_t> samples = {};
  int64_t rows() const;  // of the first input that has any axis
};

// Sizes of the micro-batches, per replica. Their sum is the number of rows of the batch.
using Cut = std::vector<std::vector<int64_t>>;

// What a step is given.
struct StepInput {
  Batch batch;
  Cut cut;
  double lr = 0;
};

struct StepResult {
  double loss_sum = 0;
  double weight = 0;     // what the mean divides by
  double correct = 0;    // rows of the right class; 0 for other losses
  double grad_norm = 0;  // of the true (divided) gradient
  int64_t rows = 0;
  // Mean, or the sum with --reduction sum; 0 when nothing was counted.
  double loss = 0;
  bool skipped = false;  // something was not finite, says the graph: no state has changed
};

// What a step does whose loss or gradient is not finite. It changes no state in any case. Where the
// states before it weren't finite either, no later step could be: that stops in any case, too.
enum class NonFinite : uint8_t { kStop, kSkip };

struct EvalResult {
  double loss_sum = 0, weight = 0, correct = 0, correct_top5 = 0;
  int64_t rows = 0;
  bool has_classes = false, has_top5 = false;
  void add_sums(const EvalResult& part);  // loss, weight and correct rows
};

// What the preparation found out about a model, as far as it came.
struct Examination {
  std::unique_ptr<graph::Graph> graph;
  std::vector<passes::ParameterRow> parameters;
  std::vector<passes::UnsupportedNode> unsupported;
  graph::TensorType scores;  // what the loss reads; undefined when that wasn't found
  int64_t least_rows = 1;    // that a micro-batch must have in training
  std::string error;         // why it stopped; "" when it didn't
};

// A state as a checkpoint keeps it, in the compute type.
struct SavedState {
  std::string name;
  graph::TensorType type;
};

// How nodes with a mode (BatchNormalization, Dropout) are saved.
enum class SaveForm : uint8_t { kInference, kAsInFile };
// Which weights a file gets where training keeps averages (--ema).
enum class SavedWeights : uint8_t { kAverages, kLast };

// What happens when the file to save is the one that was read.
enum class OntoInput : uint8_t { kRefuse, kReplace };

struct SaveOptions {
  SaveForm form = SaveForm::kInference;
  SavedWeights weights = SavedWeights::kAverages;
  OntoInput onto_input = OntoInput::kRefuse;
};

// What a saved model consists of beside its file, and what there is to say about it.
struct SavedModel {
  std::vector<std::string> notices;
  std::vector<std::string> data_files;  // their names, from the model's folder
};

class Session {
 public:
  static std::unique_ptr<Session> open(const std::filesystem::path& model, SessionOptions options);
  Session(std::shared_ptr<const graph::Model> model, SessionOptions options);
  ~Session();

  const graph::Model& model() const { return *model_; }
  const graph::Graph& imported() const { return *imported_.graph; }
  // Inputs of the file that data must feed (not initializers), and the file's outputs.
  const std::vector<graph::Value*>& data_inputs() const { return imported_.graph->inputs(); }
  // Lines for the user, each once: stale shapes, bypassed Softmax, ...
  const std::vector<std::string>& notices() const { return notices_; }
  void add_notices(const std::vector<std::string>& lines);
  bool shares_statistics() const;  // of micro-batches, over all replicas: --sync-bn
  int replicas() const { return replicas_->size(); }
  int threads() const { return replicas_->threads(); }  // in all
  // Of the threads that compute: the calling one, which drives steps, and all workers.
  std::vector<pid_t> thread_ids() const;
  std::string device_name() const { return replicas_->name(); }  // of all, for people
  std::string device_name(int replica) const { return replicas_->device(replica).name(); }
  const SessionOptions& options() const { return options_; }
  // What a replica may take of its device's memory, with the others that share it; of the one that
  // may take the least.
  MemoryLimit room_per_replica() const;

  // What the data are, for open dimensions of the model and for the choice of the output. Before
  // any plan.
  void describe_data(std::map<std::string, std::vector<int64_t>> sample_shapes,
                     graph::TensorType labels);
  // The same without data. Throws Error where the model has no input of such a name.
  void describe_sample(const SampleSizes& sizes);
  // The preparation for `rows` rows; an Error of a pass is part of the result.
  Examination examine(int64_t rows, passes::Mode mode = passes::Mode::kTrain);
  // The table of `check`: every float tensor with its role and reason. Runs the preparation for
  // `rows` rows.
  std::vector<passes::ParameterRow> parameters(int64_t rows);

  // Builds all plans that the given cuts will need, so that nothing is planned inside a step.
  void prepare_training(const std::vector<Cut>& cuts);
  // One step: forward and backward per micro-batch, one update on every replica. Throws Error and
  // leaves every state as it was when a replica fails before its update, as with bad data, and
  // (kStop) when the loss or the gradient is not finite (message: step, replica, micro-batch, first
  // node that produced it). A failure inside the update, for which no data are a reason, may leave
  // a part of it done: if replicas differ then, steps, evaluations and save() throw until
  // restore().
  StepResult train_step(const Batch& batch, const Cut& cut, double lr,
                        NonFinite non_finite = NonFinite::kStop);
  // The same. `next` is what the step behind it will be called with, if that is known: devices with
  // memory of their own copy it while this step computes. It must stay as it is until then; when
  // another one comes instead, nothing is lost but the copy.
  StepResult train_step(const std::shared_ptr<const StepInput>& input, NonFinite non_finite,
                        const std::shared_ptr<const StepInput>& next);
  // Steps done; the next train_step is number steps() + 1.
  int64_t steps() const { return step_; }

  // "": all replicas hold the same bits, as they should after every step. Else the first
  // difference.
  std::string replica_difference() const;

  // Loss and correct rows in evaluation form, over micro-batches of at most `chunk` rows that the
  // replicas take in turn.
  EvalResult evaluate(const Batch& batch, int64_t chunk);
  // The file's outputs for these inputs, in the mode's form (kEval: running statistics, no
  // Dropout).
  std::vector<std::pair<std::string, graph::Tensor>> forward(const Batch& batch, passes::Mode mode);
  // d(sum seed . output) / d(wrt), in the mode's form. `seeds`: gradient of each named output. In
  // kTrain running statistics move, as in any pass over a batch.
  std::vector<std::pair<std::string, graph::Tensor>> gradients(
      const Batch& batch, const std::vector<std::pair<std::string, graph::Tensor>>& seeds,
      const std::vector<std::string>& wrt, passes::Mode mode);

  // States by name ("conv1.weight", "momentum/conv1.weight", ...), in the compute type.
  std::vector<std::string> state_names() const;
  graph::Tensor state(const std::string& name) const;
  // Throws Error when the name, the shape or the type doesn't fit.
  void set_state(const std::string& name, const graph::Tensor& value);
  // What lives across steps, known after prepare_training: all states but accumulators.
  std::vector<SavedState> saved_states() const;
  // Sets exactly those and the number of steps done. Throws Error with every tensor that is
  // missing, unknown or of another type; nothing is changed then.
  void restore(const std::vector<std::pair<std::string, graph::Tensor>>& values, int64_t steps);
  // Name of the first of them with a value that is not finite; "": there is none.
  std::string first_non_finite_state() const;
  KernelChoices kernel_choices() const;  // of the training plans so far
  // Of a step with this cut, on the first replica; what the tuner saw of its plans.
  TuningGain tuning_gain(const Cut& cut);
  const MeasuringTuner* tuner() const { return tuner_.get(); }  // null without SessionOptions::tune

  // The user's file with the trained values. Without any step or set_state it is a copy, bit for
  // bit, whatever the form. Returns lines for the user about what had to be done differently.
  SavedModel save(const std::filesystem::path& path, SaveOptions how = {}) const;
  // Throws what a save of new values for all states there would say about the file and about
  // `path`, and writes nothing; known after prepare_training.
  void check_save(const std::filesystem::path& path, SaveOptions how = {}) const;
  // The same for the states of a graph that examine() has made; wherever the file will be.
  void check_save(const graph::Graph& examined) const;

  // For inspection: the graph after the training (or evaluation) pipeline, and its plan.
  std::unique_ptr<graph::Graph> training_graph(int64_t rows);
  std::unique_ptr<graph::Graph> evaluation_graph(int64_t rows);
  const passes::Plan& training_plan(int64_t rows);
  // The same plan for reports: it takes no memory on the device, adds no states to the session and
  // decides nothing for later plans. Throws Error, as every plan does, where an input's sizes are
  // known from neither the file nor what described the data.
  std::unique_ptr<passes::Plan> draft_plan(int64_t rows);
  // Of the plans so far, on one replica: their states together, and the largest of everything else.
  passes::MemoryReport memory() const;
  size_t planned_bytes() const;  // states and arenas of all replicas
  // Of the training plans so far: the one with the largest arena, and what is computed again in it.
  const passes::Plan& largest_training_plan() const;
  const passes::Recomputed& recomputed() const;

  // Gets the time of everything that runs from now on; null: nobody does, and no clock is read.
  void set_recorder(Recorder* recorder);
  Recorder* recorder() const { return recorder_; }
  std::vector<const passes::Plan*> training_plans() const;  // those made so far

 private:
  enum class Kind : uint8_t { kTrain, kEval, kForward, kGradient };
  struct PlanKey {
    Kind kind;
    passes::MicroBatch micro_batch;
    int64_t rows;
    std::string extra;  // mode, seeds and wrt of forward and gradient plans
    int place = 0;      // the first replica on the device that it is made for
    friend auto operator<=>(const PlanKey&, const PlanKey&) = default;
  };
  struct Loaded {
    std::unique_ptr<passes::Plan> plan;
    std::vector<std::unique_ptr<Executor>> executors;  // by replica; null on another device
    passes::PassContext context;
    TuningGain gain;
  };
  // Rows [first_row, first_row + rows) of a batch through a plan.
  struct Run {
    Loaded* loaded = nullptr;
    int64_t first_row = 0, rows = 0;
    uint64_t staged = 0;  // RunArguments::staged
  };
  struct Fed;
  const Loaded& largest_training() const;

  void make_weights_of_inputs();
  int64_t rows_of(const Batch& batch) const;
  std::unique_ptr<graph::Graph> build(const PlanKey& key, passes::PassContext& context);
  Loaded& plan_for(const PlanKey& key);
  // Adds the plan's states to `states`.
  std::unique_ptr<Loaded> make_plan(const PlanKey& key, passes::PassContext context,
                                    passes::StateTable& states);
  std::unique_ptr<Loaded> plan_once(const PlanKey& key, passes::PassContext context,
                                    passes::StateTable& states);
  // Of the sequence of plans that need less and less.
  struct Fit {
    std::unique_ptr<Loaded> plan;  // the first that fits; null: none does
    int64_t usual = 0, least = 0;  // bytes on all replicas: of the first plan, of the smallest
    int64_t block = -1;
  };
  Fit fit(const PlanKey& key, const passes::PassContext& context, passes::StateTable& states,
          int64_t budget);
  int64_t least_budget(const PlanKey& refused_key, const Fit& refused, passes::StateTable states);
  // The same, with as much computed again as it takes to fit into the budget. Throws Error when
  // that isn't enough.
  std::unique_ptr<Loaded> plan_in_budget(const PlanKey& key, const passes::PassContext& context,
                                         passes::StateTable& states);
  passes::PassContext context_for(const PlanKey& key) const;
  bool has_larger_plan(const PlanKey& key) const;
  KernelChoices::Table replayed_kernels(const PlanKey& key) const;
  // That every device has memory for its replicas, with this plan for those at `place`. Throws
  // Error.
  void require_room(int place, const passes::Plan& plan, size_t state_bytes) const;
  // A plan with its memory, new states and executors on every replica.
  std::unique_ptr<Loaded> load(const PlanKey& key, passes::PassContext context);
  std::vector<std::vector<Run>> runs_of(const Cut& whole_cut);  // of a step, by replica
  Cut checked(const Cut& whole_cut) const;  // for these replicas, without empty parts
  // The plans of such a cut: all, by replica; those to make first where there is a
  // budget.
  std::vector<std::vector<PlanKey>> keys_of(const Cut& cut) const;
  std::vector<PlanKey> keys_with_all_states(const Cut& cut) const;
  void note_wanted(const Cut& cut);
  size_t micro_batches_of(const Cut& cut, size_t replica) const;
  static void check_shared_rows(const Cut& cut, const std::vector<std::vector<Run>>& runs);
  Fed feed(const Run& run, const Batch& batch, double lr) const;
  void execute(const Run& run, int replica, const Links& links, const Batch& batch,
               double lr) const;
  std::vector<Run> first_runs(const StepInput& next) const;
  void stage(const Run& run, int replica, const StepInput& next) const noexcept;
  void note_split() noexcept;
  void check_replicas_agree() const;
  void check_step_began_finite(const StepResult& result) const;
  void share_statistics(const Loaded& loaded);
  [[noreturn]] void report_non_finite(const Batch& batch, const std::vector<std::vector<Run>>& runs,
                                      const StepResult& result);
  std::string first_non_finite(const Batch& batch, const std::vector<std::vector<Run>>& runs);
  std::string first_non_finite_sample(const Batch& batch, const Run& run) const;
  struct Found {
    size_t run = 0;  // index
    std::string text;
  };
  Found first_non_finite_node(const Batch& batch, const std::vector<Run>& together);
  void check_log_probabilities(const graph::Value& scores);
  void check_branches(const passes::PassContext& context);
  void check_branches_of_batch(const Cut& cut);

  std::shared_ptr<const graph::Model> model_;
  SessionOptions options_;
  graph::ImportedModel imported_;
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<MeasuringTuner> tuner_;  // on the device of rank 0
  passes::StateTable states_;
  size_t loaded_states_ = 0;
  std::map<PlanKey, std::unique_ptr<Loaded>> plans_;
  std::set<PlanKey> wanted_;  // training plans that a budget must hold, made or not
  // Branch that each If has taken, by the name of its first result, and for how many rows: the same
  // in all plans.
  struct Taken {
    std::string branch;
    int64_t rows = 0;
  };
  std::map<std::string, Taken> branches_;
  std::set<int64_t> checked_batches_;  // rows of batches whose branches were compared with these
  passes::GradientOptions gradient_options_;
  passes::Mode forward_mode_ = passes::Mode::kEval;
  std::vector<std::string> notices_;
  int64_t step_ = 0;
  bool was_set_ = false;                     // by set_state
  std::shared_ptr<const StepInput> staged_;  // that devices have begun to copy
  uint64_t stagings_ = 0;                    // so many have been, the last is this one
  Recorder* recorder_ = nullptr;
  std::string split_;  // how the replicas differ since a step failed halfway; "": they don't
};

}  // namespace sardonyx::runtime
