//go:build kubernetes_sd

package deploy

// kubernetesDiscovery tells whether this build knows Kubernetes discovery.
const kubernetesDiscovery = true
