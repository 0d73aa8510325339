// Sizes that only data will tell, for `sardonyx check`: made-up ones show whether a model can be
// prepared with any, and are examples in what it says.
#pragma once

#include <string>
#include <vector>

#include "runtime/config.h"
#include "runtime/open_sizes.h"
#include "runtime/session.h"

namespace sardonyx::tools {

struct AssumedSizes {
  std::vector<runtime::OpenInput> open;  // with the sizes that work, or with none
  bool work = false;
  runtime::SampleSizes sample;  // of all inputs, as far as they work
  std::string error;            // of the first try, where none works
};

// `session`: with what is known, `given` by flags; `flags` open it again with more. Tries `rows`
// rows.
AssumedSizes assume_sizes(const runtime::Session& session, const runtime::Flags& flags,
                          const runtime::SampleSizes& given, int64_t rows);

// A weight without values whose sizes are open, so that it can't be given any; "": there is none.
std::string open_weight(const graph::Graph& imported,
                        const std::vector<runtime::OpenInput>& inputs);

// Sizes behind the classes that come from made-up ones say nothing: they are open, by the symbol of
// an input if they are its size.
void forget_sizes(graph::TensorType& scores, const std::vector<runtime::OpenInput>& open);

}  // namespace sardonyx::tools
