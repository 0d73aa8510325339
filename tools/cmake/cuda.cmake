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
     ops/core/cuda_native/*.cc runtime/collectives/cuda_native/*.cc runtime/devices/cuda_native/*.cc)

# What the toolkit must have, beside nvcc. Only headers: the libraries are loaded by the program when they are needed.
set(missing "")
if(NOT SARDONYX_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    find_package(CUDAToolkit QUIET)
    foreach(header cudnn_graph.h cublasLt.h nccl.h)
      string(MAKE_C_IDENTIFIER ${header} name)
      find_path(SARDONYX_${name}_FOLDER ${header} HINTS ${CUDAToolkit_INCLUDE_DIRS})
      mark_as_advanced(SARDONYX_${name}_FOLDER)
      if(NOT SARDONYX_${name}_FOLDER)
        list(APPEND missing ${header})
      endif()
    endforeach()
  else()
    set(missing nvcc)
  endif()
  if(missing AND NOT SARDONYX_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SARDONYX_CUDA=${SARDONYX_CUDA}, but ${missing} can't be found; name the folders of headers "
                        "in CMAKE_INCLUDE_PATH, or configure with -DSARDONYX_CUDA=OFF")
  endif()
endif()

set(SARDONYX_WITH_CUDA OFF)
if(SARDONYX_CUDA STREQUAL "OFF" OR missing)
  if(missing)
    message(STATUS "CUDA device: no, since this is missing: ${missing}")
  else()
    message(STATUS "CUDA device: no, as asked for")
  endif()
  add_library(sardonyx_device OBJECT ${SARDONYX_NO_CUDA_SOURCES})
  target_link_libraries(sardonyx_device PUBLIC sardonyx_flags)
  return()
endif()
set(SARDONYX_WITH_CUDA ON)
# Machine code for these, and intermediate code that newer devices translate.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  if(CUDAToolkit_VERSION VERSION_LESS 12.8)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
endif()
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
# What CMake 3.25 doesn't know of nvcc.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
# nvcc has every file of kernels register itself before main(). Here they wait in a list of their own until a device
# is asked for (ops/core/cuda_native/runtime.cc), so that a run on the CPU starts as fast as without them.
if(CMAKE_OBJCOPY)
  list(APPEND CMAKE_CUDA_COMPILE_OBJECT
       "${CMAKE_OBJCOPY} --rename-section .init_array=sardonyx_device_code <OBJECT>")
endif()
find_package(CUDAToolkit REQUIRED)
message(STATUS "CUDA device: yes, CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
add_library(sardonyx_device OBJECT ${SARDONYX_CUDA_SOURCES} ${SARDONYX_CUDA_NATIVE_SOURCES})
target_link_libraries(sardonyx_device PUBLIC sardonyx_flags)
target_include_directories(sardonyx_device PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${CMAKE_CURRENT_SOURCE_DIR}/ops/core/cuda_native>)
# Kernels write fma() where a product and a sum are rounded as one; what masks a gradient must have the sign of what
# was written.
target_compile_options(sardonyx_device PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
target_include_directories(sardonyx_device SYSTEM PUBLIC
  ${SARDONYX_cudnn_graph_h_FOLDER} ${SARDONYX_cublasLt_h_FOLDER} ${SARDONYX_nccl_h_FOLDER})
# The runtime is part of the program and finds the driver when it is asked; cuDNN, cuBLAS and NCCL are loaded by
# their wrappers, so that a run on the CPU starts as fast as without them.
target_link_libraries(sardonyx_device PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
