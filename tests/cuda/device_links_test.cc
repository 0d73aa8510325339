// Sums over replicas on CUDA devices: on one device, on two, and with the CPU. NCCL's own tests are
// in nccl_test.cc.
#include "graph/support/error.h"
#include "ops/core/parallel.h"
#include "tests/cuda/linked_devices.h"

namespace sardonyx::runtime {

namespace {

using Floats = std::vector<float>;
using DeviceLinksTest = host_cuda::LinkedDevices;

TEST_F(DeviceLinksTest, every_rank_gets_the_sum_on_one_device_and_on_two) {
  const std::vector<std::vector<std::string>> choices = {{"cuda:0", "cuda:0"},
                                                         {"cuda:0", "cuda:0", "cuda:0"},
                                                         {"cuda:0", "cuda:1"},
                                                         {"cuda:1", "cuda:0", "cuda:1"}};
  for (const auto& names : choices) {
    if (!test::has_devices(names)) continue;
    for (const uint64_t seed : {0, 1, 2, 3}) {
      if (seed == 0) {
        test::recover();
      } else {
        test::run_in_another_order(seed);
      }
      open(names);
      const auto errors = each_rank([&](int rank) {
        for (int step = 0; step < 3; ++step) add_up_twice(rank, step);
      });
      EXPECT_EQ(errors, std::vector<std::string>(names.size()));
    }
  }
}

TEST_F(DeviceLinksTest, rank_on_the_cpu_meets_one_on_a_device) {
  open({"cuda:0", "cpu"});
  ASSERT_EQ(link(1), nullptr);
  const auto errors = each_rank([&](int rank) {
    if (rank == 1) {
      Floats terms = {1, 2, 3};
      ops::SerialPool pool;
      ops::Communicator& meeting = group_->rank(1);
      meeting.start_sum(terms.data(), 3, graph::DType::kFloat32, graph::DType::kFloat32, pool);
      meeting.wait(terms.data(), pool);
      EXPECT_EQ(terms, (Floats{11, 22, 33}));
      return;
    }
    EXPECT_EQ(sum(0, {10, 20, 30}), (Floats{11, 22, 33}));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_F(DeviceLinksTest, narrow_wire_rounds_terms_and_sums_alike_on_every_way) {
  for (const auto& names :
       {std::vector<std::string>{"cuda:0", "cuda:0"}, std::vector<std::string>{"cuda:0", "cuda:1"},
        std::vector<std::string>{"cuda:0", "cuda:1", "cuda:1"}}) {
    if (!test::has_devices(names)) continue;
    open(names);
    const auto errors = each_rank([&](int rank) {
      // 259 is no bfloat16; 256 + 1 isn't either.
      const Floats terms = rank == 0 ? Floats{259, 256} : rank == 1 ? Floats{0, 1} : Floats{0, 0};
      EXPECT_EQ(sum(rank, terms, graph::DType::kFloat32, graph::DType::kBFloat16),
                (Floats{260, 256}));
    });
    EXPECT_EQ(errors, std::vector<std::string>(names.size()));
  }
}

TEST_F(DeviceLinksTest, rank_that_fails_ends_the_others) {
  open({"cuda:0", "cuda:0"});
  const auto errors = each_rank([&](int rank) {
    if (rank == 1) throw Error("rank 1 has no data");
    sum(0, {1});
  });
  EXPECT_EQ(errors,
            (std::vector<std::string>{"rank 1 stopped: rank 1 has no data", "rank 1 has no data"}));
}

}  // namespace

}  // namespace sardonyx::runtime
