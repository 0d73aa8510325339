// The narrow waist to a CUDA device: memory, streams, events, copies. Nothing above it includes a
// CUDA header.
//
// ops/core/cuda_native/ implements it with the CUDA runtime, tests/support/host_cuda/ on the host,
// where each stream is a queue that runs as late as it may. All calls are for the device that
// `use_device` named on the calling thread. Every call throws Error with the library's own words
// when it fails; an error of work that was enqueued earlier may show in a later call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace sardonyx::ops::cuda {

// cudaStream_t and cudaEvent_t.
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;

struct DeviceFacts {
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int processors = 0;        // multiprocessors
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
};

// Why there is no CUDA at all ("no driver: ..."); "" when there are devices.
std::string why_unavailable();
int device_count();
DeviceFacts device_facts(int device);
// From now on this thread speaks to `device`.
void use_device(int device);
// Bytes that can still be allocated on it.
size_t free_bytes();

// --- memory: 256-byte aligned. Never inside a step.
void* allocate(size_t bytes);
void release(void* device_memory) noexcept;
// Host memory that copies reach without a detour.
void* allocate_pinned(size_t bytes);
void release_pinned(void* host_memory) noexcept;

// --- streams and events
enum class Priority : uint8_t { kNormal, kHigh };
Stream create_stream(Priority priority);
void destroy(Stream stream) noexcept;
// Returns when everything on the stream is done.
void synchronize(Stream stream);

enum class Timing : uint8_t { kOff, kOn };
Event create_event(Timing timing);
void destroy(Event event) noexcept;
// The event is done once everything that the stream holds now is.
void record(Event event, Stream stream);
// What the stream gets from now on runs after the event. Throws InternalError for an event that was
// never recorded.
void wait(Stream stream, Event event);
// Whether it is done; never waits.
bool done(Event event);
void synchronize(Event event);
// Between two events with timing that are done.
double seconds_between(Event begin, Event end);

// --- copies, in the order of the stream. Host memory must be pinned and stay until they are done.
void copy_to_device(Stream stream, void* device, const void* host, size_t bytes);
void copy_to_host(Stream stream, void* host, const void* device, size_t bytes);
void copy_on_device(Stream stream, void* to, const void* from, size_t bytes);
void fill_zero(Stream stream, void* device, size_t bytes);

// --- owners

class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes) : bytes_(bytes), data_(bytes == 0 ? nullptr : allocate(bytes)) {}
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  size_t size() const { return bytes_; }

 private:
  struct Release {
    void operator()(void* memory) const noexcept { release(memory); }
  };
  size_t bytes_ = 0;
  std::unique_ptr<void, Release> data_;
};

class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes)
      : bytes_(bytes), data_(bytes == 0 ? nullptr : allocate_pinned(bytes)) {}
  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  size_t size() const { return bytes_; }

 private:
  struct Release {
    void operator()(void* memory) const noexcept { release_pinned(memory); }
  };
  size_t bytes_ = 0;
  std::unique_ptr<void, Release> data_;
};

class OwnedStream {
 public:
  explicit OwnedStream(Priority priority = Priority::kNormal) : stream_(create_stream(priority)) {}
  Stream get() const { return stream_.get(); }

 private:
  struct Destroy {
    void operator()(Stream stream) const noexcept { destroy(stream); }
  };
  std::unique_ptr<StreamHandle, Destroy> stream_;
};

class OwnedEvent {
 public:
  explicit OwnedEvent(Timing timing = Timing::kOff) : event_(create_event(timing)) {}
  Event get() const { return event_.get(); }

 private:
  struct Destroy {
    void operator()(Event event) const noexcept { destroy(event); }
  };
  std::unique_ptr<EventHandle, Destroy> event_;
};

}  // namespace sardonyx::ops::cuda
