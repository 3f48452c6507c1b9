//go:build kubernetes_sd

package deploy

// kubernetesDiscovery reports whether this build knows Kubernetes discovery.
const kubernetesDiscovery = true
