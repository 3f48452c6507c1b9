package explain

import (
	_ "embed"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

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
