// Numbers in CUDA_VISIBLE_DEVICES of a program in a share count the share's GPUs, as they do in a container: workers
// that set "0" or "1,0" mean what they were given. Pure.
#pragma once

#include <span>
#include <string_view>

namespace headgate::grant {

// What CUDA_VISIBLE_DEVICES must say instead of `visible`, where the share has `gpus` (UUIDs, with commas), in
// `buffer`, terminated. A number that the share does not have ends the list, as the driver does it; "-1" where nothing
// is left. False: `visible` stays as it is, because it names its GPUs otherwise, or is `gpus` already.
[[nodiscard]] bool number_by_share(std::string_view visible, std::string_view gpus, std::span<char> buffer);

// The same where `visible` names GPUs of the share by UUIDs, or beginnings of them, in another case than `gpus` does:
// whether a driver takes these for the same is not documented. All other words stay as they are. False: nothing has to
// change.
[[nodiscard]] bool spell_as_share(std::string_view visible, std::string_view gpus, std::span<char> buffer);

// The same where `visible` names anything that is not of the share: the list ends there, as it does where the driver
// does not know a name; "-1" where nothing is left. Of a MIG instance nothing here tells whose it is: it stays.
// False: nothing has to change.
[[nodiscard]] bool cut_to_share(std::string_view visible, std::string_view gpus, std::span<char> buffer);

}  // namespace headgate::grant
