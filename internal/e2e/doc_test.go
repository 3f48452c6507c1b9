// Package e2e probes a running endpoint by every protocol that it offers and
// reports what does not hold although it must on every server. It has tests
// only: make e2e runs them against a real server.
package e2e
