// Sums over replicas on CUDA devices: each rank a thread, on one device, on two, and with the CPU.
#include <exception>
#include <functional>
#include <thread>

#include "graph/support/error.h"
#include "graph/tensor.h"
#include "ops/core/parallel.h"
#include "runtime/collectives/device_link.h"
#include "runtime/collectives/local.h"
#include "runtime/devices/cuda.h"
#include "runtime/devices/cuda_device.h"
#include "tests/cuda/both_sides.h"
#include "tests/cuda/test_kernels.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::runtime {

namespace {

namespace cuda = ops::cuda;
using Floats = std::vector<float>;
using host_cuda::Both;
using host_cuda::launch_increment;

class DeviceLinksTest : public host_cuda::HostCuda {
 protected:
  void open(const std::vector<std::string>& names) {
    links_.clear();
    devices_.clear();
    for (const std::string& name : names) devices_.push_back(make_device(name, 1));
    group_ = std::make_unique<LocalGroup>(static_cast<int>(names.size()), Waiting::kSleep);
    links_ = link_cuda_devices(devices_, *group_);
  }
  void TearDown() override {
    links_.clear();
    devices_.clear();
    HostCuda::TearDown();
  }
  CudaDevice& cuda_device(int rank) { return static_cast<CudaDevice&>(*devices_[rank]); }
  // Runs `body` once per rank, each in a thread of its own; returns what they threw.
  std::vector<std::string> each_rank(const std::function<void(int)>& body) {
    std::vector<std::string> errors(devices_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < devices_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(static_cast<int>(rank));
        } catch (const std::exception& error) {
          errors[rank] = error.what();
          group_->abort(static_cast<int>(rank), std::current_exception());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<LocalGroup> group_;
  std::vector<std::unique_ptr<DeviceLink>> links_;
};

// Two sums at once, of terms that a kernel only just writes, read by a kernel behind them.
void two_sums(CudaDevice& device, DeviceLink& link, int step) {
  device.enter();
  const cuda::Stream stream = device.compute();
  const auto mine = static_cast<float>(10 * link.rank() + step);
  const Both<float> small(stream, {mine}), large(stream, Floats(1000, mine)), after(1000);
  launch_increment(stream, 1, small.device(), small.device());
  link.start_sum(small.device(), 1, graph::DType::kFloat32, graph::DType::kFloat32, stream);
  launch_increment(stream, 1000, large.device(), large.device());
  link.start_sum(large.device(), 1000, graph::DType::kFloat32, graph::DType::kFloat32, stream);
  link.wait(small.device(), stream);
  link.wait(large.device(), stream);
  launch_increment(stream, 1000, large.device(), after.device());
  float want = 0;
  for (int rank = 0; rank < link.size(); ++rank) want += static_cast<float>(10 * rank + step + 1);
  EXPECT_EQ(small.read(stream), Floats{want});
  EXPECT_EQ(large.read(stream), Floats(1000, want));
  EXPECT_EQ(after.read(stream), Floats(1000, want + 1));
}

TEST_F(DeviceLinksTest, every_rank_gets_the_sum_on_one_device_and_on_two) {
  const std::vector<std::vector<std::string>> choices = {{"cuda:0", "cuda:0"},
                                                         {"cuda:0", "cuda:0", "cuda:0"},
                                                         {"cuda:0", "cuda:1"},
                                                         {"cuda:1", "cuda:0", "cuda:1"}};
  for (const auto& names : choices) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      host_cuda::reset(
          {.schedule = seed == 0 ? host_cuda::Schedule::kLate : host_cuda::Schedule::kRandom,
           .seed = seed});
      open(names);
      const auto errors = each_rank([&](int rank) {
        for (int step = 0; step < 3; ++step) two_sums(cuda_device(rank), *links_[rank], step);
      });
      EXPECT_EQ(errors, std::vector<std::string>(names.size()));
    }
  }
}

TEST_F(DeviceLinksTest, rank_on_the_cpu_meets_one_on_a_device) {
  open({"cuda:0", "cpu"});
  ASSERT_EQ(links_[1], nullptr);
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
    cuda_device(0).enter();
    const cuda::Stream stream = cuda_device(0).compute();
    const Both<float> terms(stream, {10, 20, 30});
    links_[0]->start_sum(terms.device(), 3, graph::DType::kFloat32, graph::DType::kFloat32, stream);
    links_[0]->wait(terms.device(), stream);
    EXPECT_EQ(terms.read(stream), (Floats{11, 22, 33}));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_F(DeviceLinksTest, narrow_wire_rounds_terms_and_sums_alike_on_every_way) {
  for (const auto& names : {std::vector<std::string>{"cuda:0", "cuda:0"},
                            std::vector<std::string>{"cuda:0", "cuda:1"}}) {
    open(names);
    const auto errors = each_rank([&](int rank) {
      cuda_device(rank).enter();
      const cuda::Stream stream = cuda_device(rank).compute();
      // 259 is no bfloat16; 256 + 1 isn't either.
      const Both<float> terms(stream, rank == 0 ? Floats{259, 256} : Floats{0, 1});
      links_[rank]->start_sum(terms.device(), 2, graph::DType::kFloat32, graph::DType::kBFloat16,
                              stream);
      links_[rank]->wait(terms.device(), stream);
      EXPECT_EQ(terms.read(stream), (Floats{260, 256}));
    });
    EXPECT_EQ(errors, std::vector<std::string>(2));
  }
}

TEST_F(DeviceLinksTest, rank_that_fails_ends_the_others) {
  open({"cuda:0", "cuda:0"});
  const auto errors = each_rank([&](int rank) {
    if (rank == 1) throw Error("rank 1 has no data");
    cuda_device(0).enter();
    const cuda::Stream stream = cuda_device(0).compute();
    const Both<float> terms(stream, {1});
    links_[0]->start_sum(terms.device(), 1, graph::DType::kFloat32, graph::DType::kFloat32, stream);
    links_[0]->wait(terms.device(), stream);
  });
  EXPECT_EQ(errors,
            (std::vector<std::string>{"rank 1 stopped: rank 1 has no data", "rank 1 has no data"}));
}

}  // namespace

}  // namespace sardonyx::runtime
