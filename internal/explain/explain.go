// Package explain names the cause of what ails an endpoint: a table of rules over what probes, pages, GPUs, other
// endpoints and the exporter itself show at one instant. A Memory gathers that as Evidence; equal evidence gives equal
// findings.
package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Cause is why an endpoint is not as it should be. The set is closed: it is a label value.
type Cause string

const (
	SharedCause     Cause = "shared_cause"      // several endpoints at once, with something in common
	ExporterBusy    Cause = "exporter_busy"     // the exporter lacks resources and measures badly
	ProbesThrottled Cause = "probes_throttled"  // budgets or limits of the exporter keep probes from running
	DNS             Cause = "dns"               // name resolution
	Network         Cause = "network"           // routes, firewalls, lost packets
	Certificate     Cause = "certificate"       // TLS
	KeyMissing      Cause = "key_missing"       // no key is configured
	Credentials     Cause = "credentials"       // a wrong key
	Quota           Cause = "quota"             // a rate limit
	Request         Cause = "request"           // a wrong model, api or URL
	ProcessGone     Cause = "process_gone"      // nothing listens
	Loading         Cause = "loading"           // the server starts and loads its model
	Hung            Cause = "hung"              // requests are taken and not worked on
	GatewayBackends Cause = "gateway_backends"  // the gateway has no or fewer ready backends
	KVCacheFull     Cause = "kv_cache_full"     // no room for more sequences
	GatewayLost     Cause = "gateway_lost"      // the gateway in front does not answer
	ReplicaLost     Cause = "replica_lost"      // some servers are gone
	QueueFull       Cause = "queue_full"        // more requests than the servers take
	OverCapacity    Cause = "over_capacity"     // more requests than meet the objectives, by a load test
	PrefixCacheLost Cause = "prefix_cache_lost" // prompts are computed again
	RankBehind      Cause = "rank_behind"       // one rank of a server has no work, or does little
	Buffered        Cause = "buffered"          // answers come in one piece
	GatewayQueue    Cause = "gateway_queue"     // requests wait in the gateway
	GatewayFault    Cause = "gateway_fault"     // something between adds it
	ModelChanged    Cause = "model_changed"     // another model, revision or quantization
	ServerError     Cause = "server_error"      // the server fails on requests
	AnswersBroken   Cause = "answers_broken"    // answers are empty, cut or wrong
	Workload        Cause = "workload"          // some requests of users, while probes are well
	PrefillSlow     Cause = "prefill_slow"      // the first token takes the server longer
	DecodeSlow      Cause = "decode_slow"       // each further token takes longer
	ReplicasDiffer  Cause = "replicas_differ"   // servers were not started alike
	Unknown         Cause = "unknown"           // the evidence names none
	Healthy         Cause = "healthy"           // nothing is wrong
)

// Causes lists the closed set in the order of the table of rules.
func Causes() []Cause {
	return append(stats.Map(rules(), func(r Rule) Cause { return r.Cause }), Unknown, Healthy)
}

// Say returns what there is to say of a cause in a line: its title, which is a short clause, and the first thing to do,
// which is a sentence. Both are fixed texts.
func (c Cause) Say() (title, do string) {
	switch c {
	case Unknown:
		return "the evidence names no cause", "Run `inference_exporter probe URL`, which shows how it fails or where the time goes."
	case Healthy:
		return "nothing is wrong", "There is nothing to do."
	}
	all := rules()
	r := all[slices.IndexFunc(all, func(r Rule) bool { return r.Cause == c })]
	return r.Title, r.Do[0]
}

// Rule is a row of the table: what makes a cause, and what to say of it. rules.yml describes its fields.
type Rule struct {
	Cause   Cause    `yaml:"cause"`
	Title   string   `yaml:"title"`
	When    string   `yaml:"when"`
	Weight  int      `yaml:"weight"`
	AtStep  int      `yaml:"at_step"`
	WhileUp bool     `yaml:"while_up"`
	Against string   `yaml:"against"`
	Do      []string `yaml:"do"`
	Runbook string   `yaml:"runbook"`

	match func(*facts) *match // nil is no evidence of the cause
}

