package explain

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
)

func matchDNS(f *facts) *match {
	if m := f.failures(outcomes(result.DNSError)); m != nil {
		return m
	}
	return f.slowSetup(result.PhaseDNS, "name resolution takes long")
}

// slowSetup matches answers over the objective of their duration of which a phase of the set-up is half.
func (f *facts) slowSetup(phase result.Phase, title string) *match {
	if len(f.lateE2E) == 0 || len(f.lateTTFT)+len(f.lateTPOT) > 0 {
		return nil
	}
	evidence := f.mostOf(fmt.Sprint("phase ", phase), func(p *Probe) (part, whole time.Duration) {
		return p.Timing.Phases[phase], p.Timing.Duration
	})
	if len(evidence) == 0 {
		return nil
	}
	return &match{share: 1, title: title, evidence: evidence}
}

// mostOf returns a line where a part of what answers took is half of it or more, by medians.
func (f *facts) mostOf(what string, of func(p *Probe) (part, whole time.Duration)) []string {
	var parts, wholes []float64
	for _, p := range f.good {
		if part, whole := of(p); part > 0 && whole > 0 {
			parts, wholes = append(parts, part.Seconds()), append(wholes, whole.Seconds())
		}
	}
	part, whole := stats.MedianOf(parts, minGood), stats.MedianOf(wholes, minGood)
	if part == nil || *part < *whole/2 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s of %s", what, seconds(*part), seconds(*whole))}
}

func matchCertificate(f *facts) *match {
	m := f.failures(outcomes(result.TLSError))
	if m == nil {
		return nil
	}
	for _, p := range f.failed {
		switch p.Reason {
		case result.Expired:
			m.title = "the certificate has expired"
		case result.WrongName:
			m.title = "the certificate is for other names"
		case result.Authority:
			m.title = "the certificate's authority is not trusted"
			m.do = []string{"A private authority goes into http.tls_config.ca_file."}
		case result.WrongScheme:
			m.title = "the server speaks TLS and the URL has http://"
		}
	}
	return m
}

// unauthorized reports whether the key of a probe was refused. LiteLLM without a database answers 400 to a key that is
// not its own.
func unauthorized(p *Probe) bool {
	return p.Outcome == result.Unauthorized || p.Outcome == result.HTTPError &&
		(p.Status == http.StatusProxyAuthRequired || p.Status == http.StatusBadRequest && strings.Contains(p.Error, "No connected db."))
}

func matchKeyMissing(f *facts) *match {
	if n := f.skips(result.SkipSecret); n > 0 {
		return &match{
			share: 1, title: "a secret, file or credential for the requests is missing", runbook: "InferenceProbeStale",
			evidence: lines(plural(n, "skipped run")+" for want of it on the exporter's side", f.Exporter.Text),
		}
	}
	return f.failures(func(p *Probe) bool { return f.NoKey && unauthorized(p) })
}

// refusesByLoad reports whether the server answers 429 where others answer 503.
func (f *facts) refusesByLoad() bool {
	waiting, _ := f.waiting()
	return waiting > 0 || f.Gateway.isFull() || result.RefusesByLoad(f.Engine)
}

