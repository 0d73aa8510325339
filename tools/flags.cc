#include "tools/flags.h"

#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::tools {

namespace {

using runtime::Flags;

constexpr int64_t kMostSteps = 1'000'000'000'000;

void add_list(CLI::App& app, const char* name, std::vector<std::string>& values, const char* help,
              const char* group) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [name, &values](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             for (std::string& part : runtime::split(text, ',')) {
               if (part.empty()) {
                 throw runtime::UsageError("{} '{}': a part between the commas is empty", name,
                                           text);
               }
               values.push_back(std::move(part));
             }
           }
         },
         help)
      ->allow_extra_args(false)
      ->group(group);
}

}  // namespace

int64_t whole_number(const char* flag, const std::string& text, int64_t least, int64_t most) {
  const auto value = runtime::parse_whole(text);
  if (value && *value >= least && *value <= most) return *value;
  throw runtime::UsageError("{} '{}': expected a whole number from {} to {}", flag, text, least,
                            most);
}

double real_number(const char* flag, const std::string& text) {
  const auto value = runtime::parse_number(text);
  if (!value) {
    throw runtime::UsageError("{} '{}': expected a number, as 0.1 or 1e-3", flag, text);
  }
  return *value;
}

CLI::Option* add_bytes(CLI::App& app, const char* name, std::optional<int64_t>& bytes,
                       const char* help) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &bytes](const std::string& text) {
            bytes = runtime::parse_bytes(text);
            if (bytes.value_or(0) >= 1 || text == "none") return;
            throw runtime::UsageError(
                "{} '{}': expected bytes, from 1 to {}, as in 8388608, 8M, 8MiB or 1.5GiB (K, M, G "
                "and T are 2^10, 2^20, 2^30 and 2^40), or none",
                name, text, INT64_MAX);
          },
          help)
      ->type_name("BYTES");
}

CLI::Option* add_seed(CLI::App& app, uint64_t& seed, const char* help) {
  return app
      .add_option_function<std::string>(
          "--seed",
          [&seed](const std::string& text) {
            const auto value = runtime::parse_unsigned(text);
            if (!value)
              throw runtime::UsageError("--seed '{}': expected a whole number from 0", text);
            seed = *value;
          },
          help)
      ->type_name("N");
}

void add_model_argument(CLI::App& app, Flags& flags) {
  app.add_option("MODEL", flags.model, "the ONNX file")->required()->option_text(" ");
}

void add_data_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Data";
  app.add_option("--data", flags.data,
                 "fashion-mnist, mnist, cifar10, cifar100, idx:DIR, npz:FILE, npy:DIR,\n"
                 "folder:DIR, synthetic[:N]")
      ->group(kGroup);
  app.add_option("--data-dir", flags.data_dir, "where the files are, instead of the usual places")
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--data-layout",
         [&flags](const std::string& layout) {
           runtime::check_choice("--data-layout", layout, {"nchw", "nhwc"});
           flags.data_axes = layout == "nchw" ? runtime::ImageAxes::kChw : runtime::ImageAxes::kHwc;
         },
         "nchw or nhwc, for arrays that don't say")
      ->group(kGroup);
  app.add_option("--normalize", flags.normalize,
                 "MEAN,STD (or one of each per channel) after scaling to 0..1; none")
      ->group(kGroup);
  app.add_flag("--raw-pixels", flags.raw_pixels, "uint8 data as 0..255 instead of 0..1")
      ->group(kGroup);
}

void add_batch_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Batch and device";
  add_whole(app, "--batch", flags.batch, 1, kMostCount,
            "samples per step, over everything (default 64)")
      ->group(kGroup);
  add_whole(app, "--accumulate", flags.accumulate, 1, kMostCount,
            "pieces that each replica's share is cut into")
      ->group(kGroup);
  add_whole(app, "--micro-batch", flags.micro_batch, 1, kMostCount,
            "largest piece, instead of --accumulate")
      ->group(kGroup);
  app.add_flag("--set-batch", flags.set_batch,
               "any batch for a file with a fixed one, where that is provably right")
      ->group(kGroup);
}