//go:embed rules.yml
var rulesFile []byte

// Rules returns the table. It is not to be changed.
func Rules() []Rule { return rules() }

// rules is rules.yml, which a test decodes, with the conditions.
var rules = sync.OnceValue(func() (all []Rule) {
	asset.Decode("rules.yml", rulesFile, &all)
	conditions := map[Cause]func(*facts) *match{
		SharedCause:     matchCommon,
		ExporterBusy:    matchExporterBusy,
		ProbesThrottled: matchProbesThrottled,
		DNS:             matchDNS,
		Certificate:     matchCertificate,
		KeyMissing:      matchKeyMissing,
		Credentials:     func(f *facts) *match { return f.failures(func(p *Probe) bool { return !f.NoKey && unauthorized(p) }) },
		Quota: func(f *facts) *match {
			return f.failures(func(p *Probe) bool { return p.Outcome == result.RateLimited && !f.refusesByLoad() })
		},
		Request:         matchRequest,
		GatewayLost:     matchGatewayLost,
		ReplicaLost:     matchReplicaLost,
		ProcessGone:     matchProcessGone,
		Loading:         matchLoading,
		Network:         matchNetwork,
		GatewayBackends: matchGatewayBackends,
		KVCacheFull:     matchKVCacheFull,
		Hung:            matchHung,
		RankBehind:      matchRankBehind,
		Buffered:        matchBuffered,
		PrefixCacheLost: matchPrefixCacheLost,
		GatewayQueue:    matchGatewayQueue,
		GatewayFault:    matchGateway,
		QueueFull:       matchQueueFull,
		OverCapacity:    matchOverCapacity,
		ModelChanged:    matchModelChanged,
		ServerError:     matchServerError,
		AnswersBroken:   matchAnswersBroken,
		Workload:        matchWorkload,
		PrefillSlow:     matchPrefillSlow,
		DecodeSlow:      matchDecodeSlow,
		ReplicasDiffer:  matchReplicasDiffer,
	}
	for i := range all {
		all[i].match = conditions[all[i].Cause]
	}
	return all
})

// Finding is one possible cause with what speaks for it.
type Finding struct {
	Cause Cause  `json:"cause"`
	Title string `json:"title"`
	// Evidence are the facts that speak for the cause. They may quote a server: bounded, without secrets, untrusted
	// text.
	Evidence []string `json:"evidence"`
	// Against is what speaks against the cause, or would refute it.
	Against []string `json:"against"`
	// Do is what to do next.
	Do []string `json:"do"`
	// Runbook is the name of a page in docs/runbooks; "" is none.
	Runbook string `json:"runbook,omitempty"`

	score float64 // ranks it
}

// Report is what Explain finds of one endpoint, as the API serves it.
type Report struct {
	// At is when, in seconds since 1970, as Since is, the beginning of the state; 0 is not known.
	At       float64 `json:"at"`
	Endpoint string  `json:"endpoint"`
	State    string  `json:"state"`
	Since    float64 `json:"since,omitempty"`
	// Findings are ranked; there is at least one.
	Findings []Finding `json:"findings"`
}

const (
	// maxFindings bounds a report.
	maxFindings = 5
	// minShare is the share of the failed probes that a cause must explain to be named, the latest of which weigh
	// most, and mixedShare the one where kinds of failures alternate.
	minShare, mixedShare = 0.5, 0.75
)

