// From what the user typed to options, in one place for every command.
//
// `Flags` holds the values as given; nothing here reads a file. A value that is not known is
// refused with near names, a part that isn't built yet by its name: no flag is ever ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/data/adapt.h"
#include "runtime/data/augment.h"
#include "runtime/data/batch_cut.h"
#include "runtime/lr_schedule.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

struct Flags {
  std::set<std::string> given;  // names of those on the command line, for --resume
  std::string model;

  std::string data, data_dir, normalize, augment;
  ImageAxes data_axes = ImageAxes::kUnknown;  // of arrays whose file does not say
  bool raw_pixels = false, drop_last = false, shuffle = true;

  std::optional<int64_t> epochs, steps;
  std::optional<int64_t> batch, accumulate, micro_batch;
  bool set_batch = false;
  int64_t replicas = 1;
  std::vector<std::string> devices, shares;
  std::string reduce_dtype = "f32";
  int64_t check_replicas = 0;  // steps; 0: never
  int threads = 0;             // 0: all cores

  std::string loss = "cross_entropy", reduction = "mean", output, loss_output;
  double label_smoothing = 0;
  std::optional<int64_t> ignore_index;
  std::vector<std::string> class_weights;

  std::string optimizer = "sgd";
  std::optional<double> lr, weight_decay;  // defaults: runtime/optimizer_flags.h
  double momentum = 0, dampening = 0;
  bool nesterov = false, centered = false;
  std::optional<double> alpha, trust;
  std::string betas;  // "A,B"
  std::optional<double> eps;
  double clip_norm = 0, clip_value = 0, ema = 0;  // 0: none
  std::vector<std::string> groups, no_decay;
  std::string schedule, warmup, lr_scaling = "none";
  std::optional<int64_t> base_batch;

  std::vector<std::string> freeze, train;
  std::string init;  // "": as the file has them
  bool reinit = false;
  std::string bn_variance = "population";
  bool sync_bn = false;
  bool respect_training_mode = false, no_dropout = false, keep_training_form = false;

  uint64_t seed = 0;
  std::string dtype = "f32", on_nan = "stop";
  std::string fallback;  // cpu, or "" for none
  bool direct_only = false, tune = false, dry_run = false, summary = false;
  std::vector<std::string> skip_passes;
  std::optional<int64_t> memory_budget;  // bytes

  std::string save, save_best, log, plot, trace;
  bool overwrite = false;    // --save may replace the model
  std::string save_weights;  // averages | last
  std::string checkpoint, checkpoint_every;
  std::optional<int64_t> keep;
  bool resume = false;
  int64_t eval_every = 1;
  int64_t early_stop = 0;  // epochs; 0: never
  bool json = false;
};

// Throw UsageError: unknown values, contradictions, parts that aren't built.
SessionOptions session_options(const Flags& flags);
// With warm-up and scaling checked; its length is set by the trainer.
LrSchedule lr_schedule(const Flags& flags);
Augment augment_options(const Flags& flags);
// Without the type of the labels, which the loss decides (runtime/feed.h).
AdaptOptions adapt_options(const Flags& flags);

SaveOptions save_options(const Flags& flags);

// The batch and its cut for a model whose input has `baked` rows (-1: any number): as given, else
// the baked number, else kDefaultBatch.
inline constexpr int64_t kDefaultBatch = 64;
BatchSetup batch_setup(const Flags& flags, int64_t baked);
// Throws UsageError above 2^31: sums and products of two counts then fit 63 bits.
void check_count(const std::string& flag, int64_t value);
// The base rate after --lr-scaling.
double base_lr(const Flags& flags, int64_t batch);

}  // namespace sardonyx::runtime
