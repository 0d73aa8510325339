#include "graph/onnx_export.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "graph/onnx_import.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using testing::add_node;
using testing::add_weight;
using testing::base_model;
using testing::count_files;
using testing::doubles;
using testing::error_of;
using testing::floats;
using testing::initializer_origin;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

// w [2] at offset 4 and v [1] at `v_offset` of w.bin, which holds 1, 2, 3, 4.
class ExternalModel {
 public:
  explicit ExternalModel(const std::string& v_offset = "12", const char* location = "w.bin")
      : location_(location) {
    fs::create_directories(folder());
    if (location_.starts_with("inside")) fs::create_directories(folder() / "inside" / "deeper");
    onnx::ModelProto model = base_model();
    fill(add_weight(model, "w", onnx::TensorProto::FLOAT, 2), "4");
    fill(add_weight(model, "v", onnx::TensorProto::FLOAT, 1), v_offset);
    add_node(model, "Sum", {"x", "w", "v"}, "y");
    bytes_ = model.SerializeAsString();
    write_file(path(), bytes_);
    write_file(folder() / "w.bin", floats({1, 2, 3, 4}));
  }
  fs::path folder() const { return root_.path() / "model"; }
  fs::path path() const { return folder() / "m.onnx"; }
  fs::path other() const { return root_.path() / "other"; }
  const std::string& bytes() const { return bytes_; }
  void expect_untouched() const {
    EXPECT_EQ(read_file(path()), bytes_);
    EXPECT_EQ(read_file(folder() / "w.bin"), floats({1, 2, 3, 4}));
  }

 private:
  void fill(onnx::TensorProto* tensor, const std::string& offset) const {
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    const auto add = [&](const std::string& key, const std::string& value) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", location_);
    add("offset", offset);
    add("checksum", "00");
  }

  TemporaryFolder root_;
  const std::string location_;
  std::string bytes_;
};

std::vector<double> value_in(const fs::path& model, const std::string& name) {
  return import_model(Model::open(model)).graph->find(name)->data.to_doubles();
}

TEST(SaveExternal, untrained_copy_is_complete_and_identical) {
  const ExternalModel m;
  fs::create_directories(m.other());
  save_model(*Model::open(m.path()), {}, m.other() / "copy.onnx");
  EXPECT_EQ(read_file(m.other() / "copy.onnx"), m.bytes());
  EXPECT_EQ(read_file(m.other() / "w.bin"), floats({1, 2, 3, 4}));
  save_model(*Model::open(m.path()), {}, m.folder() / "copy.onnx");
  EXPECT_EQ(read_file(m.folder() / "copy.onnx"), m.bytes());
  EXPECT_EQ(count_files(m.folder()), 3u);
  m.expect_untouched();
}

TEST(SaveExternal, folders_that_a_location_only_passes_through_are_made) {
  const ExternalModel m("12", "inside/./deeper/../../w.bin");
  fs::create_directories(m.other());
  save_model(*Model::open(m.path()), {}, m.other() / "copy.onnx");
  EXPECT_EQ(read_file(m.other() / "copy.onnx"), m.bytes());
  EXPECT_EQ(value_in(m.other() / "copy.onnx", "w"), (std::vector<double>{2, 3}));
  save_model(*Model::open(m.path()), {{initializer_origin("w"), doubles({7, 8})}},
             m.other() / "copy.onnx");
  EXPECT_EQ(value_in(m.other() / "copy.onnx", "w"), (std::vector<double>{7, 8}));
}

TEST(SaveExternal, trained_values_go_into_a_copy_of_the_data_file) {
  const ExternalModel m;
  fs::create_directories(m.other());
  for (int round = 0; round < 2; ++round) {  // the second save replaces the first
    save_model(*Model::open(m.path()), {{initializer_origin("w"), doubles({7.0 + round, 8})}},
               m.other() / "t.onnx");
    EXPECT_EQ(read_file(m.other() / "w.bin"), floats({1, 7.0f + round, 8, 4}));
    EXPECT_EQ(value_in(m.other() / "t.onnx", "w"), (std::vector<double>{7.0 + round, 8}));
    EXPECT_EQ(value_in(m.other() / "t.onnx", "v"), (std::vector<double>{4}));
    EXPECT_EQ(count_files(m.other()), 2u);
  }
  EXPECT_EQ(read_file(m.other() / "t.onnx").find("checksum"), std::string::npos);
  m.expect_untouched();
}

