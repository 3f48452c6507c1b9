package series

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Uptime is the share of the probes that succeeded over the latest time, without
// confirmations of failures and without probes beside bursts of the exporter's own. A
// share is absent where less than its window is kept, or no probe ran in it.
type Uptime struct {
	// From is since when probes are counted, by this process or an earlier one.
	From  float64  `json:"from"`
	Hour  *float64 `json:"1h,omitempty"`
	Day   *float64 `json:"24h,omitempty"`
	Week  *float64 `json:"7d,omitempty"`
	Month *float64 `json:"30d,omitempty"`
}

// span is a time over which probes are counted, in steps: those of the latest n steps and of the one that goes on.
type span struct {
	step int64 // seconds
	n    int64
}

// spans are those of Uptime, the last that of error budgets.
func spans() [numSpans]span {
	return [numSpans]span{{5 * 60, 12}, {60 * 60, 24}, {6 * 60 * 60, 28}, {24 * 60 * 60, 30}}
}

const (
	numSpans = 4
	month    = numSpans - 1
)

func (s span) seconds() int64 { return s.step * s.n }

// uptime counts the probes of a series by time. Its form is that of the file of the state, too.
type uptime struct {
	// From is the Unix time in seconds of the first probe that was counted; 0 is none.
	From int64 `json:"from"`
	// Probes counts probes, and those that failed, for each of the spans.
	Probes [numSpans]counts `json:"probes"`
	// Objectives counts those that are eligible for an objective but availability, and
	// those that missed it, over the last span.
	Objectives [NumObjectives - 1]counts `json:"objectives"`
}

// counts are those of the steps of a span, the latest last. Steps without probes are left out.
type counts []count

// count is how many probes there were in a step of a span, and how many of them were bad, in
// 20 bits each, and in the upper 24 bits the number of the step since 1970.
type count uint64

const (
	probesBits      = 20
	maxProbesOfStep = 1<<probesBits - 1
)

func newCount(step int64, all, bad int) count {
	return count(step)<<(2*probesBits) | count(all)<<probesBits | count(bad)
}

func (c count) step() int64 { return int64(c >> (2 * probesBits)) }
func (c count) all() int    { return int(c >> probesBits & maxProbesOfStep) }
func (c count) bad() int    { return int(c & maxProbesOfStep) }

func (u *uptime) add(o *Observation) {
	at := o.Start.Unix()
	if at <= 0 {
		return
	}
	if u.From == 0 || at < u.From {
		u.From = at
	}
	all := spans()
	for i, s := range all {
		u.Probes[i].add(s, at, o.Outcome != result.Success)
	}
	for i := TTFT; i < NumObjectives; i++ {
		if o.Judgement.Eligible.Has(i) {
			u.Objectives[i-1].add(all[month], at, o.Judgement.Bad.Has(i))
		}
	}
}

// addWait counts a user who waited for a first token, for the error budget.
func (u *uptime) addWait(at time.Time, bad bool) {
	if at.Unix() > 0 {
		u.Objectives[TTFT-1].add(spans()[month], at.Unix(), bad)
	}
}

// add counts a probe. Where the clock was set back, what is in the future is dropped; a
// step back over the end of a step of the count is none.
func (c *counts) add(s span, at int64, bad bool) {
	step := at / s.step
	list := *c
	if n := len(list); n > 0 && step == list[n-1].step()-1 {
		step++
	}
	list.dropAfter(step)
	if n := len(list); n == 0 || list[n-1].step() != step {
		list = stats.DropOld(list, func(x count) bool { return x.step() < step-s.n })
		list = stats.AppendLatest(list, newCount(step, 0, 0), int(s.n)+1)
	}
	latest := &list[len(list)-1]
	if latest.all() < maxProbesOfStep {
		*latest += newCount(0, 1, 0)
		if bad {
			*latest += newCount(0, 0, 1)
		}
	}
	*c = list
}

