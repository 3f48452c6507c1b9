package engine

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestHistogram(t *testing.T) {
	const plainMapping = "histograms: {ttft: [{series: t}]}"
	for _, tc := range []struct {
		name    string
		mapping string
		page    string
		want    *Histogram
	}{
		{
			"own bounds", plainMapping,
			"# TYPE t histogram\nt_bucket{le=\"0.1\"} 40\nt_bucket{le=\"1.0\"} 58\nt_bucket{le=\"+Inf\"} 60\nt_count 60\nt_sum 12.5\n",
			&Histogram{Bounds: []float64{0.1, 1}, Counts: []uint64{40, 58}, Count: 60, Sum: 12.5},
		},
		{
			"buckets in any order", plainMapping,
			"t_bucket{le=\"+Inf\"} 60\nt_bucket{le=\"10\"} 58\nt_bucket{le=\"9\"} 40\nt_sum 12.5\nt_count 60\n",
			&Histogram{Bounds: []float64{9, 10}, Counts: []uint64{40, 58}, Count: 60, Sum: 12.5},
		},
		{
			"scale", "histograms: {ttft: [{series: t, scale: 0.001}]}",
			"t_bucket{le=\"100\"} 4\nt_bucket{le=\"5000\"} 5\nt_bucket{le=\"+Inf\"} 6\nt_sum 2000\n",
			&Histogram{Bounds: []float64{100 * 0.001, 5}, Counts: []uint64{4, 5}, Count: 6, Sum: 2},
		},
		{
			"count from +Inf", plainMapping,
			"t_bucket{le=\"1\"} 2\nt_bucket{le=\"+Inf\"} 3\nt_sum 4\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"count and +Inf of different moments", plainMapping,
			"t_bucket{le=\"1\"} 2\nt_bucket{le=\"+Inf\"} 3\nt_sum 4\nt_count 4\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"count without +Inf", plainMapping,
			"t_bucket{le=\"1\"} 2\nt_count 3\nt_sum 4\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"no buckets", plainMapping, "# TYPE t histogram\nt_count 3\nt_sum 4\n",
			&Histogram{Count: 3, Sum: 4},
		},
		{
			"name that ends in _total", "histograms: {ttft: [{series: t_total}]}",
			"# TYPE t_total histogram\nt_total_bucket{le=\"1\"} 2\nt_total_bucket{le=\"+Inf\"} 3\nt_total_sum 4\nt_total_count 3\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 3, Sum: 4},
		},
		{
			"sum over ranks", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 2\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"1.0\"} 5\nt_bucket{r=\"1\",le=\"+Inf\"} 7\nt_sum{r=\"1\"} 9\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{7}, Count: 10, Sum: 13},
		},
		{
			"copies", "copies: [tp]\n" + plainMapping,
			"t_bucket{tp=\"0\",le=\"1\"} 2\nt_bucket{tp=\"0\",le=\"+Inf\"} 3\nt_sum{tp=\"0\"} 4\nt_bucket{tp=\"1\",le=\"1\"} 2\nt_bucket{tp=\"1\",le=\"+Inf\"} 4\nt_sum{tp=\"1\"} 5\n",
			&Histogram{Bounds: []float64{1}, Counts: []uint64{2}, Count: 4, Sum: 5},
		},
		{
			"selected", "histograms: {ttft: [{series: t, labels: {stage: a}}]}",
			"t_bucket{stage=\"a\",le=\"+Inf\"} 3\nt_sum{stage=\"a\"} 4\nt_bucket{stage=\"b\",le=\"+Inf\"} 9\nt_sum{stage=\"b\"} 9\n",
			&Histogram{Count: 3, Sum: 4},
		},
		{
			"sum and number", "histograms: {ttft: [{sum: t_us, count: done, scale: 0.000001}]}",
			"# TYPE t_us counter\nt_us{m=\"a\"} 4500000\nt_us{m=\"b\"} 500000\ndone{m=\"a\"} 7\ndone{m=\"b\"} 2\n",
			&Histogram{Count: 9, Sum: 5},
		},
		{"number too large", "histograms: {ttft: [{sum: t_us, count: done}]}", "t_us 4500000\ndone 1e300\n", nil},
		{"sum without number", "histograms: {ttft: [{sum: t_us, count: done}]}", "t_us 4500000\n", nil},
		{
			"second alternative", "histograms: {ttft: [{series: new}, {series: t}]}",
			"t_count 3\nt_sum 4\n",
			&Histogram{Count: 3, Sum: 4},
		},
		{
			"ranks with different bounds", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 2\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"2\"} 5\nt_bucket{r=\"1\",le=\"+Inf\"} 7\nt_sum{r=\"1\"} 9\n",
			nil,
		},
		{
			"one rank lacks a bound", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 2\nt_bucket{r=\"0\",le=\"+Inf\"} 3\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"1\"} NaN\nt_bucket{r=\"1\",le=\"+Inf\"} 7\nt_sum{r=\"1\"} 9\n",
			nil,
		},
		{"counts decrease", plainMapping, "t_bucket{le=\"1\"} 5\nt_bucket{le=\"2\"} 4\nt_bucket{le=\"+Inf\"} 6\nt_sum 4\n", nil},
		{"fewer than in the last bucket", plainMapping, "t_bucket{le=\"1\"} 5\nt_count 4\nt_sum 4\n", nil},
		{
			"counts of one rank decrease", plainMapping,
			"t_bucket{r=\"0\",le=\"1\"} 5\nt_bucket{r=\"0\",le=\"+Inf\"} 4\nt_sum{r=\"0\"} 4\nt_bucket{r=\"1\",le=\"1\"} 1\nt_bucket{r=\"1\",le=\"+Inf\"} 9\nt_sum{r=\"1\"} 4\n",
			nil,
		},
		{"no count", plainMapping, "t_bucket{le=\"1\"} 5\nt_sum 4\n", nil},
		{"no sum", plainMapping, "t_bucket{le=\"+Inf\"} 5\n", nil},
		{"bound that is no number", plainMapping, "t_bucket{le=\"x\"} 2\nt_bucket{le=\"NaN\"} 2\nt_bucket{le=\"-Inf\"} 2\nt_bucket 2\nt_bucket{le=\"+Inf\"} 3\nt_sum 4\n", &Histogram{Count: 3, Sum: 4}},
		{"more than can be counted", plainMapping, "t_bucket{le=\"+Inf\"} 1e300\nt_sum 4\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newPageLab(t, "sentinels: ['acme:up']\n"+tc.mapping)
			l.wantHistogram(l.read("acme:up 1\n"+tc.page), config.TTFT, tc.want)
		})
	}
}

// TestNewBounds is about an engine that comes back with other bounds.
func TestNewBounds(t *testing.T) {
	l := newPageLab(t, "sentinels: ['acme:up']\nvalues: {preemptions: [{series: x}]}\nhistograms: {ttft: [{series: t}]}")
	l.read("acme:up 1\nx 1\nt_bucket{le=\"1\"} 5\nt_bucket{le=\"+Inf\"} 6\nt_sum 4\n")
	s := l.read("acme:up 1\nx 1\nt_bucket{le=\"2\"} 1\nt_bucket{le=\"+Inf\"} 2\nt_sum 3\n")
	l.wantHistogram(s, config.TTFT, &Histogram{Bounds: []float64{2}, Counts: []uint64{1}, Count: 2, Sum: 3})
}
