// sardonyx model: writes a built-in model as an ONNX file.
#include <fmt/core.h>

#include <memory>
#include <optional>

#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "graph/support/text.h"
#include "models/lenet.h"
#include "models/mobilenet.h"
#include "models/resnet.h"
#include "models/vgg.h"
#include "runtime/text.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/output_files.h"

namespace sardonyx::tools {

namespace {

constexpr int64_t kMostPixels = 4096;

struct ModelFlags {
  std::string name, file, input = "1x28x28", init = "pytorch";
  std::optional<std::string> stem;
  std::optional<int64_t> width;
  int64_t classes = 10;
  uint64_t seed = 0;
};

// "CxHxW", each a positive number.
void parse_input(const std::string& text, models::ImageModel& options) {
  int64_t* const sizes[] = {&options.channels, &options.height, &options.width};
  const std::vector<std::string> parts = runtime::split(text, 'x');
  bool good = parts.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) {
    const auto value = runtime::parse_whole(parts[i]);
    good = value && *value >= 1 && *value <= kMostPixels;
    if (good) *sizes[i] = *value;
  }
  if (!good) {
    throw runtime::UsageError("--input '{}': expected CHANNELSxHEIGHTxWIDTH, such as 1x28x28",
                              text);
  }
}

void refuse(const char* flag, bool given, const std::string& network) {
  if (given) throw runtime::UsageError("{} doesn't go with {}", flag, network);
}

std::unique_ptr<graph::Graph> network(const ModelFlags& flags, const models::ImageModel& image) {
  const bool residual = flags.name.starts_with("resnet");
  refuse("--stem", flags.stem && !residual, flags.name);
  refuse("--width", flags.width && flags.name == "lenet", flags.name);
  if (flags.name == "lenet") return models::lenet(image);
  if (flags.name == "vgg11-bn") return models::vgg11_bn(image, flags.width.value_or(64));
  if (flags.name == "mobilenetv2-small") {
    return models::mobilenet_v2_small(image, flags.width.value_or(32));
  }
  CHECK(residual);
  models::ResNet options;
  options.image = image;
  options.depth = flags.name == "resnet18" ? 18 : 34;
  options.width = flags.width.value_or(options.width);
  if (flags.stem) {
    options.stem = runtime::as_usage("--stem", [&] { return models::parse_stem(*flags.stem); });
  }
  return models::resnet(options);
}

int write_model(const ModelFlags& flags) {
  runtime::check_choice("model", flags.name,
                        {"lenet", "resnet18", "resnet34", "vgg11-bn", "mobilenetv2-small"});
  models::ImageModel options;
  parse_input(flags.input, options);
  options.classes = flags.classes;
  options.init =
      runtime::as_usage("--init", [&] { return graph::parse_init(flags.init, flags.seed); });
  check_outputs({{"-o", flags.file}}, {});
  const std::unique_ptr<graph::Graph> graph = network(flags, options);
  graph::write_onnx(*graph, flags.file);
  int64_t parameters = 0;
  for (const graph::Value* constant : graph->constants()) {
    const bool trained = constant->name.ends_with(".weight") || constant->name.ends_with(".bias");
    if (trained) parameters += constant->type.numel();
  }
  fmt::print("{}: {} for {} images, {} classes, {} parameters\n", support::escaped(flags.file),
             flags.name, flags.input, flags.classes, runtime::count_str(parameters));
  return 0;
}

}  // namespace

Action setup_model(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  app.add_option("NAME", flags->name, "lenet, resnet18, resnet34, vgg11-bn, mobilenetv2-small")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", flags->file, "the file to write")->required();
  app.add_option("--input", flags->input, "CHANNELSxHEIGHTxWIDTH (default 1x28x28)");
  add_whole(app, "--classes", flags->classes, 2, 1'000'000, "number of outputs (default 10)");
  app.add_option("--init", flags->init, "normal:STD, kaiming, xavier or pytorch (default)");
  add_seed(app, flags->seed, "of the initial values (default 0)");
  app.add_option("--stem", flags->stem,
                 "of a ResNet: small (3x3, default) or imagenet (7x7, max-pool)");
  add_whole(app, "--width", flags->width, 1, 4096,
            "channels of the first stage (default 64; mobilenetv2-small 32)");
  add_example(app,
              "sardonyx model lenet -o lenet.onnx --input 1x28x28 --classes 10 --init kaiming");
  return [flags] { return write_model(*flags); };
}

}  // namespace sardonyx::tools
