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
		got = append(got, event{f.Event, string(f.Data), f.Partial})
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
