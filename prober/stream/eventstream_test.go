package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// field is a header of a message, its value with type and length as on the wire.
type field struct{ name, value string }

func text(s string) string {
	return "\x07" + string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

// message encodes a message, independently of the reader.
func message(payload string, headers ...field) string {
	var h []byte
	for _, f := range headers {
		h = append(h, byte(len(f.name)))
		h = append(append(h, f.name...), f.value...)
	}
	return sealed(h, payload)
}

// sealed puts lengths and checksums around headers and payload.
func sealed(headers []byte, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func plainEvent(name, payload string) string {
	return message(payload, field{":event-type", text(name)}, field{":content-type", text("application/json")}, field{":message-type", text("event")})
}

// TestEventStreamVectors reads messages of the format's public test suite.
func TestEventStreamVectors(t *testing.T) {
	f := func(vector string, want event) {
		t.Helper()
		in, err := hex.DecodeString(strings.ReplaceAll(vector, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readFrames(EventStream, bytes.NewReader(in), DefaultLimits())
		if d := cmp.Diff([]event{want}, got); d != "" || err != io.EOF {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
	}
	f("00000010 00000000 05c248eb 7d98c8ff", event{})
	f("0000001d 00000000 fd528c5a 7b27666f6f273a27626172277d c3653936", event{Data: "{'foo':'bar'}"})
}

func TestEventStream(t *testing.T) {
	hi := plainEvent("contentBlockDelta", `{"delta":{"text":"Hi"}}`)
	wantHi := event{Event: "contentBlockDelta", Data: `{"delta":{"text":"Hi"}}`}
	kind := func(s string) field { return field{":message-type", text(s)} }
	odd := []field{
		{"t", "\x00"},
		{"f", "\x01"},
		{"b", "\x02\x07"},
		{"s", "\x03\x00\x07"},
		{"i", "\x04\x00\x00\x00\x07"},
		{"l", "\x05\x00\x00\x00\x00\x00\x00\x00\x07"},
		{"y", "\x06\x00\x03abc"},
		{"d", "\x08\x00\x00\x00\x00\x00\x00\x00\x07"},
		{"u", "\x090123456789abcdef"},
		{":event-type", text("e")},
	}
	for _, c := range []struct {
		name, in string
		want     []event
		err      error
	}{
		{"nothing", "", nil, io.EOF},
		{"one event", hi, []event{wantHi}, io.EOF},
		{"two events", hi + hi, []event{wantHi, wantHi}, io.EOF},
		{"exception", hi + message(`{"message":"slow down"}`, kind("exception"), field{":exception-type", text("throttlingException")}), []event{wantHi, {Event: "exception:throttlingException", Data: `{"message":"slow down"}`}}, io.EOF},
		{"error", message("", kind("error"), field{":error-code", text("InternalFailure")}, field{":error-message", text("gone")}), []event{{Event: "error:InternalFailure", Data: "gone"}}, io.EOF},
		{"error with a payload", message("{}", kind("error"), field{":error-message", text("gone")}), []event{{Event: "error:", Data: "{}"}}, io.EOF},
		{"headers of every type", message("x", odd...), []event{{Event: "e", Data: "x"}}, io.EOF},
		{"name that is no text", message("x", field{":event-type", "\x06\x00\x03abc"}), []event{{Data: "x"}}, io.EOF},
		{"long payload", plainEvent("e", strings.Repeat("x", 200_000)), []event{{Event: "e", Data: strings.Repeat("x", 200_000)}}, io.EOF},
		{"end inside the prelude", hi + hi[:7], []event{wantHi}, io.ErrUnexpectedEOF},
		{"end before the checksum", hi + hi[:len(hi)-1], []event{wantHi}, io.ErrUnexpectedEOF},
		{"checksum of the prelude", hi[:8] + "\x00\x00\x00\x00" + hi[12:], nil, ErrMalformed},
		{"checksum of the message", hi + hi[:len(hi)-1] + "\x00", []event{wantHi}, ErrMalformed},
		{"changed payload", strings.Replace(hi, "Hi", "Ho", 1), nil, ErrMalformed},
		{"server-sent events", "data: {\"delta\":{}}\n\n", nil, ErrMalformed},
		{"headers longer than the message", string(withPrelude(16, 1)) + "\x00\x00\x00\x00", nil, ErrMalformed},
		{"message shorter than its frame", string(withPrelude(15, 0)) + "\x00\x00\x00\x00", nil, ErrMalformed},
		{"too many headers", string(withPrelude(1<<20, 128<<10+1)), nil, ErrMalformed},
		{"header without a name", message("x", field{"", text("e")}), nil, ErrMalformed},
		{"header without a type", message("x", field{"a", ""}), nil, ErrMalformed},
		{"header of no known type", message("x", field{"a", "\x0a"}), nil, ErrMalformed},
		{"header cut in its name", sealed([]byte("\x05ab"), "x"), nil, ErrMalformed},
		{"header cut in its text", message("x", field{"a", "\x07\x00\x05ab"}), nil, ErrMalformed},
		{"header cut in its number", message("x", field{"a", "\x04\x00\x00"}), nil, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) { checkFrames(t, EventStream, c.in, c.want, c.err) })
	}
}

func withPrelude(total, headers uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, total)
	b = binary.BigEndian.AppendUint32(b, headers)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func TestEventStreamReadAndMore(t *testing.T) {
	a, b := plainEvent("e", "a"), plainEvent("e", "b")
	f := func(in chunks, want ...arrival) {
		t.Helper()
		checkArrivals(t, EventStream, in, want...)
	}
	f(chunks{a, b}, arrival{"a", 1, false, false}, arrival{"b", 2, false, false})
	f(chunks{a + b}, arrival{"a", 1, true, false}, arrival{"b", 1, false, false})
	f(chunks{a + b[:20], b[20:]}, arrival{"a", 1, true, false}, arrival{"b", 2, false, false})
	f(chunks{a[:20], a[20:]}, arrival{"a", 2, false, false})
}

func TestEventStreamLimits(t *testing.T) {
	f := func(name, in string, frames int, want error) {
		t.Helper()
		checkLimit(t, EventStream, Limits{Event: 100, Body: 1000, Events: 5}, name, in, frames, want)
	}
	f("as large as allowed", message(strings.Repeat("x", 100)), 1, io.EOF)
	f("payload over the limit", message(strings.Repeat("x", 101)), 0, ErrTooLarge)
	f("four gigabytes announced", string(withPrelude(1<<32-1, 0)), 0, ErrTooLarge)
	f("as many as allowed", strings.Repeat(message(""), 5), 5, io.EOF)
	f("too many", strings.Repeat(message(""), 6), 5, ErrTooLarge)
	f("body over the limit", message("", field{"a", text(strings.Repeat("x", 600))})+message("", field{"a", text(strings.Repeat("x", 600))}), 1, ErrTooLarge)
}

func FuzzEventStream(f *testing.F) {
	for _, s := range []string{
		"", message(""), plainEvent("contentBlockDelta", `{"delta":{"text":"Hi"}}`), plainEvent("e", "{}") + plainEvent("e", "{}"),
		message("", field{":message-type", text("error")}, field{":error-message", text("m")}), message("x", field{"u", "\x090123456789abcdef"}),
		"data: x\n\n", string(withPrelude(1<<32-1, 0)), plainEvent("e", "{}")[:30],
	} {
		f.Add([]byte(s), []byte(s), uint64(1))
	}
	small := Limits{Event: 300, Body: 4000, Events: 4}
	f.Fuzz(func(t *testing.T, in, headers []byte, seed uint64) {
		if len(headers) > 1<<16 {
			return
		}
		// As random bytes hardly have a right checksum, the fuzzer gets it made.
		made := sealed(headers, string(in))
		for _, body := range [][]byte{in, []byte(made), []byte(made + made + string(in))} {
			for _, l := range []Limits{small, DefaultLimits()} {
				_, wantErr := checkSplits(t, EventStream, body, seed, l)
				if !errors.Is(wantErr, io.EOF) && !errors.Is(wantErr, io.ErrUnexpectedEOF) && !errors.Is(wantErr, ErrTooLarge) && !errors.Is(wantErr, ErrMalformed) {
					t.Fatalf("ended by %v", wantErr)
				}
			}
		}
	})
}
