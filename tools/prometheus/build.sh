#!/usr/bin/env bash
# Builds the programs that are named (promtool, prometheus, amtool) into
# .tools/ unless they are there. The first build takes minutes. Service
# discovery is left out: tests need none, and it is most of the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p .tools
for name in "$@"; do
	case $name in
	promtool | prometheus) module=github.com/prometheus/prometheus ;;
	amtool) module=github.com/prometheus/alertmanager ;;
	*)
		echo "build.sh: unknown program $name, want promtool, prometheus or amtool" >&2
		exit 2
		;;
	esac
	if [ -x ".tools/$name" ]; then
		continue
	fi
	echo "building $name"
	go build -modfile=tools/prometheus/go.mod -tags remove_all_sd -trimpath -ldflags '-s -w' \
		-o ".tools/$name" "$module/cmd/$name"
done
