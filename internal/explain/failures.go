package explain

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

func matchDNS(f *facts) *match {
	if m := f.failures(outcomes(result.DNSError)); m != nil {
		return m
	}
	return f.slowSetup(result.PhaseDNS, "name resolution takes long")
}

// slowSetup matches answers over the objective of their duration of which a phase of
// the set-up is half.
func (f *facts) slowSetup(phase result.Phase, title string) *match {
	if len(f.lateE2E) == 0 || len(f.lateTTFT)+len(f.lateTPOT) > 0 {
		return nil
	}
	var in, whole []float64
	for i := range f.good {
		if p := &f.good[i]; p.Phases[phase] > 0 && p.Duration > 0 {
			in, whole = append(in, p.Phases[phase].Seconds()), append(whole, p.Duration.Seconds())
		}
	}
	if len(in) < minGood || median(in) < median(whole)/2 {
		return nil
	}
	return &match{share: 1, title: title, evidence: []string{
		fmt.Sprintf("phase %s: %s of %s", phase, seconds(median(in)), seconds(median(whole))),
	}}
}

func matchCertificate(f *facts) *match {
	m := f.failures(outcomes(result.TLSError))
	if m == nil {
		return nil
	}
	for i := range f.failed {
		switch f.failed[i].Reason {
		case Expired:
			m.title = "the certificate has expired"
		case WrongName:
			m.title = "the certificate is for other names"
		case Authority:
			m.title = "the certificate's authority is not trusted"
			m.do = []string{"A private authority goes into http.tls_config.ca_file."}
		case WrongScheme:
			m.title = "the server speaks TLS and the URL has http://"
		}
	}
	return m
}

func matchCredentials(f *facts) *match {
	if n := f.skips(result.SkipSecret); n > 0 {
		return &match{
			share: 1, title: "a secret of the endpoint is missing", runbook: "InferenceProbeStale",
			evidence: lines(plural(n, "skipped run")+" for a secret that is missing in the configuration", f.Exporter.Text),
		}
	}
	return f.failures(func(p *Probe) bool {
		return p.Outcome == result.Unauthorized || p.Outcome == result.HTTPError && p.Status == http.StatusProxyAuthRequired
	})
}

// refusesByLoad reports whether the server answers 429 where others answer 503.
func (f *facts) refusesByLoad() bool {
	waiting, _ := f.waiting()
	return waiting > 0 || f.Engine == "tgi" || f.Engine == "tei"
}

func matchQuota(f *facts) *match {
	if f.refusesByLoad() {
		return nil
	}
	return f.failures(outcomes(result.RateLimited))
}

