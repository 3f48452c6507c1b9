package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares what write writes with a file.
func golden(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
	return b.String()
}

// fixtures

var target = result.Target{Endpoint: "llama-prod", URL: "https://llm.example.com/v1", Module: "interactive"}

const ms = time.Millisecond

// blank is a result that measured nothing.
func blank() *result.Result {
	r := &result.Result{
		StartLag: result.Absent, Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Outcome: result.Success,
		API: "openai-chat", Kind: api.Generation, Model: "llama-8b", Prefix: "cold",
		TraceID: [16]byte{0x4b, 0xf9, 0x2f, 0x35, 15: 0x36}, Clock: result.ClockKernel,
		Timing:     result.Timing{TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, MaxGap: result.Absent, Duration: result.Absent},
		Tokens:     result.Tokens{Prompt: api.Unknown, Cached: api.Unknown, Output: api.Unknown, Reasoning: api.Unknown},
		Server:     api.ServerTimes{Queue: result.Absent, Prefill: result.Absent, Decode: result.Absent},
		RateLimit:  api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown},
		RetryAfter: result.Absent,
	}
	for i := range r.Timing.Phases {
		r.Timing.Phases[i] = result.Absent
	}
	return r
}

// setPhases sets the phases in order, and the duration to their sum.
func setPhases(r *result.Result, phases ...time.Duration) {
	r.Timing.Duration = 0
	for i, d := range phases {
		r.Timing.Phases[i] = d
		r.Timing.Duration += max(0, d)
	}
}

// whole is a success in which everything was measured: 21 events 20 ms apart
// but for one stall of 300 ms, the first 6 of them reasoning, the last 2 of
// them merged with their successors.
func whole() *result.Result {
	r := blank()
	r.Status, r.Engine, r.Finish, r.Reused = 200, "vllm", "length", true
	at := 200 * ms
	for i := range 21 {
		r.Events = append(r.Events, result.Event{At: at, Tokens: 1, Reasoning: i < 6, Merged: i == 18 || i == 19})
		if at += 20 * ms; i == 10 {
			at += 280 * ms
		}
	}
	setPhases(r, 2*ms, 18*ms, 30*ms, 150*time.Microsecond, 99_850*time.Microsecond, 50*ms, 680*ms, 500*time.Microsecond)
	r.Timing.TTFT, r.Timing.TTFO, r.Timing.TPOT, r.Timing.MaxGap, r.Timing.PerCharacter = 150*ms, 270*ms, 34*ms, 300*ms, 8*ms
	r.Tokens = result.Tokens{Prompt: 256, Cached: 192, Output: 21, Reasoning: 6, Source: result.TokensFromUsage}
	r.Server = api.ServerTimes{Queue: 12 * ms, Prefill: 80 * ms, Decode: 670 * ms}
	r.RateLimit = api.RateLimit{Requests: 99, Tokens: 12345}
	r.CertNotAfter = r.Start.Add(36 * time.Hour)
	r.Retirement = api.Retirement{Listed: r.Start.Add(360 * time.Hour).Unix(), Deprecated: r.Start.Add(-24 * time.Hour).Unix()}
	r.Imprecise, r.NoEndMarker, r.MaxTokensIgnored = true, true, true
	return r
}

func stalled() *result.Result {
	r := blank()
	r.Outcome, r.Err, r.Status, r.Clock = result.TimeoutStall, errors.New("no token for 15s in mid-answer"), 200, result.ClockProcess
	for i := range 3 {
		r.Events = append(r.Events, result.Event{At: 100*ms + time.Duration(i)*50*ms, ReadLag: result.Absent})
	}
	setPhases(r, result.Absent, ms, result.Absent, 0, 49*ms, 50*ms, 100*ms, 15*time.Second)
	r.Timing.TTFT, r.Timing.TTFO, r.Timing.TPOT, r.Timing.MaxGap = 99*ms, 99*ms, 50*ms, 50*ms
	r.Tokens = result.Tokens{Prompt: api.Unknown, Cached: api.Unknown, Output: 3, Reasoning: api.Unknown, Source: result.TokensFromEvents}
	return r
}

