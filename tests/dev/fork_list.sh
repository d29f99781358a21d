#!/usr/bin/env bash
# Each limiter function that resets state in a forked child is called from the one list (entry/fork.cpp), and only
# there.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../src/guest/limiter"
list=$(sed -n '/kResets\[\] = {/,/^};/p' entry/fork.cpp)
found=$(grep -rhoE --include='*.hpp' '^void \w+_after_fork\(\)' . | sed 's/^void //; s/()$//' | grep -vx reset_after_fork)
mapfile -t resets <<<"$found"
[ ${#resets[@]} -ge 16 ] || { echo "only ${#resets[@]} resets were found: is the pattern still right?"; exit 1; }
bad=0
for reset in "${resets[@]}"; do
  grep -qE "^ +$reset," <<<"$list" || { echo "$reset is not in kResets of entry/fork.cpp"; bad=1; }
  calls=$(grep -rE --include='*.cpp' "^ +(\w+::)*$reset\(\);" . || true)
  [ -z "$calls" ] || { printf '%s\n' "$calls" "$reset is called beside the list"; bad=1; }
done
exit "$bad"
