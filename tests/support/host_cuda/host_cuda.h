// What tests say to the stand-in of the CUDA device, and ask it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sardonyx::host_cuda {

// When enqueued work runs. Both are orders that a device could take.
enum class Schedule : uint8_t {
  kLate,    // when somebody waits for it, and no more than that needs
  kRandom,  // now and then a piece of any stream, by the seed
};

// What the stand-in of NCCL does wrong.
struct NcclFaults {
  std::string missing = {};  // why the library can't be loaded; "": it can
  int absent_rank = -1;      // its communicators get nowhere, and nobody says why
  // Its sums don't end. Once the first is on its stream, its communicator says this reason.
  int broken_rank = -1;
  std::string reason = {};
};

struct Machine {
  int devices = 2;
  std::string why_none = {};              // with 0 devices
  size_t memory_bytes = size_t{4} << 30;  // of each
  Schedule schedule = Schedule::kLate;
  uint64_t seed = 1;
  NcclFaults nccl = {};
  std::string no_engines = {};  // why cuDNN and cuBLAS refuse everything; "": they don't
};

// Another machine: forgets the faults of the last one and what was counted. Work that is still
// enqueued is dropped. No thread may be using the waist.
void reset(const Machine& machine = {});
const Machine& machine();
// From now on, for communicators that are made later.
void plant(const NcclFaults& faults);

struct Counts {
  size_t allocations = 0;                   // device and pinned; a communicator of NCCL is one
  size_t kernels = 0;                       // launches, and runs of cuDNN and cuBLAS
  size_t copies = 0;                        // and fills
  size_t copies_since_synchronization = 0;  // those behind the last one
  size_t synchronizations = 0;

  void synchronized() {
    ++synchronizations;
    copies_since_synchronization = 0;
  }
};
// Since reset().
Counts counts();

}  // namespace sardonyx::host_cuda
