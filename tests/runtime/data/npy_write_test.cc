#include <gtest/gtest.h>

#include <filesystem>

#include "graph/support/error.h"
#include "runtime/data/npy.h"

namespace sardonyx::runtime {
namespace {

TEST(NpyWrite, what_is_written_reads_back) {
  const auto path = std::filesystem::temp_directory_path() / "sardonyx_npy_write_test.npy";
  for (const graph::Tensor& tensor : {graph::Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6.5f}),
                                      graph::Tensor::of<double>({}, {2.25}),
                                      graph::Tensor::of<int64_t>({4}, {-1, 0, 1, 1LL << 40}),
                                      graph::Tensor::of<float>({0, 5}, {})}) {
    write_npy(path.string(), tensor);
    EXPECT_EQ((std::filesystem::file_size(path) - tensor.bytes().size()) % 64, 0u);
    EXPECT_TRUE(read_npy(path.string()).identical(tensor));
  }
  std::filesystem::remove(path);
}

TEST(NpyWrite, an_unwritable_place_is_an_error) {
  EXPECT_THROW(write_npy("/nonexistent/folder/x.npy", graph::Tensor::of<float>({1}, {1})), Error);
}

}  // namespace
}  // namespace sardonyx::runtime