func (c *counts) dropAfter(step int64) {
	n := len(*c)
	for n > 0 && (*c)[n-1].step() > step {
		n--
	}
	*c = (*c)[:n]
}

// sum returns how many probes there were in the span before now, and how many were bad.
func (c counts) sum(s span, now int64) (all, bad float64) {
	first := now/s.step - s.n
	for _, x := range c {
		if x.step() >= first {
			all, bad = all+float64(x.all()), bad+float64(x.bad())
		}
	}
	return all, bad
}

// UptimeOf returns the uptime of series together; nil where none has a probe.
func UptimeOf(now time.Time, logs ...*Log) *Uptime {
	var from int64
	var all, bad [numSpans]float64
	for _, l := range logs {
		l.mu.Lock()
		u := &l.uptime
		if u.From > 0 && (from == 0 || u.From < from) {
			from = u.From
		}
		for i, s := range spans() {
			a, b := u.Probes[i].sum(s, now.Unix())
			all[i], bad[i] = all[i]+a, bad[i]+b
		}
		l.mu.Unlock()
	}
	if from == 0 {
		return nil
	}
	shares := [numSpans]*float64{}
	for i, s := range spans() {
		if all[i] > 0 && from <= now.Unix()-s.seconds() {
			shares[i] = new(1 - bad[i]/all[i])
		}
	}
	return &Uptime{From: float64(from), Hour: shares[0], Day: shares[1], Week: shares[2], Month: shares[3]}
}

// BudgetLeft returns what is left of the error budget of 30 days for the objective that is missed most; below 0 it is
// missed. The share of the probes that were bad counts for the days that there were probes: the others use none of the
// budget, as in the dashboards. nil is without an objective or a probe.
func (l *Log) BudgetLeft(o *Objectives, now time.Time) *float64 {
	if o == nil || o.Share >= 1 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := &l.uptime
	s := spans()[month]
	kept := u.Probes[month].kept(s, u.From, now.Unix())
	var worst *float64
	for _, c := range append([]counts{u.Probes[month]}, u.Objectives[:]...) {
		all, bad := c.sum(s, now.Unix())
		if all == 0 {
			continue
		}
		if left := 1 - bad/all/(1-o.Share)*kept; worst == nil || left < *worst {
			worst = &left
		}
	}
	return worst
}

// kept returns the share of a span for which there are probes, in whole steps but for the first and the latest.
func (c counts) kept(s span, from, now int64) float64 {
	var seconds int64
	first := now/s.step - s.n
	for _, x := range c {
		if step := x.step(); step >= first {
			seconds += max(0, min(now, (step+1)*s.step)-max(from, step*s.step))
		}
	}
	return min(1, float64(seconds)/float64(s.seconds()))
}

// copyTo sets another one to the same counts.
func (u *uptime) copyTo(to *uptime) {
	to.From = u.From
	for i := range u.Probes {
		to.Probes[i] = append(to.Probes[i][:0], u.Probes[i]...)
	}
	for i := range u.Objectives {
		to.Objectives[i] = append(to.Objectives[i][:0], u.Objectives[i]...)
	}
}

// valid returns the counts of a file that can be, by the clock.
func (u *uptime) valid(now time.Time) uptime {
	if u.From <= 0 {
		return uptime{}
	}
	v := uptime{From: min(u.From, now.Unix())}
	all := spans()
	for i, s := range all {
		v.Probes[i] = u.Probes[i].valid(s, now.Unix())
	}
	for i := range u.Objectives {
		v.Objectives[i] = u.Objectives[i].valid(all[month], now.Unix())
	}
	return v
}

// valid returns the counts without those of the future; none where they are no counts.
func (c counts) valid(s span, now int64) counts {
	if int64(len(c)) > s.n+1 {
		return nil
	}
	for i, x := range c {
		if x.bad() > x.all() || i > 0 && x.step() <= c[i-1].step() {
			return nil
		}
	}
	kept := slices.Clone(c)
	kept.dropAfter(now / s.step)
	return kept
}