func matchRequest(f *facts) *match {
	refused := status(0, http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	m := f.failures(func(p *Probe) bool {
		redirected := p.Outcome == result.HTTPError && p.Status/100 == 3
		return refused(p) && !unauthorized(p) && !f.modelGone(p) || redirected || p.Outcome == result.ProtocolError && !f.Succeeded
	})
	end := f.Facts.Retirement.End()
	switch {
	case m != nil && f.isRetired(end):
		m.title, m.runbook = "the model or the API was retired", "InferenceEndpointRetiring"
		m.add("it was announced to end on " + date(time.Unix(end, 0)))
		m.do = []string{"Move to the model or the version that the provider names instead."}
	case m != nil && f.Succeeded:
		m.add("probes of the endpoint succeeded before")
		m.title = "the server no longer takes the request"
	case m == nil && f.skips(result.SkipModel) > 0:
		return &match{share: 1, title: "the model is not set", evidence: lines(f.Exporter.Text)}
	}
	return m
}

// isRetired reports whether the latest failure is that of something that is no longer there, and its end, 0 for none, has come.
func (f *facts) isRetired(end int64) bool {
	if end == 0 || f.At.Before(time.Unix(end, 0)) || len(f.failed) == 0 {
		return false
	}
	s := f.failed[len(f.failed)-1].Status
	return s == http.StatusNotFound || s == http.StatusGone || s == http.StatusBadRequest
}

func matchReplicaLost(f *facts) *match {
	s := f.Servers
	if s == nil || s.Up == 0 {
		return nil
	}
	total := max(s.Up+len(s.Lost), s.Usual)
	if s.Up >= total {
		return nil
	}
	m := new(match{share: 1}).add(fmt.Sprintf("%d of %s up", s.Up, plural(total, "server"))).add(first(s.Lost)...).add(f.lateness()...)
	if n := len(f.failed); n > 0 {
		m.add(plural(n, "failed probe") + ", the latest: " + f.quote(f.failed[n-1]))
	}
	if f.isLate() {
		m.title, m.runbook = "servers behind the endpoint are gone, and the others are slower", "InferenceReplicaLossSlowsSurvivors"
	}
	return m.add(f.oneFewer())
}

func matchProcessGone(f *facts) *match {
	m := f.failures(func(p *Probe) bool {
		viaGateway := noUpstream(p) || p.Outcome == result.Truncated || p.Outcome == result.Overloaded && !saysLoading.MatchString(p.Error)
		return p.Outcome == result.ConnectError && p.Reason == result.Refused || viaGateway && f.pagesGone()
	})
	if m != nil && f.pagesGone() {
		m.add(first(f.Servers.Lost)...)
		m.runbook = "InferenceAllReplicasLost"
	}
	return m.withGPUs(f)
}

func matchNetwork(f *facts) *match {
	lost := func(p *Probe) bool { return stalledBy(p, result.SideNetwork, result.SideHost) }
	m := f.failures(func(p *Probe) bool {
		return p.Outcome == result.TimeoutConnect || p.Outcome == result.ConnectError && p.Reason != result.Refused || p.Outcome.IsTimeout() && lost(p)
	})
	if line := atLeastHalf(f.good, lost, "answer", "stalled on the way"); m == nil && line != "" {
		m = &match{share: 1, ofLatency: true, evidence: []string{line}}
	}
	if m == nil {
		return f.slowSetup(result.PhaseConnect, "connecting takes long")
	}
	if _, n := f.share(lost); n >= minShare || m.ofLatency {
		m.title = "segments get lost or late on the way"
	}
	m.addStall(f, result.SideNetwork, result.SideHost)
	if f.Servers != nil && f.Servers.Up > 0 {
		m.against = []string{plural(f.Servers.Up, "server's page") + " still can be read"}
	}
	return m
}

// saysLoading is how servers say that they load their model: llama.cpp, TGI, Hugging Face's hosted ones, SGLang, Triton
// and NIM.
var saysLoading = regexp.MustCompile(`(?i)\bloading\b|\bwarming up\b|\bstarting( up)?\b|\b(model|server|service|engine)\b.{0,60}\b(is )?not (yet )?(ready|loaded|available yet)\b`)

// saysBusy is how they say that they have too much to do.
var saysBusy = regexp.MustCompile(`(?i)overload|capacity|queue|too many|busy|limit`)

// loadingFor is how long after the start of its process a server may load its model.
const loadingFor = 30 * time.Minute

// loading reports whether a server refused a probe because it loads its model: it says so, or its process is young and
// no request waits. The process is younger than the latest connection that was refused, as nothing listened.
func (f *facts) loading(p *Probe) bool {
	if p.Outcome != result.Overloaded {
		return false
	}
	if saysLoading.MatchString(p.Error) {
		return true
	}
	if waiting, _ := f.waiting(); waiting > 0 || saysBusy.MatchString(p.Error) {
		return false
	}
	var started time.Time
	if f.Servers != nil {
		started = f.Servers.Started
	}
	for _, r := range f.failed {
		if r.Reason == result.Refused && r.Start.Before(p.Start) && r.Start.After(started) {
			started = r.Start
		}
	}
	answered := slices.ContainsFunc(f.good, func(g *Probe) bool { return g.Start.After(started) && g.Start.Before(p.Start) })
	return !started.IsZero() && p.Start.Sub(started) <= loadingFor && !answered
}

func matchLoading(f *facts) *match {
	m := f.failures(f.loading)
	if f.Servers != nil && !f.Servers.Started.IsZero() {
		m.add("the server's process started at " + clock(f.Servers.Started))
	}
	return m
}

func matchServerError(f *facts) *match {
	m := f.failures(func(p *Probe) bool {
		closed := p.Outcome == result.Truncated && p.Status == 0 && !f.pagesGone()
		failed := p.Outcome == result.HTTPError && p.Status/100 == 5 && !noUpstream(p)
		return closed || failed || p.Outcome == result.StreamError
	})
	if m != nil && f.NoKey {
		m.do = []string{"No key is configured: LiteLLM without a database answers 500 to a request without one."}
	}
	return m.add(f.gatewayLines()...).withGPUs(f)
}

func matchAnswersBroken(f *facts) *match {
	m := f.failures(func(p *Probe) bool {
		return outcomes(result.CheckFailed, result.Empty, result.TooLarge)(p) || p.Outcome == result.Truncated && p.Status != 0 && !f.pagesGone()
	})
	if m == nil {
		return f.corrupted()
	}
	m.add(f.Corruptions...)
	if _, wrong := f.share(outcomes(result.CheckFailed)); wrong >= minShare {
		m.title, m.runbook = "answers are wrong", "InferenceQualityDrop"
	}
	return m
}

// corrupted matches answers that are complete and have signs of corruption. That explains no failure.
func (f *facts) corrupted() *match {
	if len(f.Corruptions) == 0 {
		return nil
	}
	m := &match{share: 1, title: "answers are corrupted", evidence: f.Corruptions, runbook: "InferenceAnswersCorrupted", do: []string{
		"What was changed at that time: server, kernels, quantization, tokenizer, chat template, parsers?",
	}}
	if len(f.failed) > 0 {
		m.share = minShare
	}
	return m
}

// matchModelChanged holds where probes are answered: a change says nothing of a host that cannot be reached.
func matchModelChanged(f *facts) *match {
	if _, answered := f.share(outcomes(result.CheckFailed, result.Empty, result.Truncated)); len(f.failed) > 0 && answered < minShare {
		return nil
	}
	var evidence []string
	atStep := false
	others := drift.Changes{Names: f.Facts.Names, Scores: f.Facts.Scores}.All()
	for _, c := range others {
		line := "the score of the reference passage is another one than usual since " + date(c.Since)
		if c.Source == drift.SourceModel {
			line = fmt.Sprintf("%s answers since %s, before that %s", c.To, date(c.Since), c.From)
		}
		evidence = append(evidence, line)
		atStep = atStep || f.worsenedAt(c.Since)
	}
	for _, c := range f.Changes {
		if f.At.Sub(c.At) > lately && (f.State == health.Up || c.At.Before(f.Since.Add(-before))) {
			continue
		}
		evidence = append(evidence, fmt.Sprintf("%s changed at %s (module %s)", strings.ReplaceAll(c.What, "_", " "), clock(c.At), c.Module))
		atStep = atStep || f.worsenedAt(c.At)
	}
	if len(evidence) == 0 {
		return nil
	}
	m := &match{share: 1, atStep: atStep, evidence: append(evidence, f.lateness()...)}
	if len(others) > 0 {
		m.runbook = "InferenceModelChanged"
	}
	return m
}
