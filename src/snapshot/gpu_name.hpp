// What messages and views call a GPU. Pure.
#pragma once

#include <string>

#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// "NVIDIA H200" -> "H200".
[[nodiscard]] std::string short_model(const std::string& model);
// "GPU 0 (H200)".
[[nodiscard]] std::string gpu_name(const Gpu& gpu);

}  // namespace headgate::snapshot
