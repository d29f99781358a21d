#include "base/owned_file.hpp"

#include <unistd.h>

#include <cstdio>

#include "base/user_name.hpp"

namespace headgate {

Result<void> check_owned(const std::string& path, const struct stat& facts) {
  if (facts.st_uid != 0 && facts.st_uid != ::geteuid())
    return fail(ErrorCode::denied,
                path + ": it belongs to " + user_name(facts.st_uid) + ", not to " + user_name(::geteuid()),
                "chown " + user_name(::geteuid()) + " " + path + ", once you have looked at what is in it");
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", facts.st_mode & 07777u);
    return fail(ErrorCode::denied, path + ": others can write it (mode " + mode + ")", "chmod go-w " + path);
  }
  if (S_ISREG(facts.st_mode) && facts.st_nlink > 1)
    return fail(ErrorCode::denied, path + ": the file has a second name (a hard link), by which others can reach it",
                "remove the other name: find DIR -samefile " + path);
  return {};
}

}  // namespace headgate
