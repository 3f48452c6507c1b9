#!/usr/bin/env bash
# The chart, the manifests and discovery against a real control plane: etcd, API server, controllers and scheduler of
# Kubernetes in one program, and kwok, which runs nodes and pods without containers. Builds them into .tools the first time,
# which takes ten minutes of processor time. All of it runs in a network of its own, where the addresses of pods are local,
# and with a /run of its own, where the exporter finds its account as in a pod.
# A run of all tests that passes records the files it ran with in "passed"; check.sh changed runs only if these are others.
set -euo pipefail
cd "$(dirname "$0")"

# The sum is of what is staged, and so the same on each machine once it is committed.
paths=(../../go.mod ../../internal/discovery ../../examples/helm ../../examples/kubernetes . ':!passed')
inputs=$({ git ls-files -s -- "${paths[@]}" && git diff -- "${paths[@]}"; } | sha256sum)
inputs=${inputs%% *}
if [ "$*" = changed ]; then
	shift
	read -r day recorded <passed
	if [ "$recorded" = "$inputs" ]; then
		echo "NOT RUN: passed on $day with the same inputs, by tools/cluster/passed"
		exit 0
	fi
fi

kubernetes=v1.37.2
kwok=v0.8.0
extension=v1.5.0 # of the gateway API, for inference
tools=$(realpath ../../.tools 2>/dev/null || (mkdir -p ../../.tools && realpath ../../.tools))

network='ip link set lo up && ip route add local 10.244.0.0/16 dev lo && mount -t tmpfs none /run'
if [ "$(id -u)" = 0 ]; then own=(unshare -nm); else own=(unshare -rnm); fi
if ! "${own[@]}" bash -c "$network" 2>/dev/null; then
	echo "NOT RUN: this machine makes no network of its own, by unshare and ip"
	exit 0
fi
export CONTROL=$tools/control-$kubernetes KWOK=$tools/kwok-$kwok EXPORTER=$tools/exporter-for-cluster
if ! [ -x "$CONTROL" ]; then
	echo "building Kubernetes $kubernetes"
	version="-X k8s.io/component-base/version.gitVersion=$kubernetes -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"
	go build -trimpath -ldflags "-s -w $version" -o "$CONTROL.$$" ./control
	mv "$CONTROL.$$" "$CONTROL" # at once, as others may wait for it
fi
if ! [ -x "$KWOK" ]; then
	echo "building kwok $kwok"
	GOBIN=$tools go install "sigs.k8s.io/kwok/cmd/kwok@$kwok"
	mv "$tools/kwok" "$KWOK"
fi
folder() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p'; }
KWOK_STAGES=$(folder "sigs.k8s.io/kwok@$kwok")/kustomize/stage
CRDS=$(folder github.com/prometheus-operator/prometheus-operator)/example/prometheus-operator-crd:$(folder "sigs.k8s.io/gateway-api-inference-extension@$extension")/config/crd/bases
export KWOK_STAGES CRDS
go build -C ../.. -buildvcs=false -tags kubernetes_sd -o "$EXPORTER" .
tests=$(mktemp)
trap 'rm -f "$tests"' EXIT
go test -c -o "$tests" . # which vets

"${own[@]}" bash -c "$network && exec \"\$@\"" cluster "$tests" -test.timeout=30m "$@"
if [[ $* != *-test.run* ]]; then echo "$(date -u +%F) $inputs" >passed; fi
