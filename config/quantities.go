package config

import (
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Quantity is something that servers and gateways report about themselves, in one vocabulary
// for all software: the name of a metric without its prefix and suffix.
type Quantity string

// The quantities that the program itself uses; quantities.yml has all, and what they are.
const (
	RequestsRunning  Quantity = "requests_running"
	RequestsWaiting  Quantity = "requests_waiting"
	RequestsDeferred Quantity = "requests_deferred"
	EnginesSleeping  Quantity = "engines_sleeping"
	EnginesAwake     Quantity = "engines_awake"
	KVCacheUsage     Quantity = "kv_cache_usage_ratio"
	LoadedModels     Quantity = "loaded_models_bytes"
	LoadedOnGPUs     Quantity = "loaded_models_gpu_bytes"
	PromptTokens     Quantity = "prompt_tokens"
	GenerationTokens Quantity = "generation_tokens"
	Rejections       Quantity = "admission_rejections"
	Preemptions      Quantity = "preemptions"
	PrefixCacheHits  Quantity = "prefix_cache_hits"
	PrefixCacheAsked Quantity = "prefix_cache_queries"
	RequestsFinished Quantity = "requests"
	TTFT             Quantity = "ttft"
	TPOT             Quantity = "tpot"
	InterToken       Quantity = "inter_token"
	QueueTime        Quantity = "queue"
	PrefillTime      Quantity = "prefill"
	RequestDuration  Quantity = "request_duration"
	KVTransferTime   Quantity = "kv_transfer"
	KVTransferBytes  Quantity = "kv_transfer_bytes"
	Saturation       Quantity = "saturation_ratio"
	Backends         Quantity = "backends"
	BackendsReady    Quantity = "backends_ready"
	RoutingDecisions Quantity = "routing_decisions"
	Cooldowns        Quantity = "cooldowns"
	RoutingTime      Quantity = "routing"
	ModelsReady      Quantity = "models_ready"
	BackendsStale    Quantity = "backends_stale"
	Retries          Quantity = "retries"
	Fallbacks        Quantity = "fallbacks"
	FallbackFailures Quantity = "fallback_failures"
	DataLayerErrors  Quantity = "data_layer_errors"
	CachedTokens     Quantity = "cached_prompt_tokens"
	Overhead         Quantity = "overhead"
)

// QuantityRow is what is known of a quantity; quantities.yml says what the fields are.
type QuantityRow struct {
	Quantity                  Quantity
	Kind, Unit, Section, Help string
	Largest, Smallest         bool
	Backends                  bool
	Own                       string
}

var quantities = embedded[map[Software][]QuantityRow]("quantities.yml")

// rows are the quantities by their names.
var rows = sync.OnceValue(func() map[Quantity]QuantityRow {
	rows := map[Quantity]QuantityRow{}
	for _, software := range quantities() {
		for _, row := range software {
			rows[row.Quantity] = row
		}
	}
	return rows
})

// Vocabulary returns the quantities of some software; it is not to be changed.
func Vocabulary(of Software) []QuantityRow { return quantities()[of] }

// named lists those quantities of some software that are wanted.
func named(of Software, wanted func(row QuantityRow) bool) []Quantity {
	var all []Quantity
	for _, row := range Vocabulary(of) {
		if wanted(row) {
			all = append(all, row.Quantity)
		}
	}
	return all
}

func isNumber(row QuantityRow) bool       { return row.Kind != "histogram" && row.Own == "" }
func isDistribution(row QuantityRow) bool { return row.Kind == "histogram" }
func isAny(QuantityRow) bool              { return true }

// Quantities lists all quantities of some software, those of `values` first and those of `histograms` last.
func Quantities(of Software) []Quantity { return named(of, isAny) }

// IsCounter reports whether a quantity grows until its server restarts. A distribution is none.
func IsCounter(q Quantity) bool { return rows()[q].Kind == "counter" }

// MetricName returns the name of the metric of a quantity, without its prefix.
func (q Quantity) MetricName() string {
	switch row := rows()[q]; {
	case row.Kind == "counter":
		return string(q) + "_total"
	case row.Kind == "histogram" && row.Unit != "":
		return string(q) + "_" + row.Unit
	}
	return string(q)
}

// IsRatio reports whether a quantity is a share, from 0 to 1.
func IsRatio(q Quantity) bool { return strings.HasSuffix(string(q), "_ratio") && q != Saturation }

// isLargest reports whether of several numbers of a quantity the largest counts and not the sum.
func isLargest(q Quantity) bool { return rows()[q].Largest || IsRatio(q) }

// IsSmallest reports whether of several numbers of a quantity the smallest counts and not the sum.
func IsSmallest(q Quantity) bool { return rows()[q].Smallest }

// AddsUp reports whether of several servers of an endpoint, or replicas of a gateway, the
// sum of a quantity counts, and not the largest or smallest number: replicas see the same backends.
func AddsUp(q Quantity) bool {
	return !isLargest(q) && !IsSmallest(q) && q != Backends && q != BackendsReady && q != ModelsReady
}

// sectionOf returns the key of a mapping that a quantity has its sources under.
func sectionOf(q Quantity) string {
	switch row := rows()[q]; {
	case row.Own != "":
		return row.Own
	case row.Kind == "histogram":
		return "histograms"
	}
	return "values"
}

// Roles lists what part of a request a server can do.
func Roles() []string { return []string{"unified", "prefill", "decode"} }

// How a request ended, of Finishes. Success is for engines that do not distinguish stop from length, and a client error
// a request that was refused by the client's own mistake.
const (
	FinishStop        = "stop"
	FinishLength      = "length"
	FinishAbort       = "abort"
	FinishClientError = "client_error"
	FinishError       = "error"
	FinishSuccess     = "success"
	FinishOther       = "other"
	FinishUnknown     = "unknown"
)

// Finishes lists how a request can end.
func Finishes() []string {
	return []string{FinishStop, FinishLength, FinishAbort, FinishClientError, FinishError, FinishSuccess, FinishOther, FinishUnknown}
}

// What a mapping may say beside Finishes: an error which may be the client's mistake, an error which another series may
// count as well, and what is not counted.
const (
	FinishFailed     = "failed"
	FinishErrorAgain = "error_again"
	FinishNone       = "none"
)

// MappedFinishes lists what a mapping may say of how a request ended.
func MappedFinishes() []string { return append(Finishes(), FinishFailed, FinishErrorAgain, FinishNone) }

// FinishOfStatus returns how a request ended whose reply has an HTTP status, such as 503, or one of a class, such as
// 5xx; "" for one that does not say it. A 408 may be the time-out of either side.
func FinishOfStatus(status string) string {
	switch {
	case len(status) != 3:
		return ""
	case status == "408":
		return FinishFailed
	case status == "499":
		return FinishAbort
	case status == "429" || status[0] == '5':
		return FinishError
	case status[0] == '4':
		return FinishClientError
	case status[0] == '2':
		return FinishSuccess
	}
	return ""
}

// Setting is something that servers are started with, as far as their pages show it: a name in settings.yml.
type Setting string

// The settings that say with which precision a server computes.
const (
	Precision        Setting = "precision"
	Quantization     Setting = "quantization"
	KVCachePrecision Setting = "kv_cache_precision"
)

// SettingRow is what is known of a setting; settings.yml says what the fields are.
type SettingRow struct {
	Setting  Setting
	ByRole   bool `yaml:"by_role"`
	Quantity bool
	Help     string
}

// Settings returns the settings of servers; they are not to be changed.
var Settings = embedded[[]SettingRow]("settings.yml")

// SettingNames lists the names of the settings.
func SettingNames() []string {
	return stats.Map(Settings(), func(row SettingRow) string { return string(row.Setting) })
}

// MappingInfo is where to find a setting of a server on a page.
type MappingInfo struct {
	// Series is the name of the samples, found as in a source.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Label is the label with the text of the setting; a page with several texts shows
	// none. Default: none, the number of the samples, the largest of several.
	Label string `yaml:"label,omitempty" form:"label"`
}

// checkInfo checks the names of the settings of a mapping.
func (m *Mapping) checkInfo(d *decoder, p path) {
	for s := range m.Info {
		if nearest := NearestNames(string(s), SettingNames(), 3); nearest[0] != string(s) {
			d.errorf(p.key(string(s)), "unknown setting %s; the nearest are %s (docs/engines.md lists all)", quote(string(s)), strings.Join(nearest, ", "))
		}
	}
}
