#include "runtime/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "graph/support/error.h"
#include "graph/support/file_writer.h"
#include "graph/support/log.h"
#include "graph/support/mapped_file.h"
#include "graph/support/text.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace fs = std::filesystem;
using support::escaped;

namespace {

constexpr const char* kStates = "state.safetensors";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kWhole = "step-";
constexpr const char* kSaving = ".saving-";
constexpr const char* kRemoving = ".removing-";
constexpr const char* kDamaged = "damaged-step-";

// What a checkpoint can suffer on a disk: the one before it will do. Every other error is the
// user's to solve.
class Damaged : public Error {
 public:
  using Error::Error;
};

void move_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) support::fail_to_write(to, errno);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw Error("{}: cannot be removed: {}", escaped(path.string()), error.message());
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) throw Error("{}: cannot be read: {}", escaped(folder.string()), error.message());
  return names;
}

// The step of "step-00000123"; nullopt for any other name.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kWhole)) return {};
  const std::string digits = name.substr(std::string_view(kWhole).size());
  const auto step = parse_whole(digits);
  if (!step || *step < 0 || fmt::format("{:08}", *step) != digits) return {};
  return step;
}

std::shared_ptr<const support::MappedFile> map_part(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT) throw Damaged("{} is missing", name);
  return support::MappedFile::open(path);
}

// The lock goes with the process, however it ends.
std::shared_ptr<const void> lock(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) support::fail_to_write(folder, errno);
  std::shared_ptr<const void> held(nullptr, [fd](const void*) { ::close(fd); });
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return held;
  if (errno == EWOULDBLOCK) {
    throw Error(
        "--checkpoint {}: another process keeps its checkpoints there; stop it, wait for it, or "
        "choose another folder",
        escaped(folder.string()));
  }
  support::warning(
      "--checkpoint {}: this file system has no locks; make sure that no other process uses the "
      "folder",
      escaped(folder.string()));
  return held;
}

// Errors of `body` are damage of the part.
template <class Body>
decltype(auto) judge(const char* part, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Damaged("{}: {}", part, error.what());
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  const fs::file_type type = fs::status(folder_, error).type();
  if (type != fs::file_type::not_found && type != fs::file_type::directory) {
    throw Error("--checkpoint {}: expected a folder, or a name for a new one",
                escaped(folder_.string()));
  }
  const bool fresh = type == fs::file_type::not_found;
  if (fresh && fs::is_symlink(fs::symlink_status(folder_, error))) {
    throw Error("--checkpoint {}: it is a link to {}, which is not there; make that folder first",
                escaped(folder_.string()), escaped(fs::read_symlink(folder_, error).string()));
  }
  if (fresh && ::mkdir(folder_.c_str(), 0777) != 0) support::fail_to_write(folder_, errno);
  lock_ = lock(folder_);
  made_ = fresh;
  if (fresh) support::sync_folder(fs::canonical(folder_).parent_path(), folder_);
  try_write();
  remove_leftovers();
}

CheckpointFolder::~CheckpointFolder() {
  if (made_) ::rmdir(folder_.c_str());  // fails when it holds anything
}

// Before the first step, not after the first hour.
void CheckpointFolder::try_write() const {
  const fs::path trial = folder_ / (std::string(kSaving) + "trial");
  if (::mkdir(trial.c_str(), 0777) != 0 && errno != EEXIST) support::fail_to_write(folder_, errno);
}

void CheckpointFolder::remove_leftovers() const {
  for (const std::string& name : names_in(folder_)) {
    if (name.starts_with(kSaving) || name.starts_with(kRemoving)) remove_tree(folder_ / name);
  }
}

