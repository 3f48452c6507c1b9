package prove

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/alerts"
)

// alertLabels returns the labels that each alerting rule gives to its alerts.
func alertLabels(t *testing.T) []map[string]string {
	t.Helper()
	o := alerts.Default()
	o.Sets = alerts.Sets()
	var all []map[string]string
	for _, g := range alerts.Alerts(o) {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			set := maps.Clone(r.Labels)
			set[model.AlertNameLabel] = r.Alert
			all = append(all, set)
		}
	}
	return all
}

// TestStackRoutes asks Alertmanager's own tool where each alert goes.
func TestStackRoutes(t *testing.T) {
	mustRun(t, tool(t, "amtool"), "check-config", inStack("alertmanager.yml"))
	asked := map[string]bool{}
	for _, set := range alertLabels(t) {
		severity, category := set["severity"], set["category"]
		receivers := map[string]string{"critical": "pager", "warning": "chat", "info": "nobody", "none": "watchdog"}
		want := receivers[severity]
		if category == "gpu" {
			want = "hardware-" + want
		}
		if asked[severity+category] {
			continue
		}
		asked[severity+category] = true
		mustRun(
			t, tool(t, "amtool"), "config", "routes", "test", "--config.file="+inStack("alertmanager.yml"),
			"--verify.receivers="+want, "severity="+severity, "category="+category, "alertname="+set[model.AlertNameLabel],
		)
	}
	if len(asked) < 8 {
		t.Errorf("only %d kinds of alerts", len(asked))
	}
}

// route is a route of Alertmanager, as far as it goes here.
type route struct {
	GroupBy []string `yaml:"group_by"`
	Routes  []route
}

