#!/usr/bin/env bash
# Builds the programs that are named (promtool, prometheus, alertmanager, amtool) into
# .tools/ unless they are there. The first build takes minutes. Service
# discovery is left out: tests need none, and it is most of the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p .tools
for name in "$@"; do
	case $name in
	promtool | prometheus) module=github.com/prometheus/prometheus ;;
	alertmanager | amtool) module=github.com/prometheus/alertmanager ;;
	*)
		echo "build.sh: unknown program $name, want promtool, prometheus, alertmanager or amtool" >&2
		exit 2
		;;
	esac
	if [ -x ".tools/$name" ]; then
		continue
	fi
	echo "building $name"
	modfile=tools/prometheus/go.mod
	if [ "$name" = alertmanager ]; then
		# The module lacks the files of its page, which the program embeds: it is built
		# from a copy with an empty page.
		work=$(mktemp -d)
		trap 'rm -rf "$work"' EXIT
		cp -r "$(go list -modfile="$modfile" -m -f '{{.Dir}}' "$module")" "$work/source"
		chmod -R u+w "$work/source"
		mkdir -p "$work/source/ui/app/dist"
		: >"$work/source/ui/app/dist/index.html"
		cp tools/prometheus/go.mod tools/prometheus/go.sum "$work"
		modfile=$work/go.mod
		go mod edit -replace "$module=$work/source" "$modfile"
	fi
	go build -modfile="$modfile" -tags remove_all_sd -trimpath -ldflags '-s -w' \
		-o ".tools/$name.$$" "$module/cmd/$name"
	mv ".tools/$name.$$" ".tools/$name" # at once, as others may wait for it
done
