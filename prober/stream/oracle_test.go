package stream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sse "github.com/tmaxmax/go-sse"
	"pgregory.net/rapid"
)

// oracle reads in with an independent SSE reader. It yields events without
// data too, and it differs at the end of the input, so that callers close the
// last event.
func oracle(in []byte) []event {
	var got []event
	for e, err := range sse.Read(bytes.NewReader(in), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil {
			break
		}
		if e.Data != "" {
			got = append(got, event{Event: e.Type, Data: e.Data})
		}
	}
	return got
}

func TestAgreesWithOracle(t *testing.T) {
	line := rapid.SampledFrom([]string{
		"", "", "", "data: x", "data:y", "data", "data:", "data:  z ", "data: caf\u00e9", "event: e", "event", "event:",
		": c", ":", "id: 1", "retry: 5", "retry: x", "foo: bar", "foo", " data: x", "Data: x",
	})
	end := rapid.SampledFrom([]string{"\n", "\n", "\r\n", "\r"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		if rapid.Bool().Draw(t, "byte order mark") {
			b.WriteString(byteOrderMark)
		}
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			b.WriteString(line.Draw(t, "line"))
			b.WriteString(end.Draw(t, "end"))
		}
		b.WriteString("\n\n")
		in := []byte(b.String())
		got, err := readFrames(SSE, random(in, rapid.Uint64().Draw(t, "seed")), DefaultLimits())
		if err != io.EOF {
			t.Fatalf("%q ended by %v", in, err)
		}
		if d := cmp.Diff(oracle(in), got); d != "" {
			t.Fatalf("%q (-oracle +got):\n%s", in, d)
		}
	})
}

func FuzzSSE(f *testing.F) {
	for _, s := range []string{
		"", "data: x\n\n", "\n\xef\xbb\xbfdata:0\n\n", "\xef\xbb\xbfdata: x\r\n\r\n", "data\ndata: a\n\nevent: e\ndata: b\r\r", ": c\n\ndata: : c\n\n",
		"error: {}\n\n", "data: x", "data: x\n", "data:\x00\n\n", "id: 1\nretry: 2\n\ndata: y\n\n", "{\"error\":1}",
		"data: " + strings.Repeat("x", 5000) + "\n\n", strings.Repeat("data: x\n", 60) + "\n", strings.Repeat("data: x\n\n", 60),
	} {
		f.Add([]byte(s), uint64(1))
	}
	small := Limits{Line: 300, Event: 400, Body: 4000, Events: 40}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		for _, l := range []Limits{small, DefaultLimits()} {
			want, wantErr := checkSplits(t, SSE, in, seed, l)
			for _, e := range want {
				if e.Data == "" || len(e.Data) > l.Event {
					t.Fatalf("frame of %d bytes", len(e.Data))
				}
			}
			if wantErr != io.EOF && !errors.Is(wantErr, ErrTooLarge) {
				t.Fatalf("ended by %v", wantErr)
			}
		}
		compareWithOracle(t, in)
	})
}

// compareWithOracle leaves out the inputs where this reader differs on
// purpose: error lines and comments as data, and a byte order mark in mid-stream,
// which the oracle strips against the specification.
func compareWithOracle(t *testing.T, in []byte) {
	t.Helper()
	if bytes.LastIndex(in, []byte(byteOrderMark)) > 0 {
		return
	}
	if bytes.Contains(in, []byte("error")) || bytes.Contains(in, []byte("data::")) || bytes.Contains(in, []byte("data: :")) {
		return
	}
	in = append(bytes.Clone(in), "\n\n"...)
	got, _ := readFrames(SSE, bytes.NewReader(in), DefaultLimits())
	if d := cmp.Diff(oracle(in), got); d != "" {
		t.Fatalf("%q (-oracle +got):\n%s", in, d)
	}
}
