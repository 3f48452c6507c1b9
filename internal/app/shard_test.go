package app

import (
	"fmt"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
)

// One shard more takes its share evenly from all the others, and nothing else moves.
func TestShardOf(t *testing.T) {
	const endpoints = 10_000
	for count := 1; count <= 12; count++ {
		moved := make([]int, count)
		shares := make([]int, count+1)
		for i := range endpoints {
			name := fmt.Sprintf("endpoint-%d.example.com:8000", i)
			before, after := shardOf(name, count), shardOf(name, count+1)
			shares[after]++
			if after != before {
				moved[before]++
				if after != count {
					t.Fatalf("%d to %d shards: %s moves from %d to %d, which is not the new one", count, count+1, name, before, after)
				}
			}
		}
		// Binomial, with a deviation below the square root of its mean.
		share := float64(endpoints) / float64(count+1)
		for i, n := range shares {
			if float64(n) < 0.85*share || float64(n) > 1.15*share {
				t.Errorf("%d shards: shard %d has %d of %d endpoints, want about %.0f", count+1, i, n, endpoints, share)
			}
		}
		for i, n := range moved {
			if want := share / float64(count); float64(n) < 0.6*want || float64(n) > 1.4*want {
				t.Errorf("%d to %d shards: %d endpoints move away from shard %d, want about %.0f", count, count+1, n, i, want)
			}
		}
	}
}

func TestShardsHaveEachEndpointOnce(t *testing.T) {
	var all []*config.Endpoint
	for i := range 100 {
		all = append(all, &config.Endpoint{Name: fmt.Sprint("e", i)})
	}
	owners := map[string]int{}
	for i := range 3 {
		for _, e := range (shard{i, 3}).of(all) {
			owners[e.Name]++
		}
	}
	for _, e := range all {
		if owners[e.Name] != 1 {
			t.Errorf("%s belongs to %d of 3 shards", e.Name, owners[e.Name])
		}
	}
	if got := (shard{0, 1}).of(all); len(got) != len(all) {
		t.Errorf("the only shard has %d of %d endpoints", len(got), len(all))
	}
}

func TestShardFlags(t *testing.T) {
	f := func(index, count int, good bool) {
		t.Helper()
		if err := (shard{index, count}).check(); (err == nil) != good {
			t.Errorf("shard %d of %d: %v", index, count, err)
		}
	}
	f(0, 1, true)
	f(2, 3, true)
	f(3, 3, false)
	f(-1, 3, false)
	f(0, 0, false)
}
