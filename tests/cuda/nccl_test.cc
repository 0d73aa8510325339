// Sums over NCCL, which is a stand-in here: replicas on CUDA devices of their own, what becomes of
// them when one fails, and the mistakes that the stand-in is there to find.
#include <chrono>
#include <cmath>
#include <future>

#include "graph/support/error.h"
#include "graph/tensor.h"
#include "runtime/collectives/cuda_nccl.h"
#include "tests/cuda/linked_devices.h"
#include "tests/support/host_cuda/fixture.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {

namespace {

namespace cuda = ops::cuda;
using graph::DType;
using host_cuda::Both;
using host_cuda::launch_increment;
using host_cuda::plant;
using Errors = std::vector<std::string>;
using Floats = std::vector<float>;
using namespace std::chrono_literals;

class NcclTest : public host_cuda::LinkedDevices {
 protected:
  NcclTest() { host_cuda::reset({.devices = 3}); }
  void open_all(int ranks) {
    std::vector<std::string> names;
    for (int r = 0; r < ranks; ++r) names.push_back(fmt::format("cuda:{}", r));
    open(names);
    ASSERT_EQ(linked_.notice, "");
  }
  void expect_next_run_adds_up() {
    plant({});
    const auto errors = each_rank([&](int rank) { add_up_twice(rank, 7); });
    EXPECT_EQ(errors, Errors(devices_.size()));
  }
};

// --- what comes out

TEST_F(NcclTest, two_and_three_ranks_get_the_sum_whatever_order_the_streams_run_in) {
  for (const int ranks : {2, 3}) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      host_cuda::reset(
          {.devices = 3,
           .schedule = seed == 0 ? host_cuda::Schedule::kLate : host_cuda::Schedule::kRandom,
           .seed = seed});
      open_all(ranks);
      for (int step = 0; step < 3; ++step) {
        const auto errors = each_rank([&](int rank) { add_up_twice(rank, step); });
        EXPECT_EQ(errors, Errors(static_cast<size_t>(ranks)));
      }
    }
  }
}

TEST_F(NcclTest, doubles_keep_their_digits) {
  for (const int ranks : {2, 3}) {
    open_all(ranks);
    const auto errors = each_rank([&](int rank) {
      const std::vector<double> terms = {rank == 0 ? 0x1p53 - 2 : 1, 0.1};
      const auto sums = sum(rank, terms, DType::kFloat64, DType::kFloat64);
      EXPECT_EQ(sums,
                (std::vector<double>{0x1p53 - 3 + ranks, ranks == 2 ? 0.2 : 0.1 + 0.1 + 0.1}));
    });
    EXPECT_EQ(errors, Errors(static_cast<size_t>(ranks)));
  }
}

TEST_F(NcclTest, narrow_wire_of_two_ranks_gives_the_bits_of_the_group_on_the_host) {
  open_all(2);
  for (const size_t count : {1, 2, 5, 1000, 1001}) {
    const auto terms_of = [&](int rank) {
      Floats terms(count);
      for (size_t i = 0; i < count; ++i) {
        terms[i] = std::sin(static_cast<float>(i + 1)) * (rank == 0 ? 1.0f : 77.0f);
      }
      return terms;
    };
    const auto narrow = [](float x) {
      return graph::bfloat16_to_float(graph::float_to_bfloat16(x));
    };
    Floats want(count);
    for (size_t i = 0; i < count; ++i) {
      want[i] = narrow(narrow(terms_of(0)[i]) + narrow(terms_of(1)[i]));
    }
    const auto errors = each_rank([&](int rank) {
      EXPECT_EQ(sum(rank, terms_of(rank), DType::kFloat32, DType::kBFloat16), want);
    });
    EXPECT_EQ(errors, Errors(2));
  }
}

TEST_F(NcclTest, narrow_wire_of_three_ranks_rounds_after_each_addition) {
  open_all(3);
  const auto errors = each_rank([&](int rank) {
    // 256 + 1 is 256 as bfloat16; 64 + 1 + 2 needs no rounding.
    const Floats terms = rank == 0 ? Floats{256, 64} : rank == 1 ? Floats{1, 1} : Floats{1, 2};
    EXPECT_EQ(sum(rank, terms, DType::kFloat32, DType::kBFloat16), (Floats{256, 67}));
  });
  EXPECT_EQ(errors, Errors(3));
}

