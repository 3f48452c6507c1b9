package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// trtllm is a page of TensorRT-LLM with what it was started with.
func trtllm(dtype, parallel string) string {
	return fmt.Sprintf(`trtllm_num_requests_running{model_name="m"} 1
trtllm_model_config_info{model_name="m",dtype=%q,quantization="FP8",gpu_type="H100",max_model_len="8192"} 1
trtllm_parallel_config_info{model_name="m",tensor_parallel_size=%q} 1
`, dtype, parallel)
}

// read returns the status of a server by its page.
func readOf(t *testing.T, server, page string, at time.Time) Status {
	t.Helper()
	s, err := mappings(t, nil).NewReader().Read([]byte(page), textFormat, at, Want{})
	if err != nil {
		t.Fatal(err)
	}
	return Status{Server: server, At: at, State: Up, Snapshot: s}
}

// found is which settings can be compared and which are findings, as words.
func found(c *Compared) (compared, findings string) {
	var names, texts []string
	for _, row := range config.Settings() {
		if differs, ok := c.Differs[row.Setting]; ok {
			names = append(names, string(row.Setting))
			if differs {
				texts = append(texts, "!"+string(row.Setting))
			}
		}
	}
	var said []string
	for _, d := range c.Findings {
		said = append(said, d.String())
		texts = texts[min(1, len(texts)):]
	}
	return strings.Join(names, " "), strings.Join(append(said, texts...), " | ")
}

const ofTRTLLM = "precision quantization context_length_tokens tensor_parallel_size gpu"

// Servers that differ in a setting for half an hour are a finding, those that differ for less are not.
func TestReplicasDiffer(t *testing.T) {
	start := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	r := NewReplicas(nil)
	for _, st := range []struct {
		after        time.Duration
		a, b         string // pages; "" could not be read
		findings     string
		sinceMinutes float64
	}{
		{0, trtllm("bfloat16", "1"), trtllm("bfloat16", "1"), "", 0},
		{time.Minute, trtllm("bfloat16", "1"), trtllm("float16", "1"), "", 0},
		{30 * time.Minute, trtllm("bfloat16", "1"), trtllm("float16", "1"), "", 0},
		{31 * time.Minute, trtllm("bfloat16", "1"), trtllm("float16", "1"), "precision: bfloat16 on a; float16 on b", 1},
		{32 * time.Minute, "", trtllm("float16", "1"), "precision: bfloat16 on a; float16 on b", 1}, // as it was
		{33 * time.Minute, trtllm("float16", "1"), trtllm("float16", "1"), "", 0},
		{34 * time.Minute, trtllm("float16", "1"), trtllm("float16", "2"), "", 0},
		{63 * time.Minute, trtllm("float16", "1"), trtllm("float16", "2"), "", 0},
		{64 * time.Minute, trtllm("float16", "1"), trtllm("float16", "2"), "tensor_parallel_size: 1 on a; 2 on b", 34},
	} {
		at := start.Add(st.after)
		var all []Status
		for server, page := range map[string]string{"a": st.a, "b": st.b} {
			if page == "" {
				all = append(all, Status{Server: server, At: at, State: Down})
			} else {
				all = append(all, readOf(t, server, page, at))
			}
		}
		c := r.Read(all)
		compared, findings := found(c)
		if compared != ofTRTLLM || findings != st.findings {
			t.Errorf("after %s: compared %s, found %q, want %s and %q", st.after, compared, findings, ofTRTLLM, st.findings)
		}
		if len(c.Findings) > 0 && c.Findings[0].Since != stats.UnixSeconds(start)+60*st.sinceMinutes {
			t.Errorf("after %s: since %v, want %v minutes after the start", st.after, c.Findings[0].Since, st.sinceMinutes)
		}
	}
	alone, _ := found(r.Read([]Status{readOf(t, "a", trtllm("float16", "1"), start)}))
	if alone != "" {
		t.Errorf("a server alone is compared: %s", alone)
	}
}

