// .npy and .npz files of numpy, and folders of the former.
//
// Every numeric type, both byte orders, C and Fortran order, header versions 1 to 3. Data that
// needs no change (little-endian, C order, aligned) stays in the mapped file. Pickled objects are
// refused, never loaded.
#pragma once

#include <string>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::runtime {

// Throws Error (file, offset, found, expected) when the data is not exactly what the header
// declares.
graph::Tensor read_npy(const std::string& path);
// Version 1.0, C order, little-endian. Atomic. Throws Error when the file can't be written.
void write_npy(const std::string& path, const graph::Tensor& tensor);

struct NamedArray {
  std::string name;  // without ".npy"
  graph::Tensor array;
};

// All arrays in the order of the archive; stored and deflated members, zip64. Throws Error.
std::vector<NamedArray> read_npz(const std::string& path);
// The .npy files of a folder, by name; files of other kinds are left alone. Throws Error.
std::vector<NamedArray> read_npy_folder(const std::string& path);

}  // namespace sardonyx::runtime
