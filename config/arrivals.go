package config

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// ArrivalProcess is how the requests of a burst arrive.
type ArrivalProcess string

// The processes, which Arrivals.Process describes.
const (
	ArrivalPoisson  ArrivalProcess = "poisson"
	ArrivalRecorded ArrivalProcess = "recorded"
)

// ArrivalProcesses lists the closed set.
func ArrivalProcesses() []ArrivalProcess { return []ArrivalProcess{ArrivalPoisson, ArrivalRecorded} }

// Arrivals has the requests of a burst start one after the other, as those of users do, instead of all at once.
type Arrivals struct {
	// Process is `poisson`: independent requests, the times between them exponentially
	// distributed; or `recorded`: as requests of users arrived, by `profile_file`.
	Process ArrivalProcess `yaml:"process" oneof:"poisson,recorded" required:"poisson or recorded"`
	// Rate is how many requests start per second on average. On average all must start within half of the module's
	// timeout; one that is drawn later than the timeout starts then. Required with `poisson`; with `recorded` the
	// default is the rate of the recording.
	Rate float64 `yaml:"rate,omitempty" range:"(0,1000]"`
	// ProfileFile is a file with recorded arrivals, at least as many as a run makes requests and at most 100,000, in
	// the order of time: a number of seconds in each line, CSV with a column `timestamp` of seconds or dates, or JSON
	// lines with a `timestamp` in milliseconds; see [workloads](workloads.md#recorded-arrivals). Required with
	// `recorded`.
	ProfileFile string `yaml:"profile_file,omitempty" requires:"process: recorded"`

	// Profile are the arrivals of ProfileFile at Rate, as they were when the configuration was loaded; nil without.
	Profile Profile `yaml:"-"`
}

// PerSecond returns the mean rate of arrivals: Rate or, without, that of the recording.
func (a *Arrivals) PerSecond() float64 {
	if last := len(a.Profile) - 1; last > 0 && a.Rate == 0 {
		return float64(last) / a.Profile[last].Seconds()
	}
	return a.Rate
}

// validateArrivals requires one burst, that the arrivals are of, and bounds the time from its first request to the last:
// the connections are opened before.
func (m *Module) validateArrivals(r *report, p path) {
	a, p := m.Arrivals, p.key("arrivals")
	if a == nil {
		return
	}
	if len(m.Concurrency) != 1 || m.Concurrency[0] < 2 {
		r.errorf(p, "requires concurrency with a single number above 1, which is how many requests a run makes")
		return
	}
	rate, file, n := p.key("rate"), p.key("profile_file"), m.Concurrency[0]
	at, last := rate, float64(n-1)/a.Rate // in seconds on average
	switch recorded := a.Process == ArrivalRecorded; {
	case r.failed[rate] || r.failed[file]:
		return
	case recorded && a.ProfileFile == "":
		r.errorf(file, "missing; process: recorded requires it")
		return
	case recorded && n > len(a.Profile):
		r.errorf(file, "%d arrivals, want at least the %d requests that a run makes", len(a.Profile), n)
		return
	case recorded:
		spans := a.Profile.Spans(n)
		at, last = file, stats.Sum(spans, time.Duration.Seconds)/float64(len(spans))
	case !r.written(rate):
		r.errorf(rate, "missing; process: %s requires it", a.Process)
		return
	}
	if half := time.Duration(m.Timeout).Seconds() / 2; last > half {
		r.errorf(at, "the last of %d requests would start after %.4g s on average, want half of the module's timeout, %.4g s, at most", n, last, half)
	}
}

// Bounds of a file with recorded requests.
const (
	maxTraceRequests = 100_000
	maxTraceSpan     = 366 * 24 * time.Hour
	maxInputTokens   = 2_000_000
	maxOutputTokens  = 100_000
)

// complete reads ProfileFile, which is known to be a regular file.
func (a *Arrivals) complete(r *report, p path) {
	r.loadLines(p.key("profile_file"), a.ProfileFile, func(data []byte) []lineError {
		requests, mistakes := parseTrace(data, false)
		a.Profile = Profile(stats.Map(requests, func(r TracedRequest) time.Duration { return r.At })).atRate(a.Rate)
		return mistakes
	})
}

// Profile are recorded arrivals: the time of each from the first, in the order of time.
type Profile []time.Duration

// atRate returns the profile at another mean rate, in arrivals per second; as it is where that is not above 0.
func (p Profile) atRate(rate float64) Profile {
	if !(rate > 0) || len(p) == 0 {
		return p
	}
	last := len(p) - 1
	factor := float64(last) / rate / p[last].Seconds()
	return stats.Map(p, func(at time.Duration) time.Duration { return time.Duration(float64(at) * factor) })
}

// Spans returns how long each stretch of n arrivals takes, by its first; nil where the profile has fewer.
func (p Profile) Spans(n int) []time.Duration {
	if n < 1 || n > len(p) {
		return nil
	}
	all := make([]time.Duration, len(p)-n+1)
	for i := range all {
		all[i] = p[i+n-1] - p[i]
	}
	return all
}

// parseTrace reads the requests of a file, with lengths where wanted: CSV, or JSON lines as Mooncake's traces.
func parseTrace(data []byte, lengths bool) ([]TracedRequest, []lineError) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	t := traceReader{lengths: lengths}
	read := t.csv
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		read = t.jsonLines
	}
	line, err := read(data)
	if n := len(t.requests); err == nil && (n == 0 || t.requests[n-1].At == 0) {
		err = errors.New("want at least two arrivals, and time between them")
	}
	if err != nil {
		return nil, []lineError{{max(1, line), err}}
	}
	return t.requests, nil
}

