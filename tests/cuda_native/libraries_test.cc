// How the CUDA side behaves where libraries, driver or device are missing.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "graph/support/env.h"
#include "graph/support/error.h"
#include "ops/core/cublas.h"
#include "ops/core/cuda.h"
#include "ops/core/cuda_native/shared_library.h"
#include "ops/core/cuda_sums.h"
#include "ops/core/cudnn.h"
#include "runtime/collectives/nccl.h"
#include "runtime/devices/cuda.h"
#include "tests/support/shared_data.h"

// As ops/core/cuda_native/runtime.cc sees them.
extern "C" {
using Registration = void (*)();
extern const Registration __start_sardonyx_device_code[] __attribute__((weak));
extern const Registration __stop_sardonyx_device_code[] __attribute__((weak));
}

namespace sardonyx::testing {
namespace {

namespace cuda = ops::cuda;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Libraries : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("SARDONYX_CUDA_LIBRARIES");
    support::reread_env();
  }
  static void look_in(const std::string& folders) {
    ::setenv("SARDONYX_CUDA_LIBRARIES", folders.c_str(), 1);
    support::reread_env();
  }
};

TEST_F(Libraries, one_that_is_missing_is_an_error_that_lists_what_was_tried) {
  look_in("/nowhere/a::/nowhere/b");
  const std::string text = error_of([] {
    cuda::SharedLibrary("Nothing 2", {"libnothing.so.2", "libnothing.so.1"});
  });
  EXPECT_TRUE(
      text.starts_with("Nothing 2 can't be loaded; install it, or name the folder that has "
                       "it in SARDONYX_CUDA_LIBRARIES\n  tried /nowhere/a/libnothing.so.2: "))
      << text;
  const char* tried[] = {"/nowhere/a/libnothing.so.2: ", "/nowhere/a/libnothing.so.1: ",
                         "/nowhere/b/libnothing.so.2: ", "/nowhere/b/libnothing.so.1: ",
                         "  tried libnothing.so.2: ",    "  tried libnothing.so.1: "};
  size_t at = 0;
  for (const char* part : tried) {
    at = text.find(part, at);
    ASSERT_NE(at, text.npos) << part << " in " << text;
  }
}

TEST_F(Libraries, folders_of_the_environment_come_before_the_system) {
  const TemporaryFolder folder;
  // Any library will do; this one has a name that the system knows too.
  const cuda::SharedLibrary system("libm", {"libm.so.6"});
  EXPECT_EQ(system.file(), "libm.so.6");
  for (const char* place : {"/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64"}) {
    if (!std::filesystem::exists(std::string(place) + "/libm.so.6")) continue;
    look_in(folder.path().string() + ":" + place);
    EXPECT_EQ(cuda::SharedLibrary("libm", {"libm.so.6"}).file(), std::string(place) + "/libm.so.6");
  }
}

TEST_F(Libraries, function_that_a_library_lacks_is_named) {
  const cuda::SharedLibrary library("libm", {"libm.so.6"});
  double (*cosine)(double) = library.symbol("cos");
  EXPECT_EQ(cosine(0), 1);
  EXPECT_EQ(error_of([&] { library.symbol("no_such_function"); }),
            "libm.so.6 has no function no_such_function: it is older than this program needs; "
            "update libm");
}

class NoDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  }
};

TEST_F(NoDevice, reason_says_what_is_missing_and_what_to_do) {
  const std::string reason = cuda::why_unavailable();
  EXPECT_TRUE(reason.starts_with("no driver: ") || reason.starts_with("no device: ") ||
              reason.starts_with("driver older than the runtime: "))
      << reason;
  EXPECT_NE(reason.find("; "), reason.npos) << reason;
  EXPECT_EQ(cuda::why_unavailable(), reason);  // asking twice changes nothing
  EXPECT_EQ(runtime::why_no_cuda(), reason);
  EXPECT_EQ(error_of([] { runtime::make_cuda_device(0); }),
            "device 'cuda:0': " + reason + ", or use --devices cpu");
}

TEST_F(NoDevice, calls_fail_with_the_name_of_the_call_and_of_the_error) {
  const std::string text = error_of([] { cuda::use_device(0); });
  EXPECT_TRUE(text.starts_with("cudaSetDevice: cudaError")) << text;
  EXPECT_TRUE(text.ends_with("), turning to cuda:0")) << text;
  EXPECT_TRUE(error_of([] { cuda::allocate(64); }).ends_with("), allocating 64 bytes"));
}

TEST_F(NoDevice, launching_a_kernel_fails_with_the_error_of_the_runtime_each_time) {
  EXPECT_GT(__stop_sardonyx_device_code - __start_sardonyx_device_code, 10);
  float numbers[2] = {};
  for (int time = 0; time < 2; ++time) {
    const std::string text =
        error_of([&] { cuda::add(nullptr, graph::DType::kFloat32, 1, &numbers[0], &numbers[1]); });
    EXPECT_TRUE(text.starts_with("cudaLaunchKernel: cudaError")) << text;
  }
}

TEST_F(NoDevice, libraries_refuse_to_start) {
  for (const std::string& text : {error_of([] { ops::cudnn::Handle handle; }),
                                  error_of([] { ops::cublas::Handle handle; })}) {
    EXPECT_TRUE(text.find("starting it") != text.npos || text.find("can't be loaded") != text.npos)
        << text;
  }
}

TEST_F(NoDevice, facts_name_runtime_and_libraries) {
  const runtime::CudaFacts facts = runtime::cuda_facts();
  EXPECT_TRUE(facts.built);
  EXPECT_GE(std::stod(facts.runtime), 12.0);
  EXPECT_EQ(facts.why_not, cuda::why_unavailable());
  EXPECT_TRUE(facts.devices.empty());
  ASSERT_EQ(facts.libraries.size(), 3u);
  for (const auto& library : facts.libraries) {
    EXPECT_NE(library.version.empty(), library.missing.empty()) << library.name;
  }
}

TEST(Nccl, ids_differ_and_need_no_device) {
  try {
    EXPECT_GE(runtime::nccl::version(), 20000);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  std::set<runtime::nccl::UniqueId> ids;
  for (int i = 0; i < 8; ++i) ids.insert(runtime::nccl::unique_id());
  EXPECT_EQ(ids.size(), 8u);
}

TEST(Nccl, communicator_without_a_device_is_an_error) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  std::string reason;
  try {
    const auto communicator = runtime::nccl::Communicator::start(runtime::nccl::unique_id(), 0, 1);
    while (communicator->poll() == runtime::nccl::State::kBusy) continue;
  } catch (const Error& error) {
    reason = error.what();
  }
  EXPECT_TRUE(reason.starts_with("NCCL")) << reason;
}

}  // namespace
}  // namespace sardonyx::testing
