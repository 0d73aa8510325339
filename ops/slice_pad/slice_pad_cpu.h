// How the kernels of the room are registered: a reference, a fast one, and the same in lanes.
// `types`: what all of them refuse; `in_lanes`: what the last refuses beside.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ops/core/refusals.h"
#include "ops/slice_pad/slice_pad.h"

namespace sardonyx::ops {

template <class Fast>
void add_window_kernels(KernelRegistry& kernels, const std::string& domain, const std::string& op,
                        const std::string& name, KernelFunction reference, Refusal types,
                        Refusal in_lanes) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name + ".ref";
  def.declines = {std::move(types)};
  def.create = simple_kernel(std::move(reference));
  kernels.add(def);

  def.name = name + ".strided";
  def.speed = Speed::kPlain;
  def.create = [](const KernelRequest& request) { return std::make_unique<Fast>(request); };
  kernels.add(def);

  def.name = name + ".lanes";
  def.speed = Speed::kOptimised;
  def.layouts = Layouts::kLanes;
  def.declines.push_back(unless_in_lanes(1));
  def.declines.push_back(std::move(in_lanes));
  kernels.add(def);
}

void register_slice_cpu(KernelRegistry& kernels);
void register_pad_cpu(KernelRegistry& kernels);

}  // namespace sardonyx::ops
