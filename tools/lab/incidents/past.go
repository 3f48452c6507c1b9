package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The rules look at an hour, so that what had run for a minute when it failed is judged by
// other evidence than what had run for long: see alerts/README.md. That hour is made up of
// the page of the exporter when all is well, continued backwards.
const (
	pastLength = 70 * time.Minute
	pastStep   = 15 * time.Second
)

// remember has Prometheus begin with a past in which all was well.
func (s *stand) remember(ctx context.Context, exporter string) error {
	page, err := get(ctx, "http://"+exporter+"/metrics")
	if err != nil {
		return err
	}
	text, err := past(page, exporter, time.Now().Add(-pastStep))
	if err != nil {
		return err
	}
	if err := s.write("past.txt", text); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.promtool, "tsdb", "create-blocks-from", "openmetrics", "past.txt", "prometheus")
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make up the past: %w: %s", err, out)
	}
	return nil
}

// past returns samples of the values of a page for the time before an instant: counters
// that grew as fast as since the exporter started, and all else as it is. Histograms are
// left out.
func past(page, exporter string, until time.Time) (string, error) {
	counters, started := map[string]bool{}, 0.0
	type sample struct {
		series string
		value  float64
	}
	var samples []sample
	histograms := map[string]bool{}
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if declared, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(declared, " ")
			counters[name], histograms[name] = kind == "counter", kind == "histogram" || kind == "summary"
		}
		if line == "" || line[0] == '#' {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			return "", fmt.Errorf("read the page of the exporter: %q: %w", line, err)
		}
		name, labels, _ := strings.Cut(line[:cut], "{")
		if name == "process_start_time_seconds" {
			started = value
		}
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !histograms[family] && !histograms[name] {
			labels = strings.TrimSuffix(labels, "}")
			if labels != "" {
				labels += ","
			}
			samples = append(samples, sample{fmt.Sprintf("%s{%sjob=%q,instance=%q}", name, labels, job, exporter), value})
		}
	}
	if started == 0 {
		return "", errors.New("the page of the exporter does not say when it started")
	}
	age := float64(until.UnixMilli())/1e3 - started
	var b strings.Builder
	for _, s := range samples {
		name, _, _ := strings.Cut(s.series, "{")
		for at := until.Add(-pastLength); !at.After(until); at = at.Add(pastStep) {
			v := s.value
			if counters[name] {
				v *= at.Sub(until.Add(-pastLength)).Seconds() / max(1, age)
			}
			fmt.Fprintf(&b, "%s %s %.3f\n", s.series, strconv.FormatFloat(v, 'g', -1, 64), float64(at.UnixMilli())/1e3)
		}
	}
	b.WriteString("# EOF\n")
	return b.String(), nil
}

// get returns what is at a URL.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: status %d", url, response.StatusCode)
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, io.LimitReader(response.Body, 64<<20))
	return b.String(), err
}
