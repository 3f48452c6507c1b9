package api

import (
	"io"
	"testing"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// reply is what a whole stream decodes to.
type reply struct {
	Text, Reasoning, Refusal, Tool string
	Tokens, Visible                int   // frames with material; with visible material
	Counts                         []int // running counts, where reported
	Finish                         string
	Usage                          Usage
	Server                         ServerTimes
	Err                            ServerError
	Done, Partial                  bool
	Broken                         bool // a frame was not of the protocol
}

// noReply is a reply that told nothing.
func noReply() reply {
	return reply{Usage: noUsage(), Server: ServerTimes{-1, -1, -1}}
}

// decodeReply reads a whole body as a probe would.
func decodeReply(t testing.TB, api string, body io.Reader) reply {
	t.Helper()
	p, ok := Lookup(api)
	if !ok {
		t.Fatalf("no protocol %q", api)
	}
	got := noReply()
	var tally Tally
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
