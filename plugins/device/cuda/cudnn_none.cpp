/// What stands for cudnn.cpp in a plugin built without cudnn-frontend's headers.
#include "plugins/device/cuda/cudnn.h"

namespace octachoron::cuda {

bool is_cudnn_built_in() {
  return false;
}

std::unique_ptr<Cudnn> open_cudnn(std::string* why) {
  *why = "built without cuDNN";
  return nullptr;
}

std::unique_ptr<Cudnn> open_cudnn_for(const std::string&, int, std::string* why) {
  return open_cudnn(why);
}

}  // namespace octachoron::cuda
