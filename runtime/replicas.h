// The copies of a model that share the work of a step: one device each, all with the same states,
// and a thread that drives it. Replica 0 is driven by the caller's thread.
//
// A replica that fails stops the others: they are waiting for its sums, or will be. Whatever
// happens, run() returns only when no replica is running any more.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/communicator.h"
#include "ops/core/parallel.h"
#include "passes/plan.h"
#include "runtime/collectives/device_link.h"
#include "runtime/collectives/local.h"
#include "runtime/devices/device.h"
#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {

// How one replica reaches the others.
struct Links {
  ops::Communicator* host = nullptr;          // of a replica on the CPU
  ops::DeviceCommunicator* device = nullptr;  // of one on a CUDA device
};

class Replicas {
 public:
  // One replica per name of a device; `threads` in all (0: all cores), as many for each replica, so
  // that plans and sums are the same everywhere. Throws Error for an unknown device, and when there
  // are fewer threads than replicas (with 0 every replica gets one).
  Replicas(const std::vector<std::string>& devices, int threads);

  int size() const { return static_cast<int>(devices_.size()); }
  int threads() const;  // in all
  Device& device(int replica) { return *devices_[static_cast<size_t>(replica)]; }
  const Device& device(int replica) const { return *devices_[static_cast<size_t>(replica)]; }
  // All of them but the caller of run(), as the system numbers them.
  std::vector<pid_t> worker_ids() const;
  // "cpu (avx512, 1 thread) x 2"
  std::string name() const;
  // What the user is to know of how they reach each other; "" nothing.
  const std::string& notice() const { return linked_.notice; }

  // The first replica on the same device as this one: they share their plans.
  int place_of(int replica) const { return places_[static_cast<size_t>(replica)]; }

  // Calls body(replica, links) for all replicas at once; the links are empty when there is one
  // replica only. Throws what was thrown first, once all have stopped; where there are several, an
  // Error gains the line "while DOING replica R", as in "while running replica 1".
  void run(const char* doing, ops::FunctionRef<void(int, const Links&)> body);

  // Lets those on CUDA devices take what their sums will need of them.
  void join();

  // Whether the run that failed last had given all its work to a device when a sum broke off there:
  // the states may have changed by anything.
  bool in_doubt() const { return in_doubt_; }

  // Gets the time of sums between replicas (runtime/devices/recorder.h); null: nobody does.
  void set_recorder(Recorder* recorder) { group_.set_recorder(recorder); }

  void write_state(const passes::StateTable::Entry& state, const void* host);
  graph::Tensor read_state(const passes::StateTable::Entry& state, int replica) const;
  // Which state differs first between replica 0 and another one, as a sentence; "": none does.
  std::string first_difference(const passes::StateTable& states) const;

 private:
  struct Threads;
  Links links_of(int replica);
  void finish(int replica);
  Replicas(const std::vector<std::string>& devices, const Threads& threads);

  const std::vector<int> cores_;  // of each driver; empty: anywhere
  LocalGroup group_;
  WorkerPool drivers_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<int> places_;  // by replica
  DeviceLinks linked_;
  std::atomic<bool> in_doubt_{false};
};

}  // namespace sardonyx::runtime