TEST_F(NcclTest, narrow_wire_keeps_what_is_no_number) {
  open_all(2);
  const auto errors = each_rank([&](int rank) {
    const Floats terms = rank == 0 ? Floats{NAN, INFINITY, 3} : Floats{1, 1, 4};
    const Floats sums = sum(rank, terms, DType::kFloat32, DType::kBFloat16);
    EXPECT_TRUE(std::isnan(sums[0]));
    EXPECT_EQ(sums[1], INFINITY);
    EXPECT_EQ(sums[2], 7);
  });
  EXPECT_EQ(errors, Errors(2));
}

TEST_F(NcclTest, compute_goes_on_while_a_sum_is_under_way) {
  open_all(2);
  std::promise<void> computed;
  const auto errors = each_rank([&](int rank) {
    const cuda::Stream stream = cuda_device(rank).compute();
    const Both<float> terms(stream, {1}), other(stream, {5});
    add_up_twice(rank, 0);
    // Rank 1 starts its sum when rank 0 has computed something behind the start of its own.
    if (rank == 1) computed.get_future().wait_for(20s);
    link(rank)->start_sum(terms.device(), 1, DType::kFloat32, DType::kFloat32, stream);
    launch_increment(stream, 1, other.device(), other.device());
    EXPECT_EQ(other.read(stream), Floats{6});
    if (rank == 0) computed.set_value();
    link(rank)->wait(terms.device(), stream);
    EXPECT_EQ(terms.read(stream), Floats{2});
  });
  EXPECT_EQ(errors, Errors(2));
}

TEST_F(NcclTest, a_bucket_is_added_up_again_and_again_without_allocating) {
  open_all(2);
  size_t allocations = 0;
  const auto errors = each_rank([&](int rank) {
    const cuda::Stream stream = cuda_device(rank).compute();
    const Both<float> terms(stream, {1, 2, 3});
    for (int step = 0; step < 4; ++step) {
      const DType wire = step % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
      link(rank)->start_sum(terms.device(), 3, DType::kFloat32, wire, stream);
      link(rank)->wait(terms.device(), stream);
      if (rank == 0 && step == 0) allocations = host_cuda::counts().allocations;
    }
    EXPECT_EQ(terms.read(stream), (Floats{16, 32, 48}));
  });
  EXPECT_EQ(errors, Errors(2));
  EXPECT_EQ(host_cuda::counts().allocations, allocations);
}

// --- when one fails

TEST_F(NcclTest, rank_that_fails_before_the_first_sum_ends_the_others_and_the_next_run_works) {
  for (const int ranks : {2, 3}) {
    open_all(ranks);
    const auto errors = each_rank([&](int rank) {
      if (rank == 1) throw Error("a label is out of range");
      sum(rank, {1});
    });
    Errors want(static_cast<size_t>(ranks), "rank 1 stopped: a label is out of range");
    want[1] = "a label is out of range";
    EXPECT_EQ(errors, want);
    expect_next_run_adds_up();
  }
}

TEST_F(NcclTest, rank_that_fails_between_two_sums_ends_the_others_and_the_next_run_works) {
  open_all(3);
  const auto errors = each_rank([&](int rank) {
    add_up_twice(rank, 1);
    if (rank == 2) throw Error("out of memory");
    sum(rank, {1});
  });
  const std::string others = "rank 2 stopped: out of memory";
  EXPECT_EQ(errors, (Errors{others, others, "out of memory"}));
  expect_next_run_adds_up();
}

TEST_F(NcclTest, what_nccl_says_of_a_rank_ends_all_and_the_next_run_works) {
  const std::string reason =
      "NCCL: unhandled cuda error, in rank 1 of 2: the device fell off the bus";
  for (const int sums : {1, 2}) {
    open_all(2);
    plant({.broken_rank = 1, .reason = "the device fell off the bus"});
    std::vector<std::unique_ptr<Both<float>>> data;
    for (int i = 0; i < 2 * sums; ++i) {
      cuda_device(i % 2).enter();
      data.push_back(std::make_unique<Both<float>>(cuda_device(i % 2).compute(), Floats{1}));
    }
    // Nobody waits on the host: it shows where the run ends, or in the next sum.
    const auto errors = each_rank([&](int rank) {
      const cuda::Stream stream = cuda_device(rank).compute();
      for (int i = 0; i < sums; ++i) {
        link(rank)->start_sum(data[2 * i + rank]->device(), 1, DType::kFloat32, DType::kFloat32,
                              stream);
      }
      for (int i = 0; i < sums; ++i) link(rank)->wait(data[2 * i + rank]->device(), stream);
    });
    EXPECT_EQ(errors, (Errors{"rank 1 stopped: " + reason, reason}));
    expect_next_run_adds_up();
  }
}

