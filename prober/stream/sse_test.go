package stream

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEvents(t *testing.T) {
	one := []event{{Data: "x"}}
	two := []event{{Data: "x"}, {Data: "y"}}
	for _, c := range []struct {
		name, in string
		want     []event
	}{
		{"nothing", "", nil},
		{"one event", "data: x\n\n", one},
		{"two events", "data: x\n\ndata: y\n\n", two},
		{"no space after the colon", "data:x\n\n", one},
		{"only one space is stripped", "data:  x \n\n", []event{{Data: " x "}}},
		{"CRLF", "data: x\r\n\r\ndata: y\r\n\r\n", two},
		{"bare CR", "data: x\r\rdata: y\r\r", two},
		{"mixed line ends", "data: x\r\n\ndata: y\n\r\n", two},
		{"LF after CR is one line end", "data: x\r\n\r\n\r\n", one},
		{"several data lines", "data: a\ndata: b\n\n", []event{{Data: "a\nb"}}},
		{"several data lines, CRLF", "data: a\r\ndata: b\r\n\r\n", []event{{Data: "a\nb"}}},
		{"data without a colon", "data\ndata: x\n\n", []event{{Data: "\nx"}}},
		{"leading byte order mark", "\xef\xbb\xbfdata: x\n\n", one},
		{"byte order mark is stripped once", "\xef\xbb\xbf\xef\xbb\xbfdata: y\n\ndata: x\n\n", one},
		{"half a byte order mark", "\xef\xbb", nil},
		{"empty data", "data:\n\ndata: x\n\n", one},
		{"comment and blank line", ": ping\n\ndata: x\n\n", one},
		{"only comments", ": keep-alive\n\n:\n\n: ping\n\n", nil},
		{"comment glued to the end marker", ": ping\ndata: [DONE]\n\n", []event{{Data: "[DONE]"}}},
		{"comment between data lines", "data: a\n: c\ndata: b\n\n", []event{{Data: "a\nb"}}},
		{"keep-alive as data", "data: : keepalive\n\ndata: : OPENROUTER PROCESSING\n\ndata: x\n\n", one},
		{"keep-alive as data, no space", "data::\n\ndata: x\n\n", one},
		{"event name", "event: e\ndata: x\n\ndata: y\n\n", []event{{Event: "e", Data: "x"}, {Data: "y"}}},
		{"event name after the data", "data: x\nevent: e\n\n", []event{{Event: "e", Data: "x"}}},
		{"last event name wins", "event: d\nevent: e\ndata: x\n\n", []event{{Event: "e", Data: "x"}}},
		{"empty event name", "event: e\nevent:\ndata: x\n\n", one},
		{"event name without data", "event: e\n\ndata: x\n\n", one},
		{"id and retry", "id: 7\nretry: 10\ndata: x\n\n", one},
		{"unknown fields", "foo: bar\nfoo\n data: z\ndatax: z\ndata: x\n\n", one},
		{"field names are case sensitive", "Data: z\ndata: x\n\n", one},
		{"error line", "error: {\"code\":500}\n\n", []event{{Event: "error", Data: `{"code":500}`}}},
		{"raw JSON error without data", "{\"error\":{\"message\":\"no\"}}", nil},
		{"HTML page", "<html>\n<body>502</body>\n\n</html>", nil},
		{"end without the blank line", "data: x\n\ndata: y\n", []event{{Data: "x"}, {Data: "y", Partial: true}}},
		{"end without a line end", "data: x\n\ndata: y", []event{{Data: "x"}, {Data: "y", Partial: true}}},
		{"end inside a field name", "data: x\n\ndat", one},
		{"end inside a comment", "data: x\n\n: pi", one},
		{"end after CR", "data: x\r\r", one},
		{"UTF-8", "data: caf\u00e9 \U0001f600\n\n", []event{{Data: "caf\u00e9 \U0001f600"}}},
		{"not UTF-8, NUL", "data: \xff\x00\n\n", []event{{Data: "\xff\x00"}}},
		{"line longer than the first buffer", "data: " + strings.Repeat("x", 100_000) + "\n\ndata: y\n\n", []event{{Data: strings.Repeat("x", 100_000)}, {Data: "y"}}},
		{"many events over several buffers", strings.Repeat("data: 12345678901234567890\n\n", 500), slices.Repeat([]event{{Data: "12345678901234567890"}}, 500)},
	} {
		t.Run(c.name, func(t *testing.T) { checkFrames(t, SSE, c.in, c.want, io.EOF) })
	}
}

