#include "graph/external_files.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "graph/support/error.h"
#include "graph/support/mapped_file.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using support::AtomicFile;
using wire::Message;
using wire::Span;
using wire::Type;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::string_view chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Those that the spelling of a location passes through, though "a/../w.bin" has nothing in a: who
// opens it asks for them.
void make_folders(fs::path at, const fs::path& location) {
  std::error_code ignored;
  for (const fs::path& part : location.parent_path()) {
    at = part == ".." ? at.parent_path() : at / part;
    fs::create_directory(at, ignored);
  }
}

bool overlap(const ExternalRange& a, const ExternalRange& b) {
  return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

}  // namespace

ExternalFiles::ExternalFiles(const Model& model) : model_(model) {
  collect(Message::kModel, {0, model.bytes().size()});
}

void ExternalFiles::collect(Message kind, Span message) {
  wire::Reader reader(model_.bytes(), message);
  while (reader.next()) {
    const wire::Field& f = reader.field();
    const Message child = wire::child_of(kind, f.number);
    if (f.type != Type::kBytes || child == Message::kLeaf) continue;
    if (child != Message::kTensor) {
      collect(child, f.body);
      continue;
    }
    TensorMessage tensor = read_tensor_message(model_.bytes(), f.body);
    if (!tensor.external) continue;
    ExternalRange range = external_range(tensor, model_.folder());
    places_.emplace(f.body.begin, Place{std::move(tensor), std::move(range)});
  }
}

std::vector<fs::path> ExternalFiles::files() const {
  std::vector<fs::path> files;
  for (const auto& [tensor, place] : places_) files.push_back(place.range.file);
  return files;
}

bool ExternalFiles::may_write(const fs::path& path, const Target& target) const {
  std::error_code ignored;
  const auto is_one_of = [&](const std::vector<fs::path>& files) {
    return std::any_of(files.begin(), files.end(),
                       [&](const fs::path& file) { return fs::equivalent(path, file, ignored); });
  };
  if (!fs::exists(path, ignored)) return true;
  if (is_one_of(files())) return target.originals == Originals::kOverwrite;
  return is_one_of(target.replaced);
}

// "model.onnx.data" of model.onnx becomes "trained.onnx.data" of trained.onnx.
std::string ExternalFiles::new_location(const std::string& location, const Target& target) const {
  const std::string old_model = model_.path().filename().string();
  const std::string new_model = target.path.filename().string();
  const std::string file = fs::path(location).filename().string();
  const bool derived = !old_model.empty() && file.starts_with(old_model);
  const std::string base =
      derived ? new_model + file.substr(old_model.size()) : new_model + "." + file;
  std::string name = base;
  for (int i = 1; !may_write(folder_of(target.path) / name, target); ++i) {
    name = fmt::format("{}.{}", base, i);
  }
  return name;
}

ExternalFiles::Target ExternalFiles::target_at(const fs::path& path, Originals originals) const {
  Target target{path, originals, {}};
  std::error_code ignored;
  if (!places_.empty() && fs::exists(path, ignored)) {
    try {
      target.replaced = ExternalFiles(*Model::open(path)).files();
    } catch (const Error&) {
      // Not a whole model: nothing beside it counts as its own.
    }
  }
  return target;
}

std::map<std::string, std::vector<size_t>> ExternalFiles::by_location() const {
  std::map<std::string, std::vector<size_t>> tensors;
  for (const auto& [tensor, place] : places_) {
    tensors[fs::path(place.range.location).lexically_normal().string()].push_back(tensor);
  }
  return tensors;
}

bool ExternalFiles::is_changed(const std::vector<size_t>& tensors) const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](size_t tensor) { return values_.contains(tensor); });
}

std::vector<std::unique_ptr<AtomicFile>> ExternalFiles::write(const fs::path& path,
                                                              Originals originals,
                                                              const Edits& edits) {
  const Target target = target_at(path, originals);
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& [location, tensors] : by_location()) {
    auto file = write_one(location, tensors, target, edits);
    if (file != nullptr) written.push_back(std::move(file));
  }
  return written;
}

