// Which kernels a session's training plans run. A checkpoint keeps them and a resumed run asks for
// the same ones, so that another machine or version doesn't silently round otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sardonyx::runtime {

struct KernelChoices {
  using Table = std::map<std::string, std::string>;  // as in passes::Plan::kernels

  int64_t block = -1, lanes = -1;  // as in passes::PipelineOptions
  Table kernels;                   // of the training plan with the most rows
  // Where another plan differs from that table; by plan: "last 61" (micro-batch and rows).
  std::map<std::string, Table> others;
  friend bool operator==(const KernelChoices&, const KernelChoices&) = default;
};

}  // namespace sardonyx::runtime