type traceReader struct {
	lengths  bool // are read, and must be there
	requests []TracedRequest
	first    time.Time
}

// csv reads lines with a number of seconds or a date each, or CSV with a header that has a column `timestamp` of these,
// in any case: BurstGPT has seconds, Azure's traces have dates. It returns the last line that it read.
func (t *traceReader) csv(data []byte) (line int, err error) {
	rows := csv.NewReader(bytes.NewReader(data))
	rows.ReuseRecord = true
	var columns []int
	for {
		row, err := rows.Read()
		if parseErr, ok := errors.AsType[*csv.ParseError](err); ok {
			return parseErr.Line, parseErr.Err
		}
		if err != nil { // the end: no reading from memory fails
			return line, nil
		}
		line, _ = rows.FieldPos(0)
		if columns == nil {
			var header bool
			if columns, header, err = t.columns(row); err != nil {
				return line, err
			} else if header {
				continue
			}
		}
		var texts [3]string
		for i, column := range columns {
			texts[i] = row[column]
		}
		at, err := parseArrival(texts[0])
		if err := t.add(at, texts[1], texts[2], err); err != nil {
			return line, err
		}
	}
}

// columns returns which columns of the first row have the times and, where these are wanted, the lengths of prompts and
// answers, by the names of Azure's traces, BurstGPT and Mooncake; and whether the row is a header.
func (t *traceReader) columns(row []string) (columns []int, header bool, err error) {
	find := func(names ...string) (columns []int) {
		for _, name := range names {
			i := slices.IndexFunc(row, func(text string) bool { return strings.EqualFold(strings.TrimSpace(text), name) })
			if i < 0 {
				return nil
			}
			columns = append(columns, i)
		}
		return columns
	}
	columns = find("timestamp")
	if header = columns != nil; !header && len(row) == 1 {
		columns = []int{0}
		_, err = parseArrival(row[0])
	}
	if err != nil || columns == nil {
		return nil, false, errors.New("no column timestamp; want a header with one, or a number of seconds in each line")
	}
	if !t.lengths {
		return columns, header, nil
	}
	for _, names := range [][2]string{{"ContextTokens", "GeneratedTokens"}, {"Request tokens", "Response tokens"}, {"input_length", "output_length"}} {
		if lengths := find(names[:]...); lengths != nil {
			return append(columns, lengths...), header, nil
		}
	}
	return nil, false, errors.New("no columns with lengths; want ContextTokens and GeneratedTokens, Request tokens and Response tokens, or input_length and output_length in the header")
}

// parseArrival returns the time of a number of seconds, or of a date: without zones, all are in the same one.
func parseArrival(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return afterEpoch(n, time.Second)
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339} { // fractions are accepted
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("expected a number of seconds or a date such as 2026-01-02 15:04:05.678, got %s", quote(text))
}

// afterEpoch returns the time so many units after the epoch, as an instant to count from.
func afterEpoch(n float64, unit time.Duration) (time.Time, error) {
	const most = 9e9 * float64(time.Second) // a time.Duration holds 292 years
	after := n * float64(unit)
	if !(after >= 0 && after <= most) {
		return time.Time{}, fmt.Errorf("expected a time of 0 to 9e9 s, got %v %s", n, strings.TrimPrefix(unit.String(), "1"))
	}
	return time.Unix(0, 0).Add(time.Duration(after)), nil
}

// parseTokens returns a length; one of 0, as BurstGPT has for answers that failed, as 1.
func parseTokens(text string, most int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("expected a number of tokens up to %d, got %s", most, quote(text))
	}
	return max(1, n), nil
}

// jsonLines reads an object in each line, with a `timestamp` in milliseconds and the lengths: Mooncake's
// traces. It returns the last line that it read.
func (t *traceReader) jsonLines(data []byte) (line int, err error) {
	for text := range bytes.Lines(data) {
		line++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var request struct {
			Timestamp *float64        `json:"timestamp"`
			Input     json.RawMessage `json:"input_length"`
			Output    json.RawMessage `json:"output_length"`
		}
		if err := json.Unmarshal(text, &request); err != nil || request.Timestamp == nil {
			return line, errors.New("want an object in each line, with the number of milliseconds as timestamp")
		}
		if t.lengths && (request.Input == nil || request.Output == nil) {
			return line, errors.New("no lengths; want input_length and output_length in each line")
		}
		at, err := afterEpoch(*request.Timestamp, time.Millisecond)
		if err := t.add(at, string(request.Input), string(request.Output), err); err != nil {
			return line, err
		}
	}
	return line, nil
}

// add adds a request, unless its time has an error already.
func (t *traceReader) add(at time.Time, input, output string, err error) error {
	n := len(t.requests)
	if n == 0 {
		t.first = at
	}
	request := TracedRequest{At: at.Sub(t.first)}
	switch {
	case err != nil:
		return err
	case n == maxTraceRequests:
		return fmt.Errorf("more than %d arrivals; want a part of the recording", maxTraceRequests)
	case n > 0 && request.At < t.requests[n-1].At:
		return errors.New("earlier than the arrival before; want them in the order of time")
	case request.At > maxTraceSpan:
		return errors.New("more than a year after the first arrival")
	}
	if t.lengths {
		if request.Input, err = parseTokens(input, maxInputTokens); err != nil {
			return err
		}
		if request.Output, err = parseTokens(output, maxOutputTokens); err != nil {
			return err
		}
	}
	t.requests = append(t.requests, request)
	return nil
}
