#!/usr/bin/env bash
# Signs the provenance of a program: attest.sh VERSION COMMIT PROGRAM BUNDLE
set -euo pipefail
program=$(realpath "$3")
predicate=$(mktemp)
trap 'rm -f "$predicate"' EXIT
(cd "$(dirname "$0")" && go run . provenance "$1" "$2" "$program") >"$predicate"
cosign attest-blob --yes --type=slsaprovenance1 --predicate="$predicate" --bundle="$4" "$program"
