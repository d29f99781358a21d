#!/usr/bin/env bash
# dev/layers passes on this tree and detects each kind of forbidden include; otherwise its success would prove nothing.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
dev/layers
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
refuses() { # refuses FILE TEXT WORDS
  rm -rf "$scratch/src"
  mkdir -p "$scratch/src/$(dirname "$1")"
  printf '%b' "$2" >"$scratch/src/$1"
  if output=$(dev/layers "$scratch"); then
    echo "dev/layers let this pass in $1: $2"
    exit 1
  fi
  grep -qF -- "$3" <<<"$output" || { echo "dev/layers does not say '$3' but: $output"; exit 1; }
}
refuses guest/limiter/route/a.cpp '#include "base/result.hpp"\n' 'guest/limiter/route may not include base'
refuses guest/limiter/memory/a.cpp '#include "guest/limiter/compute/pacer.hpp"\n' \
  'guest/limiter/memory may not include guest/limiter/compute'
refuses guest/limiter/compute/a.cpp '#include "guest/limiter/memory/memory.hpp"\n' \
  'guest/limiter/compute may not include guest/limiter/memory'
refuses guest/limiter/session/a.hpp '#include "guest/limiter/stream/captures.hpp"\n' \
  'guest/limiter/session may not include guest/limiter/stream'
refuses guest/limiter/a.cpp 'int a;\n' 'room guest/limiter is not in the table'
refuses cli/a.cpp '#include "guest/limiter/session/session.hpp"\n' 'cli may not include guest/limiter/session'
refuses cli/a.cpp '#include "guest/bare/futex.hpp"\n' 'cli may not include guest/bare'
refuses sim/engine/a.hpp '  #  include "guest/ledger/layout.hpp"\n' 'sim may not include guest/ledger'
refuses guest/ledger/a.hpp '#include <string>\n' 'guest code may not use <string>'
refuses config/a.cpp '#include <CLI/CLI.hpp>\n' '<CLI/CLI.hpp> does not belong in config'
refuses cli/a.hpp '#include <nlohmann/json.hpp>\n' '<nlohmann/json.hpp> in a header'
refuses common/a.cpp 'int a;\n' 'room common is not in the table'
refuses base/a.cpp '#include "result.hpp"\n' 'names no room'
refuses guest/ledger/a.cpp '#include "support/contention.hpp"\n' 'names no room'
refuses base/a.cpp "$(printf '\\n%.0s' {1..601})" 'longer than 600 lines'
