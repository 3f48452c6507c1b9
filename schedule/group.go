package schedule

import "time"

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
