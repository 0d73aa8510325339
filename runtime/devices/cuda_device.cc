#include "runtime/devices/cuda_device.h"

#include <algorithm>

#include "graph/support/bytes.h"
#include "graph/support/error.h"
#include "runtime/devices/cuda.h"
#include "runtime/devices/cuda_executor.h"
#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

namespace cuda = ops::cuda;

namespace {

constexpr size_t kStagingBytes = size_t{8} << 20;

// Named before anything is made on it.
int entered(int index) {
  cuda::use_device(index);
  return index;
}

}  // namespace

struct CudaDevice::Libraries {
  ops::cudnn::Handle cudnn;
  ops::cublas::Handle cublas;
};

CudaDevice::CudaDevice(int index, DeviceThreads host_threads)
    : index_(entered(index)),
      host_threads_(std::move(host_threads)),
      facts_(cuda::device_facts(index)),
      staging_(kStagingBytes),
      handles_(std::make_unique<Libraries>()),
      libraries_(std::make_unique<ops::CudaLibraries>(
          ops::CudaLibraries{handles_->cudnn, handles_->cublas})) {}

CudaDevice::~CudaDevice() {
  // The libraries end what they have on the device that the thread speaks to.
  try {
    enter();
  } catch (const std::exception&) {
    // The device is lost, and what was on it.
  }
}

std::string CudaDevice::name() const {
  return fmt::format("cuda:{} ({}, sm_{}{})", index_, facts_.name, facts_.major, facts_.minor);
}

void CudaDevice::reserve_states(size_t bytes) {
  if (bytes <= states_.size()) return;
  enter();
  cuda::Memory larger(bytes);
  cuda::fill_zero(compute(), larger.data(), bytes);
  if (states_.size() > 0) {
    cuda::copy_on_device(compute(), larger.data(), states_.data(), states_.size());
  }
  synchronize();
  states_ = std::move(larger);
}

void CudaDevice::reserve_arena(size_t bytes) {
  if (bytes <= arena_.size()) return;
  enter();
  synchronize();
  arena_ = {};  // before the larger one: there may be no room for both
  arena_ = cuda::Memory(bytes);
}

void CudaDevice::synchronize() const {
  if (!watch_) return cuda::synchronize(compute());
  cuda::record(reached_.get(), compute());
  synchronize(reached_.get());
}

void CudaDevice::synchronize(cuda::Event event) const {
  if (!watch_) return cuda::synchronize(event);
  for (const Polling polling; !cuda::done(event); polling.pause()) watch_();
}

void CudaDevice::reserve_host(size_t bytes) {
  if (bytes == 0) return;
  if (host_pool_ == nullptr) {
    host_pool_ = std::make_unique<WorkerPool>(host_threads_.count, host_threads_.waiting,
                                              host_threads_.cores);
  }
  if (bytes <= host_memory_.size()) return;
  enter();
  synchronize();  // copies read and write the old one
  host_memory_ = cuda::PinnedMemory(bytes);
}

std::vector<pid_t> CudaDevice::worker_ids() const {
  return host_pool_ == nullptr ? std::vector<pid_t>() : host_pool_->worker_ids();
}

MemoryLimit CudaDevice::free_memory() const {
  enter();
  return {static_cast<double>(cuda::free_bytes()), fmt::format("cuda:{} has room for", index_)};
}

size_t CudaDevice::plan_bytes(const passes::Plan& plan) const {
  return CudaExecutor::device_bytes(plan);
}

void CudaDevice::upload(void* device, const void* host, size_t bytes) {
  enter();
  for (size_t at = 0; at < bytes; at += staging_.size()) {
    const size_t piece = std::min(bytes - at, staging_.size());
    copy_bytes(staging_.data(), static_cast<const std::byte*>(host) + at, piece);
    cuda::copy_to_device(compute(), static_cast<std::byte*>(device) + at, staging_.data(), piece);
    synchronize();
  }
}

void CudaDevice::download(void* host, const void* device, size_t bytes) const {
  download({{host, device, bytes}});
}

void CudaDevice::download(const std::vector<Download>& all) const {
  enter();
  std::vector<Download> under_way;  // from pinned memory to where they belong
  size_t used = 0;
  const auto finish = [&] {
    if (used == 0) return;
    synchronize();
    for (const auto& [host, staged, bytes] : under_way) copy_bytes(host, staged, bytes);
    under_way.clear();
    used = 0;
  };
  for (const auto& [host, device, bytes] : all) {
    for (size_t at = 0, piece = 0; at < bytes; at += piece) {
      if (used == staging_.size()) finish();
      piece = std::min(bytes - at, staging_.size() - used);
      std::byte* staged = staging_.data() + used;
      cuda::copy_to_host(compute(), staged, static_cast<const std::byte*>(device) + at, piece);
      under_way.push_back({static_cast<std::byte*>(host) + at, staged, piece});
      used += piece;
    }
  }
  finish();
}

void CudaDevice::write_state(size_t offset, const void* host, size_t bytes) {
  CHECK(offset + bytes <= states_.size());
  upload(states_.data() + offset, host, bytes);
}

void CudaDevice::read_state(size_t offset, void* host, size_t bytes) const {
  CHECK(offset + bytes <= states_.size());
  download(host, states_.data() + offset, bytes);
}

KernelTimes CudaDevice::measure(const std::vector<const ops::KernelDef*>&,
                                const ops::KernelRequest&, passes::RunsOn) {
  throw Error("kernels are measured on the CPU only: leave out --tune");
}

std::unique_ptr<Executor> CudaDevice::load(const passes::Plan& plan) {
  enter();
  return std::make_unique<CudaExecutor>(plan, *this);
}

std::unique_ptr<Device> make_cuda_device(int index, const DeviceThreads& host_threads) {
  const std::string reason = why_no_cuda();
  if (!reason.empty()) {
    throw Error("device 'cuda:{}': {}, or use --devices cpu", index, reason);
  }
  const int count = cuda::device_count();
  if (index >= count) {
    throw Error("device 'cuda:{}': this machine has {} CUDA device{}, numbered from 0", index,
                count, count == 1 ? "" : "s");
  }
  return std::make_unique<CudaDevice>(index, host_threads);
}

std::string why_no_cuda() { return cuda::why_unavailable(); }

}  // namespace sardonyx::runtime
