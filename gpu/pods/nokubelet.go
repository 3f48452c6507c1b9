//go:build !pod_resources

package pods

import "errors"

// newLister refuses: the kubelet's API alone would bring gRPC into the program.
func newLister(Options) (lister, error) {
	return nil, errors.New("--gpu.pod-resources: this build does not ask the kubelet; the container image and the releases do; build with -tags pod_resources")
}

// stateOf is that of a build that asks nothing.
func stateOf(error) State { return StateFailed }
