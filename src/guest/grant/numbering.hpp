// In a share, numbers in CUDA_VISIBLE_DEVICES index the share's GPUs, as in a container: workers that set "0" or "1,0"
// get GPUs of the share. Pure.
#pragma once

#include <span>
#include <string_view>

namespace headgate::grant {

// Writes the replacement for CUDA_VISIBLE_DEVICES=`visible` to `buffer`, NUL-terminated; `gpus` are the share's UUIDs,
// comma-separated. A number out of range ends the list, as in the driver; an empty result becomes "-1". False: keep
// `visible`, because it does not use numbers or already equals `gpus`.
[[nodiscard]] bool number_by_share(std::string_view visible, std::string_view gpus, std::span<char> buffer);

// The same if `visible` names GPUs of the share by UUID or UUID prefix in another case than `gpus`: whether the driver
// ignores case is not documented. Other tokens are kept. False: nothing to change.
[[nodiscard]] bool spell_as_share(std::string_view visible, std::string_view gpus, std::span<char> buffer);

// The same if `visible` names something that is not in the share: the list ends there, as at a name that the driver
// does not know; an empty result becomes "-1". Keeps MIG instances: their GPU is not known here. False: nothing to
// change.
[[nodiscard]] bool cut_to_share(std::string_view visible, std::string_view gpus, std::span<char> buffer);

}  // namespace headgate::grant
