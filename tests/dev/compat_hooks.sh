#!/usr/bin/env bash
# Every function that the limiter hooks has a row in docs/compat.md, and every test named in that page's tables exists.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
fail=0
complain() { echo "$*"; fail=1; }

hooks=$(sed -nE 's/^(CU|NVML)_(FN|NAME)\(([A-Za-z0-9_]+), ([a-z]+).*/\3 \4/p' src/guest/abi/{cuda,nvml}_table.def | grep -v ' pass$')
[ "$(wc -l <<<"$hooks")" -gt 250 ] || { echo "the tables of functions were not understood"; exit 1; }
rows=$(sed -n '/^## Hooks and their tests/,/^## Failures/p' docs/compat.md | grep '^|' | tail -n +3)
[ "$(wc -l <<<"$rows")" -gt 10 ] || { echo "the table of hooks in docs/compat.md was not understood"; exit 1; }

# shellcheck disable=SC2016  # backquotes are Markdown's here
quoted() { { grep -o '`[^`]*`' || true; } | tr -d '`'; }
patterns=$(cut -d'|' -f2 <<<"$rows" | quoted)
kinds=$(cut -d'|' -f2 <<<"$rows" | sed -n 's/.*marked \*\([a-z]*\)\*.*/\1/p')
has_row() {
  local pattern
  grep -qx "$2" <<<"$kinds" && return
  while read -r pattern; do
    # shellcheck disable=SC2254  # it is a pattern
    case $1 in $pattern) return ;; esac
  done <<<"$patterns"
  return 1
}
while read -r name kind; do
  has_row "$name" "$kind" || complain "$name ($kind) has no row in docs/compat.md, 'Hooks and their tests'"
done <<<"$hooks"

tests=$(grep -rhoE '^(TEST|TEST_F|TEST_P)\([A-Za-z0-9_]+, *[A-Za-z0-9_]+' src tests --include='*.cpp' | sed -E 's/^[A-Z_]+\(//; s/, */./')
failures=$(sed -n '/^## Failures/,$p' docs/compat.md | grep '^|' | tail -n +3)
[ "$(wc -l <<<"$failures")" -gt 30 ] || { echo "the table of failures in docs/compat.md was not understood"; exit 1; }
scripts=$(grep -rhoE 'add_test\(NAME [a-z0-9_]+' --include=CMakeLists.txt --include='*.cmake' tests | sed 's/.* //')
targets=$(grep -rhoE 'headgate_(daemon_)?test\([a-z0-9_]+' --include=CMakeLists.txt --include='*.cmake' src tests | sed 's/.*(//')
while read -r named; do
  # INSTANCE/SUITE.TEST/* means all values of a parameter.
  case $named in [A-Z]*/*.*) named=${named#*/} named=${named%/\*} ;; esac
  named=${named#.}
  case $named in
    dev/bench*) ;;
    */) [ -d "$named" ] || complain "docs/compat.md names $named, which does not exist" ;;
    guest_*) grep -qx "$named" <<<"$scripts" || complain "docs/compat.md names $named, which is no test" ;;
    *_test) grep -qx "$named" <<<"$targets" || complain "docs/compat.md names $named, which is no test program" ;;
    *...) grep -qE "(^|[.])${named%...}" <<<"$tests" || complain "docs/compat.md names the test $named, which does not exist" ;;
    *_fuzz) grep -rq "headgate_fuzz($named " --include=CMakeLists.txt src || complain "docs/compat.md names $named, which is no fuzzer" ;;
    *) grep -qE "(^${named}([.]|$)|[.]${named}$)" <<<"$tests" || complain "docs/compat.md names the test $named, which does not exist" ;;
  esac
done <<<"$({ cut -d'|' -f4 <<<"$rows"; awk -F'|' '{ print $(NF - 1) }' <<<"$failures"; } | quoted)"
exit "$fail"
