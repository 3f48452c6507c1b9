package status

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// maxSteps is how many steps of a series are kept, maxEvents how many events of an
	// endpoint, and maxBeside how many of them a step names.
	maxSteps, maxEvents, maxBeside = 8, 32, 8
	// A step is dated to besideProbes probes or besideLeast, whichever is longer, and so are the events beside it.
	besideProbes, besideLeast = 10, 2 * time.Minute
)

// AddStep adds a step of the series, which has just been confirmed.
func (p *Probes) AddStep(s series.Step) {
	e := p.endpoint
	restarts := e.board.Restarts()
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed {
		return
	}
	shown := explain.Step{At: stats.UnixSeconds(s.At), Metric: s.Metric, Before: s.Before, After: s.After}
	if s.Lower > 0 {
		shown.Lower, shown.Upper = &s.Lower, &s.Upper
	}
	within := max(besideLeast, besideProbes*p.options.Interval)
	shown.Beside = e.events.near(s.At, within, restarts)
	p.steps = stats.AppendLatest(p.steps, shown, maxSteps)
	e.addNote(s.At, p.ID.Module, textOf(&shown))
	e.touch()
}

// Steps returns the steps of the series, the latest last.
func (p *Probes) Steps() []explain.Step {
	p.endpoint.mu.Lock()
	defer p.endpoint.mu.Unlock()
	return slices.Clone(p.steps)
}

// AddEvent adds something that may cause a step of the endpoint.
func (e *Endpoint) AddEvent(text string) {
	now := e.board.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events.add(now, text)
}

func textOf(s *explain.Step) string {
	verb := "rose"
	if s.After < s.Before {
		verb = "fell"
	}
	text := fmt.Sprintf("%s %s for good, from %.3g to %.3g s", strings.ToUpper(string(s.Metric)), verb, s.Before, s.After)
	if s.Metric == series.MetricFailures {
		text = fmt.Sprintf("failures %s from %.0f to %.0f %% of the probes", verb, 100*s.Before, 100*s.After)
	}
	if len(s.Beside) > 0 {
		text += "; at that time: " + strings.Join(s.Beside, ", ")
	}
	return text
}

// event is something that may have caused a step.
type event struct {
	at   time.Time
	text string
}

// events are the latest ones of an endpoint, and what they are seen by.
type events struct {
	all         []event
	certificate time.Time  // when the certificate expires
	servers     int        // that could be read
	address     netip.Addr // of the latest connection
	settled     int        // connections to it in a row, but for the first
}

// restarted is the text of a restart of the exporter.
const restarted = "exporter restarted"

// minSettled is how many connections in a row must be to one address before another one
// is a change: a name with several addresses takes turns.
const minSettled = 10

func (s *events) add(at time.Time, text string) {
	s.all = stats.AppendLatest(s.all, event{at, text}, maxEvents)
}

// near returns the texts of the events about a time, each once; restarts are those of the exporter, as Unix times.
func (s *events) near(at time.Time, within time.Duration, restarts []int64) []string {
	all := append(slices.Clone(s.all), stats.Map(restarts, func(at int64) event { return event{time.Unix(at, 0), restarted} })...)
	var texts []string
	for _, e := range all {
		if since := e.at.Sub(at).Abs(); since <= within && len(texts) < maxBeside && !slices.Contains(texts, e.text) {
			texts = append(texts, e.text)
		}
	}
	return texts
}

// observe finds events in a result; before is what was known of the endpoint.
func (s *events) observe(r *result.Result, before identity) {
	for _, v := range []struct{ what, before, now string }{
		{"model", before.model, harmless(r.Model)}, {"engine", before.engine, r.Engine},
	} {
		if v.before != "" && v.now != "" && v.before != v.now {
			s.add(r.Start, fmt.Sprintf("%s changed from %s to %s", v.what, v.before, v.now))
		}
	}
	if !r.CertNotAfter.IsZero() {
		if !s.certificate.IsZero() && !s.certificate.Equal(r.CertNotAfter) {
			s.add(r.Start, "certificate changed: it now expires at "+r.CertNotAfter.UTC().Format(time.RFC3339))
		}
		s.certificate = r.CertNotAfter
	}
	if r.Address.IsValid() {
		s.reach(r.Address, r.Start)
	}
}

// reach finds an event in the address that a probe was sent to.
func (s *events) reach(address netip.Addr, at time.Time) {
	if address == s.address {
		s.settled++
		return
	}
	if s.settled >= minSettled {
		s.add(at, fmt.Sprintf("address changed from %s to %s", s.address, address))
	}
	s.address, s.settled = address, 0
}

// read finds events in the readings of the servers' pages.
func (s *events) read(at time.Time, statuses []page.Status) {
	up := stats.Count(statuses, func(s page.Status) bool { return s.Snapshot != nil })
	if s.servers > 0 && up != s.servers {
		s.add(at, fmt.Sprintf("servers that can be read changed from %d to %d", s.servers, up))
	}
	s.servers = up
}
