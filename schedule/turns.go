package schedule

import (
	"container/heap"
	"sync/atomic"
)

// turns says who may start. A start takes a place of its host first and waits
// at the host when there is none; with it, it stands in the line for a place
// in flight. So each place goes to the start that asked first, and a host
// whose places are used up holds back only its own jobs.
type turns struct {
	limits

	inFlight atomic.Int64 // written by the loop only
	hosts    map[string]*host
	line     line   // starts that have a place of their host
	asked    uint64 // starts so far, for the order
}

// limits bound the places; 0 is no limit.
type limits struct{ inAll, perHost int }

// host is where the starts of one Job.Host wait. It is known only while one
// of its places is taken.
type host struct {
	name    string
	taken   int     // places in use, by the line or in flight
	waiting []*turn // starts without a place, in order
}

// turn is one start that waits.
type turn struct {
	job     *job // nil: withdrawn
	host    *host
	due     int64
	order   uint64
	confirm bool
}

// ask makes a start wait for its turn.
func (t *turns) ask(j *job, due int64, confirm bool) {
	t.hold(j, due, confirm)
	t.admit(j.turn)
}

// hold prepares a start that waits outside, until admit.
func (t *turns) hold(j *job, due int64, confirm bool) {
	t.asked++
	j.turn = &turn{job: j, due: due, order: t.asked, confirm: confirm}
}

// admit gives a start a place of its host, or lets it wait for one.
func (t *turns) admit(tn *turn) {
	name := tn.job.Host
	h := t.hosts[name]
	if h == nil {
		h = &host{name: name}
		t.hosts[name] = h
	}
	tn.host = h
	h.waiting = append(h.waiting, tn)
	t.fill(h)
}

// fill gives the free places of a host to the first that wait for them.
func (t *turns) fill(h *host) {
	for len(h.waiting) > 0 && (t.perHost <= 0 || h.taken < t.perHost) {
		h.taken++
		heap.Push(&t.line, h.waiting[0])
		h.waiting[0] = nil
		h.waiting = h.waiting[1:]
	}
}

// setLimits changes the limits. Places that are taken stay so.
func (t *turns) setLimits(l limits) {
	t.limits = l
	for _, h := range t.hosts {
		t.fill(h)
	}
}

// withdraw ends the wait of a job. Its place falls free when its turn comes.
func (t *turns) withdraw(j *job) {
	if j.turn != nil {
		j.turn.job = nil
		j.turn = nil
	}
}

// next returns the start whose turn it is, with a place in flight that the
// caller gives back by release; nil when nobody waits or no place is free.
func (t *turns) next() *turn {
	for len(t.line) > 0 && (t.inAll <= 0 || t.inFlight.Load() < int64(t.inAll)) {
		tn := heap.Pop(&t.line).(*turn)
		if tn.job != nil {
			t.inFlight.Add(1)
			return tn
		}
		t.leave(tn.host)
	}
	return nil
}

// release gives back a place in flight and the place of its host.
func (t *turns) release(h *host) {
	t.inFlight.Add(-1)
	t.leave(h)
}

// leave hands a place of a host to the first that waits for it.
func (t *turns) leave(h *host) {
	h.taken--
	t.fill(h)
	if h.taken == 0 {
		delete(t.hosts, h.name)
	}
}

// line is a heap of starts by their order, for container/heap.
type line []*turn

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i].order < l[j].order }
func (l line) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push is for container/heap.
func (l *line) Push(x any) { *l = append(*l, x.(*turn)) }

// Pop is for container/heap.
func (l *line) Pop() any {
	last := len(*l) - 1
	tn := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	return tn
}
