// The `save` facts of inspect cases: write the model back and compare.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/session.h"
#include "tests/run_cases/kinds.h"

namespace sardonyx::cases {

void check_save(const Task& task, runtime::Session& session, const nlohmann::json& facts);

}  // namespace sardonyx::cases
