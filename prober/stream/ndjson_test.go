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

// readLines returns the frames of r as lines and the error that ended them.
func readLines(r io.Reader, l Limits) ([]event, error) {
	var got []event
	n := New(NDJSON, r, l)
	for {
		f, err := n.Next()
		if err != nil {
			return got, err
		}
		got = append(got, event{f.Event, string(f.Data), f.Partial})
	}
}

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
		t.Run(c.name, func(t *testing.T) {
			check := func(how string, r io.Reader) {
				t.Helper()
				got, err := readLines(r, DefaultLimits())
				if err != io.EOF {
					t.Errorf("%s: ended by %v, want EOF", how, err)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s", how, d)
				}
			}
			check("whole", strings.NewReader(c.in))
			check("byte by byte", iotest.OneByteReader(strings.NewReader(c.in)))
			check("error with the last bytes", iotest.DataErrReader(strings.NewReader(c.in)))
			for i := range min(len(c.in), 200) {
				check("split", &chunks{c.in[:i], c.in[i:]})
			}
		})
	}
}

func TestNDJSONReadAndMore(t *testing.T) {
	type arrival struct {
		Data string
		Read int
		More bool
	}
	f := func(in chunks, want ...arrival) {
		t.Helper()
		var got []arrival
		n := NewNDJSON(&in, DefaultLimits())
		for {
			f, err := n.Next()
			if err != nil {
				break
			}
			got = append(got, arrival{string(f.Data), f.Read, f.More})
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if n.Frames() != len(want) {
			t.Errorf("%d frames, want %d", n.Frames(), len(want))
		}
	}
	f(chunks{"1\n", "2\n"}, arrival{"1", 1, false}, arrival{"2", 2, false})
	f(chunks{"1\n2\n"}, arrival{"1", 1, true}, arrival{"2", 1, false})
	f(chunks{"1\n2", "\n"}, arrival{"1", 1, true}, arrival{"2", 2, false})
	f(chunks{"1\n\n\r\n"}, arrival{"1", 1, false})
	// The CR closes the line; its LF must not hold the frame back.
	f(chunks{"1\r", "\n2\r\n"}, arrival{"1", 1, false}, arrival{"2", 2, false})
	// The end of the input brings nothing: the read before it did.
	f(chunks{"1\n", "2"}, arrival{"1", 1, false}, arrival{"2", 2, false})
	f(chunks{"", "", "1\n"}, arrival{"1", 3, false})
}

func TestNDJSONLimits(t *testing.T) {
	small := Limits{Line: 16, Event: 12, Body: 60, Events: 3}
	f := func(name, in string, frames int, want error) {
		t.Helper()
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)),
		} {
			got, err := readLines(r, small)
			if len(got) != frames || !errors.Is(err, want) {
				t.Errorf("%s, %s: %d frames, error %v; want %d, %v", name, how, len(got), err, frames, want)
			}
		}
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
	cut := errors.New("connection reset")
	n := NewNDJSON(io.MultiReader(strings.NewReader("1\n{\"half"), iotest.ErrReader(cut)), DefaultLimits())
	if f, err := n.Next(); err != nil || string(f.Data) != "1" {
		t.Fatalf("%q, %v; want the line before the error", f.Data, err)
	}
	for range 2 {
		if f, err := n.Next(); err != cut || f.Data != nil {
			t.Errorf("%q, %v; want no frame and the reader's own error", f.Data, err)
		}
	}
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
			want, wantErr := readLines(bytes.NewReader(in), l)
			for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(in)), random(in, seed)} {
				got, err := readLines(r, l)
				if d := cmp.Diff(want, got); d != "" || err.Error() != wantErr.Error() {
					t.Fatalf("a split changes the frames (-whole +split), %v against %v:\n%s", wantErr, err, d)
				}
			}
			if wantErr != io.EOF && !errors.Is(wantErr, ErrTooLarge) {
				t.Fatalf("ended by %v", wantErr)
			}
			if len(want) > l.Events {
				t.Fatalf("%d frames of at most %d", len(want), l.Events)
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
	got, _ := readLines(bytes.NewReader(in), DefaultLimits())
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

// line is an object of 265 bytes, as a native API might send it.
const line = `{"model":"meta-llama/Llama-3.1-8B-Instruct","created_at":"2026-11-21T07:39:50.359975778Z","message":{"role":"assistant","content":" token","thinking":"","padding":"0123456789012345678901234567890123456789012345678901234567890123456789012345"},"done":false,"n":1}` + "\n"

// eachLine gives one line per Read call for ever.
type eachLine struct{}

func (eachLine) Read(p []byte) (int, error) { return copy(p, line), nil }

func BenchmarkNDJSON(b *testing.B) {
	limits := DefaultLimits()
	limits.Body, limits.Events = 1<<62, 1<<62
	n := NewNDJSON(eachLine{}, limits)
	if _, err := n.Next(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := n.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
