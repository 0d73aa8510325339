// train --save: what the file becomes, and which file may be replaced.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

using Json = nlohmann::json;

class SaveCli : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  std::string content(const std::string& name) const { return read_file(program_.file(name)); }

  Program program_;
};

TEST_F(SaveCli, no_step_saves_a_copy) {
  ASSERT_EQ(run("model lenet -o lenet.onnx").code, 0);
  const Outcome done =
      run("train lenet.onnx --data synthetic:64 --steps 0 --schedule cosine --save out.onnx "
          "--checkpoint run --json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(content("out.onnx"), content("lenet.onnx"));
  const Json line = Json::parse(done.out);  // no epoch has one
  EXPECT_EQ(line["done"], true);
  EXPECT_EQ(line["step"], 0);
  EXPECT_EQ(line["checkpoint"], "run/step-00000000");
  EXPECT_TRUE(has(run("train lenet.onnx --data synthetic:64 --epochs 0").err,
                  "expected a whole number from 1"));
}

TEST_F(SaveCli, the_model_is_replaced_only_when_asked) {
  ASSERT_EQ(run("model lenet -o lenet.onnx").code, 0);
  std::filesystem::create_symlink("lenet.onnx", program_.file("link.onnx"));
  const std::string before = content("lenet.onnx");
  const std::string train = "train lenet.onnx --data synthetic:64 --steps 2 --save ";
  for (const char* name : {"lenet.onnx", "./lenet.onnx"}) {
    const Outcome refused = run(train + name);
    EXPECT_EQ(refused.code, 1);
    EXPECT_TRUE(has(refused.err, "or replace it with --overwrite")) << refused.err;
  }
  EXPECT_EQ(run("train link.onnx --data synthetic:64 --save lenet.onnx").code, 1);
  EXPECT_EQ(content("lenet.onnx"), before);
  ASSERT_EQ(run(train + "other.onnx").code, 0);
  const Outcome replaced = run(train + "lenet.onnx --overwrite");
  ASSERT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_NE(content("lenet.onnx"), before);
  EXPECT_EQ(content("lenet.onnx"), content("other.onnx"));
}

}  // namespace
}  // namespace sardonyx::testing
