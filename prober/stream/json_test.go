package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestNDJSON(t *testing.T) {
	two := []event{{Data: `{"a":1}`}, {Data: `{"b":2}`}}
	for _, c := range []struct {
		name, in string
		want     []event
	}{
		{"nothing", "", nil},
		{"two lines", "{\"a\":1}\n{\"b\":2}\n", two},
		{"CRLF", "{\"a\":1}\r\n{\"b\":2}\r\n", two},
		{"bare CR", "{\"a\":1}\r{\"b\":2}\r", two},
		{"blank lines", "\n\n{\"a\":1}\n\r\n \t\n{\"b\":2}\n\n", two},
		{"only blank lines", "\n \n\r\n\t", nil},
		{"blanks around a value", "  {\"a\":1} \n{\"b\":2}\t\n", two},
		{"leading byte order mark", "\xef\xbb\xbf{\"a\":1}\n{\"b\":2}\n", two},
		{"last line without its end", "{\"a\":1}\n{\"b\":2}", []event{{Data: `{"a":1}`}, {Data: `{"b":2}`, Partial: true}}},
		{"cut in a value", "{\"a\":1}\n{\"b", []event{{Data: `{"a":1}`}, {Data: `{"b`, Partial: true}}},
		{"escaped line ends", `{"a":"x\ny\r"}` + "\n", []event{{Data: `{"a":"x\ny\r"}`}}},
		{"no JSON at all", "<html>\n</html>\n", []event{{Data: "<html>"}, {Data: "</html>"}}},
		{"SSE in its place", "data: {}\n\n", []event{{Data: "data: {}"}}},
		{"UTF-8", "\"caf\u00e9 \U0001f600\"\n", []event{{Data: "\"caf\u00e9 \U0001f600\""}}},
		{"not UTF-8, NUL", "\xff\x00\n", []event{{Data: "\xff\x00"}}},
		{"long line", strings.Repeat("x", 100_000) + "\ny\n", []event{{Data: strings.Repeat("x", 100_000)}, {Data: "y"}}},
		{"many lines", strings.Repeat("12345678901234567890\n", 500), slices.Repeat([]event{{Data: "12345678901234567890"}}, 500)},
	} {
		t.Run(c.name, func(t *testing.T) { checkFrames(t, NDJSON, c.in, c.want, io.EOF) })
	}
}

func TestNDJSONReadAndMore(t *testing.T) {
	f := func(in chunks, want ...arrival) {
		t.Helper()
		checkArrivals(t, NDJSON, in, want...)
	}
	f(chunks{"1\n", "2\n"}, arrival{"1", 1, false, false}, arrival{"2", 2, false, false})
	f(chunks{"1\n2\n"}, arrival{"1", 1, true, false}, arrival{"2", 1, false, false})
	f(chunks{"1\n2", "\n"}, arrival{"1", 1, true, false}, arrival{"2", 2, false, false})
	f(chunks{"1\n\n\r\n"}, arrival{"1", 1, false, false})
	// The CR closes the line; its LF must not hold the frame back.
	f(chunks{"1\r", "\n2\r\n"}, arrival{"1", 1, false, false}, arrival{"2", 2, false, false})
	// The end of the input brings nothing: the read before it did.
	f(chunks{"1\n", "2"}, arrival{"1", 1, false, false}, arrival{"2", 2, false, true})
	f(chunks{"", "", "1\n"}, arrival{"1", 3, false, false})
}

func TestNDJSONLimits(t *testing.T) {
	small := Limits{Line: 16, Event: 12, Body: 60, Events: 3}
	f := func(name, in string, frames int, want error) {
		t.Helper()
		checkLimit(t, NDJSON, small, name, in, frames, want)
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	f("event at the limit", x(12)+"\n", 1, io.EOF)
	f("event over the limit", "1\n"+x(13)+"\n", 1, ErrTooLarge)
	f("event over the limit at the end", "1\n"+x(13), 1, ErrTooLarge)
	f("line at the limit", "  "+x(12)+"  \n", 1, io.EOF)
	f("line over the limit", "1\n"+strings.Repeat(" ", 17)+"\n", 1, ErrTooLarge)
	f("line without end", "1\n"+x(40), 1, ErrTooLarge)
	f("events at the limit", "1\n2\n3\n", 3, io.EOF)
	f("events over the limit", "1\n2\n3\n4\n", 3, ErrTooLarge)
	f("body at the limit", "1\n"+strings.Repeat("\n", 58), 1, io.EOF)
	f("body over the limit", "1\n"+strings.Repeat("\n", 59), 1, ErrTooLarge)
}

func TestNDJSONErrors(t *testing.T) {
	n := checkCut(t, NDJSON, "1\n{\"half", "1")
	if h := n.Head(); string(h) != "1\n{\"half" {
		t.Errorf("head %q", h)
	}
}

func FuzzNDJSON(f *testing.F) {
	for _, s := range []string{
		"", "{}\n", "{}", "\n\n", "{\"a\":1}\r\n{\"b\":2}\r", "\xef\xbb\xbf1\n", " \t\n1 \n", "\x00\xff\n", "data: x\n\n",
		strings.Repeat("x", 5000) + "\n", strings.Repeat("1\n", 60), "\xef\xbb", "\u0085\n\u20281\n",
	} {
		f.Add([]byte(s), uint64(1))
	}
	small := Limits{Line: 300, Event: 200, Body: 4000, Events: 40}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		for _, l := range []Limits{small, DefaultLimits()} {
			want, wantErr := checkSplits(t, NDJSON, in, seed, l)
			if wantErr != io.EOF && !errors.Is(wantErr, ErrTooLarge) {
				t.Fatalf("ended by %v", wantErr)
			}
			for _, e := range want {
				if strings.Trim(e.Data, " \t") != e.Data || e.Data == "" || len(e.Data) > l.Event {
					t.Fatalf("frame %q", e.Data)
				}
			}
		}
		compareWithJSON(t, in)
	})
}

// compareWithJSON holds the frames of an input of one valid value a line equal
// to what encoding/json reads of it.
func compareWithJSON(t *testing.T, in []byte) {
	t.Helper()
	got, _ := readFrames(NDJSON, bytes.NewReader(in), DefaultLimits())
	for _, e := range got {
		if !json.Valid([]byte(e.Data)) {
			return // several lines make one value, or none
		}
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(in, []byte(byteOrderMark))))
	for i := 0; ; i++ {
		var v json.RawMessage
		err := dec.Decode(&v)
		if err == io.EOF && i == len(got) {
			return
		}
		if err != nil || i >= len(got) || string(v) != got[i].Data {
			t.Fatalf("%q: value %d is %q, %v; the frames are %+v", in, i, v, err, got)
		}
	}
}

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
	s := New(Whole, &in, DefaultLimits())
	f, err := s.Next()
	if err != nil || f.Read != 2 || f.More || f.Partial {
		t.Errorf("%+v, %v; want the second read", f, err)
	}
	if string(s.Head()) != "{}" {
		t.Errorf("head %q", s.Head())
	}
}
