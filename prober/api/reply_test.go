package api

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// reply is what a whole stream decodes to.
type reply struct {
	Text, Reasoning, Refusal, Tool string
	Tokens, Visible                int   // frames with material; with visible material
	Summaries                      int   // frames with a summary of reasoning
	Counts                         []int // running counts, where reported
	Finish                         string
	Usage                          Usage
	Server                         ServerTimes
	Err                            ServerError
	Done, Partial                  bool
	Broken                         bool // a frame was not of the protocol
}

// noReply is a reply without content.
func noReply() reply {
	return reply{Usage: noUsage(), Server: ServerTimes{-1, -1, -1}}
}

// with is a reply without content, except for a change.
func with(change func(*reply)) reply {
	r := noReply()
	change(&r)
	return r
}

// decodeReply reads a whole body as a probe would.
func decodeReply(t testing.TB, api string, body io.Reader) reply {
	t.Helper()
	p, ok := Lookup(api)
	if !ok {
		t.Fatalf("no protocol %q", api)
	}
	got := noReply()
	tally := NewTally()
	var d Delta
	frames, decoder := stream.New(p.Framing, body, stream.DefaultLimits()), p.NewDecoder()
	for {
		f, err := frames.Next()
		if err == io.EOF {
			got.Usage = tally.Usage()
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got.Partial = got.Partial || f.Partial
		if err := decoder.Decode(f.Event, f.Data, &d); err != nil {
			got.Broken = true
			continue
		}
		got.add(&d)
		tally.Add(d.Usage)
	}
}

func (r *reply) add(d *Delta) {
	r.Text += string(d.Text)
	r.Reasoning += string(d.Reasoning)
	r.Refusal += string(d.Refusal)
	r.Tool += string(d.Tool)
	if d.HasToken() {
		r.Tokens++
	}
	if d.Visible() {
		r.Visible++
	}
	if d.Summary {
		r.Summaries++
	}
	if d.Tokens != Unknown {
		r.Counts = append(r.Counts, d.Tokens)
	}
	if d.Finish != "" {
		r.Finish = d.Finish
	}
	if d.Server != nil {
		r.Server = *d.Server
	}
	if d.Err != nil {
		r.Err = *d.Err
	}
	r.Done = r.Done || d.Done
}

// upTo returns the counts from 1 to n but for those left out.
func upTo(n int, without ...int) []int {
	var counts []int
	for i := range n {
		if len(without) > 0 && i+1 == without[0] {
			without = without[1:]
			continue
		}
		counts = append(counts, i+1)
	}
	return counts
}

// hiReply is a reply of one token that ended well.
func hiReply(r *reply) { r.Text, r.Tokens, r.Visible, r.Finish, r.Done = "hi", 1, 1, "stop", true }

// checkReads decodes a body whole, byte by byte and in random pieces.
func checkReads(t *testing.T, api string, body []byte, want reply) {
	t.Helper()
	check := func(how string, r io.Reader) {
		t.Helper()
		if d := cmp.Diff(want, decodeReply(t, api, r)); d != "" {
			t.Errorf("%s (-want +got):\n%s", how, d)
		}
	}
	check("whole", bytes.NewReader(body))
	check("byte by byte", iotest.OneByteReader(bytes.NewReader(body)))
	for seed := range uint64(20) {
		check("random pieces", &cutter{body, rand.New(rand.NewPCG(seed, 0))})
	}
}

// checkOdd decodes frames of JSON, one a line, in the framing of an api. In an
// event stream a frame has the name before its first blank, if it has one.
func checkOdd(t *testing.T, api, name, frames string, change func(*reply)) {
	t.Helper()
	body := frames + "\n"
	if p, _ := Lookup(api); p.Framing == stream.SSE {
		body = events(frames)
	}
	if d := cmp.Diff(with(change), decodeReply(t, api, strings.NewReader(body))); d != "" {
		t.Errorf("%s, %s (-want +got):\n%s", api, name, d)
	}
}

// events frames lines of JSON, each with the name before its first blank, if it
// has one.
func events(lines string) string {
	var body strings.Builder
	for line := range strings.SplitSeq(lines, "\n") {
		if event, data, ok := strings.Cut(line, " {"); ok && event != "" && !strings.Contains(event, "{") {
			line = "{" + data
			body.WriteString("event: " + event + "\n")
		}
		body.WriteString("data: " + line + "\n\n")
	}
	return body.String()
}
