// Replays tests/fuzz/corpus: what was found once, and what leads into every corner. Several
// targets may share a folder of it.
#include <gtest/gtest.h>

#include <onnx/onnx_pb.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>

#include "tests/fuzz/mutate_model.h"
#include "tests/fuzz/target.h"
#include "tests/support/paths.h"
#include "tests/support/shared_data.h"

namespace sardonyx::fuzz {

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs_of(std::string_view corpus) {
  std::vector<fs::path> found;
  const fs::path folder = tests::source_folder() / "tests/fuzz/corpus" / corpus;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class FuzzCorpus : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, IsAnsweredByErrorsAloneWithinAGigabyte) {
  const auto inputs = inputs_of(GetParam().corpus);
  ASSERT_FALSE(inputs.empty());
  for (const fs::path& path : inputs) {
    const std::string bytes = testing::read_file(path);
    EXPECT_NO_THROW(run_target(GetParam(), std::as_bytes(std::span(bytes)))) << path.filename();
  }
  // Some declare terabytes.
  rusage usage{};
  ASSERT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1 << 20) << "KiB";
}

std::string name_of(const ::testing::TestParamInfo<Target>& info) {
  return std::string(info.param.name);
}
INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus, ::testing::ValuesIn(targets()), name_of);

TEST(MutateModel, GivesModelsThatProtobufReads) {
  const auto inputs = inputs_of("model");
  ASSERT_FALSE(inputs.empty());
  const std::string before = testing::read_file(inputs[0]);
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string after = mutate_model(std::as_bytes(std::span(before)), seed);
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(after)) << seed;
    EXPECT_TRUE(model.has_graph());
    different.insert(after);
  }
  EXPECT_GT(different.size(), 150U);
  EXPECT_EQ(mutate_model(std::as_bytes(std::span(before)), 7),
            mutate_model(std::as_bytes(std::span(before)), 7));
}

TEST(MutateModel, OfNoModelIsNothing) {
  const std::string text = "no model";
  EXPECT_EQ(mutate_model(std::as_bytes(std::span(text)), 1), "");
  EXPECT_EQ(cross_models(std::as_bytes(std::span(text)), std::as_bytes(std::span(text)), 1), "");
}

}  // namespace
}  // namespace sardonyx::fuzz
