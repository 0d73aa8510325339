// The page of `inspect --format html`, and the facts of the plan that it draws.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <onnx/onnx_pb.h>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/onnx_sketch.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

using Json = nlohmann::json;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What stands in the page, between its tags.
std::string document_of(const std::string& page) {
  const std::string tag = "<script type=\"application/json\" id=\"document\">";
  const size_t begin = page.find(tag) + tag.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

class HtmlPage : public ::testing::Test {
 protected:
  std::string output(const std::string& arguments) const {
    const Outcome outcome = program_.run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
    return outcome.out;
  }
  void make_lenet() const { output("model lenet -o lenet.onnx --input 1x16x16 --init kaiming"); }
  const Program program_;
};

constexpr const char* kTraining = "inspect lenet.onnx --training --batch 32 --threads 1 --format ";

TEST_F(HtmlPage, holds_the_json_document_and_needs_nothing_else) {
  make_lenet();
  const std::string page = output(std::string(kTraining) + "html");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  for (const char* part : {"http:", "https:", "//cdn", " src=", "@import", "url(", "@DOCUMENT@",
                           "@STYLE@", "@SCRIPT@", "fetch(", "XMLHttpRequest"}) {
    EXPECT_FALSE(has(page, part)) << part;
  }
  EXPECT_TRUE(has(page, "default-src 'none'"));
  EXPECT_EQ(Json::parse(document_of(page)), Json::parse(output(std::string(kTraining) + "json")));
}

TEST_F(HtmlPage, is_the_same_to_the_byte_each_time_and_in_a_file) {
  make_lenet();
  const std::string page = output(std::string(kTraining) + "html");
  EXPECT_EQ(output(std::string(kTraining) + "html"), page);
  EXPECT_EQ(output(std::string(kTraining) + "html -o page.html"), "");
  EXPECT_EQ(read_file(program_.file("page.html")), page);
}

TEST_F(HtmlPage, shows_a_file_without_training) {
  make_lenet();
  const Json document = Json::parse(document_of(output("inspect lenet.onnx --format html")));
  EXPECT_EQ(document["graph"]["nodes"].size(), 10u);
  EXPECT_FALSE(document.contains("plan"));
}

TEST_F(HtmlPage, names_of_the_file_never_become_markup) {
  onnx::ModelProto model = base_model();
  const std::string hostile = "</script><script>alert(1)</script><!--\"'\x01\xE2\x80\xAE";
  add_node(model, "Relu", {"x"}, "y")->set_name(hostile);
  write_file(program_.file("hostile.onnx"), model.SerializeAsString());
  make_lenet();
  const std::string usual = output("inspect lenet.onnx --format html");
  const std::string page = output("inspect hostile.onnx --format html");
  for (const char* tag : {"<script", "</script", "<!--"}) {
    EXPECT_EQ(count(page, tag), count(usual, tag)) << tag;
  }
  EXPECT_FALSE(has(page, "\x01"));
  EXPECT_EQ(Json::parse(document_of(page))["graph"]["nodes"][0]["name"], hostile);
}

// Bytes taken at each node, from the places in the arena.
std::vector<int64_t> taken(const Json& document) {
  std::vector<int64_t> bytes(document["graph"]["nodes"].size());
  for (const Json& span : document["plan"]["arena"]) {
    for (size_t i = span["first"]; i <= span["last"] && i < bytes.size(); ++i) {
      bytes[i] += span["bytes"].get<int64_t>();
    }
  }
  return bytes;
}

TEST_F(HtmlPage, places_in_the_arena_add_up_to_what_the_plan_says) {
  make_lenet();
  for (const char* flags : {"", " --direct-only --batch 5", " --batch 64 --replicas 2"}) {
    const Json document = Json::parse(
        output("inspect lenet.onnx --training --threads 2 --format json" + std::string(flags)));
    const std::vector<int64_t> bytes = taken(document);
    const Json& plan = document["plan"];
    EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()),
              plan["memory"]["liveness_bound_bytes"]);
    for (const Json& region : plan["regions"]) {
      for (const Json& step : region["steps"]) {
        EXPECT_EQ(bytes[step["index"]], step["alive_bytes"]) << step["node"];
        EXPECT_EQ(document["graph"]["nodes"][step["index"].get<size_t>()]["outputs"],
                  step["outputs"]);
      }
    }
    for (const Json& span : plan["arena"]) {
      EXPECT_LE(span["offset"].get<int64_t>() + span["bytes"].get<int64_t>(),
                plan["memory"]["arena_bytes"]);
      EXPECT_EQ(span.contains("values") + span.contains("workspace_of") + span.contains("region"),
                1);
    }
  }
}

