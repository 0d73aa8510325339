// Checkpoints on disk: what is in one, which one is taken, what survives when something goes wrong.
#include "runtime/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "models/lenet.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;
using graph::DType;
using graph::Tensor;
using sardonyx::testing::error_of;
using sardonyx::testing::read_file;
using sardonyx::testing::TemporaryFolder;

Manifest full_manifest(int64_t step) {
  Manifest manifest;
  manifest.run.step = step;
  manifest.run.position = {3, 4096};
  manifest.run.sums = {0.1 + 0.2, 512, 37, 1.0 / 3.0, 12.5, 16, 4096, 2};
  manifest.run.seconds = 1e-300;
  manifest.run.skipped = 7;
  manifest.run.skipped_in_row = 2;
  manifest.run.best = {3, 1.0 / 9.0, 0.2};
  manifest.run.best_regular = {2, 1.0 / 7.0, 0.1};
  manifest.seed = UINT64_MAX;
  manifest.samples = 60000;
  manifest.model = "net\xff.onnx";
  manifest.model_sum = {4711, 0xfedcba98};
  manifest.config = {{"--lr", "0.1"}, {"--data", "idx:/\xfe"}};
  manifest.schedule = "constant";
  manifest.devices = {"cpu", "cpu"};
  manifest.threads = 2;
  manifest.cut = {{64, 64}, {128}};
  manifest.kernels = {16, -1, {{"Conv -> \xff", "conv.lanes"}}, {{"last 61", {{"a", "b"}}}}};
  manifest.files["state.safetensors"] = {100, 7};
  return manifest;
}

const std::vector<SavedState> kStates = {{"w", graph::TensorType(DType::kFloat32, {graph::Dim(2)})},
                                         {"steps", graph::TensorType(DType::kInt64, {})}};

Tensor value_of(const std::string& name, int64_t step) {
  if (name == "steps") return Tensor::scalar<int64_t>(step);
  return Tensor::of<float>({2}, {static_cast<float>(step), 0.5f});
}

class Checkpoints : public ::testing::Test {
 protected:
  fs::path folder() const { return temporary_.path() / "run"; }
  fs::path file(int64_t step, const char* name) const {
    return folder() / fmt::format("step-{:08}", step) / name;
  }
  void write(CheckpointFolder& to, int64_t step) const {
    to.write(full_manifest(step), kStates,
             [&](const std::string& name) { return value_of(name, step); });
  }
  void write(std::initializer_list<int64_t> steps) const {
    CheckpointFolder to(folder());
    for (const int64_t step : steps) write(to, step);
  }
  // The step that a resume would take, -1 for none; warnings go to warnings_.
  int64_t newest() {
    const support::ScopedLogSink sink(
        [&](support::LogLevel, std::string_view line) { warnings_.emplace_back(line); });
    CheckpointFolder from(folder());
    const auto checkpoint = from.newest();
    return checkpoint ? checkpoint->manifest.run.step : -1;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  TemporaryFolder temporary_;
  std::vector<std::string> warnings_;
};

TEST(CheckpointManifest, reads_back_to_the_same_bits) {
  const Manifest manifest = full_manifest(123);
  const Manifest read = parse_manifest(to_text(manifest));
  EXPECT_EQ(read.run, manifest.run);
  EXPECT_EQ(read.seed, manifest.seed);
  EXPECT_EQ(read.samples, manifest.samples);
  EXPECT_EQ(read.model, manifest.model);
  EXPECT_EQ(read.model_sum, manifest.model_sum);
  EXPECT_EQ(read.config, manifest.config);
  EXPECT_EQ(read.schedule, manifest.schedule);
  EXPECT_EQ(read.devices, manifest.devices);
  EXPECT_EQ(read.threads, manifest.threads);
  EXPECT_EQ(read.cut, manifest.cut);
  EXPECT_EQ(read.kernels, manifest.kernels);
  EXPECT_EQ(read.files, manifest.files);
  EXPECT_EQ(to_text(read), to_text(manifest));
}

TEST(CheckpointManifest, every_flipped_bit_and_every_cut_is_found) {
  const std::string text = to_text(full_manifest(123));
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      ASSERT_THROW(parse_manifest(changed), Error) << i << " " << bit;
    }
    ASSERT_THROW(parse_manifest(text.substr(0, i)), Error) << i;
  }
  EXPECT_EQ(error_of([&] { parse_manifest(text.substr(0, 100)); }), "it is cut short");
  std::string changed = text;
  changed[text.find("60000")] = '7';
  EXPECT_EQ(error_of([&] { parse_manifest(changed); }),
            "its bytes were changed: the checksum at its end is another");
  EXPECT_THROW(parse_manifest(""), Error);
}

