# What Debian has no archive of, and what of the C library is older than it needs to be.
set(static ${CMAKE_CURRENT_LIST_DIR})

# The C++ library goes into the program. libgcc_s stays outside: every machine has it, and Debian's archive of it wants
# a C library of 2.35.
target_link_options(sardonyx_flags INTERFACE -static-libstdc++)

add_library(sardonyx_fmt STATIC ${static}/fmt.cc)
target_compile_definitions(sardonyx_fmt PUBLIC FMT_SHARED)
set(SARDONYX_FMT sardonyx_fmt)

add_library(sardonyx_old_glibc STATIC ${static}/old_glibc.cc)
target_link_options(sardonyx_old_glibc INTERFACE -Wl,--wrap=hypot,--wrap=arc4random)

# The message classes of ONNX, from the description that the shared library carries.
find_library(PROTOBUF_SHARED_LIBRARY protobuf REQUIRED)
add_executable(onnx_description ${static}/onnx_description.cc)
target_link_libraries(onnx_description PRIVATE ${ONNX_PROTO_LIBRARY} ${PROTOBUF_SHARED_LIBRARY})
target_compile_definitions(onnx_description PRIVATE ONNX_ML=1 ONNX_NAMESPACE=onnx)
set(generated ${CMAKE_CURRENT_BINARY_DIR}/onnx_proto)
file(MAKE_DIRECTORY ${generated})
add_custom_command(
  OUTPUT ${generated}/onnx/onnx-ml.pb.cc
  COMMAND onnx_description ${generated}/onnx.description
  COMMAND protobuf::protoc --descriptor_set_in=${generated}/onnx.description --cpp_out=${generated} onnx/onnx-ml.proto
  DEPENDS onnx_description VERBATIM)
add_library(sardonyx_onnx_proto STATIC ${generated}/onnx/onnx-ml.pb.cc)
target_include_directories(sardonyx_onnx_proto PRIVATE ${generated})
target_link_libraries(sardonyx_onnx_proto PUBLIC protobuf::libprotobuf sardonyx_old_glibc)
set(SARDONYX_ONNX_PROTO sardonyx_onnx_proto)