fs::path CheckpointFolder::place(const char* prefix, int64_t step) const {
  return folder_ / fmt::format("{}{:08}", prefix, step);
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder_)) {
    if (const auto step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Checkpoint CheckpointFolder::load(int64_t step) const {
  Checkpoint checkpoint{place(kWhole, step), {}, {}};
  const auto manifest = map_part(checkpoint.path, kManifest);
  checkpoint.manifest =
      judge(kManifest, [&] { return parse_manifest(std::string(as_text(manifest->bytes()))); });
  if (checkpoint.manifest.format != kCheckpointFormat) {
    throw Error("{} has format {}, this version of Sardonyx reads {}",
                escaped(checkpoint.path.string()), checkpoint.manifest.format, kCheckpointFormat);
  }
  if (checkpoint.manifest.run.step != step) {
    throw Damaged("{} is that of step {}", kManifest, checkpoint.manifest.run.step);
  }
  const auto states = map_part(checkpoint.path, kStates);
  FileSum sum;
  add_to(sum, states->bytes());
  const FileSum& expected = checkpoint.manifest.files[kStates];
  if (sum != expected) {
    throw Damaged("{} has {}, the manifest says {}", kStates, sum_str(sum), sum_str(expected));
  }
  checkpoint.states =
      judge(kStates, [&] { return parse_safetensors(states->bytes(), states).tensors; });
  return checkpoint;
}

std::optional<Checkpoint> CheckpointFolder::newest() {
  std::vector<std::pair<int64_t, std::string>> damaged;
  for (const int64_t step : steps()) {
    try {
      Checkpoint checkpoint = load(step);
      for (const auto& [bad, why] : damaged) {
        const fs::path aside = place(kDamaged, bad);
        remove_tree(aside);
        move_to(place(kWhole, bad), aside);
        support::warning("{} is damaged and left out, now as {}: {}",
                         escaped(place(kWhole, bad).string()), aside.filename().string(), why);
      }
      return checkpoint;
    } catch (const Damaged& error) {
      damaged.emplace_back(step, error.what());
    }
  }
  if (damaged.empty()) return {};
  std::string text;
  for (const auto& [step, why] : damaged) {
    text += fmt::format("\n  {}: {}", place(kWhole, step).filename().string(), why);
  }
  throw Error("--checkpoint {}: every checkpoint there is damaged:{}", escaped(folder_.string()),
              text);
}

fs::path CheckpointFolder::write(Manifest manifest, const std::vector<SavedState>& states,
                                 const std::function<graph::Tensor(const std::string&)>& value) {
  const fs::path place = this->place(kWhole, manifest.run.step);
  const fs::path saving = this->place(kSaving, manifest.run.step);
  CHECK(!fs::exists(place), "{} is there already", place.string());
  std::vector<TensorInfo> tensors;
  for (const SavedState& state : states) {
    tensors.push_back({state.name, state.type.dtype, state.type.shape()});
  }
  try {
    if (::mkdir(saving.c_str(), 0777) != 0) support::fail_to_write(place, errno);
    support::FileWriter states_file(saving / kStates, place / kStates);
    FileSum& sum = manifest.files[kStates] = {};
    write_safetensors(
        tensors, {{"format", "sardonyx checkpoint"}},
        [&](size_t i) { return value(tensors[i].name); },
        [&](std::string_view bytes) {
          add_to(sum, std::as_bytes(std::span(bytes)));
          states_file.write(bytes);
        });
    states_file.finish();
    support::FileWriter manifest_file(saving / kManifest, place / kManifest);
    manifest_file.write(to_text(manifest));
    manifest_file.finish();
    support::sync_folder(saving, place);
    move_to(saving, place);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(saving, ignored);
    throw;
  }
  support::sync_folder(folder_, place);
  return place;
}

void CheckpointFolder::keep_newest(int64_t count) {
  const std::vector<int64_t> all = steps();
  for (size_t i = static_cast<size_t>(count); i < all.size(); ++i) {
    const fs::path removing = place(kRemoving, all[i]);
    move_to(place(kWhole, all[i]), removing);
    remove_tree(removing);
  }
}

FileSum sum_of(const Session& session) {
  const std::span<const std::byte> file = session.model().bytes();
  FileSum sum;
  add_to(sum, file);
  for (const graph::Value& value : session.imported().values()) {
    if (!value.data.defined()) continue;
    const std::span<const std::byte> bytes = value.data.bytes();
    const bool inside = bytes.data() >= file.data() && bytes.data() < file.data() + file.size();
    if (!inside) add_to(sum, bytes);
  }
  return sum;
}

}  // namespace sardonyx::runtime
