package app

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// copies logs which sources have GPUs that another one reads as well.
type copies struct {
	logger *slog.Logger

	mu     sync.Mutex
	latest gpu.Snapshots
	counts map[string]int // by source, as last logged
}

// log logs each source whose number of such GPUs changed. Between two polls it costs
// nothing.
func (c *copies) log(all gpu.Snapshots) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.latest, all) {
		return
	}
	c.latest = all
	uuids := map[string][]string{}
	for s, d := range all.Copies() {
		uuids[s.Source] = append(uuids[s.Source], d.UUID)
	}
	counts := make(map[string]int, len(uuids))
	for source, twice := range uuids {
		counts[source] = len(twice)
		if c.counts[source] != len(twice) {
			c.logger.Info("GPUs are in two sources; showing the readings of the other one", "source", source, "gpus", len(twice), "first", twice[0])
		}
	}
	c.counts = counts
}
