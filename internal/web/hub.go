package web

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/status"
)

const (
	// roundInterval is how often watchers get what has changed.
	roundInterval = 2 * time.Second
	// maxWatchers bounds the open streams.
	maxWatchers = 256
	// maxPending is how many events wait for a watcher; one that is further behind is dropped.
	maxPending = 8
)

// hub sends changes to all watchers. One goroutine, which runs only while there is
// a watcher, reads the changes and encodes them once for all.
type hub struct {
	status Status
	logger *slog.Logger
	start  *event         // of a stream
	ping   *event         // without news
	rounds sync.WaitGroup // running goroutines

	mu       sync.Mutex
	closed   bool
	watchers map[*watcher]struct{}
	stop     chan struct{} // ends the rounds; nil while nobody watches
	position uint64        // the version that watchers have
	missed   missed
	packer   *packer // nil while nobody watches
}

type watcher struct {
	endpoint string // "" watches all of them
	dropped  bool
	events   chan *event // closed when the watcher is dropped
}

// missed is the event for watchers that come with an older version. Many come
// with the same one when the connections broke all at once.
type missed struct {
	since uint64
	event *event // nil is not made since the last round
}

var (
	errTooManyWatchers = errors.New("too many event streams are open")
	errHubClosed       = errors.New("the exporter is shutting down")
)

func newHub(s Status, logger *slog.Logger) *hub {
	p := newPacker()
	return &hub{
		status: s, logger: logger, start: p.pack([]byte(streamStart)), ping: p.pack([]byte(pingText)),
		watchers: make(map[*watcher]struct{}),
	}
}

// watch adds a watcher that knows all up to a version. It has to leave.
func (h *hub) watch(endpoint string, since uint64) (*watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errHubClosed
	}
	if len(h.watchers) >= maxWatchers {
		return nil, errTooManyWatchers
	}
	w := &watcher{endpoint: endpoint, events: make(chan *event, maxPending)}
	if h.stop == nil {
		stop := make(chan struct{})
		h.position, h.stop, h.packer = since, stop, newPacker()
		h.rounds.Go(func() { h.run(stop) })
	}
	if since != h.position {
		missed, err := h.catchUp(endpoint, since)
		if err != nil {
			return nil, err
		}
		w.events <- missed
	}
	h.watchers[w] = struct{}{}
	return w, nil
}

// catchUp returns the event that brings a watcher to where the others are, or
// further: rows that come again with a later round do no harm.
func (h *hub) catchUp(endpoint string, since uint64) (*event, error) {
	if endpoint != "" { // it reads the endpoint's page again, which costs less than to find out
		return h.packer.pack(endpointText(h.position)), nil
	}
	if h.missed.event == nil || h.missed.since != since {
		text, err := updateText(h.status.Changes(since))
		if err != nil {
			return nil, err
		}
		h.missed = missed{since: since, event: h.packer.pack(text)}
	}
	return h.missed.event, nil
}

func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	if len(h.watchers) == 0 {
		h.stopRounds()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	for w := range h.watchers {
		w.drop()
	}
	h.stopRounds()
	h.mu.Unlock()
	h.rounds.Wait()
}

func (h *hub) stopRounds() {
	if h.stop != nil {
		close(h.stop)
		h.stop, h.missed, h.packer = nil, missed{}, nil
	}
}

func (h *hub) run(stop <-chan struct{}) {
	ticker := time.NewTicker(roundInterval)
	defer ticker.Stop()
	for {
		h.round()
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
	}
}

func (h *hub) round() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		return
	}
	update := h.status.Changes(h.position)
	if update.Version == h.position {
		return
	}
	h.position, h.missed = update.Version, missed{}
	all := sync.OnceValues(func() (*event, error) {
		text, err := updateText(update)
		return h.packer.pack(text), err
	})
	one, changed := h.packer.pack(endpointText(update.Version)), changes(update)
	for w := range h.watchers {
		if w.endpoint != "" {
			if update.Reset || changed[w.endpoint] {
				w.send(one)
			}
			continue
		}
		news, err := all()
		if err != nil { // a page that misses an event would be wrong, so it has to connect again
			h.logger.Error("encoding the changes for the status page failed", "err", err)
			w.drop()
			continue
		}
		w.send(news)
	}
}

func changes(u *status.Update) map[string]bool {
	names := make(map[string]bool, len(u.Endpoints)+len(u.Removed))
	for _, row := range u.Endpoints {
		names[row.Name] = true
	}
	for _, name := range u.Removed {
		names[name] = true
	}
	return names
}

// send queues an event, which must not be changed any more.
func (w *watcher) send(e *event) {
	if w.dropped {
		return
	}
	select {
	case w.events <- e:
	default:
		w.drop()
	}
}

func (w *watcher) drop() {
	if !w.dropped {
		w.dropped = true
		close(w.events)
	}
}
