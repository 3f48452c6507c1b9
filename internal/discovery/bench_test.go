package discovery

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// BenchmarkReload reports how long it takes to have 10,000 endpoints from a file
// of targets: when the source is new, when the configuration is loaded again
// without a change, and when it changes what all of them have in common.
func BenchmarkReload(b *testing.B) {
	const n = 10_000
	dir := b.TempDir()
	var groups []map[string]any
	for i := range n {
		groups = append(groups, map[string]any{
			"targets": []string{fmt.Sprintf("h%d:8000", i)},
			"labels":  map[string]string{"__model__": "m", "zone": fmt.Sprint(i % 7)},
		})
	}
	data, err := json.Marshal(groups)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "targets.json"), data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	const text = "discovery: [{labels: {team: search}, file_sd_configs: [{files: [targets.json]}], relabel_configs: [{source_labels: [__address__], regex: '(.+):.*', target_label: host}]}]"
	l := newLab(b, parse(b, "", "endpoints: [{url: http://h}]"))
	timed := func(sum *time.Duration, cfg *config.Config) {
		b.Helper()
		start := time.Now()
		l.apply(cfg)
		for len(l.Endpoints(cfg).Endpoints) != n {
			<-l.Changed()
		}
		*sum += time.Since(start)
	}
	var fresh, same, changed time.Duration
	for b.Loop() {
		b.StopTimer()
		none, first, second := parse(b, "", "endpoints: [{url: http://h}]"), parse(b, dir, text), parse(b, dir, text)
		third := parse(b, dir, text)
		third.Discovery[0].Template.Labels = map[string]string{"team": "chat"}
		l.apply(none)
		l.Endpoints(none)
		b.StartTimer()
		timed(&fresh, first)
		timed(&same, second)
		timed(&changed, third)
	}
	b.ReportMetric(fresh.Seconds()*1e3/float64(b.N), "fresh-ms")
	b.ReportMetric(same.Seconds()*1e3/float64(b.N), "same-ms")
	b.ReportMetric(changed.Seconds()*1e3/float64(b.N), "changed-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRefresh reports the time for 10,000 endpoints that are as they were.
func BenchmarkRefresh(b *testing.B) {
	m := newFake("m")
	var all []string
	for i := range 10_000 {
		all = append(all, fmt.Sprintf("h%d:8000", i))
	}
	l := newLab(b, with(b, "", m))
	m.find("g", all...)
	<-l.Changed()
	b.ReportAllocs()
	for b.Loop() {
		if n := len(l.Endpoints(l.cfg).Endpoints); n != len(all)+1 {
			b.Fatalf("%d endpoints", n)
		}
	}
}

// BenchmarkListLinear reports how much longer a list of ten times as many targets takes to
// read.
func BenchmarkListLinear(b *testing.B) {
	for name, isYAML := range map[string]bool{"json": false, "yaml": true} {
		b.Run(name, func(b *testing.B) {
			reading := func(targets int) func() {
				one := `{"targets": ["h:8000"], "labels": {"zone": "a"}}`
				text := []byte("[" + strings.Repeat(one+",\n", targets-1) + one + "]")
				return func() {
					l := list{place: "p", label: model.MetaLabelPrefix + "p", limits: config.Limits{DiscoveryTargets: 10_000}}
					if _, err := l.parse(text, isYAML); err != nil {
						b.Fatal(err)
					}
				}
			}
			testlab.Linear(b, reading(1000), reading(10_000))
		})
	}
}