void ExternalFiles::check(const fs::path& path, Originals originals) const {
  const Target target = target_at(path, originals);
  for (const auto& [location, tensors] : by_location()) fate(location, tensors, target);
}

ExternalFiles::Fate ExternalFiles::fate(const std::string& location,
                                        const std::vector<size_t>& tensors,
                                        const Target& target) const {
  const fs::path path = folder_of(target.path) / location;
  std::error_code problem;
  if (!is_changed(tensors) && fs::exists(path, problem)) {
    const auto source = support::MappedFile::open(places_.at(tensors.front()).range.file);
    const auto there = support::MappedFile::open(path);
    if (std::ranges::equal(there->bytes(), source->bytes())) return Fate::kIsThere;
  }
  if (may_write(path, target)) return Fate::kKeepsName;
  if (is_changed(tensors)) return Fate::kGetsName;
  throw Error(
      "{}: a different file of this name is already there, and the model needs its data "
      "file under it; choose another folder",
      support::escaped(path.string()));
}

std::unique_ptr<AtomicFile> ExternalFiles::write_one(const std::string& location,
                                                     const std::vector<size_t>& tensors,
                                                     const Target& target, const Edits& edits) {
  for (size_t tensor : tensors) {
    make_folders(folder_of(target.path), places_.at(tensor).range.location);
  }
  const Fate what = fate(location, tensors, target);
  if (what == Fate::kIsThere) return nullptr;
  fs::path path = folder_of(target.path) / location;
  if (what == Fate::kGetsName) {
    const std::string renamed = new_location(location, target);
    for (FileEdit* edit : edits) {
      for (size_t tensor : tensors) edit->tensor(tensor).external_entries["location"] = renamed;
    }
    path = folder_of(target.path) / renamed;
  }
  const auto source = support::MappedFile::open(places_.at(tensors.front()).range.file);
  const wire::Rope content = new_content(tensors, source->bytes(), edits);
  return std::make_unique<AtomicFile>(path, content.pieces());
}

wire::Rope ExternalFiles::new_content(const std::vector<size_t>& tensors,
                                      std::span<const std::byte> old, const Edits& edits) const {
  std::vector<size_t> changed;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(changed),
               [&](size_t tensor) { return values_.contains(tensor); });
  std::sort(changed.begin(), changed.end(), [&](size_t a, size_t b) {
    return places_.at(a).range.offset < places_.at(b).range.offset;
  });
  wire::Rope content, behind;
  uint64_t at = 0;
  for (size_t tensor : changed) {
    const ExternalRange& range = places_.at(tensor).range;
    CHECK(range.offset + range.size <= old.size());
    const auto new_bytes = chars(values_.at(tensor).bytes());
    const bool shared = std::any_of(tensors.begin(), tensors.end(), [&](size_t other) {
      return other != tensor && overlap(range, places_.at(other).range);
    });
    if (shared) {
      // Bytes that another tensor reads too stay; the new ones go behind the old end.
      const std::string offset = std::to_string(old.size() + behind.size());
      for (FileEdit* edit : edits) edit->tensor(tensor).external_entries["offset"] = offset;
      behind.add_view(new_bytes);
      continue;
    }
    content.add_view(chars(old.subspan(at, range.offset - at)));
    content.add_view(new_bytes);
    at = range.offset + range.size;
  }
  content.add_view(chars(old.subspan(at)));
  content.add(std::move(behind));
  // A checksum is of the whole file, so it is wrong for all its tensors now.
  for (size_t tensor : tensors) {
    if (changed.empty() || places_.at(tensor).message.external_entry("checksum") == nullptr)
      continue;
    for (FileEdit* edit : edits) edit->tensor(tensor).drop_checksum = true;
  }
  return content;
}

}  // namespace sardonyx::graph
