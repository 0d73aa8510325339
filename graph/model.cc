#include "graph/model.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <mutex>
#include <utility>

#include "graph/external_data.h"
#include "graph/skeleton.h"
#include "graph/support/error.h"
#include "graph/support/mapped_file.h"
#include "graph/support/sniff.h"
#include "graph/support/text.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {

namespace fs = std::filesystem;
using support::MappedFile;

struct Model::Impl {
  fs::path path;
  fs::path folder;
  std::span<const std::byte> bytes;
  // Shared with the tensors that borrow from it.
  std::shared_ptr<const void> keep_alive;
  std::shared_ptr<const MappedFile> file;  // null: the bytes came from memory
  onnx::ModelProto skeleton;
  // Mapped external files by resolved path; payload() is called from several threads.
  std::mutex mutex;
  std::map<fs::path, std::shared_ptr<const MappedFile>> external;

  void parse(const std::string& label);
  std::shared_ptr<const MappedFile> map_external(const fs::path& file);
};

void Model::Impl::parse(const std::string& label) {
  if (bytes.empty()) throw Error("{}: the file is empty (0 bytes)", label);
  const std::string where = fmt::format("{} ({} bytes)", label, bytes.size());
  if (const std::string foreign = support::sniff_foreign_file(bytes); !foreign.empty()) {
    throw Error("{} is {}", where, foreign);
  }
  try {
    parse_skeleton(bytes, skeleton);
  } catch (const Error& error) {
    throw Error("{} is not an ONNX model, or a damaged one: {}", where, error.what());
  }
  if (!skeleton.has_graph()) {
    throw Error("{} is not an ONNX model, or a truncated one: it has no graph", where);
  }
}

std::shared_ptr<const MappedFile> Model::Impl::map_external(const fs::path& file) {
  const std::lock_guard lock(mutex);
  auto& mapped = external[file];
  if (mapped == nullptr) mapped = MappedFile::open(file);
  return mapped;
}

void Model::release_pages() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->file != nullptr) impl_->file->release();
  for (const auto& [path, mapped] : impl_->external) mapped->release();
}

Model::Model() : impl_(std::make_unique<Impl>()) {}
Model::~Model() = default;

std::shared_ptr<const Model> Model::open(const fs::path& path) {
  std::shared_ptr<Model> model(new Model);
  Impl& impl = *model->impl_;
  auto file = MappedFile::open(path);
  impl.path = path;
  impl.folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  impl.bytes = file->bytes();
  impl.keep_alive = file;
  impl.file = std::move(file);
  impl.parse(support::escaped(path.string()));
  return model;
}

std::shared_ptr<const Model> Model::from_bytes(std::string bytes, fs::path folder) {
  std::shared_ptr<Model> model(new Model);
  Impl& impl = *model->impl_;
  auto owned = std::make_shared<const std::string>(std::move(bytes));
  impl.folder = std::move(folder);
  impl.bytes = std::as_bytes(std::span(*owned));
  impl.keep_alive = std::move(owned);
  impl.parse("the model in memory");
  return model;
}

const fs::path& Model::path() const { return impl_->path; }
const fs::path& Model::folder() const { return impl_->folder; }
std::span<const std::byte> Model::bytes() const { return impl_->bytes; }
const onnx::ModelProto& Model::skeleton() const { return impl_->skeleton; }

Tensor Model::payload(const onnx::TensorProto& tensor) const {
  std::span<const std::byte> file = impl_->bytes;
  std::shared_ptr<const void> keep_alive = impl_->keep_alive;
  std::optional<wire::Span> place = place_of(tensor);
  if (!place) {
    // Not of the skeleton: a message that the caller built.
    auto owned = std::make_shared<const std::string>(tensor.SerializeAsString());
    file = std::as_bytes(std::span(*owned));
    place = wire::Span{0, owned->size()};
    keep_alive = std::move(owned);
  }
  const TensorMessage message = read_tensor_message(file, *place);
  if (!message.external) return decode_inline(message, file, keep_alive);

  const ExternalRange range = external_range(message, impl_->folder);
  auto mapped = impl_->map_external(range.file);
  // The size was checked, but another program may have cut the file since the mapping was made.
  if (mapped->bytes().size() < range.offset + range.size) {
    throw Error("{}: external data file {} has changed while it was in use", tensor_label(message),
                support::in_quotes(range.location));
  }
  const auto bytes = mapped->bytes().subspan(range.offset, range.size);
  return tensor_from_raw(checked_dtype(message), message.dims, bytes, std::move(mapped));
}

}  // namespace sardonyx::graph