func refused() *result.Result {
	r := blank()
	r.Outcome, r.Status = result.RateLimited, 429
	r.Err = errors.New("status 429: rate_limit_error: You have used all of your quota for this minute")
	r.RetryAfter = 7 * time.Second
	r.RateLimit = api.RateLimit{Requests: 0, Tokens: api.Unknown}
	setPhases(r, result.Absent, ms, result.Absent, 0, 9*ms)
	return r
}

// silent got no answer: its time is in no phase.
func silent() *result.Result {
	r := blank()
	r.Outcome, r.Err = result.TimeoutFirstToken, errors.New("no response headers within 3s")
	r.Sent = r.Start
	setPhases(r, result.Absent, ms, result.Absent, 0)
	r.Timing.Duration = 3001 * ms
	return r
}

func buffered() *result.Result {
	r := blank()
	r.Status, r.Finish, r.Buffered = 200, "stop", true
	for i := range 10 {
		r.Events = append(r.Events, result.Event{At: 500 * ms, Merged: i < 9})
	}
	setPhases(r, result.Absent, ms, result.Absent, 0, 499*ms, 0, 0, 0)
	r.Timing.TTFT, r.Timing.TTFO = 499*ms, 499*ms
	r.Tokens = result.Tokens{Prompt: 0, Cached: 0, Output: 10, Reasoning: api.Unknown, Source: result.TokensFromUsage}
	return r
}

func oneToken() *result.Result {
	r := blank()
	r.Status, r.Finish = 200, "stop"
	r.Events = []result.Event{{At: 42 * ms}}
	setPhases(r, result.Absent, ms, result.Absent, 0, 40*ms, ms, 0, ms)
	r.Timing.TTFT, r.Timing.TTFO = 41*ms, 41*ms
	r.Tokens = result.Tokens{Prompt: 12, Cached: api.Unknown, Output: 1, Reasoning: api.Unknown, Source: result.TokensFromUsage}
	return r
}

func embedding() *result.Result {
	r := blank()
	r.Status, r.API, r.Kind, r.Model = 200, "openai-embeddings", api.Embedding, "bge-m3"
	setPhases(r, result.Absent, ms, result.Absent, 0, 30*ms, result.Absent, result.Absent, 2*ms)
	r.Vectors = api.Vectors{Items: 8, Dimensions: 1024, Norm: 0.99996}
	r.Tokens.Prompt = 2048
	return r
}