func TestReadAndMore(t *testing.T) {
	f := func(in chunks, want ...arrival) {
		t.Helper()
		checkArrivals(t, SSE, in, want...)
	}
	f(chunks{"data: x\n\n", "data: y\n\n"}, arrival{"x", 1, false, false}, arrival{"y", 2, false, false})
	f(chunks{"data: x\n\ndata: y\n\n"}, arrival{"x", 1, true, false}, arrival{"y", 1, false, false})
	f(chunks{"data: x\n\ndata: y", "\n\n"}, arrival{"x", 1, true, false}, arrival{"y", 2, false, false})
	f(chunks{"data: x\n", "\n"}, arrival{"x", 2, false, false})
	f(chunks{"data: x\n\n: ping\n\n"}, arrival{"x", 1, true, false})
	f(chunks{"data: x\n\n\n\r\n"}, arrival{"x", 1, false, false})
	// The second CR closes the event; its LF must not hold the event back.
	f(chunks{"data: x\r\n\r", "\ndata: y\r\n\r\n"}, arrival{"x", 1, false, false}, arrival{"y", 2, false, false})
	f(chunks{"data: x\r\n\r\n", "data: y\r\n\r\n"}, arrival{"x", 1, false, false}, arrival{"y", 2, false, false})
	// The end of the input brings nothing: the read before it did.
	f(chunks{": ping\n\n", "data: x\n"}, arrival{"x", 2, false, true})
	// A read without bytes counts as a call, as the owner of the reader counts.
	f(chunks{"", "", "data: x\n\n"}, arrival{"x", 3, false, false})
}

func TestReadsOnlyWhenNothingIsBuffered(t *testing.T) {
	in := chunks{"data: x\n\ndata: y\r\r", "data: z\n\n"}
	s := New(SSE, &in, DefaultLimits())
	for _, left := range []int{1, 1, 0} {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		if len(in) != left {
			t.Errorf("%d reads left after the frame, want %d", len(in), left)
		}
	}
}

func TestLimits(t *testing.T) {
	small := Limits{Line: 16, Event: 20, Body: 200, Events: 3}
	f := func(name, in string, events int, want error) {
		t.Helper()
		checkLimit(t, SSE, small, name, in, events, want)
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	f("line at the limit", "data: "+x(10)+"\n\n", 1, io.EOF)
	f("line at the limit, CRLF", "data: "+x(10)+"\r\n\r\n", 1, io.EOF)
	f("line over the limit", "data: 1\n\ndata: "+x(11)+"\n\n", 1, ErrTooLarge)
	f("line over the limit at the end", "data: 1\n\ndata: "+x(11), 1, ErrTooLarge)
	f("comment over the limit", ":"+x(16)+"\n\n", 0, ErrTooLarge)
	f("event at the limit", "data: "+x(10)+"\ndata: "+x(9)+"\n\n", 1, io.EOF)
	f("event over the limit", "data: "+x(10)+"\ndata: "+x(10)+"\n\n", 0, ErrTooLarge)
	f("event over the limit by empty lines", strings.Repeat("data\n", 22)+"\n", 0, ErrTooLarge)
	f("events at the limit", strings.Repeat("data: x\n\n", 3), 3, io.EOF)
	f("events over the limit", strings.Repeat("data: x\n\n", 4), 3, ErrTooLarge)
	f("body at the limit", "data: x\n\n"+strings.Repeat(":\n", 95)+"\n", 1, io.EOF)
	f("event past the limit on the body", "data: x\n\n"+strings.Repeat(":\n", 95)+"data: y\n\n", 1, ErrTooLarge)
	f("body over the limit", "data: x\n\n"+strings.Repeat(":\n", 96), 1, ErrTooLarge)
}

// endless repeats itself for ever and counts what it gave.
type endless struct {
	text  string
	given int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	e.given += n
	return n, nil
}

func TestMemoryIsBounded(t *testing.T) {
	limits := Limits{Line: 1 << 20, Event: 1 << 20, Body: 4 << 20, Events: 1000}
	for _, text := range []string{"x", "data: x\n", ": ping\n\n", "data: x\n\n", "event: x\n"} {
		r := &endless{text: text}
		s := New(SSE, r, limits).(*sseReader)
		var err error
		for err == nil {
			_, err = s.Next()
		}
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%q for ever: ended by %v, want ErrTooLarge", text, err)
		}
		if len(s.lines.buf) > limits.Line+1 || cap(s.data) > 2*limits.Event || int64(r.given) > limits.Body+int64(limits.Line) {
			t.Errorf("%q for ever: buffer %d, data %d, read %d", text, len(s.lines.buf), cap(s.data), r.given)
		}
	}
}

