#include "graph/onnx_export.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <random>

#include "graph/onnx_import.h"
#include "graph/support/error.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using testing::read_file;
using testing::TemporaryFolder;

// Clears the payload of every tensor named so, to compare the rest.
void clear_payload(onnx::TensorProto& tensor) {
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_int32_data();
  tensor.clear_double_data();
}

// One value of the file that could be trained, and its tensor.
struct Candidate {
  Origin origin;
  Tensor value;
};

std::vector<Candidate> candidates(const ImportedModel& imported) {
  std::vector<Candidate> found;
  for (const Value& value : imported.graph->values()) {
    if (value.is_constant() && is_floating(value.type.dtype))
      found.push_back({value.origin, value.data});
    if (value.origin.kind == Origin::Kind::kConstantNode) {
      const Tensor* tensor = value.producer->get_tensor("value");
      if (tensor != nullptr && is_floating(tensor->dtype()))
        found.push_back({value.origin, *tensor});
    }
  }
  return found;
}

void check_fixture(const fs::path& folder, std::mt19937& random) {
  const auto model = Model::open(folder / "model.onnx");
  const ImportedModel before = import_model(model);
  const TemporaryFolder out;
  const fs::path path = out.path() / "saved.onnx";
  save_model(*model, {}, path);
  EXPECT_EQ(read_file(path), read_file(folder / "model.onnx"));
  for (const auto& entry : fs::directory_iterator(out.path())) {
    if (entry.path() == path) continue;
    EXPECT_EQ(read_file(entry.path()), read_file(folder / entry.path().filename()));
  }
  EXPECT_EQ(testing::count_files(out.path()), fs::exists(folder / "model.onnx.data") ? 2u : 1u);

  const std::vector<Candidate> all = candidates(before);
  if (all.empty()) return;
  const Candidate& chosen = all[random() % all.size()];
  Tensor value = chosen.value;
  std::vector<double> numbers = value.to_doubles();
  for (double& number : numbers) number = -number + 1;
  const Tensor changed = Tensor::of<double>(value.shape(), numbers).cast(value.dtype());
  save_model(*model, {{chosen.origin, changed}}, path);

  const auto reread = Model::open(path);
  const ImportedModel after = import_model(reread);
  for (const Candidate& candidate : candidates(after)) {
    EXPECT_TRUE(candidate.origin != chosen.origin || candidate.value.identical(changed));
  }
  // The files are equal but for the payload.
  onnx::ModelProto a, b;
  ASSERT_TRUE(a.ParseFromString(read_file(folder / "model.onnx")));
  ASSERT_TRUE(b.ParseFromString(read_file(path)));
  for (onnx::ModelProto* proto : {&a, &b}) {
    if (chosen.origin.kind == Origin::Kind::kInitializer) {
      for (auto& tensor : *proto->mutable_graph()->mutable_initializer()) {
        if (tensor.name() == chosen.origin.tensor) clear_payload(tensor);
      }
    } else {
      auto* node = proto->mutable_graph()->mutable_node(chosen.origin.node);
      for (auto& attribute : *node->mutable_attribute()) clear_payload(*attribute.mutable_t());
    }
  }
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
}

TEST(SaveFixtures, untrained_copies_are_identical_and_one_new_value_changes_nothing_else) {
  const auto folders = testing::shared_fixtures();
  if (folders.empty()) GTEST_SKIP() << "shared data not found";
  std::mt19937 random(7);
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    check_fixture(folder, random);
  }
}

TEST(SaveFixtures, damaged_files_that_can_be_read_can_be_saved_or_are_refused) {
  std::mt19937 random(20240502);
  const auto pick = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (const char* name : {"jax2onnx__mlp_functions__default", "torch-ts__lenet__eval-opset9"}) {
    const fs::path path = testing::shared_folder() / "fixtures" / name / "model.onnx";
    if (!fs::exists(path)) GTEST_SKIP() << "shared data not found";
    const std::string good = read_file(path);
    const TemporaryFolder out;
    int saved = 0;
    for (int i = 0; i < 2000 && saved < 200; ++i) {
      std::string bad = good;
      for (size_t e = 0; e < 1 + pick(3); ++e) bad[pick(bad.size())] = static_cast<char>(pick(256));
      try {
        const auto model = Model::from_bytes(bad);
        std::vector<NewValue> values;
        for (const Candidate& c : candidates(import_model(model))) {
          values.push_back({c.origin, Tensor(c.value.dtype(), c.value.shape())});
        }
        save_model(*model, values, out.path() / "m.onnx");
        import_model(Model::open(out.path() / "m.onnx"));
        ++saved;
      } catch (const Error&) {
      }
    }
    EXPECT_GT(saved, 20) << name;
  }
}

TEST(SaveFixtures, cases_copy_bit_for_bit) {
  const auto folders = testing::shared_cases("SAVE-");
  if (folders.empty()) GTEST_SKIP() << "shared data not found";
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const TemporaryFolder out;
    save_model(*Model::open(folder / "model.onnx"), {}, out.path() / "m.onnx");
    EXPECT_EQ(read_file(out.path() / "m.onnx"), read_file(folder / "model.onnx"));
    EXPECT_NO_THROW(import_model(Model::open(out.path() / "m.onnx")));
  }
}

TEST(SaveFixtures, weights_inside_functions_are_saved_where_they_stand) {
  const fs::path folder =
      testing::shared_folder() / "fixtures" / "jax2onnx__mlp_functions__default";
  if (!fs::exists(folder)) GTEST_SKIP() << "shared data not found";
  const auto model = Model::open(folder / "model.onnx");
  const ImportedModel before = import_model(model);
  const Node* call = nullptr;
  for (const Node& node : before.graph->nodes()) {
    if (node.domain == before.functions[0].domain) call = &node;
  }
  ASSERT_NE(call, nullptr);
  for (const Node& node : before.functions[0].body->nodes()) {
    if (node.op != "Constant") continue;
    Origin origin = node.output(0)->origin;
    origin.path = call->name;
    const Tensor zeros(node.get_tensor("value")->dtype(), node.get_tensor("value")->shape());
    const TemporaryFolder out;
    save_model(*model, {{origin, zeros}}, out.path() / "m.onnx");
    const ImportedModel after = import_model(Model::open(out.path() / "m.onnx"));
    for (const Node& saved : after.functions[0].body->nodes()) {
      EXPECT_TRUE(saved.origin != node.origin || saved.get_tensor("value")->identical(zeros));
    }
  }
}

}  // namespace
}  // namespace sardonyx::graph
