# One static library per layer; every .cc of the folder belongs to it, so a new file needs no edit here.

# sardonyx_layer(NAME LAYERS... ) globs *.cc below the current folder (without NAME_cuda.cc and *_isa.cc). Of
# NAME_dnnl.cc, dnnl.cc and their place in a build without oneDNN, NAME_no_dnnl.cc and no_dnnl.cc, it takes one kind.
function(sardonyx_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_cuda\\.cc$|/cuda_|_isa\\.cc$|/main\\.cc$")
  if(SARDONYX_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "no_dnnl\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "(/|_)dnnl\\.cc$")
    file(GLOB_RECURSE no_dnnl CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*no_dnnl.cc)
    list(APPEND sources ${no_dnnl})
  endif()
  if(NOT sources)
    add_library(sardonyx_${name} INTERFACE)
    target_link_libraries(sardonyx_${name} INTERFACE sardonyx_flags ${ARGN})
    return()
  endif()
  add_library(sardonyx_${name} STATIC ${sources})
  target_link_libraries(sardonyx_${name} PUBLIC sardonyx_flags ${ARGN})
endfunction()

# Files named *_isa.cc are compiled once per instruction set; the macro SARDONYX_ISA names the copy
# (baseline, avx2, avx512) and the caller picks one by CPU features at run time. Such a file must include no
# header with inline functions of the C++ library: the linker could keep the copy with the wrong instructions.
# Nobody asks which floating-point exceptions were raised; without that, loops with comparisons become vectors.
function(sardonyx_isa_variants target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_isa.cc)
  if(NOT sources)
    return()
  endif()
  set(baseline_flags "")
  set(avx2_flags -mavx2 -mfma -mf16c)
  set(avx512_flags -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512)
  foreach(isa baseline avx2 avx512)
    add_library(${target}_${isa} OBJECT ${sources})
    target_link_libraries(${target}_${isa} PRIVATE sardonyx_flags)
    target_compile_definitions(${target}_${isa} PRIVATE SARDONYX_ISA=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${${isa}_flags} -O3 -fno-trapping-math)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
