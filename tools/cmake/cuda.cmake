# What the word `cuda` stands for in the tree:
#   NAME_cuda.cc, cuda_NAME.cc, NAME.cu   parts of the CUDA device that know it only through the narrow waist
#                                         (ops/core/cuda.h, cudnn.h, cublas.h); compiled for the product with the
#                                         CUDA toolkit, and for the tests against tests/support/host_cuda/
#   cuda_native/                          the waist itself; needs the toolkit
#   NAME_no_cuda.cc, no_cuda.cc           their place in a build without it
# An executable links one of sardonyx_device (the product's choice) and, in tests/, sardonyx_host_cuda.
file(GLOB_RECURSE SARDONYX_CUDA_SOURCES CONFIGURE_DEPENDS
     ops/*_cuda.cc ops/cuda_*.cc ops/*.cu runtime/*_cuda.cc runtime/cuda_*.cc runtime/*.cu)
list(FILTER SARDONYX_CUDA_SOURCES EXCLUDE REGEX "no_cuda\\.cc$|/cuda_native/")
file(GLOB_RECURSE SARDONYX_NO_CUDA_SOURCES CONFIGURE_DEPENDS ops/*no_cuda.cc runtime/*no_cuda.cc)
file(GLOB SARDONYX_CUDA_NATIVE_SOURCES CONFIGURE_DEPENDS
     ops/core/cuda_native/*.cc runtime/collectives/cuda_native/*.cc)

if(SARDONYX_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  set(with_cuda OFF)
  if(CMAKE_CUDA_COMPILER)
    set(with_cuda ON)
  endif()
else()
  set(with_cuda ${SARDONYX_CUDA})
endif()

add_library(sardonyx_device OBJECT)
target_link_libraries(sardonyx_device PUBLIC sardonyx_flags)
if(NOT with_cuda)
  message(STATUS "CUDA device: no")
  target_sources(sardonyx_device PRIVATE ${SARDONYX_NO_CUDA_SOURCES})
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
endif()
set(CMAKE_CUDA_STANDARD 20)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA device: yes, CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
target_sources(sardonyx_device PRIVATE ${SARDONYX_CUDA_SOURCES} ${SARDONYX_CUDA_NATIVE_SOURCES})
target_include_directories(sardonyx_device PRIVATE ops/core/cuda_native)
# Kernels write fma() where a product and a sum are rounded as one; what masks a gradient must have the sign of what
# was written.
target_compile_options(sardonyx_device PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
# The runtime is part of the program and finds the driver when it is asked; cuDNN, cuBLAS and NCCL are loaded by
# their wrappers, so that a run on the CPU starts as fast as without them.
target_link_libraries(sardonyx_device PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
