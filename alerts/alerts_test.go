package alerts

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

var update = flag.Bool("update", false, "rewrite recording.yml and alerts.yml")

// TestFilesAreCurrent compares the files with what the package makes.
func TestFilesAreCurrent(t *testing.T) {
	f := func(path string, groups []Group) {
		t.Helper()
		got, err := Marshal(groups)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("%s differs; if the change is wanted, rewrite it with -update (-want +got):\n%s", path, d)
		}
	}
	f("recording.yml", Recording(Default()))
	f("alerts.yml", Alerts(Default()))
}

// TestAlertNames keeps the names, which runbooks, routes and silences use.
func TestAlertNames(t *testing.T) {
	want := []string{
		"InferenceAllReplicasLost", "InferenceAnswersCut", "InferenceAvailabilityDegradedNow", "InferenceAvailabilityFastBurn",
		"InferenceAvailabilitySlowBurn", "InferenceBurstKneeFell", "InferenceCertificateExpiring", "InferenceClientServerGap",
		"InferenceColdProbesCached", "InferenceConfigReloadFailed",
		"InferenceDecodeSpeedCollapse", "InferenceDiscoveredTargetsRejected", "InferenceDiscoveryFailing", "InferenceE2EFastBurn", "InferenceE2ESlowBurn", "InferenceEndpointDown",
		"InferenceExporterDown", "InferenceExporterLacksResources", "InferenceFingerprintChanged", "InferenceGPUDriverStuck", "InferenceGPUECCUncorrectable", "InferenceGPUFabricUnhealthy", "InferenceGPULost",
		"InferenceGPUMemoryNearlyFull", "InferenceGPURowRemapFailure", "InferenceGPURowRemapPending",
		"InferenceGPUThrottled", "InferenceGPUXID", "InferenceKVCacheSaturated", "InferenceLatencyRegression",
		"InferenceMeasurementSuspect", "InferencePreemptionsHigh", "InferencePrefixCacheHitRateCollapse",
		"InferenceProbeBudgetExhausted", "InferenceProbeFailing", "InferenceProbeStale", "InferenceProbersDisagree", "InferenceQualityDrop", "InferenceQueueGrowing", "InferenceReplicaLossSlowsSurvivors",
		"InferenceReplicaLost", "InferenceScheduleLag", "InferenceServerHung", "InferenceServerPageUnreadable",
		"InferenceServerQuantityMissing", "InferenceShardMissing", "InferenceStreamsBuffered", "InferenceTPOTDegradedNow",
		"InferenceTPOTFastBurn", "InferenceTPOTSlowBurn", "InferenceTTFTDegradedNow", "InferenceTTFTFastBurn",
		"InferenceTTFTSlowBurn", "InferenceWatchdog",
	}
	var got []string
	for _, r := range alertRules(Default()) {
		got = append(got, r.Alert)
	}
	slices.Sort(got)
	if d := cmp.Diff(want, slices.Compact(got)); d != "" {
		t.Errorf("names of alerts (-want +got):\n%s", d)
	}
}

// TestIdentity checks that configured labels reach every place that identifies
// an endpoint, and nothing else changes with them.
func TestIdentity(t *testing.T) {
	labelled := Default()
	labelled.Labels = []string{"location", "team"}
	f := func(rules func(Options) []Group) {
		t.Helper()
		plain, err := Marshal(rules(Default()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Marshal(rules(labelled))
		if err != nil {
			t.Fatal(err)
		}
		back := []byte(strings.ReplaceAll(string(got), "endpoint, model, location, team", "endpoint, model"))
		if d := cmp.Diff(string(plain), string(back)); d != "" {
			t.Errorf("more than the identity differs (-plain +labelled):\n%s", d)
		}
		if string(plain) == string(got) {
			t.Error("configured labels change nothing")
		}
	}
	f(Recording)
	f(Alerts)
}

func TestWindows(t *testing.T) {
	f := func(intervals []time.Duration, median, failures string) {
		t.Helper()
		o := Options{Modules: map[string]time.Duration{}}
		for _, interval := range intervals {
			o.Modules[interval.String()] = interval
		}
		if got := duration(o.medianWindow()); got != median {
			t.Errorf("%v: medians over %s, want %s", intervals, got, median)
		}
		if got := duration(o.failureWindow()); got != failures {
			t.Errorf("%v: failures over %s, want %s", intervals, got, failures)
		}
	}
	const s, m, h = time.Second, time.Minute, time.Hour
	// 90 probes take 7.5, 22.5, 45 and 90 minutes.
	f([]time.Duration{5 * s}, "30m", "1h")
	f([]time.Duration{15 * s}, "30m", "1h")
	f([]time.Duration{30 * s}, "45m", "1h")
	f([]time.Duration{60 * s}, "90m", "1h")
	f([]time.Duration{80 * s}, "2h", "1h")
	// Too slow for a median: it leaves those of others alone.
	f([]time.Duration{10 * m, 60 * s}, "90m", "1h")
	f([]time.Duration{30 * m}, "30m", "2h")
	f([]time.Duration{20*m + 30*s}, "30m", "82m")
	f(nil, "30m", "1h")
	f([]time.Duration{15 * m, 6 * h}, "30m", "24h")
}

// alertRules returns the alert rules of all groups.
func alertRules(o Options) []Rule {
	var all []Rule
	for _, g := range Alerts(o) {
		all = append(all, g.Rules...)
	}
	return all
}

// TestGroupNames checks that all groups go into one file, as the command
// prints them.
func TestGroupNames(t *testing.T) {
	names := groupNames()
	slices.Sort(names)
	if n := len(names); n != len(slices.Compact(names)) {
		t.Errorf("a name is given twice: %q", names)
	}
}

// groupNames returns the names of all groups, in order.
func groupNames() []string {
	var names []string
	for _, g := range append(Recording(Default()), Alerts(Default())...) {
		names = append(names, g.Name)
	}
	return names
}

// TestMarshal reads a rule file back.
func TestMarshal(t *testing.T) {
	groups := Alerts(Default())
	text, err := Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []Group }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(file.Groups), fmt.Sprint(groups); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
