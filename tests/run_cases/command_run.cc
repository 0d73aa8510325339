#include "tests/run_cases/command_run.h"

#include <nlohmann/json.hpp>

#include "runtime/trainer.h"
#include "tests/run_cases/kit.h"
#include "tests/runtime/data/files.h"

namespace sardonyx::cases {

using graph::DType;
using graph::Tensor;
using nlohmann::json;

namespace {

std::string numpy_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kInt64:
      return "<i8";
    case DType::kInt32:
      return "<i4";
    case DType::kUint8:
      return "|u1";
    default:
      throw Mismatch("run_cases writes no npy file of {}", graph::dtype_name(dtype));
  }
}

std::string npy_bytes(const Tensor& tensor) {
  std::string shape = "(";
  for (const int64_t size : tensor.shape()) shape += fmt::format("{},", size);
  const auto* bytes = reinterpret_cast<const char*>(tensor.bytes().data());
  return testing::npy_file(numpy_type(tensor.dtype()), shape + ")",
                           std::string(bytes, tensor.bytes().size()));
}

template <class T>
void take(std::optional<T>& to, const json& option, const char* key) {
  if (option.contains(key)) to = option[key].get<T>();
}

}  // namespace

CommandRun::CommandRun(const Task& task, const runtime::Batch& data)
    : task_(task), samples_(data.rows()) {
  flags_.model = task.model().string();
  flags_.threads = task.variant.threads;
  flags_.shuffle = false;
  const json& loss = task.spec.at("loss");
  const std::string type = loss.at("type");
  flags_.loss = type == "softmax_cross_entropy" ? "cross_entropy" : type;
  flags_.output = loss.at("output");
  const json& optimizer = task.spec.at("optimizer");
  flags_.lr = optimizer.at("lr");
  flags_.momentum = optimizer.value("momentum", 0.0);
  flags_.nesterov = optimizer.value("nesterov", false);
  const json option = task.spec.value("option", json::object());
  take(flags_.batch, option, "global_batch");
  take(flags_.micro_batch, option, "micro_batch");
  take(flags_.accumulate, option, "accumulation");
  flags_.replicas = option.value("replicas", int64_t{1});
  flags_.drop_last = option.value("drop_last", false);
  flags_.steps = task.spec.value("steps_to_run", int64_t{1});
  // A short name: the words that a message must hold are not to come from a path.
  std::filesystem::current_path(task.scratch);
  testing::write_file("data.npz", testing::zip_file({{"x.npy", npy_bytes(data.inputs.at(0).second)},
                                                     {"y.npy", npy_bytes(data.labels)}}));
  flags_.data = "npz:data.npz";
}

void CommandRun::check_flags() const {
  const runtime::TrainerOptions options = runtime::trainer_options(flags_, -1);
  runtime::SamplerOptions sampler;
  sampler.batch = options.batch.batch;
  sampler.tail = options.tail;
  if (samples_ > 0) runtime::Sampler(samples_, sampler);
  session_options();
}

runtime::SessionOptions CommandRun::session_options() const {
  runtime::Flags flags = flags_;
  flags.replicas = 1;
  return runtime::session_options(flags);
}

void CommandRun::train(runtime::Session& session) const {
  const runtime::Feed feed = runtime::find_feed(session, flags_);
  const runtime::TrainerOptions options = runtime::trainer_options(flags_, feed.baked_rows());
  const int64_t rows = std::min<int64_t>(options.batch.batch, std::max<int64_t>(samples_, 1));
  const runtime::FedData data =
      runtime::open_data(session, feed, flags_, rows, runtime::DataUse::kTraining);
  runtime::Trainer(session, feed, data, options).run({}, [] { return false; });
}

}  // namespace sardonyx::cases
