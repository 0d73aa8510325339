// Streams and events of the stand-in: queues of work, and who runs it when.
//
// Work runs on the host thread that waits for it, together with what it depends on in other
// streams; several host threads may do so at once. An error of work is the device's, as in CUDA:
// whatever is enqueued there is dropped and every later call says the error again, until reset().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/cuda.h"
#include "tests/support/host_cuda/memory.h"

namespace sardonyx::host_cuda {

enum class Kind : uint8_t { kKernel, kCopy };

struct Work {
  std::string name;
  std::function<void()> run = {};
  // What it touches in device memory: looked over again before it runs, and the bounds afterwards.
  std::vector<const Allocation*> memory = {};
};

// The device that the calling thread named. Throws InternalError when it hasn't.
int current_device(const std::string& who);
// Throws InternalError unless the stream lives and belongs to the calling thread's device.
void check_stream(const std::string& who, ops::cuda::Stream stream);
void enqueue(ops::cuda::Stream stream, Kind kind, Work work);

// Streams that meet: what each holds behind its arrival goes on when all have arrived. Whoever
// waits on the host for a stream that will never go on gets an InternalError after a while, where a
// device would leave it there.
class Meeting;
std::shared_ptr<Meeting> make_meeting(size_t seats);
// Each seat once, on a stream of its own.
void enqueue_arrival(ops::cuda::Stream stream, Work work, const std::shared_ptr<Meeting>& meeting,
                     size_t seat);
void enqueue_departure(ops::cuda::Stream stream, Work work, const std::shared_ptr<Meeting>& meeting,
                       size_t seat);
// The stream of this seat doesn't wait for the others. If they haven't all arrived by now, this one
// never did, and they stay.
void leave_early(Meeting& meeting, size_t seat);

// Runs everything that the device still has to do.
void finish_device(int device);
void count_allocation();

// An operand of a library function, checked: device memory of the current device, `bytes` long and
// 16-byte aligned. Adds to work.memory; returns where the bytes lie.
std::byte* operand(Work& work, const char* what, const void* address, size_t bytes);

}  // namespace sardonyx::host_cuda
