package web

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// maxHeldBytes bounds the pages of metrics that are made and not yet read,
	// compressed. Of the last maxScrapes there is no bound but their own size.
	maxHeldBytes = 64 << 20
	// heldPiece is how much of a page one deadline is for.
	heldPiece = 16 << 10
)

// heldPages bounds the memory of pages whose clients read slowly. When there are
// too many, those that are held longest are given up: a new client never waits
// for an old one.
type heldPages struct {
	limit int

	mu    sync.Mutex
	pages []*heldPage // the oldest first
	bytes int
}

// write writes a page to its client. An error means that the client did not get
// all of it.
func (h *heldPages) write(w http.ResponseWriter, page *heldPage) error {
	out := &heldWriter{out: &deadlineWriter{ResponseWriter: w}}
	page.cut = out.cut
	h.hold(page)
	defer h.release(page)
	body, length, err := page.reader(w.Header())
	if err != nil {
		return err
	}
	// By its length the client knows a part from the whole.
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	// Hidden are the methods that would write the page as one piece.
	_, err = io.CopyBuffer(out, struct{ io.Reader }{body}, make([]byte, heldPiece))
	return err
}

func (h *heldPages) hold(page *heldPage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages = append(h.pages, page)
	h.bytes += page.body.Cap()
	for len(h.pages) > maxScrapes && h.bytes > h.limit {
		h.pages[0].cut()
		h.remove(0)
	}
}

func (h *heldPages) release(page *heldPage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.pages, page); i >= 0 {
		h.remove(i)
	}
}

func (h *heldPages) remove(i int) {
	h.bytes -= h.pages[i].body.Cap()
	h.pages = slices.Delete(h.pages, i, i+1)
}

// heldWriter writes to a client until it is cut.
type heldWriter struct {
	out *deadlineWriter

	mu    sync.Mutex
	ended bool
}

// Write implements io.Writer.
func (h *heldWriter) Write(p []byte) (int, error) {
	h.mu.Lock()
	ended := h.ended
	if !ended {
		h.out.extend()
	}
	h.mu.Unlock()
	if ended {
		return 0, http.ErrAbortHandler
	}
	return h.out.ResponseWriter.Write(p)
}

// cut ends the write that is under way, and allows no more.
func (h *heldWriter) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	_ = http.NewResponseController(h.out.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}
