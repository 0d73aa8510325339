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

// Where there is a browser (Debian: chromium), which then can't reach anything.
class HtmlPageInBrowser : public HtmlPage {
 protected:
  void SetUp() override {
    if (std::system("command -v chromium > /dev/null") != 0) {
      GTEST_SKIP() << "there is no chromium on the PATH";
    }
  }
  // The document as it is after the scripts have run; nothing may have been said on the console.
  std::string dom(const std::string& page, const std::string& address) const {
    const std::string browser = fmt::format(
        "chromium --headless --no-sandbox --disable-gpu --host-resolver-rules='MAP * 127.0.0.1:9' "
        "--user-data-dir={0} --enable-logging=stderr --dump-dom 'file://{1}#{2}' > {3} 2> {4}",
        program_.file("profile").string(), program_.file(page).string(), address,
        program_.file("dom.html").string(), program_.file("console.txt").string());
    EXPECT_EQ(std::system(browser.c_str()), 0) << browser;
    const std::string console = read_file(program_.file("console.txt"));
    EXPECT_FALSE(has(console, "CONSOLE")) << console;
    return read_file(program_.file("dom.html"));
  }
  // What these expressions of the page's script are worth: `name` -> value as JSON.
  Json ask(const std::string& page, const std::string& script) const {
    const std::string text = read_file(program_.file(page));
    const size_t end = text.rfind("</body>");
    write_file(program_.file("asked.html"),
               text.substr(0, end) + "<script>\"use strict\";{const facts = {};" + script +
                   "const safe = JSON.stringify(facts).replace(/[<>&@]/g, c => '\\\\u00' + "
                   "c.charCodeAt(0).toString(16));"
                   "document.body.textContent = '@' + safe + '@';}</script>" +
                   text.substr(end));
    const std::string shown = dom("asked.html", "");
    const size_t begin = shown.find("<body") + 5, first = shown.find('@', begin) + 1;
    return Json::parse(shown.substr(first, shown.find('@', first) - first));
  }
};

TEST_F(HtmlPageInBrowser, comes_up_and_begins_where_the_address_says) {
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
      {training, "search=convgradfilter", ">2 found<"},
      {"inspect hostile.onnx", "node=0", "\\u202e"},
  };
  for (const auto& [command, address, shown] : pages) {
    output(command + " --format html -o page.html");
    const std::string dom = this->dom("page.html", address);
    const std::string body = dom.substr(0, dom.find("application/json"));  // without the scripts
    EXPECT_TRUE(has(body, "data-ready=")) << command;
    EXPECT_TRUE(has(body, shown)) << command << " " << address << "\n" << body;
    EXPECT_FALSE(has(dom, "<b id=")) << "a name has become an element";
  }
}

constexpr const char* kUse = R"(
  const click = id => byId(id).click(), items = () => graphView.view.items.length;
  facts.nodes = model.nodes.length;
  facts.gradients = model.nodes.filter(node => node.phase === 'backward').length;
  facts.flops = [0, 1].map(lane => sumOf(model.nodes.filter(n => laneOf(n) === lane), n => n.flops));
  facts.peak = aliveAt(model, model.peak);
  facts.buckets = model.doc.plan.buckets.length;
  click('unfold');
  facts.unfolded = items();
  click('fold');
  facts.folded = items();
  const scale = graphView.scale;
  click('zoom_in');
  facts.zoom = graphView.scale / scale;
  click('fit');
  facts.fits = graphView.view.h * graphView.scale <= byId('graph').clientHeight;
  byId('search').value = 'ConvGradFilter';
  byId('search').dispatchEvent(new Event('input'));
  facts.found = hits.length;
  byId('search').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
  facts.selected = selected.node.op;
  facts.keeps = keptBy(selected.node).length;
  facts.panel = byId('panel').textContent;
  show('memory');
  facts.memory = byId('panel').textContent.startsWith('Peak, at ');
)";

TEST_F(HtmlPageInBrowser, zoom_search_and_folding_work_and_the_numbers_are_those_of_the_plan) {
  make_lenet();
  output("model resnet18 -o resnet.onnx --input 3x32x32 --width 8 --init kaiming");
  struct Case {
    std::string model;
    size_t filters;
  };
  for (const auto& [model, filters] : {Case{"lenet.onnx", 2}, Case{"resnet.onnx", 20}}) {
    const std::string training =
        "inspect " + model + " --training --batch 32 --threads 2 --replicas 2 --format ";
    output(training + "html -o page.html");
    const Json document = Json::parse(output(training + "json"));
    const Json& plan = document["plan"];
    const Json facts = ask("page.html", kUse);
    EXPECT_EQ(facts["nodes"], document["graph"]["nodes"].size());
    EXPECT_EQ(facts["gradients"],
              std::ranges::count(document["graph"]["nodes"], "backward",
                                 [](const Json& node) { return node["phase"]; }));
    double flops = 0;
    for (const Json& region : plan["regions"]) {
      const bool blocked = region["blocks"] > 1 || region["local_bytes_per_thread"] > 0;
      const double runs =
          blocked ? plan["batch"].get<double>() / region["block_rows"].get<double>() : 1;
      for (const Json& step : region["steps"]) flops += runs * step["flops"].get<double>();
    }
    EXPECT_GT(flops, 1e6);
    EXPECT_NEAR(facts["flops"][0].get<double>() + facts["flops"][1].get<double>(), flops,
                1e-6 * flops);
    EXPECT_EQ(facts["peak"], plan["memory"]["liveness_bound_bytes"]);
    EXPECT_EQ(facts["buckets"], plan["buckets"].size());
    EXPECT_LE(facts["folded"], facts["unfolded"]);
    if (model == "resnet.onnx") {
      EXPECT_LT(facts["folded"], facts["unfolded"]);
    }
    EXPECT_DOUBLE_EQ(facts["zoom"], 1.25);
    EXPECT_EQ(facts["fits"], true);
    EXPECT_EQ(facts["found"], filters);
    EXPECT_EQ(facts["selected"], "ConvGradFilter");
    if (model == "lenet.onnx") {
      EXPECT_EQ(facts["keeps"], 1) << "what the convolution reads";
      EXPECT_TRUE(has(facts["panel"], "Keeps alive")) << facts["panel"];
    }
    for (const char* part : {"FLOP forward", "FLOP backward", "kernel"}) {
      EXPECT_TRUE(has(facts["panel"], part)) << part << ": " << facts["panel"];
    }
    EXPECT_EQ(facts["memory"], true);
  }
}

TEST_F(HtmlPageInBrowser, a_name_runs_no_script) {
  onnx::ModelProto model = base_model();
  add_node(model, "Relu", {"x"}, "y")
      ->set_name("</script><img src=x onerror=\"window.evil=1\"><svg onload=\"window.evil=1\">");
  write_file(program_.file("hostile.onnx"), model.SerializeAsString());
  output("inspect hostile.onnx --format html -o page.html");
  const Json facts = ask("page.html", R"(
    select({node: model.nodes[0]});
    facts.evil = window.evil === 1;
    facts.elements = document.querySelectorAll('img, svg').length;
    facts.title = byId('panel').querySelector('.quiet').textContent.slice(0, 14);
  )");
  EXPECT_EQ(facts["evil"], false);
  EXPECT_EQ(facts["elements"], 0);
  EXPECT_EQ(facts["title"], "</script><img ");
}

}  // namespace
}  // namespace sardonyx::testing