void add_device_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Batch and device";
  add_whole(app, "--replicas", flags.replicas, 1, kMostThreads,
            "copies of the model that share the work")
      ->group(kGroup);
  add_list(app, "--devices", flags.devices, "one device per replica, instead: cpu,cpu", kGroup);
  add_list(app, "--shares", flags.shares, "how the batch is shared out, as 3,1 (default: evenly)",
           kGroup);
  add_whole(app, "--threads", flags.threads, 1, kMostThreads, "in all (default: every core)")
      ->group(kGroup);
  app.add_option("--reduce-dtype", flags.reduce_dtype,
                 "how gradients travel between replicas: f32, or rounded to bf16")
      ->group(kGroup);
  app.add_option("--fallback", flags.fallback,
                 "cpu: nodes that no kernel of a CUDA device takes run on the CPU, with copies")
      ->group(kGroup);
  app.add_flag("--sync-bn", flags.sync_bn,
               "BatchNormalization's statistics of a micro-batch over all replicas")
      ->group(kGroup);
  app.add_option("--dtype", flags.dtype,
                 "compute type: f32 or f64; on CUDA devices also tf32 or bf16")
      ->group(kGroup);
  app.add_flag("--direct-only", flags.direct_only,
               "no algorithm that rounds differently (Winograd)")
      ->group(kGroup);
  add_bytes(app, "--memory-budget", flags.memory_budget,
            "what training may plan with, as 2GiB, or none: what doesn't fit is computed again")
      ->group(kGroup);
}

void add_loss_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Loss";
  app.add_option("--loss", flags.loss, "cross_entropy, nll, mse, l1, smooth_l1 or bce_with_logits")
      ->group(kGroup);
  app.add_option("--reduction", flags.reduction, "mean or sum")->group(kGroup);
  add_real(app, "--label-smoothing", flags.label_smoothing, "0 to 1")->group(kGroup);
  add_whole(app, "--ignore-index", flags.ignore_index, INT64_MIN, INT64_MAX,
            "label that doesn't count")
      ->group(kGroup);
  add_list(app, "--class-weights", flags.class_weights,
           "what a label of each class counts, as 1,0.5: cross_entropy and nll", kGroup);
  app.add_option("--output", flags.output, "the output that the loss reads")->group(kGroup);
  app.add_option("--loss-output", flags.loss_output, "an output that already is the loss")
      ->group(kGroup);
}

void add_optimizer_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Optimizer and schedule";
  app.add_option("--optimizer", flags.optimizer,
                 "sgd (default), adam, adamw, adagrad, rmsprop, lion, lamb or lars")
      ->group(kGroup);
  add_real(app, "--lr", flags.lr,
           "learning rate (default 0.01; adam, adamw and lamb 0.001, lion 0.0001)")
      ->group(kGroup);
  add_real(app, "--momentum", flags.momentum, "of sgd, rmsprop and lars, 0 to 1 (default 0)")
      ->group(kGroup);
  add_real(app, "--dampening", flags.dampening, "of the momentum (default 0)")->group(kGroup);
  app.add_flag("--nesterov", flags.nesterov, "Nesterov momentum")->group(kGroup);
  add_real(app, "--alpha", flags.alpha, "share that rmsprop's mean of squares keeps (default 0.99)")
      ->group(kGroup);
  app.add_flag("--centered", flags.centered, "rmsprop divides by the standard deviation")
      ->group(kGroup);
  add_real(app, "--trust", flags.trust, "coefficient of lars (default 0.001)")->group(kGroup);
  app.add_option("--betas", flags.betas,
                 "A,B of adam, adamw, lamb (default 0.9,0.999) and lion (0.9,0.99)")
      ->group(kGroup);
  add_real(app, "--eps", flags.eps,
           "of adam, adamw and rmsprop (default 1e-8), adagrad (1e-10), lamb (1e-6)")
      ->group(kGroup);
  add_real(app, "--weight-decay", flags.weight_decay, "default 0; adamw and lamb 0.01")
      ->group(kGroup);
  app.add_option("--group", flags.groups,
                 "'GLOB:lr=X,wd=Y': other numbers for the parameters whose name matches; the first "
                 "that matches counts")
      ->allow_extra_args(false)
      ->group(kGroup);
  add_list(
      app, "--no-decay", flags.no_decay,
      "norm, bias or norm,bias: no weight decay for the\nparameters of normalisations, for biases",
      kGroup);
  add_real(app, "--clip-norm", flags.clip_norm, "largest norm of the gradient (default 0: any)")
      ->group(kGroup);
  add_real(app, "--clip-value", flags.clip_value,
           "largest element of the gradient (default 0: any)")
      ->group(kGroup);
  add_real(app, "--ema", flags.ema,
           "decay of averaged weights, which evaluation and --save then take")
      ->group(kGroup);
  app.add_option("--schedule", flags.schedule,
                 "constant, step:EVERY,GAMMA, multistep:T1,T2,GAMMA, exponential:GAMMA, "
                 "cosine[:MIN]; times are epochs, or steps as in 500steps")
      ->group(kGroup);
  app.add_option("--warmup", flags.warmup,
                 "N[steps|epochs] of linear growth from near 0 (default 0: none)")
      ->group(kGroup);
  app.add_option("--lr-scaling", flags.lr_scaling, "none, linear or sqrt in batch / base batch")
      ->group(kGroup);
  add_whole(app, "--base-batch", flags.base_batch, 1, kMostCount,
            "the batch that --lr is meant for")
      ->group(kGroup);
}