// TestStackGroups checks that incidents of one scope are one notification, and so are other alerts of one endpoint,
// one gateway or one exporter, and of two are two: these labels alone separate groups, and none that
// differs between modules, objectives, windows or backends.
func TestStackGroups(t *testing.T) {
	text, err := os.ReadFile(inStack("alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Route route }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	want := []string{"endpoint", "gateway", "instance"}
	if !slices.Equal(file.Route.GroupBy, want) {
		t.Errorf("alerts are grouped by %q, want %q", file.Route.GroupBy, want)
	}
	for all := file.Route.Routes; len(all) > 0; all = all[1:] {
		if by := all[0].GroupBy; by != nil && !slices.Equal(by, []string{"scope"}) {
			t.Errorf("alerts of a route are grouped by %q", by)
		}
		all = append(all, all[0].Routes...)
	}
}

// inhibition is an inhibition rule. While an alert fires that the source
// matchers match, those are muted that the target matchers match and that have
// the same values of the equal labels. An alert that both sides match is not
// muted by one that both sides match.
type inhibition struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string `yaml:"equal"`
}

func readInhibitions(t *testing.T) []inhibition {
	t.Helper()
	text, err := os.ReadFile(inStack("alertmanager.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Rules []inhibition `yaml:"inhibit_rules"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Rules
}

// matches says whether all matchers match an alert.
func matches(t *testing.T, matchers []string, alert map[string]string) bool {
	t.Helper()
	all, err := parser.NewParser(parser.Options{}).ParseMetricSelector("{" + strings.Join(matchers, ",") + "}")
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return !m.Matches(alert[m.Name]) })
}

// mutes says whether a rule mutes one alert while another one fires.
func (i inhibition) mutes(t *testing.T, source, target map[string]string) bool {
	t.Helper()
	if !matches(t, i.Source, source) || !matches(t, i.Target, target) {
		return false
	}
	if matches(t, i.Source, target) && matches(t, i.Target, source) {
		return false
	}
	return !slices.ContainsFunc(i.Equal, func(l string) bool { return source[l] != target[l] })
}

// TestStackInhibitions checks for pairs of alerts whether the first mutes the
// second.
func TestStackInhibitions(t *testing.T) {
	rules := readInhibitions(t)
	kinds := map[string]map[string]string{} // by name and severity
	for _, set := range alertLabels(t) {
		kinds[set[model.AlertNameLabel]+"/"+set["severity"]] = set
	}
	alert := func(kind string, pairs ...string) map[string]string {
		set := maps.Clone(kinds["Inference"+kind])
		if set == nil {
			t.Fatalf("no alert Inference%s", kind)
		}
		for i := 0; i < len(pairs); i += 2 {
			set[pairs[i]] = pairs[i+1]
		}
		return set
	}
	ofGPU := func(kind, uuid string) map[string]string {
		return alert(kind, "job", "j", "instance", "i", "uuid", uuid)
	}
	for name, c := range map[string]struct {
		source, target map[string]string
		want           bool
	}{
		"down, slow":              {alert("EndpointDown/critical", "endpoint", "a"), alert("TTFTHigh/critical", "endpoint", "a"), true},
		"down, other is slow":     {alert("EndpointDown/critical", "endpoint", "a"), alert("TTFTHigh/critical", "endpoint", "b"), false},
		"down, budget":            {alert("EndpointDown/critical", "endpoint", "a"), alert("ErrorBudgetSlowBurn/warning", "endpoint", "a", "slo", "ttft"), true},
		"down, queue":             {alert("EndpointDown/critical", "endpoint", "a"), alert("QueueSaturated/warning", "endpoint", "a"), true},
		"down, probers":           {alert("EndpointDown/critical", "endpoint", "a"), alert("ProbersDisagree/warning", "endpoint", "a"), false},
		"down, hung":              {alert("EndpointDown/critical", "endpoint", "a"), alert("ServerHung/critical", "endpoint", "a"), true},
		"down, its certificate":   {alert("EndpointDown/critical", "endpoint", "a"), alert("CertificateExpiring/critical", "endpoint", "a"), false},
		"slow, down":              {alert("TTFTHigh/critical", "endpoint", "a"), alert("EndpointDown/critical", "endpoint", "a"), false},
		"slow, budget":            {alert("TTFTHigh/critical", "endpoint", "a"), alert("ErrorBudgetSlowBurn/warning", "endpoint", "a", "slo", "ttft"), true},
		"slow, budget of another": {alert("TTFTHigh/critical", "endpoint", "a"), alert("ErrorBudgetSlowBurn/warning", "endpoint", "b", "slo", "ttft"), false},
		"slow, queue":             {alert("TTFTHigh/critical", "endpoint", "a"), alert("QueueSaturated/warning", "endpoint", "a"), false},
		"all lost, some lost":     {alert("AllReplicasLost/critical", "endpoint", "a"), alert("ReplicaLost/warning", "endpoint", "a"), true},
		"slower, lost":            {alert("ReplicaLossSlowsSurvivors/warning", "endpoint", "a"), alert("ReplicaLost/warning", "endpoint", "a"), true},
		"critical, its warning":   {alert("CertificateExpiring/critical", "endpoint", "a"), alert("CertificateExpiring/warning", "endpoint", "a"), true},
		"critical, other warning": {alert("CertificateExpiring/critical", "endpoint", "a"), alert("QueueSaturated/warning", "endpoint", "a"), false},
		"exporter, its lag":       {alert("ExporterDown/critical", "job", "j", "instance", "i"), alert("ExporterLacksResources/warning", "job", "j", "instance", "i"), true},
		"exporter, other's lag":   {alert("ExporterDown/critical", "job", "j", "instance", "i"), alert("ExporterLacksResources/warning", "job", "j", "instance", "k"), false},
		"exporter, its GPU":       {alert("ExporterDown/critical", "job", "j", "instance", "i"), alert("GPULost/critical", "job", "j", "instance", "i"), true},
		"exporter, endpoint":      {alert("ExporterDown/critical", "job", "j", "instance", "i"), alert("EndpointDown/critical", "endpoint", "a"), false},
		"exporter, itself":        {alert("ExporterDown/critical", "job", "j", "instance", "i"), alert("ExporterDown/critical", "job", "j", "instance", "i"), false},
		"no exporter, one's lag":  {alert("ExporterDown/critical"), alert("ExporterLacksResources/warning", "job", "j", "instance", "i"), false},
		"exporter, watchdog":      {alert("ExporterDown/critical", "job", "j", "instance", "i"), alert("Watchdog/none"), false},
		"driver, throttled":       {alert("GPUDriverStuck/critical", "job", "j", "instance", "i"), alert("GPUThrottled/warning", "job", "j", "instance", "i"), true},
		"driver, XID":             {alert("GPUDriverStuck/critical", "job", "j", "instance", "i"), alert("GPUXID/critical", "job", "j", "instance", "i"), false},
		"verdict, XID":            {ofGPU("GPURecoveryAction/critical", "a"), ofGPU("GPUXID/critical", "a"), true},
		"verdict, uncorrected":    {ofGPU("GPURecoveryAction/critical", "a"), ofGPU("GPUECCUncorrectable/critical", "a"), true},
		"verdict, other GPU":      {ofGPU("GPURecoveryAction/critical", "a"), ofGPU("GPUXID/critical", "b"), false},
		"drain, XID of a page":    {ofGPU("GPURecoveryAction/warning", "a"), ofGPU("GPUXID/critical", "a"), false},
		"drain, row waits":        {ofGPU("GPURecoveryAction/warning", "a"), ofGPU("GPURowRemapPending/warning", "a"), true},
		"XID, verdict":            {ofGPU("GPUXID/critical", "a"), ofGPU("GPURecoveryAction/critical", "a"), false},
		"fabric, link":            {ofGPU("GPUFabricUnhealthy/critical", "a"), ofGPU("GPUNVLinkDown/warning", "a"), true},
		"link, its errors":        {ofGPU("GPUNVLinkDown/warning", "a"), ofGPU("GPUNVLinkErrors/warning", "a"), true},
		"link, lanes":             {ofGPU("GPUNVLinkDown/warning", "a"), ofGPU("GPUPCIeDegraded/warning", "a"), false},
	} {
		got := slices.ContainsFunc(rules, func(r inhibition) bool { return r.mutes(t, c.source, c.target) })
		if got != c.want {
			t.Errorf("%s: muted %t, want %t", name, got, c.want)
		}
	}
}
