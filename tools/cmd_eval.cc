// sardonyx eval: loss and accuracy of a model, in evaluation form.
#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "graph/support/log.h"
#include "runtime/data/npy.h"
#include "runtime/evaluate.h"
#include "runtime/text.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/output_files.h"

namespace sardonyx::tools {

namespace {

struct EvalFlags {
  runtime::Flags shared;
  std::string split = "test";
  std::string predictions;
};

void print(const runtime::EvalResult& result, const char* unit, double seconds, bool json) {
  const auto accuracy = runtime::accuracy(result);
  const auto top5 = runtime::top5_accuracy(result);
  const double speed = static_cast<double>(result.rows) / std::max(seconds, 1e-9);
  if (json) {
    nlohmann::ordered_json out = {{"loss", runtime::mean_loss(result)}};
    out["accuracy"] = accuracy ? nlohmann::ordered_json(*accuracy) : nullptr;
    if (top5) out["top5_accuracy"] = *top5;
    out["samples"] = result.rows;
    out["images_per_s"] = speed;
    out["seconds"] = seconds;
    fmt::print("{}\n", out.dump());
    return;
  }
  fmt::print("loss {}", runtime::loss_str(runtime::mean_loss(result)));
  if (accuracy) fmt::print("  accuracy {:.2f} %", 100.0 * *accuracy);
  if (top5) fmt::print("  top-5 {:.2f} %", 100.0 * *top5);
  fmt::print("  |  {} samples  {} {}/s  {}\n", runtime::count_str(result.rows),
             runtime::count_str(std::llround(speed)), unit, runtime::duration_str(seconds));
}

int eval(const EvalFlags& flags) {
  runtime::SessionOptions options = runtime::session_options(flags.shared);
  runtime::adapt_options(flags.shared);
  runtime::batch_setup(flags.shared, -1);  // says what is wrong with the shares
  runtime::check_choice("--split", flags.split, {"test", "train"});
  check_outputs({{"--predictions", flags.predictions}}, flags.shared);
  const auto session = runtime::Session::open(flags.shared.model, std::move(options));
  const runtime::Feed feed = runtime::find_feed(*session, flags.shared);
  const int64_t rows = feed.baked_rows() > 0 ? feed.baked_rows() : flags.shared.batch.value_or(256);
  const auto use =
      flags.split == "test" ? runtime::DataUse::kEvaluateTest : runtime::DataUse::kEvaluateTrain;
  const runtime::FedData data = runtime::open_data(*session, feed, flags.shared, rows, use);
  const auto& part = data.test != nullptr ? data.test : data.train;
  for (const std::string& line : session->notices()) support::notice("{}", line);
  runtime::check_evaluation(feed, *part);
  const auto start = std::chrono::steady_clock::now();
  const runtime::EvalResult result = runtime::evaluate(*session, feed, part, rows);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  runtime::warn_unless_finite(result);
  if (!flags.predictions.empty()) {
    runtime::write_npy(flags.predictions,
                       runtime::predict(*session, feed, part, rows, flags.shared.output));
  }
  print(result, runtime::sample_word(*part), took.count(), flags.shared.json);
  return 0;
}

}  // namespace

Action setup_eval(CLI::App& app) {
  auto flags = std::make_shared<EvalFlags>();
  add_model_argument(app, flags->shared);
  add_data_flags(app, flags->shared);
  add_batch_flags(app, flags->shared);
  add_device_flags(app, flags->shared);
  add_loss_flags(app, flags->shared);
  app.add_option("--split", flags->split, "test (default) or train")->group("Data");
  app.add_option("--predictions", flags->predictions,
                 "FILE.npy: the model's output for every sample, in order");
  add_json_flag(app, flags->shared);
  add_example(app, "sardonyx eval trained.onnx --data fashion-mnist");
  return [flags] { return eval(*flags); };
}

}  // namespace sardonyx::tools
