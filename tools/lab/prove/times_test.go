package prove

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/past"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/query"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// large is the fleet for which the dashboards have to be quick.
func large() past.Fleet {
	return past.Fleet{Endpoints: 500, Modules: 2, Servers: 2, Probers: 2, Machines: 16, Scrape: 15 * time.Second}
}

// threeHours is what the dashboards show by default, in as many points as a wide
// panel draws, at Grafana's rate interval for a scrape every 15 s.
func threeHours() board.Window {
	return board.Window{Step: 15 * time.Second, Range: 3 * time.Hour, Rate: time.Minute}
}

// measuring is how long the past has to last after its beginning to be made up, for
// what asks for the present is not to end.
const measuring = 20 * time.Minute

// timed is a query and how long its answers took.
type timed struct {
	name  string
	bytes int64         // of the answer
	took  time.Duration // the quickest of several
	times int
}

// BenchmarkQueries times every query of the dashboards over three hours of 500
// endpoints, all values of the variables chosen, in a real Prometheus with
// classic histograms. It prints the slowest. It takes minutes to make up the past.
func BenchmarkQueries(b *testing.B) {
	rules, err := readRules(glob(b, "../../../alerts/*.yml"))
	if err != nil {
		b.Fatal(err)
	}
	names := query.NewNames(collector.Catalogue(), recordedBy(rules))
	boards := readBoards(b, "../../../dashboards/*.json")
	now := time.Now().Truncate(time.Second)
	client := remember(b, pastOf(b, boards, rules), now.Add(measuring))
	var all []timed
	for _, board := range boards {
		can, err := choose(b.Context(), client, board, names)
		if err != nil {
			b.Fatal(err)
		}
		for _, q := range board.Queries {
			name := queryName(board, q)
			filled, err := threeHours().Fill(q.Expr, can.all[0])
			if err != nil {
				b.Fatal(err)
			}
			one := timed{name: name}
			b.Run(name, func(b *testing.B) { one.ask(b, client, q.Range, filled, now) })
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(x, y timed) int { return cmp.Compare(y.took, x.took) })
	for _, t := range all[:min(10, len(all))] {
		// The log of a benchmark with others in it is not shown.
		fmt.Printf("%8.0f ms %6d kB  %s\n", float64(t.took.Microseconds())/1000, t.bytes/1000, t.name)
	}
}

// BenchmarkRules times every rule for 1,000 endpoints in a real Prometheus with
// classic histograms, and prints for each group, and each file, what the evaluations take
// of a processor: by the clock, and by what Prometheus says of its time, which depends less on
// what else the machine does. A rule is timed as a query, with its answer as text.
func BenchmarkRules(b *testing.B) {
	files := glob(b, "../../../alerts/*.yml")
	rules, err := readRules(files)
	if err != nil {
		b.Fatal(err)
	}
	asked := make([]parser.Expr, len(rules))
	for i, r := range rules {
		if asked[i], err = query.Parse(r.Expr); err != nil {
			b.Fatal(err)
		}
	}
	fleet := past.Fleet{Endpoints: 1000, Modules: 1, Servers: 1, Probers: 1, Machines: 16, Scrape: 15 * time.Second}
	now := time.Now().Truncate(time.Second)
	client := remember(b, seriesOf(b, fleet, past.Lookbacks(asked, measuring), rules), now.Add(measuring))
	var all []load // by group, and the last of each file by file
	for _, file := range files {
		rules, err := readRules([]string{file})
		if err != nil {
			b.Fatal(err)
		}
		whole := load{name: filepath.Base(file)}
		for _, r := range rules {
			if len(all) == 0 || all[len(all)-1].name != r.group {
				all = append(all, load{name: r.group})
			}
			one, before := timed{name: r.name()}, processorTime(b, client)
			b.Run(r.name(), func(b *testing.B) { one.ask(b, client, false, r.Expr, now) })
			busy := (processorTime(b, client) - before) / float64(one.times)
			for _, l := range []*load{&all[len(all)-1], &whole} {
				l.rules++
				l.took += one.took.Seconds() / time.Duration(r.every).Seconds()
				l.busy += busy / time.Duration(r.every).Seconds()
			}
		}
		all = append(all, whole)
	}
	for _, l := range all {
		fmt.Printf("%5.2f %% of the time, %5.2f %% of a processor: %3d rules of %s\n", 100*l.took, 100*l.busy, l.rules, l.name)
	}
}

// load is what rules take, as shares of a second for each second.
type load struct {
	name       string
	rules      int
	took, busy float64
}

// processorTime returns the seconds that Prometheus has computed.
func processorTime(b *testing.B, client stand.Client) float64 {
	answer, err := http.Get(client.Base + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nprocess_cpu_seconds_total ")
	number, _, _ := strings.Cut(rest, "\n")
	seconds, err := strconv.ParseFloat(number, 64)
	if err != nil {
		b.Fatal(err)
	}
	return seconds
}

// ask times a query until the last byte of its answer, as text.
func (t *timed) ask(b *testing.B, client stand.Client, overTime bool, expr string, now time.Time) {
	w := threeHours()
	form, path := url.Values{"query": {expr}}, "/api/v1/query?"
	if overTime {
		path = "/api/v1/query_range?"
		form.Set("start", now.Add(-w.Range).Format(time.RFC3339))
		form.Set("end", now.Format(time.RFC3339))
		form.Set("step", w.Step.String())
	} else {
		form.Set("time", now.Format(time.RFC3339))
	}
	for b.Loop() {
		began := time.Now()
		answer, err := http.Get(client.Base + path + form.Encode())
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
			b.Fatalf("%s: status %d, %v", expr, answer.StatusCode, err)
		}
		t.times++
		if took := time.Since(began); t.took == 0 || took < t.took {
			t.bytes, t.took = n, took
		}
	}
}

// pastOf returns all series that dashboards read, as far back as they look.
func pastOf(b *testing.B, boards []*board.Board, rules []rule) []past.Series {
	w := threeHours()
	// What lists the values of variables is read as well.
	asked := []parser.Expr{
		&parser.VectorSelector{Name: "inference_exporter_build_info"}, &parser.VectorSelector{Name: "inference_endpoint_info"},
		&parser.VectorSelector{Name: "inference_gpu_state"}, &parser.VectorSelector{Name: "inference_gpu_device_up"},
	}
	everything := map[string]string{"job": ".*", "model": ".*", "endpoint": ".*", "instance": ".*", "gpu": ".*", "datasource": "prometheus"}
	for _, board := range boards {
		for _, q := range board.Queries {
			filled, err := w.Fill(q.Expr, everything)
			if err != nil {
				b.Fatal(err)
			}
			e, err := query.Parse(filled)
			if err != nil {
				b.Fatal(err)
			}
			asked = append(asked, e)
		}
	}
	return seriesOf(b, large(), past.Lookbacks(asked, w.Range+measuring), rules)
}

// seriesOf returns the series of a fleet, scraped and recorded, as far back as they
// are looked for.
func seriesOf(b *testing.B, of past.Fleet, far map[string]time.Duration, rules []rule) []past.Series {
	all := of.Scraped(collector.Catalogue(), far)
	for _, r := range rules {
		if r.Record == "" {
			continue
		}
		e, err := query.Parse(r.Expr)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, of.Recorded(r.Record, e, time.Duration(r.every), far)...)
	}
	return all
}

// remember starts a Prometheus that has series until a time.
func remember(b *testing.B, all []past.Series, until time.Time) stand.Client {
	dir, began := b.TempDir(), time.Now()
	n, err := past.Write(b.Context(), dir, all, until)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("%d series with %d samples made up in %s\n", len(all), n, time.Since(began).Round(time.Second))
	p, err := stand.StartPrometheus(b.Context(), stand.PrometheusOptions{Program: tool(b, "prometheus"), Data: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	for _, err := p.Instant(b.Context(), "up", until); err != nil; _, err = p.Instant(b.Context(), "up", until) {
		select {
		case <-b.Context().Done():
			b.Fatal(err)
		case <-time.After(time.Second): // it reads its data
		}
	}
	return p.Client
}