TEST_F(HtmlPage, says_when_buckets_are_ready_and_where_nodes_come_from) {
  make_lenet();
  const Json document = Json::parse(
      output("inspect lenet.onnx --training --batch 10 --threads 2 --replicas 2 --format json"));
  const Json& nodes = document["graph"]["nodes"];
  const Json& bucket = document["plan"]["buckets"][0];
  EXPECT_EQ(nodes[bucket["ready_index"].get<size_t>()]["op"], "ConvGradBias");
  EXPECT_EQ(bucket["ready_after"], "sardonyx.ConvGradBias -> dconv1.bias");
  std::map<std::string, int> phases;
  for (const Json& node : nodes) ++phases[node["phase"]];
  EXPECT_EQ(phases["sum"], 14);
  EXPECT_EQ(phases["update"], 10) << "8 updates, the norm and the scale of the gradients";
  EXPECT_EQ(nodes[0]["op"], "Conv");
  EXPECT_EQ(nodes[0]["origin"], Json::parse(R"({"node": 0})"));
  EXPECT_EQ(nodes[0]["types"][0]["bytes"], 5 * 20 * 14 * 14 * 4);
}

// Where there is a browser (Debian: chromium): the page comes up, without a word on its console.
TEST_F(HtmlPage, comes_up_in_a_browser) {
  if (std::system("command -v chromium > /dev/null") != 0) {
    GTEST_SKIP() << "there is no chromium on the PATH";
  }
  onnx::ModelProto model = base_model();
  add_node(model, "Relu", {"x"}, "y")->set_name("</script><b id=evil>\xE2\x80\xAE");
  write_file(program_.file("hostile.onnx"), model.SerializeAsString());
  make_lenet();
  const std::string training = "inspect lenet.onnx --training --batch 32 --threads 2 --replicas 2";
  const Json nodes = Json::parse(output(training + " --format json"))["graph"]["nodes"];
  const auto filter = std::ranges::find(
      nodes, "ConvGradFilter", [](const Json& node) { return node["op"].get<std::string>(); });
  ASSERT_NE(filter, nodes.end());
  struct Page {
    std::string command, address, shown;
  };
  const Page pages[] = {
      {"inspect lenet.onnx", "node=0", "data-nodes=\"10\""},
      {training, fmt::format("node={}", filter - nodes.begin()), "Keeps alive"},
      {training, "tab=memory&places", "Peak, at "},
      {training, "tab=buckets&open=all", "bucket0: 11 members"},
      {"inspect hostile.onnx", "node=0", "\\u202e"},
  };
  for (const auto& [command, address, shown] : pages) {
    output(command + " --format html -o page.html");
    const std::string browser = fmt::format(
        "chromium --headless --no-sandbox --disable-gpu --user-data-dir={0} --enable-logging=stderr"
        " --dump-dom 'file://{1}#{2}' > {3} 2> {4}",
        program_.file("profile").string(), program_.file("page.html").string(), address,
        program_.file("dom.html").string(), program_.file("console.txt").string());
    ASSERT_EQ(std::system(browser.c_str()), 0) << browser;
    const std::string dom = read_file(program_.file("dom.html"));
    const std::string body = dom.substr(0, dom.find("application/json"));  // without the scripts
    EXPECT_TRUE(has(body, "data-ready=")) << command;
    EXPECT_TRUE(has(body, shown)) << command << " " << address << "\n" << body;
    EXPECT_FALSE(has(dom, "<b id=")) << "a name has become an element";
    const std::string console = read_file(program_.file("console.txt"));
    EXPECT_FALSE(has(console, "CONSOLE")) << console;
  }
}

}  // namespace
}  // namespace sardonyx::testing
