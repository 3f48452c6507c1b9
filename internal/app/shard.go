package app

import (
	"fmt"

	"github.com/alecthomas/kingpin/v2"
	"github.com/cespare/xxhash/v2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// shard is the part of the endpoints that this exporter looks at, of so many
// exporters with the same configuration.
type shard struct{ index, count int }

func (s *shard) addFlags(c *kingpin.CmdClause) {
	c.Flag("shard.index", "Which part of the endpoints to look at, from 0, when several exporters share a configuration.").
		Envar("SHARD_INDEX").Default("0").SetValue(cli.Whole(&s.index))
	c.Flag("shard.count", "How many exporters share the endpoints of a configuration. Each endpoint is looked at by one of them.").
		Envar("SHARD_COUNT").Default("1").SetValue(cli.Whole(&s.count))
}

func (s shard) check() error {
	if s.count < 1 || s.index < 0 || s.index >= s.count {
		return fmt.Errorf("shard %d of %d: want --shard.count of at least 1 and --shard.index from 0 to one less", s.index, s.count)
	}
	return nil
}

// of returns those of the endpoints that belong to the shard.
func (s shard) of(all []*config.Endpoint) []*config.Endpoint {
	if s.count <= 1 {
		return all
	}
	var own []*config.Endpoint
	for _, e := range all {
		if shardOf(e.Name, s.count) == s.index {
			own = append(own, e)
		}
	}
	return own
}

// shardOf returns to which of count shards an endpoint belongs, so that one shard
// more takes its share evenly from all and moves nothing else: the jump
// consistent hash of Lamping and Veach, https://arxiv.org/abs/1406.2294.
func shardOf(endpoint string, count int) int {
	key := xxhash.Sum64String(endpoint)
	shard, next := int64(-1), int64(0)
	for next < int64(count) {
		shard = next
		key = key*2862933555777941757 + 1
		next = int64(float64(shard+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(shard)
}
