#!/usr/bin/env bash
# The chart, the manifests and discovery against a real control plane: etcd, API server, controllers and scheduler of
# Kubernetes in one program, and kwok, which runs nodes and pods without containers. Builds them into .tools the first time,
# which takes ten minutes of processor time. All of it runs in a network of its own, where the addresses of pods are local.
set -euo pipefail
cd "$(dirname "$0")"

kubernetes=v1.37.2
kwok=v0.8.0
tools=$(realpath ../../.tools 2>/dev/null || (mkdir -p ../../.tools && realpath ../../.tools))

if ! unshare -rn true 2>/dev/null && ! unshare -n true 2>/dev/null; then
	echo "NOT RUN: this machine refuses a network of one's own"
	exit 0
fi
export CONTROL=$tools/control-$kubernetes KWOK=$tools/kwok-$kwok EXPORTER=$tools/exporter-for-cluster
if ! [ -x "$CONTROL" ]; then
	echo "building Kubernetes $kubernetes"
	version="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
	go build -trimpath -ldflags "-s -w $version" -o "$CONTROL" ./control
fi
if ! [ -x "$KWOK" ]; then
	echo "building kwok $kwok"
	GOBIN=$tools go install "sigs.k8s.io/kwok/cmd/kwok@$kwok"
	mv "$tools/kwok" "$KWOK"
fi
KWOK_STAGES=$(go mod download -json "sigs.k8s.io/kwok@$kwok" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')/kustomize/stage
export KWOK_STAGES
go build -C ../.. -buildvcs=false -tags kubernetes_sd -o "$EXPORTER" .
tests=$(mktemp)
trap 'rm -f "$tests"' EXIT
go test -c -o "$tests" .

network='ip link set lo up && ip route add local 10.244.0.0/16 dev lo'
if [ "$(id -u)" = 0 ]; then own=(unshare -n); else own=(unshare -rn); fi
"${own[@]}" bash -c "$network && exec \"\$@\"" cluster "$tests" -test.timeout=15m "$@"