TEST_F(NcclTest, host_that_waits_for_a_device_learns_what_became_of_the_sum) {
  open_all(2);
  plant({.broken_rank = 1, .reason = "no route"});
  std::vector<std::string> said(2);
  const auto errors = each_rank([&](int rank) {
    // Reads the sum, and with it waits for the device.
    said[rank] = testing::error_of([&] { sum(rank, {1}); });
    throw Error("{}", said[rank]);
  });
  EXPECT_EQ(said[1], "NCCL: unhandled cuda error, in rank 1 of 2: no route");
  EXPECT_EQ(said[0], "rank 1 stopped: " + said[1]);
  expect_next_run_adds_up();
}

TEST_F(NcclTest, ranks_that_disagree_about_a_sum_are_told) {
  open_all(2);
  const auto errors = each_rank([&](int rank) {
    sum(rank, rank == 0 ? Floats{1, 2} : Floats{1, 2, 3});
  });
  const std::string all = errors[0] + errors[1];
  EXPECT_NE(all.find("the ranks disagree about a sum, which has"), std::string::npos) << all;
  expect_next_run_adds_up();
}

TEST_F(NcclTest, two_ranks_on_one_device_are_refused) {
  cuda::use_device(1);
  const nccl::UniqueId id = nccl::unique_id();
  NcclRank first(id, 0, 2, [] {}), second(id, 1, 2, [] {});
  EXPECT_EQ(testing::error_of([&] { first.connect(10s); }),
            "NCCL: invalid usage, in rank 0 of 2: Duplicate GPU detected : rank 1 and rank 0 both "
            "on CUDA device 1");
}

TEST_F(NcclTest, rank_that_never_comes_is_not_waited_for_without_an_end) {
  plant({.absent_rank = 1});
  const nccl::UniqueId id = nccl::unique_id(), other = nccl::unique_id();
  cuda::use_device(1);
  NcclRank absent(id, 1, 2, [] {});
  cuda::use_device(0);
  NcclRank first(id, 0, 2, [] {}), told(other, 0, 2, [] { throw Error("rank 1 has gone"); });
  EXPECT_EQ(testing::error_of([&] { first.connect(20ms); }),
            "NCCL: the 2 ranks haven't come together in 0.02 s, says rank 0; NCCL_DEBUG=INFO shows "
            "what they wait for");
  EXPECT_EQ(testing::error_of([&] { told.connect(10s); }), "rank 1 has gone");
}