TEST_F(Checkpoints, states_and_manifest_come_back) {
  write({5});
  CheckpointFolder from(folder());
  const Checkpoint read = from.newest().value();
  EXPECT_EQ(read.path, folder() / "step-00000005");
  EXPECT_EQ(read.manifest.run, full_manifest(5).run);
  ASSERT_EQ(read.states.size(), 2u);
  for (const auto& [name, value] : read.states) {
    EXPECT_TRUE(value.identical(value_of(name, 5))) << name;
  }
  EXPECT_EQ(names(), std::vector<std::string>{"step-00000005"});
}

// Sanitizers look at memory through pipes, so they can't be left without descriptors.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kNeedsDescriptors = true;
#else
constexpr bool kNeedsDescriptors = false;
#endif

TEST_F(Checkpoints, a_folder_that_can_not_be_listed_is_an_error_that_names_it) {
  if (kNeedsDescriptors) GTEST_SKIP() << "a sanitizer is at work";
  write({5});
  CheckpointFolder from(folder());
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string error = error_of([&] { from.steps(); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, folder().string() + ": cannot be read: Too many open files");
}

TEST_F(Checkpoints, the_newest_is_taken_by_number_not_by_name) {
  write({99999999, 100000000, 7});
  EXPECT_EQ(newest(), 100000000);
}

TEST_F(Checkpoints, an_empty_folder_has_none_and_goes_again) {
  EXPECT_EQ(newest(), -1);
  EXPECT_FALSE(fs::exists(folder()));
  fs::create_directory(folder());
  EXPECT_EQ(newest(), -1);
  EXPECT_TRUE(fs::exists(folder()));  // somebody else's
}

TEST_F(Checkpoints, keeps_the_newest_so_many) {
  CheckpointFolder to(folder());
  for (const int64_t step : {10, 20, 30, 40}) write(to, step);
  to.keep_newest(2);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000030", "step-00000040"}));
  to.keep_newest(5);
  EXPECT_EQ(to.steps(), (std::vector<int64_t>{40, 30}));
}

TEST_F(Checkpoints, what_dead_processes_left_behind_goes) {
  write({3});
  fs::create_directory(folder() / ".saving-00000004");
  std::ofstream(folder() / ".saving-00000004/state.safetensors") << "half";
  fs::rename(folder() / "step-00000003", folder() / ".removing-00000003");
  std::ofstream(folder() / "notes.txt") << "mine";
  EXPECT_EQ(newest(), -1);
  EXPECT_EQ(names(), std::vector<std::string>{"notes.txt"});
}

struct Harm {
  const char* name;
  std::function<void(const fs::path&)> harm;  // of the checkpoint's folder
  const char* reason;
};

void change(const fs::path& path, size_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

TEST_F(Checkpoints, a_damaged_one_is_put_aside_and_the_one_before_is_taken) {
  const std::vector<Harm> harms = {
      {"missing manifest", [](const fs::path& at) { fs::remove(at / "manifest.json"); },
       "manifest.json is missing"},
      {"missing states", [](const fs::path& at) { fs::remove(at / "state.safetensors"); },
       "state.safetensors is missing"},
      {"torn manifest", [](const fs::path& at) { fs::resize_file(at / "manifest.json", 200); },
       "manifest.json: it is cut short"},
      {"empty manifest", [](const fs::path& at) { fs::resize_file(at / "manifest.json", 0); },
       "manifest.json: it is cut short"},
      {"changed manifest", [](const fs::path& at) { change(at / "manifest.json", 50); },
       "manifest.json: its bytes were changed"},
      {"torn states", [](const fs::path& at) { fs::resize_file(at / "state.safetensors", 100); },
       "state.safetensors has crc32 "},
      {"flipped bit", [](const fs::path& at) { change(at / "state.safetensors", 180); },
       "state.safetensors has crc32 "},
      {"another step's",
       [](const fs::path& at) {
         fs::copy(at.parent_path() / "step-00000001", at,
                  fs::copy_options::overwrite_existing | fs::copy_options::recursive);
       },
       "manifest.json is that of step 1"},
  };
  for (const Harm& harm : harms) {
    fs::remove_all(folder());
    write({1, 2});
    harm.harm(folder() / "step-00000002");
    warnings_.clear();
    EXPECT_EQ(newest(), 1) << harm.name;
    ASSERT_EQ(warnings_.size(), 1u) << harm.name;
    const std::string begin = (folder() / "step-00000002").string() +
                              " is damaged and left out, now as damaged-step-00000002: ";
    EXPECT_TRUE(warnings_[0].starts_with(begin + harm.reason)) << warnings_[0];
    EXPECT_EQ(names(), (std::vector<std::string>{"damaged-step-00000002", "step-00000001"}));
    write({2});  // its place is free again
    EXPECT_EQ(newest(), 2);
  }
}

TEST_F(Checkpoints, when_all_are_damaged_nothing_begins_anew) {
  write({1, 2});
  fs::remove(file(1, "manifest.json"));
  fs::remove(file(2, "state.safetensors"));
  EXPECT_EQ(error_of([&] { newest(); }),
            "--checkpoint " + folder().string() +
                ": every checkpoint there is damaged:\n  step-00000002: state.safetensors is "
                "missing\n  step-00000001: manifest.json is missing");
}

TEST_F(Checkpoints, a_later_format_is_no_damage) {
  write({1});
  CheckpointFolder to(folder());
  Manifest later = full_manifest(2);
  later.format = 9;
  to.write(later, kStates, [&](const std::string& name) { return value_of(name, 2); });
  EXPECT_EQ(error_of([&] { to.newest(); }), (folder() / "step-00000002").string() +
                                                " has format 9, this version of Sardonyx reads 1");
  EXPECT_EQ(to.steps(), (std::vector<int64_t>{2, 1}));
}

TEST_F(Checkpoints, one_process_at_a_time) {
  const CheckpointFolder first(folder());
  EXPECT_EQ(error_of([&] { CheckpointFolder second(folder()); }),
            "--checkpoint " + folder().string() +
                ": another process keeps its checkpoints there; stop it, wait for it, or choose "
                "another folder");
}

TEST_F(Checkpoints, a_place_that_is_no_folder_is_refused) {
  std::ofstream(folder()) << "a file";
  EXPECT_EQ(error_of([&] { CheckpointFolder at(folder()); }),
            "--checkpoint " + folder().string() + ": expected a folder, or a name for a new one");
  EXPECT_EQ(error_of([&] { CheckpointFolder at(temporary_.path() / "a/b"); }),
            (temporary_.path() / "a/b").string() +
                ": cannot be written: No such file or directory; its folder does not exist, "
                "create it first");
}

TEST_F(Checkpoints, a_read_only_folder_is_refused_before_training) {
  write({1});
  ::chmod(temporary_.path().c_str(), 0755);
  ::chmod(folder().c_str(), 0555);
  const uid_t me = ::geteuid();
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(me == 0 ? ::seteuid(kNobody) : 0, 0);  // root may write anywhere
  const std::string message = error_of([&] { CheckpointFolder at(folder()); });
  ASSERT_EQ(me == 0 ? ::seteuid(me) : 0, 0);
  EXPECT_EQ(message,
            folder().string() +
                ": cannot be written: Permission denied; choose a folder that you may write to");
  ::chmod(folder().c_str(), 0755);
  EXPECT_EQ(newest(), 1);
}

TEST_F(Checkpoints, a_write_that_fails_leaves_what_was_there) {
  CheckpointFolder to(folder());
  write(to, 1);
  const auto fails = [&](const std::string&) -> Tensor { throw Error("the device is gone"); };
  EXPECT_EQ(error_of([&] { to.write(full_manifest(2), kStates, fails); }), "the device is gone");
  EXPECT_EQ(names(), std::vector<std::string>{"step-00000001"});
  EXPECT_EQ(to.newest()->manifest.run.step, 1);
}

TEST_F(Checkpoints, the_sum_of_a_model_follows_its_bytes) {
  models::ImageModel options;
  options.height = options.width = 16;
  options.init = graph::parse_init("kaiming", 1);
  const std::string bytes = graph::to_onnx_bytes(*models::lenet(options));
  const auto sum = [](std::string of) {
    return sum_of(Session(graph::Model::from_bytes(std::move(of)), {}));
  };
  EXPECT_EQ(sum(bytes), sum(bytes));
  EXPECT_EQ(sum(bytes).bytes, bytes.size());
  std::string other = bytes;
  other[other.size() / 2] = static_cast<char>(other[other.size() / 2] ^ 1);
  EXPECT_NE(sum(bytes), sum(other));
}

}  // namespace
}  // namespace sardonyx::runtime
