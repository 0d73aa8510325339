// What the stand-ins of cuDNN and cuBLAS share: operands as matrices of double, as which everything
// is added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/type.h"

namespace sardonyx::host_cuda {

enum class Rounded : uint8_t { kNot, kTf32 };

// Throws Error for other types than float, double and bfloat16.
void check_dtype(const char* library, graph::DType dtype);
// Likewise where the machine has no engines at all.
void check_engine(const char* library, graph::DType dtype);
std::vector<double> load(graph::DType dtype, const std::byte* cells, size_t count, Rounded rounded);
void store(graph::DType dtype, const std::vector<double>& values, std::byte* cells);
// Where cudaMalloc might have put it.
void check_workspace(const std::string& who, const void* workspace);
// What a real library leaves there is nobody's business.
void scribble(std::byte* workspace, size_t bytes);

}  // namespace sardonyx::host_cuda
