// *** Read this first ***
#include "passes/pipelines.h"

#include <iterator>

namespace sardonyx::passes {

namespace {

constexpr PipelineEntry kPreparation[] = {
    {"inline_functions", "so that every later pass sees ordinary nodes"},
    {"lift_constants", "weights in Constant nodes become constants like any initializer"},
    {"canonicalize", "nothing after this asks for an opset"},
    {"convert_dtype", "before any type is inferred from the old one"},
    {"set_batch", "while inputs still have the file's own number of rows"},
    {"bind_batch", "shapes become numbers; the batch axis keeps its name"},
    {"infer_shapes", "needs the batch; folds Shape arithmetic, which Reshape needs"},
    {"split_merged", "needs types, to see through aliases; before anything is a parameter"},
};

Pipeline with_preparation(std::initializer_list<PipelineEntry> rest) {
  Pipeline pipeline(std::begin(kPreparation), std::end(kPreparation));
  pipeline.insert(pipeline.end(), rest.begin(), rest.end());
  return pipeline;
}

}  // namespace

const Pipeline& preparation_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"append_loss", "trainable is what reaches the loss"},
      {"mark_trainable", "fills the table of parameters"},
      {"init_parameters", "what a value begins as depends on what it is"},
      {"apply_mode", "finds what can't be trained with so few rows"},
  });
  return pipeline;
}

const Pipeline& training_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"append_loss", "gives the backward pass its seed and the update its divisor"},
      {"mark_trainable", "a parameter is what reaches the loss"},
      {"init_parameters", "what a value begins as depends on what it is"},
      {"apply_mode", "decides what Dropout and BatchNormalization compute, by what is frozen"},
      {"fold_constants", "only now is it known which constants are parameters"},
      {"eliminate_dead", "side outputs, which the loss doesn't need, may hold anything"},
      {"check_supported", "all that is missing is listed at once, before anything is built"},
      {"cancel_transposes", "before the gradients exist, which would have them, too"},
      {"narrow_products", "before the gradients exist, which inherit the types"},
      {"prune_outputs", "before the gradients exist, which inherit what is skipped"},
      {"fuse_activations", "before the gradients exist: one rule then masks what it reads anyway"},
      {"build_backward", "gradients graph to graph, only on paths that need one"},
      {"fuse_gradients", "where two gradients meet is known only now; may repeat a term"},
      {"eliminate_common", "gradient rules recompute shared terms; merge them before accumulation"},
      {"sync_statistics", "before accumulation, while every plan still has the same nodes"},
      {"accumulate_gradients", "after the gradients exist, before anything consumes them"},
      {"insert_all_reduce", "sums what the micro-batches added up, once per step"},
      {"append_optimizer", "consumes the accumulated gradients"},
      {"eliminate_dead", "forward values that only a side output used"},
      {"recompute", "last: looks at who is alive when, and makes equal nodes"},
  });
  return pipeline;
}

const Pipeline& evaluation_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"append_loss", "the loss and the count of correct rows, when labels are given"},
      {"mark_trainable", "the same states as in training, shared with it"},
      {"init_parameters", "likewise"},
      {"apply_mode", "what Dropout and BatchNormalization compute in evaluation"},
      {"read_averages", "the parameters are known, nothing was computed from them yet"},
      {"fold_constants", "exporters repeat shape and scale arithmetic"},
      {"eliminate_common", "likewise"},
      {"eliminate_dead", "branches that feed nothing asked for"},
      {"prune_outputs", "once the readers are known"},
      {"check_supported", "all that is missing is listed at once"},
      {"cancel_transposes", "so that evaluation computes what training does"},
      {"narrow_products", "with the types of training"},
  });
  return pipeline;
}

const Pipeline& gradient_pipeline() {
  static const Pipeline pipeline = with_preparation({
      {"mark_trainable", "what is differentiated must not be folded away"},
      {"apply_mode", "what Dropout and BatchNormalization compute in the mode asked for"},
      {"fold_constants", "a parameter-free branch needs no gradient"},
      {"eliminate_dead", "outputs that were not asked for"},
      {"check_supported", "all that is missing is listed at once"},
      {"build_backward", "from seed inputs instead of a loss"},
      {"eliminate_dead", "nothing but outputs and gradients is asked for"},
  });
  return pipeline;
}

}  // namespace sardonyx::passes