func TestText(t *testing.T) {
	f := func(name string, r *result.Result) {
		t.Helper()
		text := golden(t, name+".txt", func(w io.Writer) error { return Text(w, target, []*result.Result{r}, nil, Options{}) })
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
	f("whole", whole())
	f("stalled", stalled())
	f("refused", refused())
	f("silent", silent())
	f("buffered", buffered())
	f("one-token", oneToken())
	f("embedding", embedding())
	unconnected := blank()
	unconnected.Outcome, unconnected.Err = result.DNSError, errors.New("lookup llm.example.com: no such host")
	f("unconnected", unconnected)
}

func TestJSON(t *testing.T) {
	f := func(name string, r *result.Result) {
		t.Helper()
		golden(t, name+".json", func(w io.Writer) error { return JSON(indented{w}, target, r) })
	}
	f("whole", whole())
	f("refused", refused())
	f("embedding", embedding())
}

// indented makes JSON readable, once it is known to be one line.
type indented struct{ w io.Writer }

func (i indented) Write(b []byte) (int, error) {
	if bytes.Count(b, []byte("\n")) != 1 {
		return 0, errors.New("not one line")
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return 0, err
	}
	_, err := i.w.Write(out.Bytes())
	return len(b), err
}

func TestColors(t *testing.T) {
	plain, colored := render(t, whole(), Options{}), render(t, whole(), Options{Color: true})
	if strings.Contains(plain, "\x1b") {
		t.Error("colours that nobody asked for")
	}
	for _, part := range []string{"\x1b[32msuccess\x1b[0m", "\x1b[36m:\x1b[0m", "\x1b[31m~~~~"} {
		if !strings.Contains(colored, part) {
			t.Errorf("%q is not in %q", part, colored)
		}
	}
	for _, code := range []color{bold, red, green, yellow, blue, cyan, faint, "0"} {
		colored = strings.ReplaceAll(colored, "\x1b["+string(code)+"m", "")
	}
	if diff := cmp.Diff(plain, colored); diff != "" {
		t.Errorf("colours change the text (-plain +colored):\n%s", diff)
	}
}

func render(t *testing.T, r *result.Result, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, target, []*result.Result{r}, nil, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestHostileText gives control to a server that must not get it.
func TestHostileText(t *testing.T) {
	r := refused()
	r.Err = errors.New("status 429: \x1b[2J\x1b]0;owned\x07 gone\r\nforged line\u202e\u009b31m\xff")
	r.Model, r.Engine = "m\x1b[31m", "e\b\b"
	r.Answer = result.Answer{Verdict: result.VerdictWrong, Text: "a\x1b[2J\nforged line", Model: "\x1b]", Fingerprint: "\r"}
	var b bytes.Buffer
	if err := Text(&b, result.Target{Endpoint: "a\x1bb", URL: "c\x1bd", Module: "e\x1bf"}, []*result.Result{r}, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range b.String() {
		if c != '\n' && c < ' ' || c >= 0x7f && c < 0xa0 || c == '\u202e' {
			t.Errorf("control character %U in\n%s", c, b.String())
		}
	}
	if strings.Contains(b.String(), "\nforged line") {
		t.Errorf("a line of the server's own:\n%s", b.String())
	}
	s := NewSummary()
	s.Add(r)
	b.Reset()
	if err := s.Text(&b, target, Options{}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\r\x07") {
		t.Errorf("control characters in the summary:\n%s", b.String())
	}
}

// TestWaterfall compares the bars with their phases: each begins where the
// one before it ended.
func TestWaterfall(t *testing.T) {
	var bars [][2]int
	p := newPage(Options{})
	p.width = 124
	p.single(target, whole())
	for line := range strings.Lines(p.buf.String()) {
		if at := strings.IndexAny(line, "█▏"); at >= 0 {
			start := len([]rune(line[:at])) - (indent + labelWidth + durationWidth + 2)
			bars = append(bars, [2]int{start, start + strings.Count(line, "█")})
		}
	}
	// 98 columns for 880.5 ms: 2, 20, 50, 50.15, 150, 200, 880, 880.5 ms.
	want := [][2]int{{0, 0}, {0, 2}, {2, 6}, {6, 6}, {6, 17}, {17, 22}, {22, 98}, {97, 97}}
	if diff := cmp.Diff(want, bars); diff != "" {
		t.Errorf("bars, from column to column (-want +got):\n%s", diff)
	}
}

func TestTimeline(t *testing.T) {
	events := func(gaps ...time.Duration) []result.Event {
		out := []result.Event{{At: ms}}
		for _, g := range gaps {
			out = append(out, result.Event{At: out[len(out)-1].At + g})
		}
		return out
	}
	f := func(events []result.Event, want ...string) {
		t.Helper()
		p := newPage(Options{})
		p.width = 40 // 27 columns
		p.timeline(events)
		got := strings.Split(strings.Trim(p.buf.String(), "\n"), "\n")
		if p.buf.Len() == 0 {
			got = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f(nil)
	f(events())
	f(events(0, 0), "Tokens over time: all 3 events at once, 1.00 ms after the start")
	f(events(10*ms, 10*ms, 20*ms), "Tokens over time: 4 events in 40.0 ms, one column is 2.00 ms",
		"    1.00 ms  |....|....|.........|",
		"               | answer")
	// 100 ms are no stall, 101 ms are one.
	f(events(20*ms, 20*ms, 20*ms, 100*ms, 101*ms, 20*ms), "Tokens over time: 7 events in 281 ms, one column is 10.0 ms",
		"    1.00 ms  |.|.|.|.........|~~~~~~~~~|",
		"     271 ms  .|",
		"               | answer   ~ stall",
		"  stall        101 ms before event 6,",
		"               262 ms after the start")
	// Four times the median is no stall either.
	if _, stalls := findStalls(events(100*ms, 100*ms, 100*ms, 400*ms)); len(stalls) != 0 {
		t.Errorf("stalls %v", stalls)
	}
	if _, stalls := findStalls(events(100*ms, 100*ms, 401*ms, 100*ms)); len(stalls) != 1 || stalls[0] != (stall{3, 401 * ms}) {
		t.Errorf("stalls %v", stalls)
	}
	// A clock that was set back.
	f(events(20*ms, -40*ms, 50*ms, -5*ms), "Tokens over time: 5 events in 25.0 ms, one column is 1.00 ms",
		"    1.00 ms  |...................|....|",
		"               | answer")
	// More stalls than are worth a line.
	many := events()
	for range 7 {
		last := many[len(many)-1].At
		many = append(many, result.Event{At: last + ms}, result.Event{At: last + 2*ms}, result.Event{At: last + time.Second})
	}
	p := newPage(Options{})
	p.timeline(many)
	if got := p.buf.String(); strings.Count(got, "stall  ") != maxStalls || !strings.Contains(got, "and 2 more") {
		t.Errorf("stalls of\n%s", got)
	}
	// However dense, it takes few lines.
	dense := events()
	for range 5000 {
		dense = append(dense, result.Event{At: dense[len(dense)-1].At + 7*ms})
	}
	p = newPage(Options{})
	p.timeline(dense)
	if got := strings.Count(p.buf.String(), "\n"); got > maxLines+3 {
		t.Errorf("%d lines of\n%s", got, p.buf.String())
	}
}

func TestDuration(t *testing.T) {
	f := func(d time.Duration, want string) {
		t.Helper()
		if got := result.InWords(d); got != want {
			t.Errorf("%d ns: %q, want %q", d.Nanoseconds(), got, want)
		}
	}
	f(0, "0 µs")
	f(500, "0.50 µs")
	f(312_000, "312 µs")
	f(999_499, "999 µs")
	f(999_500, "1.00 ms")
	f(9_994_000, "9.99 ms")
	f(9_995_000, "10.0 ms")
	f(99_949*time.Microsecond, "99.9 ms")
	f(99_950*time.Microsecond, "100 ms")
	f(999_500*time.Microsecond, "1.00 s")
	f(12_340*ms, "12.3 s")
	f(100*time.Minute, "6000 s")
}

func TestWrap(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, Fold(text, 10)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	f("", "")
	f("one two", "one two")
	f("one two three four", "one two", "three four")
	f("überlänge zwei", "überlänge", "zwei")
	f("a-very-long-word b", "a-very-long-word", "b")
	f("   7 ms  x", "   7 ms  x")
}

// An answer that is asked for is shown with its line breaks, and nothing that would move
// the cursor of a terminal.
func TestTextOfTheAnswer(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		r := blank()
		r.Answer.Text = text
		var b bytes.Buffer
		if err := Text(&b, target, []*result.Result{r}, nil, Options{Answer: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), "\nText of the answer\n"+want) {
			t.Errorf("%q: got\n%s", text, &b)
		}
	}
	f("one\n\n  indented two", "  one\n  \n    indented two\n")
	f("a\x1b[2Jb", "  a\uFFFD[2Jb\n")
	f("", "  none: it has no token that a user would see\n")
}
