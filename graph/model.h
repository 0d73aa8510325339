// The user's file as it came: mapped bytes, the protobuf skeleton without its large payloads, and
// where each payload stands. Never rebuilt: saving edits a copy of these bytes (onnx_export.h).
//
// Opening walks the protobuf wire format without touching payloads, so a 45 MB file opens in about
// a millisecond. Every length is checked against the bytes that are there before anything is
// allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace sardonyx::graph {

class Model {
 public:
  // Throws Error: missing, not a regular file, empty, a Git-LFS pointer, HTML, gzip, zip, text,
  // truncated, not ONNX, nested deeper than 100 messages, no graph.
  static std::shared_ptr<const Model> open(const std::filesystem::path& path);
  // The same from memory; external data is looked up in `folder`.
  static std::shared_ptr<const Model> from_bytes(std::string bytes,
                                                 std::filesystem::path folder = ".");
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::filesystem::path& path() const;
  const std::filesystem::path& folder() const;
  std::span<const std::byte> bytes() const;
  // All messages except payloads larger than 1 KiB (raw_data, float_data, ... of tensors), which
  // are cut out.
  const onnx::ModelProto& skeleton() const;

  // The payload of a tensor of the skeleton: inline (any of the typed fields or raw_data) or
  // external (location, offset, length; only files below folder()). Borrows the mapped bytes where
  // it can. Throws Error naming the tensor: size against shape, external path rules, range, type.
  Tensor payload(const onnx::TensorProto& tensor) const;
  // When the payloads were copied to where they are used: the mapped files need no memory until
  // they are read again.
  void release_pages() const;

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sardonyx::graph
