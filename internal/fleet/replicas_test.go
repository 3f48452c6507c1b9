package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Of three simulated servers one has blocks of another size. That is a finding after half an hour, also where the exporter was
// restarted meanwhile: in the metrics, on the page of the endpoint and as a cause.
func TestReplicasThatDiffer(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.Engine = "vllm"
		var hosts []string
		for _, size := range []int{16, 32, 16} {
			o.BlockSize = size
			hosts = append(hosts, testlab.NewWitness(t, o).URL)
		}
		text := fmt.Sprintf("modules: {m: {output_tokens: 3}}\nendpoints: [{name: e, url: %s, modules: [m], servers: {urls: [%s/metrics, %s/metrics, %s/metrics]}}]",
			hosts[0], hosts[0], hosts[1], hosts[2])
		start := func(restore func(*lab)) *lab {
			l := newLab(t)
			l.Scraping = schedule.New(schedule.Options{})
			restore(l)
			if err := l.Apply(planOf(parse(t, text))); err != nil {
				t.Fatal(err)
			}
			return l
		}
		// read reads the pages as if it were later.
		read := func(l *lab, later time.Duration) {
			e := l.endpoint("e")
			statuses := e.scrape.reader.Scrape(testlab.Context(t), knownOf(e.facts))
			for i := range statuses {
				if statuses[i].Snapshot == nil {
					t.Fatalf("a page could not be read: %+v", statuses[i])
				}
				at := *statuses[i].Snapshot
				at.At = at.At.Add(later)
				statuses[i].At, statuses[i].Snapshot = at.At, &at
			}
			e.read(statuses)
		}
		wantDiffer := func(l *lab, setting string, want float64) {
			t.Helper()
			p := l.page()
			if got := p.Sum("inference_endpoint_replicas_differ", "setting", setting); got != want || !p.Has("inference_endpoint_replicas_differ", "setting", setting) {
				t.Errorf("%s differs: %v, want %v; page %v", setting, got, want, p["inference_endpoint_replicas_differ"])
			}
		}
		l := start(func(*lab) {})
		l.run("e", schedule.Run{Scheduled: time.Now()})
		read(l, 0)
		wantDiffer(l, "kv_cache_block_tokens", 0)

		next := start(func(next *lab) {
			if err := l.saveEndpoints(func(record any) error {
				line, err := json.Marshal(record)
				if err != nil {
					return err
				}
				return next.restore(line)
			}); err != nil {
				t.Fatal(err)
			}
		})
		next.run("e", schedule.Run{Scheduled: time.Now()})
		read(next, 29*time.Minute)
		wantDiffer(next, "kv_cache_block_tokens", 0)
		read(next, 31*time.Minute)
		wantDiffer(next, "kv_cache_block_tokens", 1)
		wantDiffer(next, "prefix_caching", 0)

		d, ok := next.Board.Detail("e")
		found, _ := workload.In[*page.Compared](d.Facts)
		if !ok || found == nil || len(found.Findings) != 1 || len(found.Findings[0].Values["16"]) != 2 || len(found.Findings[0].Values["32"]) != 1 {
			t.Fatalf("on the page: %+v", found)
		}
		words := "servers differ in " + found.Findings[0].String()
		if len(d.Changes) == 0 || d.Changes[0].Text != words {
			t.Errorf("changes %+v, want %q first", d.Changes, words)
		}
		report, _ := next.Explain("e")
		if !slices.ContainsFunc(report.Findings, func(f explain.Finding) bool { return f.Cause == explain.ReplicasDiffer }) {
			t.Errorf("findings %+v", report.Findings)
		}
	})
}
