#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/cuda_context.h"
#include "tests/cuda/both_sides.h"
#include "tests/cuda/test_kernels.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::host_cuda {

namespace {

namespace cuda = ops::cuda;

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// The message of the InternalError that `body` throws; "" when it throws none.
template <class F>
std::string fault(const F& body) {
  try {
    body();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_FAULT(body, ...)                             \
  do {                                                      \
    const std::string message = fault([&] { body; });       \
    for (const char* part : {__VA_ARGS__}) {                \
      EXPECT_NE(message.find(part), std::string::npos)      \
          << "no '" << part << "' in: '" << message << "'"; \
    }                                                       \
  } while (false)

class HostCudaTest : public HostCuda {
 protected:
  cuda::OwnedStream owned_;
  cuda::Stream stream_ = owned_.get();
};

class HostCudaDeathTest : public HostCudaTest {
 protected:
  // A process of its own: fibers don't survive a fork under the thread sanitizer.
  HostCudaDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(HostCudaTest, names_a_device_that_nobody_takes_for_real) {
  EXPECT_EQ(cuda::device_count(), 2);
  EXPECT_EQ(cuda::why_unavailable(), "");
  EXPECT_EQ(cuda::device_facts(1).name, "host stand-in");
  EXPECT_THROW(cuda::use_device(2), Error);
}

TEST(HostCudaMachine, without_devices_says_why) {
  reset({.devices = 0, .why_none = "no driver: the module is not loaded"});
  EXPECT_EQ(cuda::why_unavailable(), "no driver: the module is not loaded");
  EXPECT_EQ(cuda::device_count(), 0);
  EXPECT_THROW(cuda::use_device(0), Error);
  reset();
}

TEST_F(HostCudaTest, kernel_gets_the_bytes_behind_its_pointers) {
  const Both<float> from(stream_, counting(1000)), to(1000);
  launch_increment(stream_, 1000, from.device(), to.device());
  EXPECT_EQ(to.read(stream_)[999], 1000);
  launch_increment_pair(stream_, 1000, to.device(), from.device());
  EXPECT_EQ(from.read(stream_)[999], 1001);
  EXPECT_EQ(counts().kernels, 2u);
}

TEST_F(HostCudaTest, kernels_and_copies_run_when_somebody_waits) {
  const Both<float> from(stream_, counting(4)), to(4);
  launch_increment(stream_, 4, from.device(), to.device());
  cuda::copy_to_host(stream_, to.host(), to.device(), to.bytes());
  EXPECT_TRUE(std::isnan(to.host()[0]));
  cuda::synchronize(stream_);
  EXPECT_EQ(to.host()[0], 1);
}

TEST_F(HostCudaTest, fresh_device_memory_is_nan) {
  const Both<float> memory(3);
  EXPECT_TRUE(std::isnan(memory.read(stream_)[2]));
}

TEST_F(HostCudaTest, stream_that_forgets_an_event_reads_what_was_there_before) {
  const cuda::OwnedStream other;
  const Both<float> from(stream_, counting(4)), to(stream_, {7, 7, 7, 7});
  launch_increment(stream_, 4, from.device(), to.device());
  EXPECT_EQ(to.read(other.get())[3], 7);
  cuda::synchronize(stream_);
  EXPECT_EQ(to.read(other.get())[3], 4);
}

TEST_F(HostCudaTest, stream_that_waits_for_an_event_reads_what_came_before_it) {
  const cuda::OwnedStream other, third;
  const cuda::OwnedEvent event, second;
  const Both<float> a(stream_, counting(4)), b(4), c(4);
  launch_increment(stream_, 4, a.device(), b.device());
  cuda::record(event.get(), stream_);
  cuda::wait(third.get(), event.get());
  launch_increment(third.get(), 4, b.device(), c.device());
  cuda::record(second.get(), third.get());
  cuda::wait(other.get(), second.get());
  EXPECT_EQ(c.read(other.get())[3], 5);
}

TEST_F(HostCudaTest, event_means_what_was_enqueued_when_it_was_recorded) {
  const cuda::OwnedStream other;
  const cuda::OwnedEvent event;
  const Both<float> a(stream_, counting(4)), b(stream_, {7, 7, 7, 7});
  cuda::record(event.get(), stream_);
  launch_increment(stream_, 4, a.device(), b.device());
  cuda::wait(other.get(), event.get());
  EXPECT_EQ(b.read(other.get())[3], 7);
  cuda::synchronize(stream_);
}

TEST_F(HostCudaTest, event_that_is_asked_again_and_again_is_done_in_the_end) {
  const cuda::OwnedEvent event;
  const Both<float> a(stream_, counting(4)), b(4);
  launch_increment(stream_, 4, a.device(), b.device());
  cuda::record(event.get(), stream_);
  EXPECT_FALSE(cuda::done(event.get()));
  int asked = 1;
  while (!cuda::done(event.get())) ++asked;
  EXPECT_EQ(asked, 2);
}

TEST_F(HostCudaTest, time_between_events_needs_both_done_and_timed) {
  const cuda::OwnedEvent begin(cuda::Timing::kOn), end(cuda::Timing::kOn), untimed;
  const Both<float> a(1 << 20);
  cuda::record(begin.get(), stream_);
  launch_write(stream_, 1 << 20, a.device());
  cuda::record(end.get(), stream_);
  EXPECT_FAULT(cuda::seconds_between(begin.get(), end.get()), "is not done");
  cuda::synchronize(end.get());
  EXPECT_GT(cuda::seconds_between(begin.get(), end.get()), 1e-4);
  EXPECT_LT(cuda::seconds_between(begin.get(), end.get()), 10);
  cuda::record(untimed.get(), stream_);
  cuda::synchronize(untimed.get());
  EXPECT_FAULT(cuda::seconds_between(begin.get(), untimed.get()), "without timing");
}

TEST_F(HostCudaTest, random_schedule_keeps_the_order_of_streams_and_events) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    reset({.schedule = Schedule::kRandom, .seed = seed});
    const cuda::OwnedStream other;
    const cuda::OwnedEvent there, back;
    const Both<float> a(stream_, counting(4)), b(4);
    for (int i = 0; i < 3; ++i) {
      launch_increment(stream_, 4, a.device(), b.device());
      cuda::record(there.get(), stream_);
      cuda::wait(other.get(), there.get());
      launch_increment(other.get(), 4, b.device(), a.device());
      cuda::record(back.get(), other.get());
      cuda::wait(stream_, back.get());
    }
    EXPECT_EQ(a.read(stream_)[3], 9) << "seed " << seed;
  }
}

TEST_F(HostCudaTest, random_schedule_finds_a_forgotten_event) {
  size_t right = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    reset({.schedule = Schedule::kRandom, .seed = seed});
    const cuda::OwnedStream other;
    const Both<float> a(stream_, counting(4)), b(stream_, {7, 7, 7, 7});
    launch_increment(stream_, 4, a.device(), b.device());
    right += b.read(other.get())[3] == 4;
    cuda::synchronize(stream_);
  }
  EXPECT_GT(right, 0u);
  EXPECT_LT(right, 20u);
}

TEST_F(HostCudaTest, threads_that_wait_for_each_others_streams_all_come_through) {
  constexpr int kThreads = 3, kRounds = 20;
  const Both<float> a(stream_, counting(4));
  std::vector<cuda::OwnedStream> streams(kThreads);
  std::vector<cuda::OwnedEvent> events(kThreads * kRounds);
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  // In turn each enqueues an increment behind that of the one before, and now and then waits.
  const auto drive = [&](int thread) {
    cuda::use_device(0);
    const cuda::Stream stream = streams[thread].get();
    for (int round = 0; round < kRounds; ++round) {
      std::unique_lock lock(mutex);
      const int number = round * kThreads + thread;
      changed.wait(lock, [&] { return turn == number; });
      if (number > 0) cuda::wait(stream, events[number - 1].get());
      launch_increment(stream, 4, a.device(), a.device());
      cuda::record(events[number].get(), stream);
      ++turn;
      changed.notify_all();
      lock.unlock();
      if (round % 5 == thread) cuda::synchronize(stream);
    }
    cuda::synchronize(stream);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(drive, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a.read(stream_)[3], 3 + kThreads * kRounds);
}

TEST_F(HostCudaTest, failed_work_of_one_thread_reaches_every_other) {
  const Both<float> a(5);
  launch_write(stream_, 7, a.device());
  std::string other;
  std::thread([&] {
    cuda::use_device(0);
    const cuda::OwnedStream stream;
    other = fault([&] {
      for (int i = 0; i < 1000; ++i) cuda::synchronize(stream_);
    });
  }).join();
  EXPECT_NE(other.find("kernel write wrote past the end"), std::string::npos) << other;
  EXPECT_FAULT(launch_write(stream_, 1, a.device()), "kernel write wrote past the end");
  cuda::use_device(1);
  const cuda::OwnedStream healthy;
  cuda::synchronize(healthy.get());
}

// --- planted faults

TEST_F(HostCudaTest, thread_that_named_no_device_is_caught) {
  std::string message;
  std::thread([&] { message = fault([] { cuda::allocate(16); }); }).join();
  EXPECT_EQ(message, "allocate: this thread named no device");
}

TEST_F(HostCudaTest, host_pointer_in_a_kernel_is_caught) {
  const Both<float> a(4);
  float on_stack[4] = {};
  EXPECT_FAULT(launch_increment(stream_, 4, a.host(), a.device()), "kernel increment<float>",
               "is not device memory, it is host memory");
  EXPECT_FAULT(launch_increment(stream_, 4, on_stack, a.device()), "it is host memory");
  EXPECT_FAULT(launch_increment_pair(stream_, 4, on_stack, a.device()), "kernel increment_pair",
               "it is host memory");
}

TEST_F(HostCudaTest, memory_of_another_device_in_a_kernel_is_caught) {
  cuda::use_device(1);
  const cuda::Memory far(16);
  cuda::use_device(0);
  const auto* floats = reinterpret_cast<const float*>(far.data());
  const Both<float> a(4);
  EXPECT_FAULT(launch_increment(stream_, 4, floats, a.device()), "kernel increment<float>",
               "on cuda:1) belongs to another device");
}

TEST_F(HostCudaTest, pageable_memory_in_a_copy_is_caught) {
  const Both<float> a(4);
  std::vector<float> pageable(4);
  EXPECT_FAULT(cuda::copy_to_device(stream_, a.device(), pageable.data(), 16),
               "copy_to_device of 16 bytes", "is not pinned memory, it is pageable host memory");
  EXPECT_FAULT(cuda::copy_to_host(stream_, a.device(), a.device(), 16), "it is device memory");
  EXPECT_FAULT(cuda::copy_to_host(stream_, a.host() + 2, a.device(), 16),
               "reaches 8 bytes past the end of 16 bytes of pinned memory");
  EXPECT_FAULT(cuda::copy_to_device(stream_, a.host(), a.host(), 16), "is not device memory");
  EXPECT_FAULT(cuda::fill_zero(stream_, a.device() + 3, 16), "fill_zero of 16 bytes",
               "16 bytes from byte 12 on reach beyond allocation");
  EXPECT_FAULT(cuda::copy_on_device(stream_, a.device(), a.device() + 1, 8), "overlap");
}

TEST_F(HostCudaTest, source_that_changes_before_its_copy_is_caught) {
  const Both<float> a(stream_, counting(4));
  cuda::copy_to_device(stream_, a.device(), a.host(), 16);
  a.host()[2] = 5;
  EXPECT_FAULT(cuda::synchronize(stream_), "copy_to_device of 16 bytes",
               "the host changed the bytes between the call and the copy");
  // As on a device, every later call says it.
  EXPECT_FAULT(cuda::synchronize(stream_), "the host changed the bytes");
}

TEST_F(HostCudaTest, staging_that_goes_there_and_back_on_one_stream_is_fine) {
  const Both<float> a(stream_, counting(4)), b(4);
  launch_increment(stream_, 4, a.device(), b.device());
  cuda::copy_to_host(stream_, a.host(), b.device(), 16);
  cuda::copy_to_device(stream_, a.device(), a.host(), 16);
  cuda::copy_to_host(stream_, a.host(), b.device(), 16);
  cuda::synchronize(stream_);
  EXPECT_EQ(a.host()[3], 4);
  EXPECT_EQ(a.read(stream_)[3], 4);
}

TEST_F(HostCudaTest, event_that_was_never_recorded_is_caught) {
  const cuda::OwnedEvent event;
  EXPECT_FAULT(cuda::wait(stream_, event.get()), "wait: the event was never recorded");
  EXPECT_FAULT(cuda::synchronize(event.get()), "synchronize: the event was never recorded");
}

TEST_F(HostCudaTest, event_of_another_device_can_be_waited_for_but_not_recorded) {
  const cuda::OwnedEvent event;
  cuda::record(event.get(), stream_);
  cuda::use_device(1);
  const cuda::OwnedStream other;
  cuda::wait(other.get(), event.get());
  cuda::synchronize(other.get());
  EXPECT_FAULT(cuda::record(event.get(), other.get()),
               "record: the event belongs to cuda:0, the stream to cuda:1");
}

TEST_F(HostCudaTest, stream_of_another_device_and_one_that_was_destroyed_are_caught) {
  cuda::use_device(1);
  EXPECT_FAULT(cuda::synchronize(stream_), "belongs to cuda:0, the thread speaks to cuda:1");
  const cuda::Stream gone = cuda::create_stream(cuda::Priority::kHigh);
  cuda::destroy(gone);
  EXPECT_FAULT(cuda::synchronize(gone), "the stream was destroyed");
}

TEST_F(HostCudaTest, use_after_release_is_caught) {
  const Both<float> a(4);
  void* gone = cuda::allocate(16);
  cuda::release(gone);
  EXPECT_FAULT(launch_increment(stream_, 4, static_cast<float*>(gone), a.device()),
               "kernel increment<float>", "at byte 0 of allocation",
               "(16 bytes on cuda:0), which was released");
  EXPECT_FAULT(cuda::fill_zero(stream_, gone, 16), "fill_zero of 16 bytes", "was released");
}

TEST_F(HostCudaTest, release_waits_for_what_the_device_has_to_do) {
  const Both<float> to(4);
  {
    const Both<float> from(stream_, counting(4));
    launch_increment(stream_, 4, from.device(), to.device());
  }
  EXPECT_EQ(to.read(stream_)[3], 4);
}

TEST_F(HostCudaTest, small_overrun_is_caught) {
  const Both<float> a(5);
  launch_write(stream_, 7, a.device());
  EXPECT_FAULT(cuda::synchronize(stream_), "kernel write wrote past the end of allocation",
               "(20 bytes on cuda:0)");
}

TEST_F(HostCudaTest, pointer_before_the_begin_is_caught) {
  const Both<float> a(64);
  EXPECT_FAULT(launch_write(stream_, 1, a.device() - 1), "kernel write: ", " is ");
}

TEST_F(HostCudaTest, write_before_the_begin_is_caught) {
  const Both<float> a(64);
  launch_write_before(stream_, a.device());
  EXPECT_FAULT(cuda::synchronize(stream_), "kernel write_before wrote before the begin of");
}

TEST_F(HostCudaTest, padding_of_a_struct_is_no_pointer) {
  const Both<float> from(stream_, counting(4)), to(4);
  launch_increment_padded(stream_, from.device(), to.device());
  EXPECT_EQ(to.read(stream_)[3], 4);
}

TEST_F(HostCudaTest, misaligned_pointer_is_caught) {
  const Both<float> a(4);
  auto* odd = reinterpret_cast<float*>(reinterpret_cast<char*>(a.device()) + 2);
  EXPECT_FAULT(launch_increment(stream_, 1, odd, a.device()), "kernel increment<float>: byte 2 of",
               "is misaligned for elements of 4 bytes");
}

TEST_F(HostCudaTest, barrier_that_some_threads_miss_is_caught) {
  launch_divergent_barrier(stream_, 256, 100);
  EXPECT_FAULT(cuda::synchronize(stream_),
               "kernel divergent_barrier: block (0, 0) of 256 threads can't go on",
               "100 wait at a barrier", "156 have ended");
  reset();
  launch_divergent_barrier(stream_, 256, 256);
  cuda::synchronize(stream_);
}

TEST_F(HostCudaTest, shuffle_that_some_threads_miss_is_caught) {
  launch_divergent_shuffle(stream_, 64, 40);
  EXPECT_FAULT(cuda::synchronize(stream_), "kernel divergent_shuffle", "8 in a shuffle",
               "56 have ended");
  reset();
  launch_divergent_shuffle(stream_, 48, 48);
  EXPECT_FAULT(cuda::synchronize(stream_), "16 in a shuffle");
}

TEST_F(HostCudaTest, forgotten_barrier_gives_wrong_numbers) {
  std::vector<int> numbers(512);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Both<int> in(stream_, numbers), out(512);
  launch_reverse(stream_, 2, Barrier::kThere, in.device(), out.device());
  std::vector<int> expected(512);
  for (int i = 0; i < 512; ++i) expected[i] = i / 256 * 256 + 255 - i % 256;
  EXPECT_EQ(out.read(stream_), expected);
  launch_reverse(stream_, 2, Barrier::kForgotten, in.device(), out.device());
  EXPECT_NE(out.read(stream_), expected);
}

TEST_F(HostCudaTest, grid_that_no_device_takes_is_caught) {
  EXPECT_FAULT(launch_divergent_barrier(stream_, 1025, 0), "kernel divergent_barrier",
               "blocks of 1025 threads");
  EXPECT_FAULT(launch_divergent_barrier(stream_, 0, 0), "blocks of 0 threads");
}

TEST_F(HostCudaTest, full_device_says_what_is_left) {
  reset({.memory_bytes = 1000});
  const cuda::Memory memory(600);
  EXPECT_EQ(cuda::free_bytes(), 400u);
  try {
    cuda::allocate(500);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "out of memory: cuda:0 has 400 of 1000 bytes left, 500 were asked for");
  }
}

TEST_F(HostCudaDeathTest, host_code_that_follows_a_device_pointer_ends) {
  const Both<float> a(4);
  EXPECT_DEATH(a.device()[1] = 1,
               "host code follows a device pointer: at byte 4 of allocation .*16 bytes on cuda:0");
}

TEST_F(HostCudaDeathTest, large_overrun_ends) {
  const Both<float> a(5);
  launch_write(stream_, 5000, a.device());
  EXPECT_DEATH(cuda::synchronize(stream_),
               "kernel write touches device memory that isn't there: 236 bytes past the end of "
               "allocation .*20 bytes on cuda:0");
  reset();
}

TEST_F(HostCudaDeathTest, misaligned_vector_ends) {
  const Both<float> a(stream_, counting(16));
  launch_vector_copy(stream_, 4, a.device(), a.device());
  cuda::synchronize(stream_);
  launch_vector_copy(stream_, 5, a.device(), a.device());
  EXPECT_DEATH(cuda::synchronize(stream_), "kernel vector_copy: misaligned access");
  reset();
}

TEST_F(HostCudaDeathTest, pinned_memory_that_goes_before_its_copy_ends) {
  const cuda::Memory device(16);
  auto* pinned = cuda::allocate_pinned(16);
  cuda::copy_to_host(stream_, pinned, device.data(), 16);
  EXPECT_DEATH(cuda::release_pinned(pinned), "pinned memory is released while a copy");
  cuda::synchronize(stream_);
  cuda::release_pinned(pinned);
}

// --- what kernels share

TEST_F(HostCudaTest, sums_over_blocks_and_warps_reach_every_thread) {
  for (const unsigned threads : {32u, 64u, 96u, 256u, 512u, 1024u}) {
    std::vector<double> values(threads);
    std::iota(values.begin(), values.end(), 1.0);
    const Both<double> in(stream_, values), out(threads);
    launch_block_sum(stream_, threads, in.device(), out.device());
    EXPECT_EQ(out.read(stream_), std::vector<double>(threads, threads * (threads + 1) / 2.0));
    launch_warp_sum(stream_, threads, in.device(), out.device());
    const auto sums = out.read(stream_);
    for (unsigned i = 0; i < threads; ++i) {
      const double first = i / 32 * 32 + 1;
      EXPECT_EQ(sums[i], 32 * first + 31 * 32 / 2.0) << threads << " threads, thread " << i;
    }
  }
}

TEST_F(HostCudaTest, largest_of_a_warp_is_nan_when_one_is) {
  std::vector<float> values(64, -3);
  values[5] = 2;
  values[40] = std::numeric_limits<float>::quiet_NaN();
  const Both<float> in(stream_, values), out(64);
  launch_warp_max(stream_, 64, in.device(), out.device());
  const auto largest = out.read(stream_);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(largest[i], 2);
  for (int i = 32; i < 64; ++i) EXPECT_TRUE(std::isnan(largest[i]));
}

TEST_F(HostCudaTest, shuffle_down_keeps_the_own_value_beyond_the_warp) {
  std::vector<int> values(32);
  std::iota(values.begin(), values.end(), 100);
  const Both<int> in(stream_, values), out(32);
  launch_shuffle_down(stream_, 5, in.device(), out.device());
  const auto shuffled = out.read(stream_);
  EXPECT_EQ(shuffled[0], 105);
  EXPECT_EQ(shuffled[26], 131);
  EXPECT_EQ(shuffled[27], 127);
}

TEST_F(HostCudaTest, launch_add_adds_floats_and_doubles) {
  ops::CudaContext context;
  context.stream = stream_;
  const Both<float> a(stream_, {1, 2, 3}), b(stream_, {10, 20, 30});
  ops::launch_add(context, graph::DType::kFloat32, 3, a.device(), b.device());
  EXPECT_EQ(b.read(stream_), (std::vector<float>{11, 22, 33}));
  const Both<double> c(stream_, {1, 2}), d(stream_, {0.5, 0.25});
  ops::launch_add(context, graph::DType::kFloat64, 2, c.device(), d.device());
  EXPECT_EQ(d.read(stream_), (std::vector<double>{1.5, 2.25}));
}

// Prints what tests pay for a block.
TEST_F(HostCudaTest, each_of_many_blocks_has_its_own_sum) {
  constexpr unsigned kBlocks = 200;
  const Both<float> to(kBlocks);
  const auto per_block = [&](auto launch) {
    const auto begin = std::chrono::steady_clock::now();
    launch(stream_, kBlocks, to.device());
    cuda::synchronize(stream_);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count() / kBlocks;
  };
  const double plain = per_block(launch_nothing), sums = per_block(launch_block_sums);
  EXPECT_EQ(to.read(stream_), std::vector<float>(kBlocks, 256));
  std::printf("256 threads: %.2f us without barriers, %.2f us with one block_sum\n", plain, sums);
}

}  // namespace

}  // namespace sardonyx::host_cuda
