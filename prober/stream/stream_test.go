package stream

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// event is a frame as the tests write it down.
type event struct {
	Event, Data string
	Partial     bool
}

// readFrames returns the frames of r and the error that ended them.
func readFrames(f Framing, r io.Reader, l Limits) ([]event, error) {
	var got []event
	s := New(f, r, l)
	for {
		f, err := s.Next()
		if err != nil {
			if _, again := s.Next(); !errors.Is(again, err) {
				return got, errors.New("the error did not last")
			}
			if s.Frames() != len(got) {
				return got, errors.New("frames miscounted")
			}
			return got, err
		}
		got = append(got, event{string(f.Event), string(f.Data), f.Partial})
	}
}

// chunks returns each of its parts from one Read call.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

// random returns a reader that cuts in at places that seed decides.
func random(in []byte, seed uint64) io.Reader {
	r := rand.New(rand.NewPCG(seed, 1))
	var c chunks
	for len(in) > 0 {
		n := min(1+r.IntN(40), len(in))
		c = append(c, string(in[:n]))
		in = in[n:]
	}
	return &c
}

// checkFrames reads in whole and in pieces, and wants the same of each.
func checkFrames(t *testing.T, f Framing, in string, want []event, end error) {
	t.Helper()
	check := func(how string, r io.Reader) {
		t.Helper()
		got, err := readFrames(f, r, DefaultLimits())
		if !errors.Is(err, end) || end == io.EOF && err != io.EOF {
			t.Errorf("%s: ended by %v, want %v", how, err, end)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", how, d)
		}
	}
	check("whole", strings.NewReader(in))
	check("byte by byte", iotest.OneByteReader(strings.NewReader(in)))
	check("error with the last bytes", iotest.DataErrReader(strings.NewReader(in)))
	for i := range min(len(in), 200) {
		check("split", &chunks{in[:i], in[i:]})
	}
}

// arrival is a frame and the Read call that completed it.
type arrival struct {
	Data    string
	Read    int
	More    bool
	Partial bool
}

func checkArrivals(t *testing.T, f Framing, in chunks, want ...arrival) {
	t.Helper()
	var got []arrival
	s := New(f, &in, DefaultLimits())
	for {
		f, err := s.Next()
		if err != nil {
			break
		}
		got = append(got, arrival{string(f.Data), f.Read, f.More, f.Partial})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s.Frames() != len(want) {
		t.Errorf("%d frames, want %d", s.Frames(), len(want))
	}
}

// checkLimit reads in under limits, and wants so many frames and then an error.
func checkLimit(t *testing.T, f Framing, l Limits, name, in string, frames int, want error) {
	t.Helper()
	for how, r := range map[string]io.Reader{
		"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
	} {
		got, err := readFrames(f, r, l)
		if len(got) != frames || !errors.Is(err, want) {
			t.Errorf("%s, %s: %d frames, ended by %v; want %d, %v", name, how, len(got), err, frames, want)
		}
	}
}

// checkCut reads in, a frame and part of another, from a connection that breaks
// behind it. It returns the reader.
func checkCut(t *testing.T, f Framing, in, first string) Reader {
	t.Helper()
	cut := errors.New("connection reset")
	s := New(f, io.MultiReader(strings.NewReader(in), iotest.ErrReader(cut)), DefaultLimits())
	if f, err := s.Next(); err != nil || string(f.Data) != first {
		t.Fatalf("%q, %v; want the frame before the error", f.Data, err)
	}
	for range 2 {
		if f, err := s.Next(); err != cut || f.Data != nil {
			t.Errorf("%q, %v; want no frame and the reader's own error", f.Data, err)
		}
	}
	return s
}

// checkSplits reads in whole, and wants the same of it in pieces. It returns the
// frames and the error that ended them.
func checkSplits(t *testing.T, f Framing, in []byte, seed uint64, l Limits) ([]event, error) {
	t.Helper()
	want, wantErr := readFrames(f, bytes.NewReader(in), l)
	for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(in)), random(in, seed)} {
		got, err := readFrames(f, r, l)
		if d := cmp.Diff(want, got); d != "" || err.Error() != wantErr.Error() {
			t.Fatalf("a split changes the frames (-whole +split), %v against %v:\n%s", wantErr, err, d)
		}
	}
	if len(want) > l.Events {
		t.Fatalf("%d frames of at most %d", len(want), l.Events)
	}
	return want, wantErr
}

// Before its buffers pass FreeBuffer a reader asks for all that it is to hold,
// and a no ends the reply.
func TestReserve(t *testing.T) {
	const long = 100 << 10
	line := strings.Repeat("x", long)
	for name, f := range map[string]struct {
		framing Framing
		body    string
		least   int // what the reader holds of the body at once
	}{
		"SSE, one line":   {SSE, "data: " + line + "\n\n", 2 * long},
		"SSE, many":       {SSE, strings.Repeat("data: "+line[:1000]+"\n", long/1000) + "\n", long},
		"NDJSON":          {NDJSON, line + "\n", long},
		"whole":           {Whole, line, long},
		"usual SSE":       {SSE, strings.Repeat("data: "+line[:2000]+"\n\n", 100), 0},
		"endless":         {SSE, "data: " + strings.Repeat(line, 50), long},
		"endless, NDJSON": {NDJSON, strings.Repeat(line, 50), long},
	} {
		t.Run(name, func(t *testing.T) {
			most := 0
			l := DefaultLimits()
			l.Reserve = func(n int) error {
				most = max(most, n)
				return nil
			}
			for r := New(f.framing, strings.NewReader(f.body), l); ; {
				if _, err := r.Next(); err != nil {
					break
				}
			}
			if most < f.least || f.least == 0 && most > 0 {
				t.Errorf("asked for %d bytes at most, held %d", most, f.least)
			}
			if f.least == 0 {
				return
			}
			no := errors.New("no memory")
			l.Reserve = func(n int) error {
				if n <= FreeBuffer {
					t.Errorf("asked for %d bytes", n)
				}
				return no
			}
			var err error
			for r := New(f.framing, strings.NewReader(f.body), l); err == nil; {
				_, err = r.Next()
			}
			if !errors.Is(err, no) || errors.Is(err, io.EOF) {
				t.Errorf("error %v", err)
			}
		})
	}
}

const (
	// chunk is an event of 265 bytes as chat completions send it.
	chunk = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1760000000,"model":"meta-llama/Llama-3.1-8B-Instruct","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	// line is an object of 265 bytes, as a native API might send it.
	line = `{"model":"meta-llama/Llama-3.1-8B-Instruct","created_at":"2026-11-21T07:39:50.359975778Z","message":{"role":"assistant","content":" token","thinking":"","padding":"0123456789012345678901234567890123456789012345678901234567890123456789012345"},"done":false,"n":1}` + "\n"
)

// again gives the same bytes from each Read call.
type again string

func (r again) Read(p []byte) (int, error) { return copy(p, r), nil }

// benchmarkFrame frames one event for each Read call.
func benchmarkFrame(b *testing.B, f Framing, event string) {
	limits := DefaultLimits()
	limits.Body, limits.Events = 1<<62, 1<<62
	s := New(f, again(event), limits)
	if _, err := s.Next(); err != nil { // the buffers are there from here on
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		if _, err := s.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSSE(b *testing.B)    { benchmarkFrame(b, SSE, chunk) }
func BenchmarkNDJSON(b *testing.B) { benchmarkFrame(b, NDJSON, line) }
func BenchmarkEventStream(b *testing.B) {
	benchmarkFrame(b, EventStream, plainEvent("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" token"},"p":"abcdefghijklmnopqrstuvwxyz"}`))
}
