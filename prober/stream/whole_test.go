package stream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestWhole(t *testing.T) {
	f := func(in string, want ...event) {
		t.Helper()
		for how, r := range map[string]io.Reader{
			"whole":                     strings.NewReader(in),
			"byte by byte":              iotest.OneByteReader(strings.NewReader(in)),
			"error with the last bytes": iotest.DataErrReader(strings.NewReader(in)),
			"random pieces":             random([]byte(in), 1),
		} {
			got, err := readFrames(Whole, r, Limits{Body: 10_000})
			if d := cmp.Diff(want, got); d != "" || err != io.EOF {
				t.Errorf("%.20q, %s: ended by %v (-want +got):\n%s", in, how, err, d)
			}
		}
	}
	f("")
	f(" \r\n\t")
	f("[[1]]", event{Data: "[[1]]"})
	f("{\n\n\"a\": 1}\n", event{Data: "{\n\n\"a\": 1}"})
	f(strings.Repeat("x", 10_000), event{Data: strings.Repeat("x", 10_000)})
}

func TestWholeEndsBadly(t *testing.T) {
	cut := errors.New("cut")
	f := func(r io.Reader, want error) {
		t.Helper()
		if got, err := readFrames(Whole, r, Limits{Body: 10_000}); len(got) > 0 || !errors.Is(err, want) {
			t.Errorf("%v, %v; want no frame and %v", got, err, want)
		}
	}
	f(strings.NewReader(strings.Repeat("x", 10_001)), ErrTooLarge)
	f(io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(cut)), cut)
	f(io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF)
}

func TestWholeRead(t *testing.T) {
	in := chunks{"{", "}"}
	s := NewWhole(&in, DefaultLimits())
	f, err := s.Next()
	if err != nil || f.Read != 2 || f.More || f.Partial {
		t.Errorf("%+v, %v; want the second read", f, err)
	}
	if string(s.Head()) != "{}" {
		t.Errorf("head %q", s.Head())
	}
}
