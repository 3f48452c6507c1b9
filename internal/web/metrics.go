package web

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/expfmt"
)

// maxScrapes is how many pages may be made at once; a further request waits. Two
// Prometheus servers scrape in parallel, and no more disturbs the probes.
const maxScrapes = 2

// metricsHandler answers scrapes. A page is made whole, compressed, before the
// first byte of it leaves, so that a client that reads slowly holds no slot.
type metricsHandler struct {
	*Options
	pack  compression
	slots slots
	held  heldPages
	last  atomic.Int64 // bytes of the latest page, so that the buffer of the next one need not grow
}

func (h *metricsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page, err := h.make(r)
	if err != nil {
		plainText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	if page.err != nil {
		h.Logger.Error("writing the metrics failed", "err", page.err)
		plainText(w, http.StatusInternalServerError, "writing the metrics failed")
		return
	}
	maps.Copy(w.Header(), page.header)
	if h.held.write(w, page) == nil {
		h.Scraped(page.took, page.size)
	}
}

// make makes a page once there is a slot for it. An error means that there was none.
func (h *metricsHandler) make(r *http.Request) (*heldPage, error) {
	if err := h.slots.acquire(r.Context(), maxWait); err != nil {
		return nil, err
	}
	defer h.slots.release()
	page := &heldPage{header: http.Header{}}
	page.body.Grow(int(h.last.Load() * 9 / 8))
	packed := *r
	if !accepts(r.Header, "gzip", "zstd") { // it is compressed nevertheless while it waits
		packed.Header = http.Header{"Accept": r.Header["Accept"], "Accept-Encoding": {"gzip"}}
		page.unpack = true
	}
	start := time.Now()
	h.pack(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format := expfmt.NegotiateAccept(r.Header, h.Formats...)
		w.Header().Set("Content-Type", string(format))
		out := &countingWriter{w: w}
		page.err = h.Metrics(out, format)
		page.size = out.n
	})).ServeHTTP(page, &packed)
	page.took = time.Since(start)
	h.last.Store(int64(page.body.Len()))
	return page, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// heldPage is a page that is made, by what writes to it as an http.ResponseWriter, and not yet read.
type heldPage struct {
	header http.Header
	body   bytes.Buffer
	unpack bool // the client wants it uncompressed
	size   int64
	took   time.Duration
	err    error // of making it

	cut func() // ends its writing
}

func (p *heldPage) Header() http.Header { return p.header }

func (p *heldPage) Write(b []byte) (int, error) { return p.body.Write(b) }

// WriteHeader implements http.ResponseWriter. A page that is made has status 200.
func (p *heldPage) WriteHeader(int) {}

// reader returns the page as the client wants it, and its length. It may change the header.
func (p *heldPage) reader(header http.Header) (io.Reader, int64, error) {
	body := bytes.NewReader(p.body.Bytes())
	if !p.unpack || header.Get("Content-Encoding") == "" { // as it is, or too short to be compressed
		return body, body.Size(), nil
	}
	header.Del("Content-Encoding")
	plain, err := gzip.NewReader(body)
	return plain, p.size, err
}

const (
	// maxHeldBytes bounds the pages of metrics that are made and not yet read,
	// compressed. Of the last maxScrapes there is no bound but their own size.
	maxHeldBytes = 64 << 20
	// heldPiece is how much of a page one deadline is for.
	heldPiece = 16 << 10
)

// heldPages bounds the memory of pages whose clients read slowly. When there are too many, those that are held longest
// are given up: a new client never waits for an old one.
type heldPages struct {
	limit int

	mu    sync.Mutex
	pages []*heldPage // the oldest first
	bytes int
}

// write writes a page to its client. An error means that the client did not get all of it.
func (h *heldPages) write(w http.ResponseWriter, page *heldPage) error {
	out := &deadlineWriter{ResponseWriter: w}
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

// compression wraps a handler in the compression that the client asks for.
type compression func(http.Handler) http.HandlerFunc

// newCompression returns the compression of all pages. The fastest level costs a
// fifth of the default one and saves nearly as much.
func newCompression() compression {
	wrap, _ := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(true)) // fails at an unknown level only
	return wrap
}

func (c compression) compress(routes []route) {
	for i, r := range routes {
		routes[i].handler = withDeadlines(c(r.handler))
	}
}
