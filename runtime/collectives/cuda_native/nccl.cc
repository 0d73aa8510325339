// runtime/collectives/nccl.h by the library, which is loaded at the first question.
#include "runtime/collectives/nccl.h"

#include <nccl.h>

#include <cstdlib>
#include <cstring>

#include "graph/support/error.h"
#include "ops/core/cuda_native/shared_library.h"

namespace sardonyx::runtime::nccl {

namespace {

using graph::DType;

static_assert(sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);

struct Library {
  ops::cuda::SharedLibrary file{"NCCL 2", {"libnccl.so.2"}};

  decltype(&ncclGetVersion) version = file.symbol("ncclGetVersion");
  decltype(&ncclGetErrorString) error_name = file.symbol("ncclGetErrorString");
  decltype(&ncclGetLastError) last_error = file.symbol("ncclGetLastError");
  decltype(&ncclGetUniqueId) unique_id = file.symbol("ncclGetUniqueId");
  decltype(&ncclCommInitRankConfig) init = file.symbol("ncclCommInitRankConfig");
  decltype(&ncclCommGetAsyncError) async_error = file.symbol("ncclCommGetAsyncError");
  decltype(&ncclCommAbort) abort = file.symbol("ncclCommAbort");
  decltype(&ncclAllReduce) all_reduce = file.symbol("ncclAllReduce");

  // All buffers when ranks come together, not in their first sum; where the user hasn't said so.
  Library() { setenv("NCCL_RUNTIME_CONNECT", "0", /*overwrite=*/0); }

  static const Library& get() {
    static const Library library;
    return library;
  }

  // `status` may say that the call is still under way; poll() tells the rest.
  void check(ncclResult_t status, ncclComm_t communicator, const char* doing,
             const std::string& where = "") const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    const char* sentence = last_error(communicator);
    throw Error("NCCL: {}, {}{}{}{}", error_name(status), doing, where,
                sentence == nullptr || *sentence == '\0' ? "" : ": ",
                sentence == nullptr ? "" : sentence);
  }
};

ncclDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kBFloat16:
      return ncclBfloat16;
    default:
      throw InternalError(fmt::format("a sum of {} over ranks", graph::dtype_name(dtype)));
  }
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(const UniqueId& id, int rank, int size)
      : name_(fmt::format("in rank {} of {}", rank, size)) {
    ncclUniqueId native;
    std::memcpy(native.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const Library& library = Library::get();
    const ncclResult_t status = library.init(&communicator_, size, native, rank, &config);
    try {
      library.check(status, communicator_, "starting a communicator ", name_);
    } catch (...) {
      abort();
      throw;
    }
  }
  ~NcclCommunicator() override { abort(); }

  State poll() override {
    const Library& library = Library::get();
    ncclResult_t state = ncclSuccess;
    library.check(library.async_error(communicator_, &state), communicator_,
                  "asking how far it is ", name_);
    library.check(state, communicator_, "", name_);
    return state == ncclInProgress ? State::kBusy : State::kReady;
  }

  void all_reduce(void* data, size_t count, DType dtype, ops::cuda::Stream stream) override {
    const Library& library = Library::get();
    const ncclResult_t status =
        library.all_reduce(data, data, count, data_type(dtype), ncclSum, communicator_,
                           reinterpret_cast<cudaStream_t>(stream));
    library.check(status, communicator_, "starting a sum ", name_);
  }

  // The library's orderly end waits for the other ranks, so this is the only one.
  void abort() noexcept override {
    if (communicator_ != nullptr) Library::get().abort(communicator_);
    communicator_ = nullptr;
  }

 private:
  std::string name_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace

int version() {
  const Library& library = Library::get();
  int number = 0;
  library.check(library.version(&number), nullptr, "asking for its version");
  return number;
}

UniqueId unique_id() {
  const Library& library = Library::get();
  ncclUniqueId native;
  library.check(library.unique_id(&native), nullptr, "making an id");
  UniqueId id;
  std::memcpy(id.data(), native.internal, id.size());
  return id;
}

std::unique_ptr<Communicator> Communicator::start(const UniqueId& id, int rank, int size) {
  return std::make_unique<NcclCommunicator>(id, rank, size);
}

}  // namespace sardonyx::runtime::nccl
