#include "snapshot/gpu_name.hpp"

namespace headgate::snapshot {

std::string short_model(const std::string& model) {
  for (const std::string prefix : {"NVIDIA GeForce ", "NVIDIA "}) {
    if (model.starts_with(prefix)) return model.substr(prefix.size());
  }
  return model;
}

std::string gpu_name(const Gpu& gpu) {
  return "GPU " + std::to_string(gpu.index) + " (" + short_model(gpu.model) + ")";
}

}  // namespace headgate::snapshot
