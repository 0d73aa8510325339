// The room's kernels stand in slice_cpu.cc and pad_cpu.cc.
#include "ops/slice_pad/slice_pad_cpu.h"

namespace sardonyx::ops {

void add_window_kernels(KernelRegistry& kernels, const std::string& domain, const std::string& op,
                        const std::string& name, KernelFunction reference,
                        const std::function<std::unique_ptr<Kernel>(const KernelRequest&)>& fast,
                        Refusal types, Refusal in_lanes) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name + ".ref";
  def.declines = {std::move(types)};
  def.create = simple_kernel(std::move(reference));
  kernels.add(def);

  def.name = name + ".strided";
  def.speed = Speed::kPlain;
  def.create = fast;
  kernels.add(def);

  def.name = name + ".lanes";
  def.speed = Speed::kOptimised;
  def.layouts = Layouts::kLanes;
  def.declines.push_back(unless_in_lanes(1));
  def.declines.push_back(std::move(in_lanes));
  kernels.add(def);
}

void register_slice_pad_cpu(KernelRegistry& kernels) {
  register_slice_cpu(kernels);
  register_pad_cpu(kernels);
  kernels.add(composed_kernel("CenterCropPad", "center_crop_pad.ref", write_center_crop_pad));
}

}  // namespace sardonyx::ops
