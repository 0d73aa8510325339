#include "tools/output_files.h"

#include <fcntl.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "graph/model.h"
#include "graph/support/atomic_file.h"
#include "graph/support/error.h"
#include "runtime/data/image_folder.h"
#include "runtime/usage.h"

namespace sardonyx::tools {

namespace {

namespace fs = std::filesystem;

// Cheaper than an AtomicFile, which waits for the disk.
bool can_create_beside(const std::string& path) {
  const std::string trial = fmt::format("{}.{}.trial", path, ::getpid());
  const int fd = ::open(trial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  ::close(fd);
  ::unlink(trial.c_str());
  return true;
}

fs::path whole(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(path, error), error);
}

bool same_file(const std::string& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  const fs::path left = whole(a);
  return !left.empty() && left == whole(b);
}

// Calls use(location) for every tensor of `message`, at any depth, that stands in another file.
template <class Use>
void for_each_location(const google::protobuf::Message& message, const Use& use) {
  if (const auto* tensor = dynamic_cast<const onnx::TensorProto*>(&message)) {
    for (const auto& entry : tensor->external_data()) {
      if (entry.key() == "location") use(entry.value());
    }
    return;
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      for_each_location(reflection.GetMessage(message, field), use);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      for_each_location(reflection.GetRepeatedMessage(message, field, i), use);
    }
  }
}

[[noreturn]] void refuse(const OutputFile& output, const char* what) {
  throw Error("{} {}: that is {}; choose another name", output.flag, output.path, what);
}

void refuse_input(const OutputFile& output, const fs::path& input, const char* what) {
  if (same_file(output.path, input)) refuse(output, what);
}

constexpr const char* kDataFile = "a file of the data, which stays as it is";

// Of idx:DIR[/PREFIX], npy:DIR and --data-dir.
void refuse_data(const OutputFile& output, const fs::path& data) {
  std::error_code error;
  const fs::path folder = fs::is_directory(data, error) ? data : data.parent_path();
  if (!fs::is_directory(folder, error)) return;
  const std::string prefix = folder == data ? "" : data.filename().string();
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_data = name.find("ubyte") != std::string::npos || name.ends_with(".gz") ||
                         name.ends_with(".bin") || name.ends_with(".npy") ||
                         name.find("images") != std::string::npos ||
                         name.find("labels") != std::string::npos ||
                         (!prefix.empty() && name.starts_with(prefix));
    if (is_data) refuse_input(output, entry.path(), kDataFile);
  }
}

// An image below folder:DIR.
void refuse_image(const OutputFile& output, const fs::path& folder) {
  const fs::path below = whole(output.path).lexically_relative(whole(folder));
  const bool inside = !below.empty() && *below.begin() != "..";
  if (inside && runtime::is_image_name(below.filename())) refuse(output, kDataFile);
}

void refuse_model(const OutputFile& output, const runtime::Flags& flags) {
  if (!same_file(output.path, flags.model)) return;
  if (output.flag != "--save") refuse(output, "the input file, which stays as it is");
  if (flags.overwrite) return;
  throw Error(
      "--save {}: that is the input file, which stays as it is; choose another name, or replace it "
      "with --overwrite",
      output.path);
}

void check_inputs(const OutputFile& output, const runtime::Flags& flags) {
  if (flags.model.empty()) return;
  refuse_model(output, flags);
  if (flags.data.starts_with("npz:")) refuse_input(output, flags.data.substr(4), kDataFile);
  if (flags.data.starts_with("npy:")) refuse_data(output, fs::path(flags.data.substr(4)) / "");
  if (flags.data.starts_with("idx:")) refuse_data(output, flags.data.substr(4));
  if (flags.data.starts_with("folder:")) refuse_image(output, flags.data.substr(7));
  if (!flags.data_dir.empty()) refuse_data(output, fs::path(flags.data_dir) / "");
}

// What is written there would take the place of a part of a checkpoint, or be removed with one. A
// log or a picture beside the checkpoints is fine.
void refuse_checkpoints(const OutputFile& output, const std::string& folder) {
  const fs::path place = whole(output.path).parent_path();
  const std::string name = fs::path(output.path).filename().string();
  std::error_code error;
  const bool in_one =
      fs::exists(place / "state.safetensors", error) && fs::exists(place / "manifest.json", error);
  fs::path kept = folder.empty() ? fs::path() : whole(folder);
  if (!kept.has_filename()) kept = kept.parent_path();  // "run/"
  const auto [end, rest] = std::mismatch(kept.begin(), kept.end(), place.begin(), place.end());
  const bool below = !folder.empty() && end == kept.end() && rest != place.end();
  const bool like_one = place == kept && (name.starts_with("step-") || name.starts_with("."));
  if (in_one || below || like_one) refuse(output, "a place of checkpoints");
}

void check_place(const OutputFile& output) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(output.path, error).type();
  const bool plain = type == fs::file_type::not_found || type == fs::file_type::regular;
  if (plain && can_create_beside(output.path)) return;
  // The same attempt as a real one, for its message.
  with_context([&] { return fmt::format("preparing {} {}", output.flag, output.path); },
               [&] { const support::AtomicFile trial(output.path, {}); });
}

}  // namespace

void check_outputs(const std::vector<OutputFile>& all, const runtime::Flags& flags) {
  std::vector<OutputFile> outputs;
  for (const OutputFile& output : all) {
    if (output.path.empty()) continue;
    for (const OutputFile& other : outputs) {
      if (!same_file(output.path, other.path)) continue;
      throw runtime::UsageError("{} {} and {} {} are one file; give each its own", other.flag,
                                other.path, output.flag, output.path);
    }
    outputs.push_back(output);
  }
  for (const OutputFile& output : outputs) {
    check_inputs(output, flags);
    refuse_checkpoints(output, flags.checkpoint);
    check_place(output);
  }
  if (outputs.empty() || flags.model.empty()) return;
  const auto model = graph::Model::open(flags.model);
  for_each_location(model->skeleton(), [&](const std::string& location) {
    for (const OutputFile& output : outputs) {
      refuse_input(output, model->folder() / location,
                   "a data file of the model, which stays as it is");
    }
  });
}

}  // namespace sardonyx::tools
