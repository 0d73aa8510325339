#include "ops/core/dnnl.h"

#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <mutex>

#include "graph/support/error.h"
#include "ops/core/parallel.h"

namespace sardonyx::ops::dnnl {

struct Format::Impl {
  dnnl_memory_desc_t desc;
};

namespace {

void require(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    throw Error("oneDNN failed to {} (status {})", what, static_cast<int>(status));
  }
}

// Handles of the C interface, destroyed with their own function.
template <class T, dnnl_status_t (*destroy)(T*)>
struct Destroy {
  void operator()(T* handle) const { destroy(handle); }
};
template <class T, dnnl_status_t (*destroy)(T*)>
using Handle = std::unique_ptr<T, Destroy<T, destroy>>;

using Stream = Handle<dnnl_stream, dnnl_stream_destroy>;
using Memory = Handle<dnnl_memory, dnnl_memory_destroy>;
using PrimitiveDesc = Handle<dnnl_primitive_desc, dnnl_primitive_desc_destroy>;
using PrimitiveHandle = Handle<dnnl_primitive, dnnl_primitive_destroy>;
using Attributes = Handle<dnnl_primitive_attr, dnnl_primitive_attr_destroy>;
using PostOps = Handle<dnnl_post_ops, dnnl_post_ops_destroy>;

// Lives as long as the process: primitives may be destroyed late.
dnnl_engine_t engine() {
  static const dnnl_engine_t cpu = [] {
    dnnl_engine_t result = nullptr;
    require(dnnl_engine_create(&result, dnnl_cpu, 0), "create the CPU engine");
    return result;
  }();
  return cpu;
}

dnnl_stream_t stream() {
  thread_local const Stream mine = [] {
    dnnl_stream_t result = nullptr;
    require(dnnl_stream_create(&result, engine(), dnnl_stream_default_flags), "create a stream");
    return Stream(result);
  }();
  return mine.get();
}

Format format_of(const dnnl_memory_desc_t& desc) {
  return Format(std::make_shared<const Format::Impl>(Format::Impl{desc}));
}

Format make_format(const Dims& dims, const dnnl_dim_t* strides, bool any) {
  dnnl_memory_desc_t desc;
  const int rank = static_cast<int>(dims.size());
  if (any) {
    require(dnnl_memory_desc_init_by_tag(&desc, rank, dims.data(), dnnl_f32, dnnl_format_tag_any),
            "describe an operand");
  } else {
    require(dnnl_memory_desc_init_by_strides(&desc, rank, dims.data(), dnnl_f32, strides),
            "describe an operand");
  }
  return format_of(desc);
}

int argument(Operand operand) {
  switch (operand) {
    case Operand::kSrc:
      return DNNL_ARG_SRC;
    case Operand::kWeights:
      return DNNL_ARG_WEIGHTS;
    case Operand::kBias:
      return DNNL_ARG_BIAS;
    case Operand::kDst:
      return DNNL_ARG_DST;
    case Operand::kDiffSrc:
      return DNNL_ARG_DIFF_SRC;
    case Operand::kDiffWeights:
      return DNNL_ARG_DIFF_WEIGHTS;
    case Operand::kDiffDst:
      return DNNL_ARG_DIFF_DST;
  }
  return 0;
}

constexpr size_t kMostOperands = 4;

// oneDNN's memory objects of one run: made once, bound to other pointers every time.
struct Arguments {
  std::array<Memory, kMostOperands + 1> memory;
};

}  // namespace

std::string version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

Format Format::plain(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strided(dims, strides);
}
Format Format::strided(const Dims& dims, const Dims& strides) {
  CHECK(dims.size() == strides.size());
  return make_format(dims, strides.data(), false);
}
Format Format::any(const Dims& dims) { return make_format(dims, nullptr, true); }
size_t Format::bytes() const { return dnnl_memory_desc_get_size(&impl_->desc); }
bool operator==(const Format& a, const Format& b) {
  return dnnl_memory_desc_equal(&a.impl().desc, &b.impl().desc) != 0;
}

struct Primitive::Impl {
  PrimitiveDesc desc;
  PrimitiveHandle primitive;
  std::vector<std::pair<Operand, Format>> operands;
  std::optional<Format> scratchpad;
  int threads = library_threads;