TEST(SaveExternal, beside_the_original_the_data_file_gets_a_new_name) {
  const ExternalModel m;
  for (int round = 0; round < 2; ++round) {
    save_model(*Model::open(m.path()), {{initializer_origin("w"), doubles({7, 8})}},
               m.folder() / "t.onnx");
    EXPECT_EQ(value_in(m.folder() / "t.onnx", "w"), (std::vector<double>{7, 8}));
    EXPECT_EQ(read_file(m.folder() / "t.onnx.w.bin"), floats({1, 7, 8, 4}));
    EXPECT_EQ(count_files(m.folder()), 4u);
  }
  m.expect_untouched();
}

TEST(SaveExternal, the_data_file_of_another_model_is_not_overwritten) {
  const ExternalModel m;
  fs::create_directories(m.other());
  write_file(m.other() / "w.bin", "somebody else's");
  save_model(*Model::open(m.path()), {{initializer_origin("w"), doubles({7, 8})}},
             m.other() / "t.onnx");
  EXPECT_EQ(read_file(m.other() / "w.bin"), "somebody else's");
  EXPECT_EQ(value_in(m.other() / "t.onnx", "w"), (std::vector<double>{7, 8}));
  const std::string error =
      error_of([&] { save_model(*Model::open(m.path()), {}, m.other() / "u.onnx"); });
  EXPECT_NE(error.find("a different file of this name is already there"), std::string::npos)
      << error;
  EXPECT_FALSE(fs::exists(m.other() / "u.onnx"));
  EXPECT_EQ(count_files(m.other()), 3u);
}

TEST(SaveExternal, overwriting_the_model_replaces_its_data_file) {
  const ExternalModel m;
  const auto model = Model::open(m.path());
  const std::vector<NewValue> values{{initializer_origin("w"), doubles({7, 8})}};
  const std::string error = error_of([&] { save_model(*model, values, m.path()); });
  EXPECT_NE(error.find("is the model that was read"), std::string::npos) << error;
  m.expect_untouched();
  SaveOptions options;
  options.overwrite_input = true;
  save_model(*model, values, m.path(), options);
  EXPECT_EQ(read_file(m.folder() / "w.bin"), floats({1, 7, 8, 4}));
  EXPECT_EQ(value_in(m.path(), "w"), (std::vector<double>{7, 8}));
  EXPECT_EQ(count_files(m.folder()), 2u);
}

TEST(SaveExternal, data_behind_a_link_become_a_file_in_a_copy_and_stay_behind_it_when_replaced) {
  const ExternalModel m;
  fs::rename(m.folder() / "w.bin", m.folder() / "real.bin");
  fs::create_symlink("real.bin", m.folder() / "w.bin");
  fs::create_directories(m.other());
  const auto model = Model::open(m.path());
  const std::vector<NewValue> values{{initializer_origin("w"), doubles({7, 8})}};
  save_model(*model, values, m.other() / "t.onnx");
  EXPECT_FALSE(fs::is_symlink(m.other() / "w.bin"));
  EXPECT_EQ(read_file(m.other() / "w.bin"), floats({1, 7, 8, 4}));
  m.expect_untouched();
  SaveOptions options;
  options.overwrite_input = true;
  save_model(*model, values, m.path(), options);
  EXPECT_TRUE(fs::is_symlink(m.folder() / "w.bin"));
  EXPECT_EQ(read_file(m.folder() / "real.bin"), floats({1, 7, 8, 4}));
}

