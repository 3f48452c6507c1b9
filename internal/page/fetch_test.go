package page

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// A large page takes as much of the memory as its buffer has, at once.
func TestBodyTakesMemory(t *testing.T) {
	for _, tc := range []struct {
		name       string
		page, size int
		cap        int
		taken      int64
	}{
		{"empty", 0, -1, 32 << 10, 0},
		{"small", 40_000, -1, 64 << 10, 0},
		{"small, length known", 40_000, 40_000, 40_001, 0},
		{"not large", 1<<20 - 1, 1<<20 - 1, 1 << 20, 0},
		{"not large, length not known", 1<<20 - 1, -1, 1 << 20, 0},
		{"large", 2_000_000, 2_000_000, 2_000_001, 2_000_001},
		{"large, length not known", 2_000_000, -1, 8<<20 + 1, 8<<20 + 1},
		{"longest", 8 << 20, 8 << 20, 8<<20 + 1, 8<<20 + 1},
		{"longest, length not known", 8 << 20, -1, 8<<20 + 1, 8<<20 + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			page := bytes.Repeat([]byte("x"), tc.page)
			b := &body{reader: bytes.NewReader(page), size: int64(tc.size), memory: newMemory()}
			got, err := b.read(t.Context(), nil)
			if err != nil || !bytes.Equal(got, page) {
				t.Fatalf("%d bytes, %v; want the page of %d", len(got), err, len(page))
			}
			if cap(got) != tc.cap || b.taken != tc.taken {
				t.Errorf("a buffer of %d, %d taken; want %d, %d", cap(got), b.taken, tc.cap, tc.taken)
			}
			b.release()
			if !b.memory.free.TryAcquire(maxLargePages) {
				t.Error("not all is given back")
			}
		})
	}
}

// A page that says that it is too long is not read at all.
func TestBodyTooLong(t *testing.T) {
	for _, size := range []int64{8<<20 + 1, -1} {
		b := &body{reader: bytes.NewReader(make([]byte, 9<<20)), size: size, memory: newMemory()}
		got, err := b.read(t.Context(), nil)
		if p, ok := errors.AsType[*PageError](err); !ok || p.Reason != ReasonTooLarge {
			t.Errorf("size %d: error %v", size, err)
		}
		if size > 0 && cap(got) > 0 {
			t.Errorf("size %d: a buffer of %d bytes", size, cap(got))
		}
	}
}

// While others take up the memory, a large page waits until its time is over,
// and a small one does not wait.
func TestMemoryIsShared(t *testing.T) {
	large := strings.Repeat("# a comment of some length\n", 2<<20/27) + labPage
	s := newSite(t, pages{"/small": showLab, "/large": answer(large)})
	l := newLab(t, func(c *config.Endpoint, _ *Options) {
		c.Servers.URLs = urlsOf(t, s.URL+"/large", s.URL+"/small")
		c.Servers.Timeout = model.Duration(200 * time.Millisecond)
	})
	memory := l.options.Mappings.memory
	if err := memory.free.Acquire(t.Context(), maxLargePages); err != nil {
		t.Fatal(err)
	}
	got := l.scrape()
	if got[0].Reason != ReasonTooLarge || got[0].State != Unreadable || !strings.Contains(got[0].Err.Error(), "memory") {
		t.Errorf("large page: %s, %s: %v", got[0].State, got[0].Reason, got[0].Err)
	}
	if got[1].State != Up {
		t.Errorf("small page: %+v", got[1])
	}
	memory.free.Release(maxLargePages)
	l.cfg.Servers.Timeout = model.Duration(time.Minute)
	if got := l.scrape(); got[0].State != Up || got[1].State != Up {
		t.Errorf("with memory: %+v", got)
	}
	if !memory.free.TryAcquire(maxLargePages) {
		t.Error("not all is given back")
	}
}

// More pages of unknown length than there is memory for at once wait for each
// other, and all of them are read.
func TestManyLargePages(t *testing.T) {
	const readers = 20
	m := newMemory()
	var inUse sync.WaitGroup
	for range readers {
		inUse.Go(func() {
			b := &body{reader: bytes.NewReader(make([]byte, 3<<20)), size: -1, memory: m}
			defer b.release()
			if _, err := b.read(context.Background(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	inUse.Wait()
	if !m.free.TryAcquire(maxLargePages) {
		t.Error("not all is given back")
	}
}

// A length that the server says counts for what it sends, and not for what
// that is when it is unzipped.
func TestLengthOfZippedPage(t *testing.T) {
	page := strings.Repeat("# a comment of some length\n", 200_000) + labPage
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(zipped([]byte(page)), "Content-Encoding", "gzip")(w, r)
	})
	if got := labOf(t, s.URL+"/metrics").one(); got.State != Up {
		t.Errorf("got %+v, want up", got)
	}
}
