#include "graph/onnx_export.h"

#include <memory>
#include <system_error>

#include "graph/external_files.h"
#include "graph/save_plan.h"
#include "graph/support/atomic_file.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using support::AtomicFile;

bool is_model_itself(const Model& model, const fs::path& path) {
  std::error_code ignored;
  return !model.path().empty() && fs::equivalent(model.path(), path, ignored);
}

ExternalFiles::Originals check_path(const Model& model, const fs::path& path,
                                    const SaveOptions& options) {
  if (!is_model_itself(model, path)) return ExternalFiles::Originals::kKeep;
  if (options.overwrite_input) return ExternalFiles::Originals::kOverwrite;
  throw Error("{}: is the model that was read; save under another name, or ask to overwrite it",
              support::escaped(path.string()));
}

void fill(SavePlan& plan, const std::vector<NewValue>& values, const SaveOptions& options) {
  for (const NewValue& value : values) plan.add(value);
  for (const NodeEdit& change : options.node_edits) plan.add(change);
  for (const std::string& name : options.dropped_initializers) plan.drop_initializer(name);
}

}  // namespace

void check_save(const Model& model, const std::vector<NewValue>& values, const fs::path& path,
                const SaveOptions& options) {
  const auto originals = check_path(model, path, options);
  ExternalFiles external(model);
  SavePlan plan(model, external);
  fill(plan, values, options);
  plan.finish();
  if (!path.empty()) external.check(path, originals);
}

void save_model(const Model& model, const std::vector<NewValue>& values, const fs::path& path,
                const SaveOptions& options) {
  const auto originals = check_path(model, path, options);
  ExternalFiles external(model);
  SavePlan plan(model, external);
  fill(plan, values, options);
  // Everything is on the disk before the first rename, and the model, which refers to the rest,
  // comes last.
  auto files = external.write(path, originals, plan.edits());
  const FileEdit& edit = plan.finish();
  const wire::Rope content = edit.apply(wire::Message::kModel, {0, model.bytes().size()});
  if (options.data_files != nullptr) {
    for (const auto& data : files) options.data_files->push_back(data->target());
  }
  files.push_back(std::make_unique<AtomicFile>(path, content.pieces()));
  AtomicFile::commit_all(files);
  if (options.notices == nullptr) return;
  options.notices->insert(options.notices->end(), plan.notices().begin(), plan.notices().end());
  if (content.size() <= options.protobuf_limit) return;
  options.notices->push_back(fmt::format(
      "{} has {} bytes: most programs read at most {} (protobuf's limit) and will refuse "
      "it; export the model with its weights in a file of their own (external data)",
      support::escaped(path.string()), content.size(), options.protobuf_limit));
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  AtomicFile(path, {&bytes, 1}).commit();
}

}  // namespace sardonyx::graph
