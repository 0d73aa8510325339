// The JSON form of graphs and plans that `sardonyx inspect` prints; docs/inspect.md describes it,
// and scripts rely on it: keys are added, never changed.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"
#include "graph/onnx_import.h"
#include "passes/plan.h"
#include "runtime/measuring_tuner.h"

namespace sardonyx::tools {

std::string model_json(const graph::Model& model, const graph::ImportedModel& imported);
// The training graph as it will run, with its plan, and with what --tune found, unless it is null.
std::string plan_json(const graph::Model& model, const passes::Plan& plan,
                      const std::vector<std::string>& notices,
                      const runtime::MeasuringTuner* tuner);
// Its summary alone.
std::string summary_json(const graph::Model& model, const passes::Plan& plan,
                         const runtime::MeasuringTuner* tuner);

}  // namespace sardonyx::tools
