// A plan larger than the memory is refused before anything of it is used.
#include "runtime/devices/memory_limit.h"

#include <gtest/gtest.h>

#include <fstream>

#include "graph/onnx_export.h"
#include "models/lenet.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;
using sardonyx::testing::error_of;
using sardonyx::testing::TemporaryFolder;

class MemoryLimits : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  MemoryLimit limit() const { return memory_limit(folder_.path()); }

  const TemporaryFolder folder_;
};

TEST_F(MemoryLimits, without_groups_it_is_the_memory_of_the_machine) {
  EXPECT_GT(limit().bytes, 1e6);
  EXPECT_EQ(limit().owner, "this machine has");
}

TEST_F(MemoryLimits, of_nested_groups_the_tightest_counts) {
  write("proc/self/cgroup", "0::/user/job\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/user/memory.max", "300000\n");
  write("sys/fs/cgroup/user/job/memory.max", "max\n");
  EXPECT_EQ(limit().bytes, 300000);
  EXPECT_TRUE(limit().owner.ends_with("/sys/fs/cgroup/user/memory.max) allows")) << limit().owner;
  write("sys/fs/cgroup/user/job/memory.max", "200000\n");
  EXPECT_EQ(limit().bytes, 200000);
  write("sys/fs/cgroup/memory.max", "100000\n");
  EXPECT_EQ(limit().bytes, 100000);
}

TEST_F(MemoryLimits, version_1_has_its_own_hierarchy_and_no_limit_is_a_huge_number) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/box\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit().owner, "this machine has");
  write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "400000\n");
  EXPECT_EQ(limit().bytes, 400000);
}

TEST_F(MemoryLimits, files_without_sense_set_no_limit) {
  write("proc/self/cgroup", "\nnothing\n0::\n0::/gone\n");
  write("sys/fs/cgroup/memory.max", "a lot");
  EXPECT_EQ(limit().owner, "this machine has");
}

TEST(RequireMemory, says_what_is_planned_what_there_is_and_what_to_do) {
  const MemoryLimit limit{3 * 1048576.0, "this machine has"};
  EXPECT_NO_THROW(require_memory({1, 1048576, 2097152}, limit));
  EXPECT_EQ(error_of([&] {
              require_memory({1, 1048576, 2097153}, limit);
            }),
            "the plan takes 3.0 MiB of memory (1.0 MiB of states and 2.0 MiB for a micro-batch), "
            "but this machine has 3.0 MiB; use a smaller --micro-batch, a larger --accumulate or a "
            "smaller --batch, or let --memory-budget keep less");
  EXPECT_EQ(error_of([&] {
              require_memory({4, 1048576, 1048576}, limit);
            }),
            "the plan takes 8.0 MiB of memory (4 replicas, each 1.0 MiB of states and 1.0 MiB for "
            "a micro-batch), but this machine has 3.0 MiB; use a smaller --micro-batch, a larger "
            "--accumulate or fewer --replicas, or let --memory-budget keep less");
  EXPECT_EQ(
      error_of([&] {
        require_memory({1, 1048576, 1048576, 2097152}, {3 * 1048576.0, "cuda:0 has room for"});
      }),
      "the plan takes 4.0 MiB of memory (1.0 MiB of states, 2.0 MiB for inputs and constants "
      "and 1.0 MiB for a micro-batch), but cuda:0 has room for 3.0 MiB; use a smaller "
      "--micro-batch, a larger --accumulate or a smaller --batch, or let --memory-budget "
      "keep less");
  EXPECT_NE(error_of([&] { require_memory({2, SIZE_MAX, SIZE_MAX}, limit); }), "no error");
}

TEST(RequireMemory, a_session_refuses_such_a_plan_and_goes_on_with_a_smaller_one) {
  models::ImageModel model;
  model.height = model.width = 16;
  model.init = graph::parse_init("kaiming", 3);
  SessionOptions options;
  options.pipeline.block = 0;  // blocks would keep most of it small
  Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*models::lenet(model))), options);
  const std::string error = error_of([&] { session.prepare_training({{{int64_t{1} << 26}}}); });
  EXPECT_TRUE(error.starts_with("the plan takes ")) << error;
  EXPECT_TRUE(session.state_names().empty());
  session.prepare_training({{{16}}});
  EXPECT_FALSE(session.state_names().empty());
}

}  // namespace
}  // namespace sardonyx::runtime
