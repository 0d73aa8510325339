// Loss and accuracy over a data set, in evaluation form.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/feed.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

// Sums over the data set in its order, in pieces of at most `chunk` rows: every sample exactly
// once. Only a model with a baked batch leaves out a short last piece; the result's rows say so.
EvalResult evaluate(Session& session, const Feed& feed, const std::shared_ptr<const Dataset>& data,
                    int64_t chunk);
// Says what evaluate() will leave out. Throws Error when nothing would be left.
void check_evaluation(const Feed& feed, const Dataset& data);

// The model's output `name` ("": its first floating-point one) for every sample, in order and in
// evaluation form: shape [samples, ...]. Throws Error with the outputs' names when there is no such
// output.
graph::Tensor predict(Session& session, const Feed& feed,
                      const std::shared_ptr<const Dataset>& data, int64_t chunk,
                      const std::string& name);

// Mean over what was counted; shares of correct answers, where the loss knows classes.
void warn_unless_finite(const EvalResult& result);
double mean_loss(const EvalResult& result);
std::optional<double> accuracy(const EvalResult& result);
std::optional<double> top5_accuracy(const EvalResult& result);

}  // namespace sardonyx::runtime