// Explain returns the causes that the evidence supports, the likeliest first. Where there is none, it returns Healthy or
// Unknown.
func Explain(e *Evidence) []Finding {
	if e.State == health.Asleep {
		return []Finding{{Cause: Healthy, Title: "the model sleeps since " + clock(e.Since), Evidence: []string{}, Against: []string{}, Do: []string{}}}
	}
	f := newFacts(e)
	var findings []Finding
	for _, r := range rules() {
		m := r.match(f)
		if m == nil || m.share < minShare || m.ofFailures && f.mixed && m.share < mixedShare || !f.troubled() && !r.WhileUp {
			continue
		}
		if m.ofLatency && !f.isLoad() {
			m.share = min(m.share, minShare) // the state is about failures that it does not bring about
		}
		weight := r.Weight
		if m.atStep && r.AtStep > 0 {
			weight = r.AtStep
		}
		findings = append(findings, Finding{
			Cause: r.Cause, Title: cmp.Or(m.title, r.Title), Evidence: m.evidence, Against: append(m.against, r.Against),
			Do: append(m.do, r.Do...), Runbook: cmp.Or(m.runbook, r.Runbook), score: float64(weight) * m.share,
		})
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(b.score, a.score) })
	findings = findings[:min(len(findings), maxFindings)]
	switch {
	case len(findings) > 0:
		findings[0].Evidence = slices.Concat(lines(f.tally(), f.witness()), findings[0].Evidence, f.stepLines())
		return findings
	case f.troubled() || f.State == health.Waiting:
		return []Finding{unknown(f)}
	}
	return []Finding{healthy(f)}
}

// match is a rule's condition that holds.
type match struct {
	share      float64 // of the failed probes that the cause explains; 1 where it is about more than failures
	ofFailures bool    // share is that of failed probes of the same kinds
	ofLatency  bool    // it is about slow answers, and not about failures
	atStep     bool    // it began as it got worse
	evidence   []string
	against    []string // beside that of the rule
	do         []string // before that of the rule
	title      string   // instead of the rule's; "" is none
	runbook    string   // instead of the rule's; "" is none
}

// add adds the lines that say something to the evidence; it does nothing without a match.
func (m *match) add(all ...string) *match {
	if m != nil {
		m.evidence = append(m.evidence, lines(all...)...)
	}
	return m
}

// unknown is the answer where no rule holds and the endpoint is not up.
func unknown(f *facts) Finding {
	title, do := Unknown.Say()
	r := Finding{
		Cause: Unknown, Title: title, Evidence: f.known(), Against: []string{},
		Do:      []string{do, "Look at the servers' logs, and at what changed when it began."},
		Runbook: "InferenceEndpointFailing",
	}
	switch {
	case f.mixed:
		r.Title = "probes fail in several ways in turns"
	case f.State == health.Waiting:
		r.Title = "no probe has ended yet"
	case f.State == health.Stale:
		r.Runbook = "InferenceProbeStale"
	case len(f.failed) == 0:
		r.Runbook = "InferenceLatencyRegression"
	}
	return r
}

// known returns the lines of what is known: how the failed probes ended, most of them first, since when, and what is
// late.
func (f *facts) known() []string {
	count := func(o result.Outcome) int {
		n, _ := f.share(outcomes(o))
		return n
	}
	byCount := slices.Clone(result.Outcomes())
	slices.SortStableFunc(byCount, func(a, b result.Outcome) int { return count(b) - count(a) })
	m := new(match).add(f.tally())
	for _, o := range byCount {
		if of := f.failures(outcomes(o)); of != nil {
			m.add(of.evidence...)
		}
	}
	m.add(f.stepLines()...).add(f.lateness()...)
	if f.Servers == nil && len(f.lateTTFT) > 0 {
		m.add("no server's page is known, which would separate queue, prefill and gateway")
	}
	return m.add(f.queue()...).evidence
}

// healthy is the answer where nothing is wrong.
func healthy(f *facts) Finding {
	title, _ := Healthy.Say()
	r := Finding{Cause: Healthy, Title: title, Evidence: []string{}, Against: []string{}, Do: []string{}}
	if n := len(f.Probes); n > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("%d of the latest %s succeeded", len(f.good), plural(n, "probe")))
	}
	speeds := stats.Map(f.Speeds, func(s Speed) string { return s.TTFT.line("TTFT of "+s.Module, seconds) })
	r.Evidence = append(r.Evidence, first(lines(speeds...))...)
	for _, p := range slices.Backward(f.Probes) {
		if p.Failed() {
			r.Title = "nothing is wrong now"
			r.Evidence = append(r.Evidence, "the latest that failed, at "+clock(p.Start)+": "+f.quote(p))
			break
		}
	}
	return r
}