func matchRequest(f *facts) *match {
	refused := status(http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	m := f.failures(func(p *Probe) bool {
		redirected := p.Outcome == result.HTTPError && p.Status/100 == 3
		return refused(p) || redirected || p.Outcome == result.HTTPError && p.Status == http.StatusOK ||
			p.Outcome == result.HTTPError && p.Status == 0 || p.Outcome == result.ProtocolError && !f.Succeeded
	})
	switch {
	case m != nil && f.Succeeded:
		m.evidence = append(m.evidence, "probes of the endpoint succeeded before")
		m.title = "the server no longer takes the request"
	case m == nil && f.skips(result.SkipModel) > 0:
		return &match{share: 1, title: "the model is not set", evidence: lines(f.Exporter.Text)}
	}
	return m
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
	evidence := append([]string{fmt.Sprintf("%d of %s up", s.Up, plural(total, "server"))}, s.Lost[:min(len(s.Lost), 3)]...)
	m := &match{share: 1, evidence: append(evidence, f.lateness()...)}
	if n := len(f.failed); n > 0 {
		m.evidence = append(m.evidence, plural(n, "failed probe")+", the latest: "+f.quote(&f.failed[n-1]))
	}
	if f.isLate() {
		m.title, m.runbook = "servers behind the endpoint are gone, and the others are slower", "InferenceReplicaLossSlowsSurvivors"
	}
	return m
}

func matchProcessGone(f *facts) *match {
	viaGateway := func(p *Probe) bool {
		return f.pagesGone() && (p.Outcome == result.Overloaded || status(http.StatusBadGateway, http.StatusGatewayTimeout)(p))
	}
	m := f.failures(func(p *Probe) bool {
		return p.Outcome == result.ConnectError && p.Reason == Refused || viaGateway(p) || p.Outcome == result.Truncated && f.pagesGone()
	})
	if m == nil {
		return nil
	}
	if f.pagesGone() {
		m.evidence = append(m.evidence, f.Servers.Lost[:min(len(f.Servers.Lost), 3)]...)
		m.runbook = "InferenceAllReplicasLost"
	}
	m.withGPUs(f)
	return m
}

func matchNetwork(f *facts) *match {
	m := f.failures(func(p *Probe) bool {
		return p.Outcome == result.TimeoutConnect || p.Outcome == result.ConnectError && p.Reason != Refused
	})
	if m == nil {
		return f.slowSetup(result.PhaseConnect, "connecting takes long")
	}
	if f.Servers != nil && f.Servers.Up > 0 {
		m.against = append(m.against, fmt.Sprintf("%s still can be read", plural(f.Servers.Up, "server's page")))
	}
	return m
}

func matchServerError(f *facts) *match {
	m := f.failures(func(p *Probe) bool {
		closed := p.Outcome == result.Truncated && p.Status == 0 && !f.pagesGone()
		failed := p.Outcome == result.HTTPError && p.Status/100 == 5 && !status(http.StatusBadGateway, http.StatusGatewayTimeout)(p)
		return closed || failed || p.Outcome == result.StreamError
	})
	if m != nil {
		m.evidence = append(m.evidence, f.gatewayLines()...)
		m.withGPUs(f)
	}
	return m
}

func matchAnswersBroken(f *facts) *match {
	m := f.failures(func(p *Probe) bool {
		return outcomes(result.CheckFailed, result.Empty, result.TooLarge)(p) || p.Outcome == result.Truncated && p.Status != 0 && !f.pagesGone()
	})
	if m == nil {
		return f.corrupted()
	}
	m.evidence = append(m.evidence, f.corruptions()...)
	if _, wrong := f.share(outcomes(result.CheckFailed)); wrong >= minShare {
		m.title, m.runbook = "answers are wrong", "InferenceQualityDrop"
	}
	return m
}

// corrupted matches answers that are complete and have signs of corruption. That explains
// no failure.
func (f *facts) corrupted() *match {
	evidence := f.corruptions()
	if len(evidence) == 0 {
		return nil
	}
	m := &match{share: 1, title: "answers are corrupted", evidence: evidence, runbook: "InferenceAnswersCorrupted", do: []string{
		"What was changed at that time: server, kernels, quantization, tokenizer, chat template, parsers?",
	}}
	if len(f.failed) > 0 {
		m.share = minShare
	}
	return m
}

// corruptions returns the signs of corruption in answers, in words.
func (f *facts) corruptions() []string {
	var lines []string
	for _, c := range f.Corruptions {
		lines = append(lines, fmt.Sprintf("answers with %s since %s: %s (module %s)", c.What, c.Since.UTC().Format("2006-01-02 15:04 UTC"), c.Share, c.Module))
	}
	return lines
}

// matchModelChanged holds where probes are answered: a change says nothing of a host
// that cannot be reached.
func matchModelChanged(f *facts) *match {
	if _, answered := f.share(outcomes(result.CheckFailed, result.Empty, result.Truncated)); len(f.failed) > 0 && answered < minShare {
		return nil
	}
	var evidence []string
	atStep := false
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
	return &match{share: 1, atStep: atStep, evidence: append(evidence, f.lateness()...)}
}
