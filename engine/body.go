package engine

import (
	"context"
	"io"

	"golang.org/x/sync/semaphore"
)

// Bounds of the memory for pages.
const (
	// maxPage is the longest page that is read, in bytes, after decompression.
	maxPage = 8 << 20
	// smallPage is the largest buffer for a page that needs no leave, and that
	// is kept for other pages.
	smallPage = 1 << 20
	// maxLargePages is how many bytes the larger buffers of all endpoints have
	// together: room for eight of the longest pages.
	maxLargePages = 8 * (maxPage + 1)
	// firstRead is the first buffer for a page whose length is not known.
	firstRead = 32 << 10
)

// memory is for the large pages of all endpoints.
type memory struct{ free *semaphore.Weighted }

func newMemory() memory { return memory{semaphore.NewWeighted(maxLargePages)} }

// body is the body of a reply on its way into a buffer.
type body struct {
	reader io.Reader
	size   int64 // in bytes, as the server says; < 0 is unknown
	memory memory
	taken  int64 // of the memory
}

// read appends the whole body to buf. What it takes of the memory is taken until
// release. The error is for failureOf.
func (b *body) read(ctx context.Context, buf []byte) ([]byte, error) {
	for {
		if len(buf) > maxPage || b.size > maxPage {
			return buf, pageErrorf(ReasonTooLarge, "a page of more than %d MiB", maxPage>>20)
		}
		if len(buf) == cap(buf) {
			var err error
			if buf, err = b.grow(ctx, buf); err != nil {
				return buf, err
			}
		}
		n, err := b.reader.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF && len(buf) <= maxPage {
			return buf, nil
		}
		if err != nil && err != io.EOF {
			return buf, err
		}
	}
}

// grow moves a buffer that is full to a larger one: at once to one for the whole
// page where its length is known or where it is large, so that a page never
// waits for memory that is taken by pages that wait too.
func (b *body) grow(ctx context.Context, buf []byte) ([]byte, error) {
	n := max(2*len(buf), firstRead)
	switch {
	case b.size >= int64(len(buf)):
		n = int(b.size) + 1 // the last one shows that the page has ended
	case len(buf) >= smallPage:
		n = maxPage + 1
	case n > smallPage:
		n = smallPage
	}
	if n > smallPage {
		if err := b.memory.free.Acquire(ctx, int64(n)); err != nil {
			return buf, pageErrorf(ReasonTooLarge, "a page of more than %d MiB, while other such pages took up the memory for them", smallPage>>20)
		}
		b.taken += int64(n)
	}
	return append(make([]byte, 0, n), buf...), nil
}

// release gives back what was taken of the memory.
func (b *body) release() {
	b.memory.free.Release(b.taken)
	b.taken = 0
}
