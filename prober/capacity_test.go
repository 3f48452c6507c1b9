package prober

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// A reply of an unusual pace waits while another is decoded; a usual one does
// not.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Capacity{memory: semaphore.NewWeighted(1), decoding: semaphore.NewWeighted(1)}
		read := func(ctx context.Context, size int, pause time.Duration) (*share, *pacedBody, error) {
			s := &share{capacity: c}
			b := newPacedBody(ctx, strings.NewReader(strings.Repeat("x", size)), s)
			for p := make([]byte, 4<<10); ; time.Sleep(pause) {
				if _, err := b.Read(p); err != nil {
					return s, b, err
				}
				if s.decoding {
					return s, b, nil
				}
			}
		}
		flood, body, err := read(t.Context(), 1<<20, 0)
		if err != nil || !flood.decoding {
			t.Fatalf("a flood is decoded: %t, %v", flood.decoding, err)
		}
		// 4 KiB each 20 ms is 200 KiB/s.
		if usual, _, err := read(t.Context(), 1<<20, 20*time.Millisecond); err != io.EOF || usual.decoding {
			t.Errorf("a usual reply: %v, waited: %t", err, usual.decoding)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("its limit"))
		defer cancel()
		if _, _, err := read(ctx, 1<<20, 0); err == nil || err.Error() != "its limit" {
			t.Errorf("a second flood: %v", err)
		}
		_, _ = body.Read(make([]byte, 1)) // rests and goes on
		flood.release()
		if second, _, err := read(t.Context(), 1<<20, 0); err != nil || !second.decoding {
			t.Errorf("after the first flood: %v", err)
		}
	})
}

func TestReserveMemory(t *testing.T) {
	c := NewCapacity()
	var all []*share
	for range 3 {
		s := &share{capacity: c}
		for _, size := range []int{32 << 10, 1 << 20, 64 << 10} { // grows, and asks for less
			if err := s.reserve(size); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, s)
	}
	late := &share{capacity: c}
	var ours errNoMemory
	if err := late.reserve(1 << 20); !errors.As(err, &ours) {
		t.Fatalf("a fourth event of 1 MiB: %v", err)
	}
	if err := late.reserve(32 << 10); err != nil {
		t.Fatalf("a small one beside three large ones: %v", err)
	}
	for _, s := range all {
		s.release()
	}
	if err := late.reserve(1 << 20); err != nil {
		t.Fatalf("after the others: %v", err)
	}
}