void add_parameter_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Model";
  add_list(app, "--freeze", flags.freeze, "names or globs of tensors that stay", kGroup);
  add_list(app, "--train", flags.train, "names or globs that are trained in any case", kGroup);
  app.add_option(
         "--init", flags.init,
         "kaiming, xavier, normal:STD or pytorch: values for weights that the file has none "
         "for, by --seed")
      ->group(kGroup);
  app.add_flag("--reinit", flags.reinit, "with --init: for all that is trained")->group(kGroup);
  app.add_option("--bn-variance", flags.bn_variance,
                 "population (as ONNX) or sample (as PyTorch): what running variances store")
      ->group(kGroup);
  app.add_flag("--respect-training-mode", flags.respect_training_mode,
               "each node's mode as the file says")
      ->group(kGroup);
  app.add_flag("--no-dropout", flags.no_dropout, "Dropout does nothing")->group(kGroup);
}

void add_run_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Run";
  add_seed(app, flags.seed, "of the order and of Dropout (default 0)")->group(kGroup);
  app.add_option("--on-nan", flags.on_nan,
                 "stop (default), or skip[:N]: leave out such a step, stop after N (10) in a row")
      ->group(kGroup);
  add_whole(app, "--check-replicas", flags.check_replicas, 0, kMostSteps,
            "compare the replicas bit by bit, every N steps")
      ->group(kGroup);
  add_tune_flag(app, flags);
}

void add_length_flags(CLI::App& app, Flags& flags) {
  add_whole(app, "--epochs", flags.epochs, 1, kMostCount, "times through the data (default 1)")
      ->group("Length");
  add_whole(app, "--steps", flags.steps, 0, kMostSteps,
            "instead of --epochs; 0: only prepare, and --save a copy")
      ->group("Length");
  add_whole(app, "--early-stop", flags.early_stop, 0, kMostCount,
            "end after so many epochs without a better test accuracy (or loss); 0: never")
      ->group("Length");
  app.add_option("--augment", flags.augment, "crop:PIXELS, flip or both: crop:4,flip; none")
      ->group("Data");
  app.add_flag("--drop-last", flags.drop_last, "leave out a short last batch")->group("Data");
  CLI::Option* shuffle =
      app.add_flag("--shuffle", flags.shuffle, "a new order each epoch (default)")->group("Data");
  app.add_flag_callback(
         "--no-shuffle", [&flags] { flags.shuffle = false; }, "the order of the files")
      ->excludes(shuffle)
      ->group("Data");
}