  // Arguments that no run uses just now: there are never more than runs at a time.
  std::mutex mutex;
  std::vector<std::unique_ptr<Arguments>> idle;

  std::unique_ptr<Arguments> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<Arguments> arguments = std::move(idle.back());
        idle.pop_back();
        return arguments;
      }
    }
    auto arguments = std::make_unique<Arguments>();
    for (size_t i = 0; i < operands.size(); ++i) {
      arguments->memory[i] = new_memory(operands[i].second);
    }
    arguments->memory[operands.size()] = new_memory(*scratchpad);
    return arguments;
  }

  void give_back(std::unique_ptr<Arguments> arguments) {
    const std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(arguments));
  }

  static Memory new_memory(const Format& format) {
    dnnl_memory_t memory = nullptr;
    require(dnnl_memory_create(&memory, &format.impl().desc, engine(), DNNL_MEMORY_NONE),
            "create a memory object");
    return Memory(memory);
  }
};

namespace {

Primitive make_primitive(PrimitiveDesc desc, std::initializer_list<Operand> operands) {
  auto impl = std::make_unique<Primitive::Impl>();
  for (const Operand operand : operands) {
    const dnnl_memory_desc_t* format =
        dnnl_primitive_desc_query_md(desc.get(), dnnl_query_exec_arg_md, argument(operand));
    impl->operands.emplace_back(operand, format_of(*format));
  }
  CHECK(impl->operands.size() <= kMostOperands);
  impl->scratchpad =
      format_of(*dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0));
  dnnl_primitive_t primitive = nullptr;
  require(dnnl_primitive_create(&primitive, desc.get()), "create a primitive");
  impl->primitive.reset(primitive);
  impl->desc = std::move(desc);
  return Primitive(std::move(impl));
}

Attributes new_attributes() {
  dnnl_primitive_attr_t attributes = nullptr;
  require(dnnl_primitive_attr_create(&attributes), "create attributes");
  Attributes result(attributes);
  require(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user),
          "take scratch memory from the caller");
  return result;
}

// Null when no implementation fits.
PrimitiveDesc describe(const dnnl_convolution_desc_t& operation, const PrimitiveDesc& forward) {
  dnnl_primitive_desc_t desc = nullptr;
  const dnnl_status_t status = dnnl_primitive_desc_create(&desc, &operation, new_attributes().get(),
                                                          engine(), forward.get());
  if (status == dnnl_unimplemented) return nullptr;
  require(status, "describe a convolution");
  return PrimitiveDesc(desc);
}

dnnl_alg_kind_t algorithm_of(const Convolution& c) {
  return c.algorithm == Algorithm::kDirect ? dnnl_convolution_direct : dnnl_convolution_winograd;
}

Dims dnnl_dilations(const Convolution& c) {
  Dims result = c.dilations;
  for (int64_t& d : result) --d;
  return result;
}

PrimitiveDesc describe_forward(const Convolution& c) {
  dnnl_convolution_desc_t operation;
  const dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
      &operation, dnnl_forward_training, algorithm_of(c), &c.src.impl().desc,
      &c.weights.impl().desc, c.bias ? &c.bias->impl().desc : nullptr, &c.dst.impl().desc,
      c.strides.data(), dnnl_dilations(c).data(), c.pad_begin.data(), c.pad_end.data());
  if (status != dnnl_success) return nullptr;
  return describe(operation, nullptr);
}

}  // namespace

