package prober

import (
	"runtime"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// leastSilence is the shortest silence whose side is judged, and usualGaps how many times the usual gap between
	// tokens it lasts. Before anything came it is the quotaOfLimit-th part of the limit on it.
	leastSilence = time.Second
	usualGaps    = 8
	quotaOfLimit = 4
	// firstRound is how long after the first look at a silence the second comes, nextRound how long between later ones,
	// as often as keepalives are sent. After mostLooks there are neither: a connection is kept alive no longer.
	firstRound, nextRound, mostLooks = nextRound / 2, time.Second, 60
)

// stallWatch looks at a connection while nothing comes that a request waits for, and judges whose silence the longest
// was. Before a silence is longer than usual it does nothing but compare two times. It is safe for concurrent use, and nil
// where nobody asks.
type stallWatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	silence silence       // the present one
	limit   time.Duration // of the present silence
	first   time.Time     // when the first token came
	tokens  int
	due     time.Time // when the next look is due
	over    bool
	worst   *result.Stall // the longest that was judged
	worstAt time.Time
}

func newStallWatch() *stallWatch {
	if runtime.GOOS != "linux" { // whose TCP_INFO this is
		return nil
	}
	w := new(stallWatch)
	w.timer = time.AfterFunc(forever, w.look)
	w.timer.Stop() // until begin, as a request that is never sent has no end
	return w
}

// begin says that from now on something is waited for, within a limit: a connection, nil while there is none, its
// handshake, or the first token.
func (w *stallWatch) begin(c *conn, limit time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.close(now, true)
	w.limit = limit
	w.next(now, c)
	w.due = now.Add(w.threshold())
	w.timer.Reset(time.Until(w.due))
}

// rest says that nothing is waited for until the next begin.
func (w *stallWatch) rest() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.close(time.Now(), true)
	w.silence = silence{}
}

// token says that a token came, and within what time the next is to come.
func (w *stallWatch) token(now time.Time, limit time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.close(now, true)
	w.tokens++
	w.limit = limit
	w.next(now, w.silence.conn)
	if w.tokens == 1 { // the timer is that of the silence before, which may be longer
		w.first = now
		w.timer.Reset(w.threshold())
	}
}

func (w *stallWatch) next(now time.Time, c *conn) {
	w.silence = silence{conn: c, began: now, first: w.tokens == 0, looks: w.silence.looks[:0]}
}

// end says that the request is over, by a failure or not, and returns the longest stall and when it began; nil is none.
func (w *stallWatch) end(failed bool) (*result.Stall, time.Time) {
	if w == nil {
		return nil, time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.close(time.Now(), !failed)
	w.over = true
	return w.worst, w.worstAt
}

// threshold is how long the present silence may last.
func (w *stallWatch) threshold() time.Duration {
	least := w.limit / quotaOfLimit
	if w.tokens > 0 {
		least = usualGaps * w.silence.began.Sub(w.first) / time.Duration(max(1, w.tokens-1))
	}
	return min(max(leastSilence, least), w.limit/2)
}

// look asks the kernel, if the silence is long enough, and plans the next look.
func (w *stallWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.silence
	if w.over || s.began.IsZero() {
		return
	}
	now := time.Now()
	if s.rounds == 0 {
		if w.due = s.began.Add(w.threshold()); now.Before(w.due) {
			w.timer.Reset(w.due.Sub(now))
			return
		}
		s.conn.keepAlive(true)
	}
	s.look(now, now.Sub(w.due))
	round := nextRound
	switch s.rounds++; s.rounds {
	case 1:
		round = firstRound
	case mostLooks:
		s.conn.keepAlive(false)
	}
	w.due = now.Add(round)
	w.timer.Reset(round)
}

// close judges a silence that is over, if it was a stall. came means that what was waited for came.
func (w *stallWatch) close(now time.Time, came bool) {
	s := &w.silence
	took := now.Sub(s.began)
	if s.began.IsZero() || took < w.threshold() {
		return
	}
	due := w.due
	if s.rounds == 0 {
		due = s.began.Add(w.threshold())
	}
	s.end(now, now.Sub(due), came)
	if s.rounds > 0 {
		s.conn.keepAlive(false)
	}
	if w.worst == nil || took > w.worst.Duration {
		w.worst, w.worstAt = s.judge(), s.began
	}
}
