// Package deploy holds the checks of what users deploy: the Kubernetes
// manifests, the Helm chart, the gates, the systemd units and the compose file. It has
// tests only. They render what there is with the tools' own libraries, decode
// it into the real types, where an unknown field is an error, and check that
// the parts fit together and that the exporter takes the configuration in them.
//
//	go test -tags kubernetes_sd ./...
//
// Without the tag, configurations with Kubernetes discovery are skipped.
package deploy
