package prober

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	// replyMemory is how many bytes the events of all replies together may take
	// beyond stream.FreeBuffer each: room for 16 events of 1 MiB of text.
	replyMemory = 64 << 20
	// copies is how often what is in the buffers of a reply is held: there, in what they grow from, and by the parser.
	copies = 4
	// usualPace is the most that a reply brings over a longer time, in bytes per
	// second, and usualBurst at once: some 800 tokens/s of 300 bytes each.
	usualPace  = 256 << 10
	usualBurst = 256 << 10
	// memoryPatience is how long a reply waits for memory that others hold, and memoryRetry how often it looks:
	// in a line those that want much would hold up those that want little.
	memoryPatience = 2 * time.Second
	memoryRetry    = 20 * time.Millisecond
)

// capacity is what the replies of all endpoints share of this process: memory for events of unusual length, and the
// processors for replies that come faster than a model writes, so that one endpoint cannot take either from the others.
type capacity struct {
	memory   *semaphore.Weighted // in bytes
	decoding *semaphore.Weighted // replies of an unusual pace, while they are decoded
}

// newCapacity returns a capacity that lets such replies have at most half of the processors.
func newCapacity() *capacity {
	return &capacity{
		memory:   semaphore.NewWeighted(replyMemory),
		decoding: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2))),
	}
}

// errNoMemory is a lack of memory that is ours, and no fault of the endpoint.
type errNoMemory struct{ bytes int }

func (e errNoMemory) Error() string {
	return fmt.Sprintf("no memory for an event of %d bytes: other replies hold the memory for such events", e.bytes)
}

// Unwrap makes it a shortage of this process.
func (e errNoMemory) Unwrap() error { return syscall.ENOMEM }

// share is what one reply has of the capacity. It is used by one goroutine.
type share struct {
	capacity *capacity
	ctx      context.Context //nolint:containedctx // lives as long as the reply
	kind     api.Kind        // of the reply
	buffers  int64           // bytes of the memory that are taken for buffers
	parser   int64           // and for what the parser makes of them
	decoding bool
}

func (s *share) reserve(bytes int) error {
	return s.take(&s.buffers, copies*int64(bytes), bytes)
}

// parse takes the memory for decoding an event.
func (s *share) parse(data []byte) error {
	if len(data) <= stream.FreeBuffer {
		return nil
	}
	return s.take(&s.parser, int64(api.ParserMemory(data, s.kind)), len(data))
}

// take raises what is taken for a part, for an event of so many bytes. One that all
// of the memory is not enough for is the endpoint's fault.
func (s *share) take(part *int64, want int64, bytes int) error {
	more := want - *part
	if more <= 0 {
		return nil
	}
	if s.buffers+s.parser+more > replyMemory {
		return fmt.Errorf("%w: no memory for an event of %d bytes", stream.ErrTooLarge, bytes)
	}
	for late := time.Now().Add(memoryPatience); !s.capacity.memory.TryAcquire(more); {
		if time.Now().After(late) {
			return errNoMemory{bytes}
		}
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-time.After(memoryRetry):
		}
	}
	*part = want
	return nil
}

func (s *share) release() {
	s.rest()
	s.capacity.memory.Release(s.buffers + s.parser)
	s.buffers, s.parser = 0, 0
}

// work waits until the reply may be decoded though it comes at an unusual pace.
func (s *share) work() error {
	if err := s.capacity.decoding.Acquire(s.ctx, 1); err != nil {
		return context.Cause(s.ctx)
	}
	s.decoding = true
	return nil
}

// rest lets another reply of an unusual pace be decoded.
func (s *share) rest() {
	if s.decoding {
		s.decoding = false
		s.capacity.decoding.Release(1)
		runtime.Gosched()
	}
}

// pacedBody is the body of a reply, whose reader works on what a Read returns until it calls the next. At an
// unusual pace, each Read returns only when the reply may be decoded.
type pacedBody struct {
	r     io.Reader
	share *share

	credit int       // bytes that may come at once
	since  time.Time // when that was; the zero time, as long ago as can be, before the first Read
}

func (b *pacedBody) Read(p []byte) (int, error) {
	b.share.rest()
	n, err := b.r.Read(p)
	now := time.Now()
	earned := int(min(usualBurst, now.Sub(b.since).Seconds()*usualPace))
	b.credit = min(usualBurst, b.credit+max(0, earned)) - n
	b.since = now
	if b.credit >= 0 {
		return n, err
	}
	b.credit = 0
	if late := b.share.work(); late != nil {
		return 0, late
	}
	return n, err
}
