#!/usr/bin/env bash
# docs/compat.md lists every variable of the table that the limiter reads, and no other.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
table=$(sed -n 's/^ *{"\([A-Z_0-9]*\)", Meaning::.*/\1/p' src/guest/grant/variables.cpp | sort)
[ "$(wc -l <<<"$table")" -gt 20 ] || { echo "the table in variables.cpp was not understood"; exit 1; }
# shellcheck disable=SC2016  # backquotes are Markdown's here
page=$(sed -n 's/^| \(`[A-Z].*\)/\1/p' docs/compat.md | cut -d'|' -f1 | grep -o '`[A-Z][A-Z_0-9]*`' | tr -d '`' | sort)
only_one=$(printf '%s\n%s\n' "$table" "$page" | sort | uniq -u)
[ -z "$only_one" ] || { printf 'only in variables.cpp, or only in docs/compat.md:\n%s\n' "$only_one"; exit 1; }
