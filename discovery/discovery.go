// Package discovery finds out which endpoints there are and publishes the
// whole set whenever it changes.
package discovery

import (
	"context"

	"github.com/inference-exporter/inference_exporter/config"
)

// Discoverer is a source of endpoints.
type Discoverer interface {
	// Run sends the complete set of endpoints, at once and again after each
	// change, until ctx ends. It leaves the channel open. A set that was sent
	// must not be changed.
	Run(ctx context.Context, up chan<- []*config.Endpoint)
}

// Static is the list of endpoints that the configuration names.
type Static []*config.Endpoint

var _ Discoverer = Static(nil)

// Run sends the list once.
func (s Static) Run(ctx context.Context, up chan<- []*config.Endpoint) {
	select {
	case up <- s:
		<-ctx.Done()
	case <-ctx.Done():
	}
}