Primitive::Primitive(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Primitive::Primitive(Primitive&&) noexcept = default;
Primitive& Primitive::operator=(Primitive&&) noexcept = default;
Primitive::~Primitive() = default;

const Format& Primitive::format(Operand operand) const {
  for (const auto& [mine, format] : impl_->operands) {
    if (mine == operand) return format;
  }
  throw InternalError("the oneDNN primitive has no such operand");
}

size_t Primitive::scratchpad_bytes() const { return impl_->scratchpad->bytes(); }

const char* Primitive::name() const {
  const char* result = "";
  dnnl_primitive_desc_query(impl_->desc.get(), dnnl_query_impl_info_str, 0, &result);
  return result;
}

void Primitive::run(std::initializer_list<Binding> bindings,
                    std::span<std::byte> scratchpad) const {
  CHECK(bindings.size() == impl_->operands.size(), "{} operands are bound, expected {}",
        bindings.size(), impl_->operands.size());
  CHECK(scratchpad.size() >= scratchpad_bytes());
  CHECK(library_threads == impl_->threads, "made for {} threads, run by {}", impl_->threads,
        library_threads);
  std::unique_ptr<Arguments> arguments = impl_->take();
  std::array<dnnl_exec_arg_t, kMostOperands + 1> list;
  size_t count = 0;
  const auto bind = [&](int argument, dnnl_memory_t memory, const void* data) {
    require(dnnl_memory_set_data_handle_v2(memory, const_cast<void*>(data), stream()),
            "bind an operand");
    list[count++] = {argument, memory};
  };
  for (const auto& [operand, data] : bindings) {
    size_t slot = 0;
    while (slot < impl_->operands.size() && impl_->operands[slot].first != operand) ++slot;
    CHECK(slot < impl_->operands.size(), "the oneDNN primitive has no such operand");
    bind(argument(operand), arguments->memory[slot].get(), data);
  }
  if (scratchpad_bytes() > 0) {
    bind(DNNL_ARG_SCRATCHPAD, arguments->memory[impl_->operands.size()].get(), scratchpad.data());
  }
  require(dnnl_primitive_execute(impl_->primitive.get(), stream(), static_cast<int>(count),
                                 list.data()),
          "run a primitive");
  impl_->give_back(std::move(arguments));
}

std::optional<Primitive> convolution_forward(const Convolution& c) {
  PrimitiveDesc desc = describe_forward(c);
  if (desc == nullptr) return std::nullopt;
  if (c.bias) {
    return make_primitive(std::move(desc),
                          {Operand::kSrc, Operand::kWeights, Operand::kBias, Operand::kDst});
  }
  return make_primitive(std::move(desc), {Operand::kSrc, Operand::kWeights, Operand::kDst});
}

std::optional<Primitive> convolution_grad_data(const Convolution& c) {
  const PrimitiveDesc forward = describe_forward(c);
  dnnl_convolution_desc_t operation;
  const dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
      &operation, algorithm_of(c), &c.src.impl().desc, &c.weights.impl().desc, &c.dst.impl().desc,
      c.strides.data(), dnnl_dilations(c).data(), c.pad_begin.data(), c.pad_end.data());
  if (status != dnnl_success || forward == nullptr) return std::nullopt;
  PrimitiveDesc desc = describe(operation, forward);
  if (desc == nullptr) return std::nullopt;
  return make_primitive(std::move(desc), {Operand::kDiffDst, Operand::kWeights, Operand::kDiffSrc});
}

std::optional<Primitive> convolution_grad_filter(const Convolution& c) {
  const PrimitiveDesc forward = describe_forward(c);
  dnnl_convolution_desc_t operation;
  const dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
      &operation, algorithm_of(c), &c.src.impl().desc, &c.weights.impl().desc, nullptr,
      &c.dst.impl().desc, c.strides.data(), dnnl_dilations(c).data(), c.pad_begin.data(),
      c.pad_end.data());
  if (status != dnnl_success || forward == nullptr) return std::nullopt;
  PrimitiveDesc desc = describe(operation, forward);
  if (desc == nullptr) return std::nullopt;
  return make_primitive(std::move(desc), {Operand::kSrc, Operand::kDiffDst, Operand::kDiffWeights});
}

Primitive reorder(const Format& from, const Format& to, ReorderMode mode) {
  Attributes attributes = new_attributes();
  if (mode == ReorderMode::kAdd) {
    dnnl_post_ops_t list = nullptr;
    require(dnnl_post_ops_create(&list), "create a post operation");
    const PostOps post_ops(list);
    require(dnnl_post_ops_append_sum(list, 1.0f), "append a sum");
    require(dnnl_primitive_attr_set_post_ops(attributes.get(), list), "set the post operations");
  }
  dnnl_primitive_desc_t desc = nullptr;
  require(dnnl_reorder_primitive_desc_create(&desc, &from.impl().desc, engine(), &to.impl().desc,
                                             engine(), attributes.get()),
          "describe a reorder");
  return make_primitive(PrimitiveDesc(desc), {Operand::kSrc, Operand::kDst});
}

}  // namespace sardonyx::ops::dnnl