void add_file_flags(CLI::App& app, Flags& flags) {
  constexpr const char* kGroup = "Files";
  app.add_option("--save", flags.save, "the trained model; the input file only with --overwrite")
      ->group(kGroup);
  app.add_flag("--overwrite", flags.overwrite, "--save may replace the input file")->group(kGroup);
  app.add_flag("--keep-training-form", flags.keep_training_form,
               "save modes as the file has them, not in inference form")
      ->group(kGroup);
  app.add_option("--save-best", flags.save_best, "the model after the best evaluation so far")
      ->group(kGroup);
  app.add_option("--save-weights", flags.save_weights,
                 "with --ema: averages (default) or last, the weights themselves")
      ->group(kGroup);
  app.add_option("--log", flags.log, "a JSON line per step and epoch")->group(kGroup);
  app.add_option("--plot", flags.plot, "curves of loss and accuracy, .svg or .html")->group(kGroup);
  add_trace_flag(app, flags);
  app.add_option("--checkpoint", flags.checkpoint, "a folder for checkpoints, one a folder in it")
      ->group(kGroup);
  app.add_option("--checkpoint-every", flags.checkpoint_every,
                 "N[steps|epochs] between checkpoints (default 1epochs)")
      ->group(kGroup);
  add_whole(app, "--keep", flags.keep, 1, kMostCount, "checkpoints that stay (default 3)")
      ->group(kGroup);
  app.add_flag("--resume", flags.resume,
               "go on from the newest checkpoint; flags left out are as they were")
      ->group(kGroup);
  add_whole(app, "--eval-every", flags.eval_every, 0, kMostCount,
            "epochs between evaluations; 0: never")
      ->group(kGroup);
}

void add_trace_flag(CLI::App& app, Flags& flags) {
  app.add_option("--trace", flags.trace,
                 "what ran when, step by step and thread by thread: JSON for ui.perfetto.dev or "
                 "chrome://tracing")
      ->group("Files");
}

void add_tune_flag(CLI::App& app, Flags& flags) {
  app.add_flag("--tune", flags.tune,
               "measure which kernels are the fastest on this machine, and remember")
      ->group("Run");
}

void add_json_flag(CLI::App& app, Flags& flags) {
  app.add_flag("--json", flags.json, "JSON on stdout, nothing else");
}

namespace {

// "3x224x224", "tokens=20", or "lengths=" where a sample is one number.
void add_sample(runtime::SampleSizes& samples, const std::string& text) {
  const size_t equals = text.rfind('=');
  const bool named = equals != std::string::npos;
  const std::string sizes = named ? text.substr(equals + 1) : text;
  std::vector<int64_t> sample;
  for (const std::string& part : runtime::split(sizes, 'x')) {
    if (named && sizes.empty()) break;
    const auto size = runtime::parse_whole(part);
    if (!size || *size < 1 || *size > kMostCount) {
      throw runtime::UsageError(
          "--input '{}': expected the sizes of one sample, as 3x224x224, or NAME=SIZES, each from "
          "1 "
          "to {}",
          text, kMostCount);
    }
    sample.push_back(*size);
  }
  if (samples.emplace(named ? text.substr(0, equals) : "", sample).second) return;
  throw runtime::UsageError("--input '{}': the same input has sizes already", text);
}

}  // namespace

CLI::Option* add_sample_flag(CLI::App& app, runtime::SampleSizes& sizes) {
  return app
      .add_option_function<std::vector<std::string>>(
          "--input",
          [&sizes](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) add_sample(sizes, text);
          },
          "sizes of one sample without the batch, as 3x224x224, where the file leaves them open;\n"
          "NAME=SIZES for another input than the first")
      ->allow_extra_args(false)
      ->type_name("SIZES");
}

void add_experiment_flags(CLI::App& app, Flags& flags) {
  add_list(app, "--skip-pass", flags.skip_passes,
           "leave an optional pass out, to see what it is for", "Experiments");
}

void add_graph_flags(CLI::App& app, Flags& flags) {
  add_experiment_flags(app, flags);
  add_batch_flags(app, flags);
  add_device_flags(app, flags);
  add_loss_flags(app, flags);
  add_optimizer_flags(app, flags);
  add_parameter_flags(app, flags);
}

void add_example(CLI::App& app, const std::string& text) { app.footer("Example:\n  " + text); }

}  // namespace sardonyx::tools
