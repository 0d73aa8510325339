// Writes the description of ONNX's messages, as libonnx_proto carries it, to the file that is
// named: what protoc needs to write their classes once more.
#include <google/protobuf/descriptor.pb.h>
#include <onnx/onnx_pb.h>

#include <fstream>

int main(int, char** argv) {
  google::protobuf::FileDescriptorSet set;
  onnx::ModelProto::descriptor()->file()->CopyTo(set.add_file());
  std::ofstream file(argv[1], std::ios::binary);
  return set.SerializeToOstream(&file) && file.flush() ? 0 : 1;
}
