// The readers of files: data sets, checkpoints, logs, and the text of a graph.
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "graph/parse.h"
#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/verify.h"
#include "runtime/checkpoint_manifest.h"
#include "runtime/data/cifar.h"
#include "runtime/data/idx.h"
#include "runtime/data/image.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/labels.h"
#include "runtime/data/npy.h"
#include "runtime/log_cut.h"
#include "runtime/run_config.h"
#include "runtime/safetensors.h"
#include "runtime/tuning_cache.h"
#include "tests/fuzz/target.h"
#include "tests/support/shared_data.h"

namespace sardonyx::fuzz {
namespace {

namespace fs = std::filesystem;
using graph::Tensor;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const fs::path& scratch() {
  static const testing::TemporaryFolder kFolder;
  return kFolder.path();
}

std::string write(std::string_view bytes, const char* name = "input") {
  const fs::path path = scratch() / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path.string();
}

// Without a name and without a time, as one member.
std::string gzip(std::string_view bytes) {
  z_stream stream{};
  CHECK(::deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  CHECK(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

// Everything that is asked about arrays before they are used.
void examine(const Tensor& array) {
  accepts([&] { runtime::check_finite(array, graph::DType::kFloat32, "array"); });
  if (array.rank() == 0) return;
  const std::vector<int64_t> row(array.shape().begin() + 1, array.shape().end());
  accepts([&] { runtime::check_not_floating(array, "array"); });
  accepts([&] {
    runtime::check_class_labels(array, {array.shape()[0], row, 10, std::nullopt}, "array");
  });
  accepts([&] { runtime::check_targets(array, array.shape()[0], row, "array"); });
}

// A body without its end gets the checksum that a manifest ends in.
std::string sealed(std::string_view open) {
  const auto sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(open.data()), open.size());
  return fmt::format("{},\n  \"crc32\": \"{:08x}\"\n}}\n", open, sum);
}

}  // namespace

void run_text(Bytes bytes) {
  std::unique_ptr<graph::Graph> graph;
  if (!accepts([&] { graph = graph::parse(text_of(bytes)); })) return;
  accepts([&] { graph::verify(*graph); });
  for (const graph::Value& value : graph->values()) {
    if (value.data.defined() && value.data.numel() > 1000000) return;  // "{...}": a long text
  }
  const std::string text = graph::print(*graph);
  CHECK(graph::print(*graph::parse(text)) == text, "a graph has another text when it is read back");
  CHECK(graph::print(*graph->clone()) == text, "the clone of a graph has another text");
}

void run_idx(Bytes bytes) {
  // Mutated bytes of a compressed stream seldom pass its checksum: 'Z' asks for it to be made here.
  const std::string_view text = text_of(bytes);
  const std::string file = write(text.starts_with('Z') ? gzip(text.substr(1)) : text);
  static const std::string kLabels = write(std::string("\0\0\x08\x01\0\0\0\2\1\7", 10), "labels");
  accepts([&] { examine(runtime::read_idx(file)); });
  accepts([&] { runtime::read_idx_pair(file, kLabels); });
  accepts([&] { runtime::read_idx_pair(file, file); });
}

void run_cifar(Bytes bytes) {
  const std::string file = write(text_of(bytes));
  accepts([&] { examine(runtime::read_cifar10({file, file}).labels); });
  accepts([&] { examine(runtime::read_cifar100({file}).coarse_labels); });
}

void run_npy(Bytes bytes) {
  accepts([&] {
    const Tensor array = runtime::read_npy(write(text_of(bytes)));
    examine(array);
    const std::string again = (scratch() / "again.npy").string();
    runtime::write_npy(again, array);
    CHECK(runtime::read_npy(again).identical(array), "an array has other bytes when written");
  });
}

void run_npz(Bytes bytes) {
  accepts([&] {
    for (const auto& array : runtime::read_npz(write(text_of(bytes)))) examine(array.array);
  });
}

void run_picture(Bytes bytes) {
  const bool is_picture = accepts([&] { runtime::read_image_header(bytes, "picture"); });
  for (const int64_t channels : {1, 3}) {
    const bool decoded = accepts([&] { runtime::decode_image(bytes, channels, "picture"); });
    CHECK(is_picture || !decoded, "a picture has no header");
  }
  static const fs::path kClass = [] {
    fs::create_directories(scratch() / "pictures" / "a");
    return scratch() / "pictures" / "a";
  }();
  write(text_of(bytes), "pictures/a/1.png");
  accepts([&] {
    const auto set = runtime::open_image_folder("folder:pictures", kClass.parent_path().string(),
                                                runtime::Split::kTrain, {3, 8, 8});
    std::vector<std::byte> room(set->info().sample.bytes());
    set->sample({0, 0}, room);
  });
}

void run_safetensors(Bytes bytes) {
  accepts([&] {
    const runtime::Safetensors file = runtime::parse_safetensors(bytes, nullptr);
    std::vector<runtime::TensorInfo> infos;
    for (const auto& [name, tensor] : file.tensors) {
      infos.push_back({name, tensor.dtype(), tensor.shape()});
    }
    std::string again;
    runtime::write_safetensors(
        infos, file.metadata, [&](size_t i) { return file.tensors[i].second; },
        [&](std::string_view piece) { again += piece; });
    const auto read = runtime::parse_safetensors(std::as_bytes(std::span(again)), nullptr);
    CHECK(read.metadata == file.metadata && read.tensors.size() == file.tensors.size());
    // Others may have written them in another order.
    const std::map<std::string, graph::Tensor> by_name(read.tensors.begin(), read.tensors.end());
    for (const auto& [name, tensor] : file.tensors) {
      const auto found = by_name.find(name);
      CHECK(found != by_name.end() && found->second.identical(tensor),
            "tensor {} is another when written", name);
    }
  });
}

void run_manifest(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  accepts([&] { runtime::parse_manifest(std::string(text)); });
  accepts([&] {
    const runtime::Manifest manifest = runtime::parse_manifest(sealed(text));
    const std::string written = runtime::to_text(manifest);
    CHECK(runtime::to_text(runtime::parse_manifest(written)) == written,
          "a manifest is another when written");
    accepts([&] { static_cast<void>(runtime::sum_str(manifest.model_sum)); });
    runtime::Flags flags;
    runtime::take_over(flags, manifest.config);
    runtime::session_options(flags);
  });
}

void run_log(Bytes bytes) {
  for (const int64_t step : {int64_t{3}, std::numeric_limits<int64_t>::max()}) {
    runtime::RunState run;
    run.step = step;
    accepts([&] { runtime::cut_log(write(text_of(bytes)), run, 2); });
  }
}

void run_tuning(Bytes bytes) {
  accepts([&] {
    runtime::TuningCache cache({write(text_of(bytes), "tuning.json")}, "a machine");
    static_cast<void>(cache.find("a request"));
    cache.put("a request", {{"a kernel", 0.5}});
    cache.save();
  });
}

}  // namespace sardonyx::fuzz