func TestErrors(t *testing.T) {
	checkCut(t, SSE, "data: x\n\ndata: y\n", "x")
	if _, err := readFrames(SSE, iotest.ErrReader(nil), DefaultLimits()); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that brings nothing: %v, want ErrNoProgress", err)
	}
}

func TestCounts(t *testing.T) {
	in := ": a\n\ndata: : b\n\ndata: x\n\n:\n"
	s := New(SSE, strings.NewReader(in), DefaultLimits())
	for {
		if _, err := s.Next(); err != nil {
			break
		}
	}
	if s.Frames() != 1 || len(s.Head()) > 0 {
		t.Errorf("%d frames, head %q", s.Frames(), s.Head())
	}
	s = New(SSE, strings.NewReader("<html>"+strings.Repeat(" ", 10_000)), DefaultLimits())
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("ended by %v, want EOF", err)
	}
	if s.Frames() != 0 {
		t.Errorf("of a page: %d frames", s.Frames())
	}
	if h := s.Head(); len(h) != headSize || !bytes.HasPrefix(h, []byte("<html>")) {
		t.Errorf("head of %d bytes %.10q", len(h), h)
	}
}

// TestHead has bodies that hold no frame: their head is what came
// instead of events.
func TestHead(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		s := New(SSE, strings.NewReader(body), DefaultLimits())
		if frame, err := s.Next(); err != io.EOF {
			t.Errorf("%q: frame %q, %v", body, frame.Data, err)
		}
		if got := string(s.Head()); got != want {
			t.Errorf("%q: head %q, want %q", body, got, want)
		}
	}
	f("", "")
	f("\n\r\n\r", "")
	f(": ping\n\n: ping\n\n", "")
	f(":\r\n\r\n: OPENROUTER PROCESSING\r\r", "")
	f(": cut", "")
	f("retry: 3000\n\nid: 1\nevent: ping\n\n", "")
	f("data\n\ndata:\n\ndata: : keepalive\n\n", "")
	f("\ufeff: ping\n\n", "")
	f(strings.Repeat(": ping\n\n", 10_000), "")
	f("<html>\n: x\n", "<html>\n: x\n")
	f("\ufeff{\"error\":\n1}", "{\"error\":\n1}")
	f(": ping\n\n{\"error\":{}}\n", "{\"error\":{}}\n")
	f("dataless: x\n", "dataless: x\n")
}

// interpret reads a stream as the HTML standard says it, "interpreting an event stream", all at once.
func interpret(in string) (got []event) {
	in = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(in, byteOrderMark))
	var e event
	data := false
	for line := range strings.SplitSeq(in, "\n") {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if e.Data = strings.TrimSuffix(e.Data, "\n"); data && e.Data != "" {
				got = append(got, e)
			}
			e, data = event{}, false
		case field == "data":
			e.Data, data = e.Data+value+"\n", true
		case field == "event":
			e.Event = value
		}
	}
	return got
}

func TestAgreesWithTheStandard(t *testing.T) {
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
		in := b.String()
		got, err := readFrames(SSE, random([]byte(in), rapid.Uint64().Draw(t, "seed")), DefaultLimits())
		if err != io.EOF {
			t.Fatalf("%q ended by %v", in, err)
		}
		if d := cmp.Diff(interpret(in), got); d != "" {
			t.Fatalf("%q (-want +got):\n%s", in, d)
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
		// Error lines, and comments as data, are read otherwise than the standard says.
		if text := string(in) + "\n\n"; !strings.Contains(text, "error") && !strings.Contains(text, "data::") && !strings.Contains(text, "data: :") {
			got, _ := readFrames(SSE, strings.NewReader(text), DefaultLimits())
			if d := cmp.Diff(interpret(text), got); d != "" {
				t.Fatalf("%q (-want +got):\n%s", text, d)
			}
		}
	})
}