// What is known since when goes on after a restart, unless the first reading finds nothing.
func TestReplicasSaved(t *testing.T) {
	start := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	read := func(r *Replicas, at time.Time, dtype string) string {
		_, findings := found(r.Read([]Status{readOf(t, "a", trtllm("bfloat16", "1"), at), readOf(t, "b", trtllm(dtype, "1"), at)}))
		return findings
	}
	before := NewReplicas(nil)
	read(before, start, "float16")
	after := NewReplicas(before.Save())
	if got := read(after, start.Add(30*time.Minute), "float16"); got != "precision: bfloat16 on a; float16 on b" {
		t.Errorf("after a restart: %q", got)
	}
	mended := NewReplicas(before.Save())
	read(mended, start.Add(20*time.Minute), "bfloat16")
	if got := read(mended, start.Add(40*time.Minute), "float16"); got != "" {
		t.Errorf("differ again since no time: %q", got)
	}
}

// Servers are compared with their like: prefill with decode only in what both must have in common.
func TestReplicasOfRoles(t *testing.T) {
	snapshot := func(engine, role string, transfers bool, settings map[config.Setting]string) *Snapshot {
		s := &Snapshot{Engine: engine, Role: role, Settings: settings, Values: map[config.Quantity]float64{}}
		if transfers {
			s.Values[config.KVTransferBytes] = 1
		}
		return s
	}
	one := map[config.Setting]string{config.Precision: "bfloat16", "tensor_parallel_size": "1"}
	two := map[config.Setting]string{config.Precision: "float16", "tensor_parallel_size": "2"}
	for _, c := range []struct {
		name string
		all  []*Snapshot
		want []config.Setting
	}{
		{"alike", []*Snapshot{snapshot("e", "", false, one), snapshot("e", "", false, one)}, nil},
		{"differ", []*Snapshot{snapshot("e", "", false, one), snapshot("e", "", false, two)}, []config.Setting{config.Precision, "tensor_parallel_size"}},
		{"prefill and decode", []*Snapshot{snapshot("e", "prefill", false, one), snapshot("e", "decode", false, two)}, []config.Setting{config.Precision}},
		{"roles that no page shows", []*Snapshot{snapshot("e", "", true, one), snapshot("e", "", true, two)}, []config.Setting{config.Precision}},
		{"two for decode", []*Snapshot{snapshot("e", "prefill", false, one), snapshot("e", "decode", false, one), snapshot("e", "decode", false, two)}, []config.Setting{config.Precision, "tensor_parallel_size"}},
		{"a front end", []*Snapshot{snapshot("e", "", false, one), snapshot("f", "", false, two)}, nil},
		{"not shown", []*Snapshot{snapshot("e", "", false, one), snapshot("e", "", false, nil)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReplicas(nil)
			var got []config.Setting
			for _, at := range []int64{1000, 1000 + 1800} {
				var all []Status
				for i, s := range c.all {
					read := *s
					read.At = time.Unix(at, 0)
					all = append(all, Status{Server: fmt.Sprint(i), At: read.At, Snapshot: &read})
				}
				for _, d := range r.Read(all).Findings {
					got = append(got, d.Setting)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// A server that is gone is not compared for longer than a finding takes, nor is one that loads models on request, and a page that
// was not read yet after a restart ends nothing.
func TestReplicasThatAreNotCompared(t *testing.T) {
	start := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	two := func(at time.Time) []Status {
		return []Status{readOf(t, "a", trtllm("bfloat16", "1"), at), readOf(t, "b", trtllm("float16", "1"), at)}
	}
	gone := func(at time.Time) []Status {
		return []Status{readOf(t, "a", trtllm("bfloat16", "1"), at), {Server: "b", At: at, State: Down}}
	}
	r := NewReplicas(nil)
	r.Read(two(start))
	if compared, _ := found(r.Read(gone(start.Add(29 * time.Minute)))); compared == "" {
		t.Error("a server that is gone for 29 minutes is not compared")
	}
	if compared, _ := found(r.Read(gone(start.Add(30 * time.Minute)))); compared != "" {
		t.Errorf("compared with a server that is gone: %s", compared)
	}
	again := NewReplicas(map[config.Setting]time.Time{config.Precision: start})
	again.Read(gone(start.Add(time.Hour)))
	if _, findings := found(again.Read(two(start.Add(61 * time.Minute)))); findings == "" {
		t.Error("what differed before a restart does no longer")
	}
	ollama := two(start)
	for _, st := range ollama {
		st.Snapshot.Values["models_loaded"] = 1
	}
	if compared, _ := found(NewReplicas(nil).Read(ollama)); compared != "" {
		t.Errorf("servers that load models on request are compared: %s", compared)
	}
}

// Of many servers a text names some.
func TestDifferenceInWords(t *testing.T) {
	d := Difference{Setting: "version", Values: map[string][]string{"1.2": {"a", "b", "c", "d", "e"}, "1.1": {"f"}}}
	if got, want := d.String(), "version: 1.1 on f; 1.2 on a, b, c and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A setting is what a page says once, of the model of the endpoint, in few bytes.
func TestSettingsOfPage(t *testing.T) {
	const running = "vllm:num_requests_running{model_name=\"m\"} 1\n"
	of := func(label string) string { return "vllm:cache_config_info{" + label + "} 1\n" }
	for _, c := range []struct {
		name, page string
		want       map[config.Setting]string
	}{
		{"two engines alike", of(`engine="0",cache_dtype="fp8"`) + of(`engine="1",cache_dtype="fp8"`), map[config.Setting]string{config.KVCachePrecision: "fp8"}},
		{"two that differ", of(`engine="0",cache_dtype="fp8"`) + of(`engine="1",cache_dtype="auto"`), nil},
		{"empty", of(`cache_dtype=""`), nil},
		{"long", of(`cache_dtype="` + strings.Repeat("x", 65) + `"`), nil},
		{"as long as can be", of(`cache_dtype="` + strings.Repeat("x", 64) + `"`), map[config.Setting]string{config.KVCachePrecision: strings.Repeat("x", 64)}},
		{"of another model", of(`model_name="other",cache_dtype="fp8"`) + of(`model_name="m",cache_dtype="auto"`), map[config.Setting]string{config.KVCachePrecision: "auto"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := mappings(t, nil).NewReader().Read([]byte(running+c.page), textFormat, time.Now(), Want{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, s.Settings, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// A page whose settings are ever new ones adds few series to a database.
func TestNewSettingsAreBounded(t *testing.T) {
	r, at, shown := mappings(t, nil).NewReader(), time.Unix(1e9, 0), map[string]bool{}
	for i := range 200 {
		page := fmt.Sprintf("vllm:num_requests_running 1\nvllm:cache_config_info{cache_dtype=\"%d\"} 1\n", i)
		s, err := r.Read([]byte(page), textFormat, at.Add(time.Duration(i)*15*time.Second), Want{})
		if err != nil {
			t.Fatal(err)
		}
		if text := s.Settings[config.KVCachePrecision]; text != "" {
			shown[text] = true
		}
	}
	if len(shown) != maxShownSettings {
		t.Errorf("%d settings in 50 minutes, want %d", len(shown), maxShownSettings)
	}
}

// A setting that repeats a secret is shown without it.
func TestSettingsHaveNoSecrets(t *testing.T) {
	s := &Snapshot{Settings: map[config.Setting]string{"version": "key a-secret-of-ours"}}
	s.clean(safetext.NewSecrets("a-secret-of-ours"))
	if strings.Contains(s.Settings["version"], "of-ours") {
		t.Errorf("shown: %s", s.Settings["version"])
	}
}