TEST_F(NcclTest, ranks_find_each_other_by_their_id_alone) {
  const nccl::UniqueId id = nccl::unique_id();
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.emplace_back([&, r] {
      cuda::use_device(2 - r);
      const cuda::OwnedStream compute;
      const Both<float> terms(compute.get(), {r + 1.0f, 5});
      NcclRank rank(id, r, 2, [] {});
      rank.connect(10s);
      rank.start_sum(terms.device(), 2, DType::kFloat32, DType::kFloat32, compute.get());
      rank.wait(terms.device(), compute.get());
      rank.finish();
      EXPECT_EQ(terms.read(compute.get()), (Floats{3, 10}));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(NcclTest, where_the_library_is_missing_sums_go_through_the_host_and_the_user_is_told) {
  plant({.missing = "NCCL 2 can't be loaded; install it\n  tried libnccl.so.2: no such file"});
  open({"cuda:0", "cuda:1"});
  EXPECT_EQ(linked_.notice,
            "sums between the devices go through host memory, which takes longer: NCCL 2 can't be "
            "loaded; install it");
  expect_next_run_adds_up();
  for (const auto& names : {Errors{"cuda:0", "cuda:0"}, Errors{"cuda:0", "cpu"}}) {
    open(names);
    EXPECT_EQ(linked_.notice, "") << "NCCL isn't what would be used";
  }
}

TEST_F(NcclTest, some_replicas_that_share_a_device_send_all_through_the_host_and_the_user_is_told) {
  open({"cuda:0", "cuda:1", "cuda:1"});
  EXPECT_EQ(linked_.notice,
            "sums between the devices go through host memory, which takes longer: NCCL takes one "
            "replica per device");
  expect_next_run_adds_up();
}

// --- planted faults

// Two communicators that are ready, without a link around them.
class NcclFaultsTest : public NcclTest {
 protected:
  NcclFaultsTest() {
    const nccl::UniqueId id = nccl::unique_id();
    for (int r = 0; r < 2; ++r) {
      cuda::use_device(r);
      streams_.emplace_back();
      readers_.emplace_back();
      data_.push_back(std::make_unique<Both<float>>(streams_.back().get(), Floats{r + 1.0f}));
      communicators_.push_back(nccl::Communicator::start(id, r, 2));
    }
    settle(0);
    settle(1);
  }
  void TearDown() override {
    communicators_.clear();
    data_.clear();
    NcclTest::TearDown();
  }
  void settle(int rank) {
    cuda::use_device(rank);
    while (communicators_[rank]->poll() == nccl::State::kBusy) continue;
  }
  void start(int rank) {
    cuda::use_device(rank);
    communicators_[rank]->all_reduce(data_[rank]->device(), 1, DType::kFloat32,
                                     streams_[rank].get());
  }
  // On a stream of its own that waits for the event.
  float read_behind(int rank, const cuda::OwnedEvent& event) {
    cuda::wait(readers_[rank].get(), event.get());
    return data_[rank]->read(readers_[rank].get())[0];
  }
  std::string fault_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<cuda::OwnedStream> streams_, readers_;
  std::vector<std::unique_ptr<Both<float>>> data_;
  std::vector<std::unique_ptr<nccl::Communicator>> communicators_;
};

TEST_F(NcclFaultsTest, reader_behind_the_event_of_a_settled_sum_finds_it) {
  start(0);
  start(1);
  settle(1);
  settle(0);
  const cuda::OwnedEvent done;
  cuda::record(done.get(), streams_[0].get());
  EXPECT_EQ(read_behind(0, done), 3);
}

TEST_F(NcclFaultsTest, event_recorded_before_the_sum_is_on_its_stream_lets_the_terms_be_read) {
  start(1);
  settle(1);
  start(0);
  const cuda::OwnedEvent done;
  cuda::record(done.get(), streams_[0].get());
  settle(0);
  EXPECT_EQ(read_behind(0, done), 1);
}

TEST_F(NcclFaultsTest, reader_without_an_event_finds_the_terms) {
  start(0);
  start(1);
  settle(1);
  settle(0);
  EXPECT_EQ(data_[0]->read(readers_[0].get()), Floats{1});
}

TEST_F(NcclFaultsTest, terms_that_are_written_while_the_sum_is_under_way_are_caught) {
  start(0);
  settle(0);
  const auto* mine = data_[0]->device();
  launch_increment(readers_[0].get(), 1, mine, data_[0]->device());
  // Rank 0 has come to its sum, rank 1 not yet.
  const cuda::OwnedEvent done;
  cuda::record(done.get(), streams_[0].get());
  EXPECT_FALSE(cuda::done(done.get()));
  cuda::synchronize(readers_[0].get());
  start(1);
  settle(1);
  cuda::use_device(0);
  EXPECT_EQ(fault_of([&] { cuda::synchronize(streams_[0].get()); }),
            "nccl sum in rank 0: its terms changed while it was under way");
}

TEST_F(NcclFaultsTest, next_sum_before_the_last_one_is_settled_is_caught) {
  start(0);
  EXPECT_NE(fault_of([&] { start(0); }).find("before poll() said that it is ready"),
            std::string::npos);
}

TEST_F(NcclFaultsTest, memory_and_streams_that_are_no_rank_s_are_caught) {
  cuda::use_device(0);
  const auto start_on = [&](void* data, const cuda::OwnedStream& stream) {
    return fault_of([&] { communicators_[0]->all_reduce(data, 1, DType::kFloat32, stream.get()); });
  };
  const std::string who = "nccl sum of 1 float in rank 0";
  alignas(16) float on_host[4] = {};
  EXPECT_NE(start_on(on_host, streams_[0]).find("is not device memory"), std::string::npos);
  EXPECT_NE(start_on(data_[1]->device(), streams_[0]).find("on cuda:1) belongs to another device"),
            std::string::npos);
  EXPECT_EQ(start_on(data_[0]->device(), streams_[1]),
            who + ": the stream belongs to cuda:1, the thread speaks to cuda:0");
  void* gone = cuda::allocate(16);
  cuda::release(gone);
  EXPECT_NE(start_on(gone, streams_[0]).find("which was released"), std::string::npos);
  cuda::use_device(1);
  EXPECT_NE(start_on(data_[0]->device(), streams_[0]).find("the thread speaks to another device"),
            std::string::npos);
}

TEST_F(NcclFaultsTest, stream_of_a_rank_waits_until_its_own_communicator_aborts) {
  start(0);
  start(1);
  settle(0);
  const cuda::OwnedEvent done;
  cuda::use_device(0);
  cuda::record(done.get(), streams_[0].get());
  communicators_[1]->abort();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(cuda::done(done.get()));
  communicators_[0]->abort();
  EXPECT_TRUE(std::isnan(read_behind(0, done))) << "a sum that was aborted is no number";
}

}  // namespace

}  // namespace sardonyx::runtime
