// What the kinds share: sessions and batches as case.json describes them, comparisons.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"
#include "tests/run_cases/kinds.h"
#include "tests/support/tensors.h"

namespace sardonyx::cases {

using NamedTensors = std::vector<std::pair<std::string, graph::Tensor>>;

runtime::SessionOptions plain_options(const Task& task);
// Loss, optimizer, frozen and trainable names as in case.json, fed with such a batch.
runtime::SessionOptions training_options(const Task& task, const runtime::Batch& batch);
// Sizes of the samples, for dimensions that the file leaves open, and the type of the labels.
void describe(runtime::SessionOptions& options, const runtime::Batch& batch);

passes::Mode mode_of(const nlohmann::json& spec);
// Entries {"name"|"output", "file"} of case.json.
NamedTensors read_list(const Task& task, const nlohmann::json& list);
// `inputs` and, unless the file takes them as an input of its own, `labels`.
runtime::Batch read_batch(const Task& task);
// Rows [begin, begin + count) of every tensor.
runtime::Batch rows_of(const runtime::Batch& batch, int64_t begin, int64_t count);
// The rows that the first input of the file demands, else `otherwise`.
int64_t rows_for(const runtime::Session& session, int64_t otherwise);

test::Tolerance tolerance_of(const nlohmann::json& spec);
const graph::Tensor& find_named(const NamedTensors& tensors, const std::string& name,
                                const char* what);
enum class Types : uint8_t { kAny, kEqual };
// What differs first, "" when nothing does.
std::string compare(const NamedTensors& got, const NamedTensors& want, test::Tolerance tolerance,
                    const char* what, Types types);

}  // namespace sardonyx::cases
