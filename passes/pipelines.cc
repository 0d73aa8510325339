// *** Read this first ***
#include "passes/pipelines.h"

namespace sardonyx::passes {

namespace {

constexpr PipelineEntry kPreparation[] = {
    {"inline_functions", "so that every later pass sees ordinary nodes"},
    {"lift_constants", "weights in Constant nodes become constants like any initializer"},
    {"canonicalize", "nothing after this asks for an opset"},
    {"convert_dtype", "before any type is inferred from the old one"},
    {"bind_batch", "shapes become numbers; the batch axis keeps its name"},
    {"infer_shapes", "needs the batch; folds Shape arithmetic, which Reshape needs"},
    {"apply_mode", "needs types; decides what Dropout and BatchNormalization compute"},
    {"mark_trainable", "needs the final form of nodes to see which slots are parameters"},
    {"fold_constants", "only now is it known which constants are parameters"},
};

Pipeline with_preparation(std::initializer_list<PipelineEntry> rest) {
  Pipeline pipeline(std::begin(kPreparation), std::end(kPreparation));
  pipeline.insert(pipeline.end(), rest.begin(), rest.end());
  return pipeline;
}

}  // namespace

const Pipeline& preparation_pipeline() {
  static const Pipeline pipeline = with_preparation({});
  return pipeline;
}

const Pipeline& training_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"append_loss", "gives the backward pass its seed and the update its divisor"},
      {"build_backward", "gradients graph to graph, only on paths that need one"},
      {"eliminate_common", "gradient rules recompute shared terms; merge them before accumulation"},
      {"accumulate_gradients",
       "after the backward nodes exist, before anything consumes gradients"},
      {"append_optimizer", "consumes the accumulated gradients"},
      {"eliminate_dead", "side outputs and unused forward values of the training step"},
  });
  return pipeline;
}

const Pipeline& evaluation_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"append_loss", "the loss and the count of correct rows, when labels are given"},
      {"eliminate_common", "exporters repeat shape and scale arithmetic"},
      {"eliminate_dead", "branches that feed nothing asked for"},
  });
  return pipeline;
}

const Pipeline& gradient_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"build_backward", "from seed inputs instead of a loss"},
      {"eliminate_dead", "nothing but outputs and gradients is asked for"},
  });
  return pipeline;
}

}  // namespace sardonyx::passes
