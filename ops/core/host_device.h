// HOST_DEVICE before a function: CPU code and CUDA kernels call it, so that a formula stands once.
// Such a function uses built-in types and <cmath> only.
#pragma once

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__
#else
#define HOST_DEVICE
#endif