TEST(SaveExternal, bytes_shared_with_another_tensor_are_left_to_it) {
  const ExternalModel m("8");  // v is the second element of w
  fs::create_directories(m.other());
  save_model(*Model::open(m.path()), {{initializer_origin("w"), doubles({7, 8})}},
             m.other() / "t.onnx");
  EXPECT_EQ(value_in(m.other() / "t.onnx", "w"), (std::vector<double>{7, 8}));
  EXPECT_EQ(value_in(m.other() / "t.onnx", "v"), (std::vector<double>{3}));
}

TEST(AtomicWrite, failures_name_the_file_and_leave_nothing) {
  const TemporaryFolder folder;
  const auto error = [&](const fs::path& path) {
    return error_of([&] { write_file_atomically(path, "new"); });
  };
  const std::string missing = error(folder.path() / "no" / "file");
  EXPECT_NE(missing.find("No such file or directory; its folder does not exist, create it first"),
            std::string::npos)
      << missing;
  EXPECT_NE(error(folder.path()).find("is a directory"), std::string::npos);
  EXPECT_NE(error("/dev/null").find("is not a regular file"), std::string::npos);
  const fs::path file = folder.path() / "file";
  write_file_atomically(file, "old");
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  write_file_atomically(file, "new");
  EXPECT_EQ(read_file(file), "new");
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  EXPECT_EQ(count_files(folder.path()), 1u);
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
    EXPECT_NE(error(file).find("choose a folder that you may write to"), std::string::npos);
    ASSERT_EQ(::chmod(folder.path().c_str(), 0700), 0);
    EXPECT_EQ(read_file(file), "new");
  }
}

TEST(AtomicWrite, a_new_file_has_the_mode_that_the_umask_leaves) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  const mode_t before = ::umask(027);
  write_file_atomically(file, "new");
  ::umask(before);
  struct stat status = {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

// For a process of its own: all of w is 1, then 2, and so on.
[[noreturn]] void save_without_end(const fs::path& from, const fs::path& to, int64_t size) {
  const auto model = Model::open(from);
  const Tensor ones = Tensor::of<double>({size}, std::vector<double>(size, 1));
  const Tensor twos = Tensor::of<double>({size}, std::vector<double>(size, 2));
  for (;;) {
    save_model(*model, {{initializer_origin("w"), ones}}, to);
    save_model(*model, {{initializer_origin("w"), twos}}, to);
  }
}

TEST(AtomicWrite, killed_at_any_moment_a_save_leaves_a_whole_model) {
  constexpr int64_t kSize = 500'000;
  const TemporaryFolder folder;
  onnx::ModelProto model = base_model();
  add_weight(model, "w", onnx::TensorProto::FLOAT, kSize)->set_raw_data(std::string(4 * kSize, 0));
  add_node(model, "Relu", {"x"}, "y");
  const fs::path from = folder.path() / "m.onnx", to = folder.path() / "t.onnx";
  write_file(from, model.SerializeAsString());
  save_model(*Model::open(from), {}, to);
  bool half_written = false;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) save_without_end(from, to, kSize);
    // The moments are counted from when a new file stands, however slow the build.
    const size_t files = count_files(folder.path());
    for (int wait = 0; wait < 100'000 && count_files(folder.path()) <= files; ++wait) ::usleep(100);
    ::usleep(131 * round * round);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const std::vector<double> w = value_in(to, "w");
    ASSERT_EQ(w, std::vector<double>(kSize, w[0]));
    half_written |= count_files(folder.path()) > 2;
  }
  EXPECT_TRUE(half_written) << "no save was cut off";
}

TEST(AtomicWrite, a_full_disk_leaves_the_old_file) {
  // A limit on the size of files fails a write half-way, like a full disk.
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  write_file(file, "old");
  const std::string big(1 << 20, 'x');
  struct rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4096, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { write_file_atomically(file, big); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_NE(error.find("cannot be written: File too large"), std::string::npos) << error;
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(count_files(folder.path()), 1u);
}

}  // namespace
}  // namespace sardonyx::graph
