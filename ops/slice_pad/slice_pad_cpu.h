// How the kernels of the room are registered: a reference, a fast one, and the same in lanes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ops/slice_pad/slice_pad.h"

namespace sardonyx::ops {

using Declines = std::optional<std::string> (*)(const KernelRequest&);

template <class Fast>
void add_window_kernels(KernelRegistry& kernels, const std::string& domain, const std::string& op,
                        const std::string& name, KernelFunction reference, Declines declines,
                        Declines declines_in_lanes) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name + ".ref";
  def.declines = declines;
  def.create = simple_kernel(std::move(reference));
  kernels.add(def);

  def.name = name + ".strided";
  def.speed = Speed::kPlain;
  def.create = [](const KernelRequest& request) { return std::make_unique<Fast>(request); };
  kernels.add(def);

  def.name = name + ".lanes";
  def.speed = Speed::kOptimised;
  def.layouts = Layouts::kLanes;
  def.declines = declines_in_lanes;
  kernels.add(def);
}

void register_slice_cpu(KernelRegistry& kernels);
void register_pad_cpu(KernelRegistry& kernels);

}  // namespace sardonyx::ops
