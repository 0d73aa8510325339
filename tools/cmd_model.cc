// sardonyx model: writes a built-in model as an ONNX file.
#include <fmt/core.h>

#include <memory>

#include "graph/onnx_export.h"
#include "models/lenet.h"
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

int write_model(const ModelFlags& flags) {
  runtime::check_choice("model", flags.name, {"lenet"}, {"resnet18", "resnet34", "vgg11", "mlp"});
  models::ImageModel options;
  parse_input(flags.input, options);
  options.classes = flags.classes;
  options.init =
      runtime::as_usage("--init", [&] { return models::parse_init(flags.init, flags.seed); });
  check_outputs({{"-o", flags.file}}, {});
  const std::unique_ptr<graph::Graph> graph = models::lenet(options);
  graph::write_onnx(*graph, flags.file);
  int64_t parameters = 0;
  for (const graph::Value* constant : graph->constants()) parameters += constant->type.numel();
  fmt::print("{}: {} for {} images, {} classes, {} parameters\n", flags.file, flags.name,
             flags.input, flags.classes, runtime::count_str(parameters));
  return 0;
}

}  // namespace

Action setup_model(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  app.add_option("NAME", flags->name, "lenet")->required()->option_text(" ");
  app.add_option("-o,--output", flags->file, "the file to write")->required();
  app.add_option("--input", flags->input, "CHANNELSxHEIGHTxWIDTH (default 1x28x28)");
  add_whole(app, "--classes", flags->classes, 2, 1'000'000, "number of outputs (default 10)");
  app.add_option("--init", flags->init, "normal:STD, kaiming, xavier or pytorch (default)");
  add_seed(app, flags->seed, "of the initial values (default 0)");
  for (const char* name : {"--stem", "--width"}) {
    app.add_option_function<std::string>(
           name,
           [name](const std::string&) {
             throw runtime::UsageError("{}: residual networks are not built yet", name);
           },
           "residual networks are not built yet")
        ->group("Not built yet (refused)");
  }
  add_example(app,
              "sardonyx model lenet -o lenet.onnx --input 1x28x28 --classes 10 --init kaiming");
  return [flags] { return write_model(*flags); };
}

}  // namespace sardonyx::tools
