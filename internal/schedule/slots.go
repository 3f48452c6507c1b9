package schedule

import (
	"cmp"
	"slices"
	"time"
)

// slots decides which starts may run. A start takes a place of its host first and waits at the host when there is none;
// with it, it waits in a line for a place in flight. So each place goes to the start that came first, and a host whose
// places are used up holds back only its own jobs.
//
// Starts of jobs whose last run timed out hold a place for long, and get at most half of the places: at each host, and
// in flight. They wait apart, so that servers that hang do not hold up the others.
type slots struct {
	limits

	running places // of those in flight
	hosts   map[string]*host
	groups  map[string]*group
	lines   [numKinds]line // starts that have a place of their host
	created uint64         // slots so far, for the order
}

// limits bound the places; 0 is no limit.
type limits struct{ inAll, perHost int }

// kind is what the places are counted apart by.
type kind int

const (
	normal kind = iota
	hung        // the last run of the job timed out
	numKinds
)

type places [numKinds]int

func (p *places) all() int { return p[normal] + p[hung] }

// room reports whether a limit leaves a place for a start.
func (p *places) room(limit int, k kind) bool {
	if limit <= 0 {
		return true
	}
	return p.all() < limit && (k != hung || p[hung] < max(1, limit/2))
}

// host is where the starts of one Job.Host wait. It is known only while one of its places is taken.
type host struct {
	name    string
	taken   places         // in use, by the line or in flight
	waiting [numKinds]line // starts without a place, in order
}

// slot is that of one start, which waits for it or is in flight.
type slot struct {
	job     *job // nil: withdrawn
	group   *group
	host    *host // nil before it waits for a place there
	kind    kind
	due     int64
	order   uint64
	confirm bool
}

// ask makes a start wait for its slot.
func (s *slots) ask(j *job, due int64, confirm bool, now int64) {
	s.hold(j, due, confirm)
	s.admit(j.slot, now)
}

// hold prepares a start that waits outside, until admit.
func (s *slots) hold(j *job, due int64, confirm bool) {
	s.created++
	j.slot = &slot{job: j, group: j.group, due: due, order: s.created, confirm: confirm}
}

// admit lets a start wait for a place of its host, unless its group holds it back.
func (s *slots) admit(sl *slot, now int64) {
	if sl.group.enter(sl, now) {
		s.queue(sl)
	}
}

// queue gives a start a place of its host, or lets it wait for one.
func (s *slots) queue(sl *slot) {
	name := sl.job.Host
	h := s.hosts[name]
	if h == nil {
		h = &host{name: name}
		s.hosts[name] = h
	}
	sl.host = h
	if sl.job.timeouts > 0 {
		sl.kind = hung
	}
	h.waiting[sl.kind] = append(h.waiting[sl.kind], sl)
	s.fill(h)
}

// fill gives the free places of a host to the first that wait for them.
func (s *slots) fill(h *host) {
	for {
		sl := first(&h.waiting, &h.taken, s.perHost)
		if sl == nil {
			return
		}
		h.waiting[sl.kind].removeFirst()
		h.taken[sl.kind]++
		s.lines[sl.kind].add(sl)
	}
}

// first returns which of the first of each kind gets the next place under a limit; nil if nobody waits or it is full.
func first(lines *[numKinds]line, taken *places, limit int) *slot {
	var next *slot
	for k, l := range lines {
		if len(l) > 0 && taken.room(limit, kind(k)) && (next == nil || l[0].order < next.order) {
			next = l[0]
		}
	}
	return next
}

// setLimits changes the limits. Places that are taken stay so.
func (s *slots) setLimits(l limits) {
	s.limits = l
	for _, h := range s.hosts {
		s.fill(h)
	}
}

// withdraw ends the wait of a job. Its place becomes free when it is next.
func (s *slots) withdraw(j *job) {
	if j.slot != nil {
		j.slot.job = nil
		j.slot = nil
	}
}

// next returns the slot of the next start, with a place in flight, for release to give back; nil is none that can start.
func (s *slots) next(now int64) *slot {
	for {
		sl := first(&s.lines, &s.running, s.inAll)
		if sl == nil {
			return nil
		}
		s.lines[sl.kind].removeFirst()
		if sl.job != nil {
			s.running[sl.kind]++
			return sl
		}
		s.leave(sl, now)
	}
}

// release gives back a place in flight, and those of the host and the group.
func (s *slots) release(sl *slot, now int64) {
	s.running[sl.kind]--
	s.leave(sl, now)
}

// leave hands the place of a host, and that of a group, to the first that waits for it.
func (s *slots) leave(sl *slot, now int64) {
	h := sl.host
	h.taken[sl.kind]--
	s.fill(h)
	for _, next := range sl.group.leave(now) {
		s.queue(next)
	}
	if h.taken.all() == 0 {
		delete(s.hosts, h.name)
	}
}

type line []*slot

// add puts a start in its place: those of several hosts do not come in order.
func (l *line) add(sl *slot) {
	i, _ := slices.BinarySearchFunc(*l, sl, func(a, b *slot) int { return cmp.Compare(a.order, b.order) })
	*l = slices.Insert(*l, i, sl)
}

func (l *line) removeFirst() {
	(*l)[0] = nil
	*l = (*l)[1:]
}

// apart is how long the jobs of a group run one at a time after one timed out beside another.
const apart = time.Hour

// group is what the jobs of one Job.Group have in common. A server that works on
// one request at a time lets further ones wait, which nobody outside sees: a run
// that times out beside another one of its group is taken for a sign of that.
type group struct {
	name    string
	jobs    int   // of the group
	inside  int   // starts that were admitted, and runs in flight
	waiting line  // starts that were not, in order
	until   int64 // when runs may be beside one another again
	ended   int64 // when the latest run did
}

func (s *slots) join(j *job) {
	s.part(j)
	if j.Group == "" {
		return
	}
	g := s.groups[j.Group]
	if g == nil {
		g = &group{name: j.Group}
		s.groups[j.Group] = g
	}
	g.jobs++
	j.group = g
}

func (s *slots) part(j *job) {
	g := j.group
	if g == nil {
		return
	}
	j.group = nil
	g.jobs--
	if g.jobs == 0 {
		delete(s.groups, g.name)
	}
}

// enter reports whether a start is admitted now. Else it waits until leave admits it.
func (g *group) enter(sl *slot, now int64) bool {
	if g == nil {
		return true
	}
	if now < g.until && g.inside > 0 {
		g.waiting = append(g.waiting, sl)
		return false
	}
	g.inside++
	return true
}

// leave ends what was admitted, and returns what is admitted now: due from now on,
// as the wait for another job of the group is no fault of the schedule.
func (g *group) leave(now int64) []*slot {
	if g == nil {
		return nil
	}
	g.inside--
	var admitted []*slot
	for len(g.waiting) > 0 && (g.inside == 0 || now >= g.until) {
		sl := g.waiting[0]
		g.waiting.removeFirst()
		if sl.job != nil {
			sl.due = now
			admitted = append(admitted, sl)
			g.inside++
		}
	}
	return admitted
}

func (g *group) ran(r *run, now int64) {
	if g == nil {
		return
	}
	if r.report.TimedOut && !r.canceled && (g.inside > 1 || g.ended > r.started) {
		g.until = now + int64(apart)
	}
	g.ended = now
}
