package cluster

import (
	"fmt"
	"slices"
	"testing"
)

// shards are exporters that share what they find. Each is an index of a count.
type shards map[[2]int]*daemon

// owners returns the shards of each endpoint.
func (s shards) owners() map[string][][2]int {
	all := map[string][][2]int{}
	for shard, d := range s {
		names, _ := d.endpoints()
		for _, name := range names {
			all[name] = append(all[name], shard)
		}
	}
	return all
}

// Shards grow from 3 to 5 as those of a StatefulSet do: the new ones start, then the others restart, the last one first.
// Before and after, each endpoint has one owner. Meanwhile one that moves has its old owner too, until that restarts; an
// endpoint has none only while its only owner restarts, and none moves between shards that were there before.
func TestShards(t *testing.T) {
	const namespace = "shards"
	account := installForDiscovery(t, namespace)
	const models = "shards-models"
	newNamespace(t, models, "privileged")
	new(output).run(t, "simulate", "--web.listen-address=0.0.0.0:8000")
	const pods = 20
	if err := apply(t.Context(), models, deployment(pods)); err != nil {
		t.Fatal(err)
	}
	config := discoveryConfig(t, tokenOf(t, namespace, account), "pod", models)
	all := shards{}
	start := func(index, count int) {
		all[[2]int{index, count}] = startDaemon(t, config, fmt.Sprintf("--shard.index=%d", index), fmt.Sprintf("--shard.count=%d", count))
	}
	stop := func(index, count int) {
		d := all[[2]int{index, count}]
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		delete(all, [2]int{index, count})
	}
	settled := func(what string) (owner map[string]int) {
		t.Helper()
		eventually(t, "one owner of each endpoint "+what, func() string {
			owner = map[string]int{}
			for name, by := range all.owners() {
				if len(by) != 1 {
					return fmt.Sprintf("%s has the owners %v", name, by)
				}
				owner[name] = by[0][0]
			}
			if len(owner) != pods {
				return fmt.Sprintf("%d endpoints", len(owner))
			}
			return ""
		})
		return owner
	}

	for i := range 3 {
		start(i, 3)
	}
	before := settled("of 3 shards")
	// growing waits until what moves to the new shards is there, and reports each endpoint without an owner, but those
	// of the shard that restarts.
	moved := map[string]int{}
	growing := func(what string, restarts int) {
		t.Helper()
		eventually(t, what, func() string {
			owners, missing := all.owners(), 0
			for name, was := range before {
				by := owners[name]
				fresh := slices.IndexFunc(by, func(s [2]int) bool { return s[0] >= 3 })
				if fresh >= 0 {
					moved[name] = by[fresh][0]
				}
				switch old := slices.ContainsFunc(by, func(s [2]int) bool { return s[0] == was }); {
				case len(by) == 0 && was != restarts:
					t.Errorf("%s: %s has no owner", what, name)
				case len(by) == 0:
					missing++
				case len(by) > 2 || len(by) == 2 && (fresh < 0 || !old) || len(by) == 1 && fresh < 0 && !old:
					t.Errorf("%s: %s of shard %d has the owners %v", what, name, was, by)
				}
			}
			if missing > 0 || len(all) == 5 && len(moved) == 0 {
				return fmt.Sprintf("%d endpoints have no owner, %d moved", missing, len(moved))
			}
			return ""
		})
	}
	start(3, 5)
	start(4, 5)
	growing("with 2 shards more", -1)
	for _, i := range []int{2, 1, 0} {
		stop(i, 3)
		start(i, 5)
		growing(fmt.Sprintf("with shard %d restarted", i), i)
	}
	after := settled("of 5 shards")
	for name, was := range before {
		if is := after[name]; is != was && is < 3 {
			t.Errorf("%s moved from shard %d to %d", name, was, is)
		}
	}
	t.Logf("%d of %d endpoints moved", len(moved), pods)
	if len(moved) == 0 {
		t.Error("no endpoint moved")
	}
}
