#!/usr/bin/env bash
# Runs the checks of a real card from the folder that make gpu-real-folder has made. OUT names where the record goes.
set -euo pipefail
cd "$(dirname "$0")"
INFERENCE_EXPORTER_GPU_REAL=${OUT:-$PWD/record} exec ./gpu-real.test -test.run '^TestRealCard$' -test.v -test.timeout 8m
