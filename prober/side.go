package prober

import (
	"fmt"
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// glance is what the kernel shows of a connection at an instant. Counts are since it was connected.
type glance struct {
	at          time.Time
	out         uint32 // segments sent, acknowledgements and keepalives among them
	data, acks  uint32 // segments received with data and without
	retransmits uint32 // segments sent again
	unacked     uint32 // segments sent that were not acknowledged yet
	unanswered  int    // keepalives in a row without an answer
	heard       time.Duration
	rto         time.Duration // after which a segment is sent again
	rtt         time.Duration
	reads       int  // of the connection
	queued      bool // data waits to be read
	held        bool // data waits for a segment before it that is missing
}

const (
	// lateLook is how late a look may be without that the process counts as late, and stampSlack by how much a receive
	// stamp may precede the instant at which its data can be read.
	lateLook, stampSlack = 100 * time.Millisecond, 50 * time.Millisecond
	// patience is how long, beside three round trips, a keepalive may take to be answered.
	patience = 300 * time.Millisecond
	// firstRTO is after how long a server's kernel sends a lost segment again at first, and twice as long each time.
	firstRTO = 200 * time.Millisecond
	// likely and unlikely bound the probability that losses alone made a silence: network from the one on, server below
	// the other, unknown between them.
	likely, unlikely = 0.05, 0.01
)

// silence is a time in which nothing came that a request waits for, and what was seen of its connection.
type silence struct {
	conn   *conn // nil while it is being connected
	began  time.Time
	first  bool // nothing has come yet
	looks  []glance
	rounds int // in which the kernel was asked, whether it had an answer or not
	during int // of the looks, those before what ended it came
	took   time.Duration
	came   bool // it ended by what was waited for
	// unread is how long data waited for this process at least, or may have, and stale means that what came last had
	// been received before an instant at which there was nothing to read.
	unread time.Duration
	stale  bool
}

// look adds a glance, which is late by so much; not ok without one.
func (s *silence) look(now time.Time, late time.Duration) (ok bool) {
	g, ok := s.conn.glance()
	if !ok || len(s.looks) >= mostLooks { // without keepalives no acknowledgement is to be expected
		return ok
	}
	g.at = now
	if g.queued && late > lateLook {
		s.unread = max(s.unread, late)
	}
	s.looks = append(s.looks, g)
	return true
}

// end adds the last glance, and what the stamp of the latest read shows. late is for how long a look has been due.
func (s *silence) end(now time.Time, late time.Duration, came bool) {
	s.took, s.came = now.Sub(s.began), came
	past := s.conn.past()
	var seen time.Time // there was nothing to read, nor had what came last been read
	for _, g := range s.looks {
		if !g.queued && g.reads < past.reads {
			seen = g.at
		}
	}
	s.during = len(s.looks)
	if looked := s.look(now, late); late > lateLook && (came || !looked) {
		s.unread = max(s.unread, late)
	}
	if !came {
		s.during = len(s.looks)
	}
	last := past.last
	prompt := came && now.Sub(last.process) < lateLook // else it was read before, and waited for the rest of its event
	if received := time.Unix(0, last.kernel); prompt && last.kernel != 0 && received.After(s.began.Round(0)) && received.Before(now.Round(0)) {
		if s.stale = !seen.IsZero() && received.Before(seen.Round(0).Add(-stampSlack)); !s.stale {
			s.unread = max(s.unread, now.Round(0).Sub(received))
		}
	}
}

// judge returns whose silence it was: the one place that says so.
func (s *silence) judge() *result.Stall {
	side, evidence := s.side()
	return &result.Stall{Side: side, Duration: s.took, Samples: len(s.looks), Evidence: evidence}
}

func (s *silence) side() (result.Side, []string) {
	say := func(side result.Side, format string, args ...any) (result.Side, []string) {
		return side, []string{fmt.Sprintf(format, args...)}
	}
	switch {
	case s.unread >= s.took/3:
		return say(result.SideExporter, "data waited for the exporter to read it, or may have, for %s", result.InWords(s.unread))
	case s.conn == nil && s.came:
		return say(result.SideNetwork, "the connection was opened after %s: segments were lost, or the host was late to answer", result.InWords(s.took))
	case s.conn == nil:
		return say(result.SideHost, "the host answered no segment that opens a connection for %s", result.InWords(s.took))
	case s.stale:
		return say(result.SideNetwork, "data had arrived that waited for a segment before it, which was lost")
	case len(s.looks) == 0:
		return say(result.SideUnknown, "the kernel shows nothing of the connection")
	}
	first, last := s.looks[0], s.looks[len(s.looks)-1]
	for _, g := range s.looks {
		if g.held {
			return say(result.SideNetwork, "data arrived that waits for a segment before it, which was lost")
		}
	}
	if first.unacked > 0 && (s.came || last.unacked == 0) {
		return say(result.SideNetwork, "what was sent was acknowledged only after %s or later, sent again %d times", result.InWords(first.at.Sub(s.began)), s.resent())
	}
	if last.unacked > 0 {
		return say(result.SideHost, "what was sent was not acknowledged, sent again %d times", s.resent())
	}
	if again := first.rto * time.Duration(1<<min(s.resent(), 16)-1); s.first && again >= s.took/2 {
		return say(result.SideNetwork, "the request was sent again %d times until it was acknowledged", s.resent())
	}
	return s.sideByKeepalives()
}

// resent is how often segments were sent again since the request began.
func (s *silence) resent() int {
	return int(s.looks[len(s.looks)-1].retransmits - s.conn.resent)
}

// sideByKeepalives judges by the acknowledgements of the keepalives, while there was nothing else to acknowledge.
func (s *silence) sideByKeepalives() (result.Side, []string) {
	k := s.keepalives()
	say := func(side result.Side, more string) (result.Side, []string) {
		return side, []string{fmt.Sprintf("%d of %d keepalives were acknowledged in the %s that the silence was looked at%s",
			k.answered, k.asked, result.InWords(k.took), more)}
	}
	const wentOn = ", and then the reply went on"
	switch {
	case k.answered == 0 && k.took < k.patience, k.answered == 0 && k.asked == 1 && !s.came:
		return say(result.SideUnknown, "")
	case k.answered == 0 && s.came:
		return say(result.SideNetwork, wentOn)
	case k.answered == 0:
		return say(result.SideHost, "")
	case k.heardAgain > 0 && s.took < 2*k.heardAgain+nextRound:
		// A server's kernel sends a segment again after twice the time each time, so also after the way is well again.
		return say(result.SideNetwork, ", none in the first "+result.InWords(k.heardAgain))
	case k.deaf > k.took/2 && s.came:
		return say(result.SideNetwork, ", none in the last "+result.InWords(k.deaf)+wentOn)
	case k.deaf > k.took/2 && k.asked-k.answered <= int(k.deaf/nextRound): // before that none was lost
		return say(result.SideHost, ", none in the last "+result.InWords(k.deaf))
	case k.answered >= k.asked:
		return say(result.SideServer, "")
	}
	// A segment is lost with at most the probability that a keepalive or its answer is. The server's kernel would have
	// sent one that was lost so often again.
	loss := float64(k.asked-k.answered) / float64(k.asked)
	tries := math.Floor(math.Log2(s.took.Seconds()/firstRTO.Seconds() + 1))
	switch chance := math.Pow(loss, tries); {
	case chance >= likely:
		return say(result.SideNetwork, ", as where segments are lost")
	case chance < unlikely:
		return say(result.SideServer, ": losses alone would not be as long")
	}
	return say(result.SideUnknown, "")
}

// keepalives is what became of those of a silence.
type keepalives struct {
	asked, answered int
	took            time.Duration // from the first look on, with which they begin
	patience        time.Duration // after which one that was not answered counts as lost
	heardAgain      time.Duration // until the first answer was seen, from the beginning of the silence; 0 is at once
	deaf            time.Duration // without an answer at the end, if two at least were lost; else 0
}

// keepalives counts: each look that was made while nothing came adds those that were sent and answered by then, and the
// last glance at a silence that is over at most one answer to them, as it sees what came, too.
func (s *silence) keepalives() keepalives {
	first, last := s.looks[0], s.looks[len(s.looks)-1]
	k := keepalives{asked: 1, took: last.at.Sub(first.at), patience: patience + 3*last.rtt}
	before := first
	answers := func(g glance) {
		if before.acks == first.acks && g.acks > first.acks && before.at.Sub(first.at) > k.patience {
			k.heardAgain = g.at.Sub(s.began)
		}
	}
	for _, g := range s.looks[min(1, s.during):s.during] {
		k.asked, k.answered = max(k.asked, int(g.out-first.out)-int(g.data-first.data)), int(g.acks-first.acks)
		answers(g)
		before = g
	}
	answers(last)
	if silent := min(before.heard+last.at.Sub(before.at), k.took); last.acks == before.acks && silent > 2*nextRound+k.patience {
		k.deaf = silent
	}
	if k.answered += min(1, int(last.acks-before.acks)); !s.came && last.unanswered == 1 && k.deaf == 0 && k.asked > k.answered {
		k.asked-- // it is on its way
	}
	k.answered = min(k.answered, k.asked)
	return k
}
