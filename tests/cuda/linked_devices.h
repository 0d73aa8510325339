// CUDA devices whose replicas add up: each rank a thread, as Replicas drives them.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "graph/type.h"
#include "runtime/collectives/device_link.h"
#include "runtime/collectives/local.h"
#include "runtime/devices/cuda.h"
#include "runtime/devices/cuda_device.h"
#include "tests/cuda/both_sides.h"
#include "tests/cuda/on_device.h"
#include "tests/cuda/test_kernels.h"

namespace sardonyx::host_cuda {

class LinkedDevices : public test::OnDevice {
 protected:
  void open(const std::vector<std::string>& names) {
    close();
    for (const std::string& name : names) devices_.push_back(runtime::make_device(name, 1));
    group_ = std::make_unique<runtime::LocalGroup>(static_cast<int>(names.size()),
                                                   runtime::Waiting::kSleep);
    linked_ = runtime::link_cuda_devices(devices_, *group_);
  }
  void close() {
    linked_ = {};
    devices_.clear();
  }
  void TearDown() override {
    close();
    OnDevice::TearDown();
  }
  runtime::CudaDevice& cuda_device(int rank) {
    return static_cast<runtime::CudaDevice&>(*devices_[static_cast<size_t>(rank)]);
  }
  runtime::DeviceLink* link(int rank) { return linked_.links[static_cast<size_t>(rank)].get(); }

  // Runs `body` once per rank, each in a thread of its own that speaks to its device; returns what
  // they threw. Another run may follow.
  std::vector<std::string> each_rank(const std::function<void(int)>& body) {
    std::vector<std::string> errors(devices_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < devices_.size(); ++r) {
      threads.emplace_back([&, rank = static_cast<int>(r)] {
        try {
          if (link(rank) != nullptr) cuda_device(rank).enter();
          body(rank);
          if (link(rank) != nullptr) link(rank)->finish();
          group_->leave(rank);
        } catch (const std::exception& error) {
          errors[static_cast<size_t>(rank)] = error.what();
          group_->abort(rank, std::current_exception());
          if (link(rank) != nullptr) link(rank)->abort();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& link : linked_.links) {
      if (link != nullptr) link->reset();
    }
    group_->reset();
    return errors;
  }
  // The sum of what the ranks give, read behind it.
  template <class T>
  std::vector<T> sum(int rank, const std::vector<T>& terms, graph::DType dtype, graph::DType wire) {
    const ops::cuda::Stream stream = cuda_device(rank).compute();
    const Both<T> data(stream, terms);
    link(rank)->start_sum(data.device(), terms.size(), dtype, wire, stream);
    link(rank)->wait(data.device(), stream);
    std::vector<T> sum(terms.size());
    cuda_device(rank).download(sum.data(), data.device(), data.bytes());
    return sum;
  }
  std::vector<float> sum(int rank, const std::vector<float>& terms) {
    return sum(rank, terms, graph::DType::kFloat32, graph::DType::kFloat32);
  }

  // Two sums at once, of terms that a kernel only just writes, read by a kernel behind them.
  void add_up_twice(int rank, int step) {
    using Floats = std::vector<float>;
    runtime::DeviceLink& link = *this->link(rank);
    const ops::cuda::Stream stream = cuda_device(rank).compute();
    const auto mine = static_cast<float>(10 * rank + step);
    const Both<float> small(stream, {mine}), large(stream, Floats(1000, mine)), after(1000);
    launch_increment(stream, 1, small.device(), small.device());
    link.start_sum(small.device(), 1, graph::DType::kFloat32, graph::DType::kFloat32, stream);
    launch_increment(stream, 1000, large.device(), large.device());
    link.start_sum(large.device(), 1000, graph::DType::kFloat32, graph::DType::kFloat32, stream);
    link.wait(small.device(), stream);
    link.wait(large.device(), stream);
    launch_increment(stream, 1000, large.device(), after.device());
    float want = 0;
    for (int r = 0; r < link.size(); ++r) want += static_cast<float>(10 * r + step + 1);
    EXPECT_EQ(small.read(stream), Floats{want});
    EXPECT_EQ(large.read(stream), Floats(1000, want));
    EXPECT_EQ(after.read(stream), Floats(1000, want + 1));
  }

  std::vector<std::unique_ptr<runtime::Device>> devices_;
  std::unique_ptr<runtime::LocalGroup> group_;
  runtime::DeviceLinks linked_;
};

}  // namespace sardonyx::host_cuda
