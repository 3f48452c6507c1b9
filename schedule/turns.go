package schedule

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// turns says who may start. A start takes a place of its host first and waits
// at the host when there is none; with it, it stands in the line for a place
// in flight. So each place goes to the start that asked first, and a host
// whose places are used up holds back only its own jobs.
//
// Starts of jobs whose last run timed out hold a place for long, and get at most
// half of the places: at each host, and in flight. They wait apart, so that
// servers that hang do not hold up the others.
type turns struct {
	limits

	inFlight atomic.Int64 // written by the loop only
	flying   places       // of those in flight
	hosts    map[string]*host
	groups   map[string]*group
	lines    [numKinds]line // starts that have a place of their host
	asked    uint64         // starts so far, for the order
}

// limits bound the places; 0 is no limit.
type limits struct{ inAll, perHost int }

// kind tells the starts apart whose places are counted apart.
type kind int

const (
	swift kind = iota
	hung       // the last run of the job timed out
	numKinds
)

// places counts those that are taken.
type places [numKinds]int

// all returns how many places are taken.
func (p *places) all() int { return p[swift] + p[hung] }

// room returns whether a limit leaves a place for a start.
func (p *places) room(limit int, k kind) bool {
	if limit <= 0 {
		return true
	}
	return p.all() < limit && (k != hung || p[hung] < max(1, limit/2))
}

// host is where the starts of one Job.Host wait. It is known only while one
// of its places is taken.
type host struct {
	name    string
	taken   places            // in use, by the line or in flight
	waiting [numKinds][]*turn // starts without a place, in order
}

// turn is one start that waits, or that of a run in flight.
type turn struct {
	job     *job // nil: withdrawn
	group   *group
	host    *host // nil before it has asked for a place there
	kind    kind
	due     int64
	order   uint64
	confirm bool
}

func newTurns(l limits) turns {
	return turns{limits: l, hosts: map[string]*host{}, groups: map[string]*group{}}
}

// ask makes a start wait for its turn.
func (t *turns) ask(j *job, due int64, confirm bool, now int64) {
	t.hold(j, due, confirm)
	t.admit(j.turn, now)
}

// hold prepares a start that waits outside, until admit.
func (t *turns) hold(j *job, due int64, confirm bool) {
	t.asked++
	j.turn = &turn{job: j, group: j.group, due: due, order: t.asked, confirm: confirm}
}

// admit lets a start wait for a place of its host, unless it is not the turn of
// its group.
func (t *turns) admit(tn *turn, now int64) {
	if tn.group.enter(tn, now) {
		t.queue(tn)
	}
}

// queue gives a start a place of its host, or lets it wait for one.
func (t *turns) queue(tn *turn) {
	name := tn.job.Host
	h := t.hosts[name]
	if h == nil {
		h = &host{name: name}
		t.hosts[name] = h
	}
	tn.host = h
	if tn.job.timeouts > 0 {
		tn.kind = hung
	}
	h.waiting[tn.kind] = append(h.waiting[tn.kind], tn)
	t.fill(h)
}

// fill gives the free places of a host to the first that wait for them.
func (t *turns) fill(h *host) {
	for {
		var heads [numKinds]*turn
		for k, waiting := range h.waiting {
			if len(waiting) > 0 {
				heads[k] = waiting[0]
			}
		}
		tn := first(heads, &h.taken, t.perHost)
		if tn == nil {
			return
		}
		h.waiting[tn.kind][0] = nil
		h.waiting[tn.kind] = h.waiting[tn.kind][1:]
		h.taken[tn.kind]++
		heap.Push(&t.lines[tn.kind], tn)
	}
}

// first returns which of the first of each kind has the next place under a limit;
// nil where nobody waits or there is no place.
func first(heads [numKinds]*turn, taken *places, limit int) *turn {
	var next *turn
	for k, tn := range heads {
		if tn != nil && taken.room(limit, kind(k)) && (next == nil || tn.order < next.order) {
			next = tn
		}
	}
	return next
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
func (t *turns) next(now int64) *turn {
	for {
		var heads [numKinds]*turn
		for k, l := range t.lines {
			if len(l) > 0 {
				heads[k] = l[0]
			}
		}
		tn := first(heads, &t.flying, t.inAll)
		if tn == nil {
			return nil
		}
		heap.Pop(&t.lines[tn.kind])
		if tn.job != nil {
			t.fly(tn.kind, 1)
			return tn
		}
		t.leave(tn, now)
	}
}

// fly changes how many runs of a kind are in flight.
func (t *turns) fly(k kind, by int) {
	t.flying[k] += by
	t.inFlight.Store(int64(t.flying.all()))
}

// release gives back a place in flight, and those of the host and the group.
func (t *turns) release(tn *turn, now int64) {
	t.fly(tn.kind, -1)
	t.leave(tn, now)
}

// leave hands the place of a host, and the turn of a group, to the first that
// waits for it.
func (t *turns) leave(tn *turn, now int64) {
	h := tn.host
	h.taken[tn.kind]--
	t.fill(h)
	for _, next := range tn.group.leave(now) {
		t.queue(next)
	}
	if h.taken.all() == 0 {
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

// apart is how long the jobs of a group run one at a time after one of them timed
// out beside another.
const apart = time.Hour

// group is what the jobs of one Job.Group have in common. A server that works on
// one request at a time lets further ones wait, which nobody outside sees: a run
// that times out beside another one of its group is taken for a sign of that.
type group struct {
	name    string
	jobs    int     // of the group
	inside  int     // starts that were admitted, and runs in flight
	waiting []*turn // starts that were not, in order
	until   int64   // when runs may be beside one another again
	ended   int64   // when the latest run did
}

// join makes a job one of its group.
func (t *turns) join(j *job) {
	t.part(j)
	if j.Group == "" {
		return
	}
	g := t.groups[j.Group]
	if g == nil {
		g = &group{name: j.Group}
		t.groups[j.Group] = g
	}
	g.jobs++
	j.group = g
}

// part takes a job out of its group.
func (t *turns) part(j *job) {
	g := j.group
	if g == nil {
		return
	}
	j.group = nil
	g.jobs--
	if g.jobs == 0 {
		delete(t.groups, g.name)
	}
}

// enter returns whether a start is admitted now. Else it waits until leave admits
// it.
func (g *group) enter(tn *turn, now int64) bool {
	if g == nil {
		return true
	}
	if now < g.until && g.inside > 0 {
		g.waiting = append(g.waiting, tn)
		return false
	}
	g.inside++
	return true
}

// leave ends what was admitted, and returns what is admitted now: due from now on,
// as the wait for another job of the group is no fault of the schedule.
func (g *group) leave(now int64) []*turn {
	if g == nil {
		return nil
	}
	g.inside--
	var admitted []*turn
	for len(g.waiting) > 0 && (g.inside == 0 || now >= g.until) {
		tn := g.waiting[0]
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		if tn.job != nil {
			tn.due = now
			admitted = append(admitted, tn)
			g.inside++
		}
	}
	return admitted
}

// ran takes note of the end of a run.
func (g *group) ran(r *run, timedOut bool, now int64) {
	if g == nil {
		return
	}
	if timedOut && (g.inside > 1 || g.ended > r.started) {
		g.until = now + int64(apart)
	}
	g.ended = now
}
