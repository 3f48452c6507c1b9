package discovery

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

func (l *lab) wantRejected(want map[Reason]int) {
	l.t.Helper()
	settle()
	if got := l.Endpoints(l.cfg).Rejected; !maps.Equal(got, want) {
		l.t.Errorf("rejected: got %v, want %v", got, want)
	}
}

func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake("m")
		l := newLab(t, with(t, "relabel_configs: [{source_labels: [__address__], regex: 'drop.*', action: drop}]", m))
		m.find("g", "drop1", "http://ann:password@h", "x/y", "169.254.169.254", "listed", "a", "fe80::1")
		l.wantRejected(map[Reason]int{Invalid: 3, NotAllowed: 1, DuplicateName: 1})
		l.want("listed a")
		lines := l.log.take("discovered target rejected")
		if len(lines) != 4 { // the two URLs have the same thing wrong
			t.Errorf("logged:\n%s", strings.Join(lines, ""))
		}
		for _, line := range lines {
			if !strings.Contains(line, "discovery=discovery[0] config=fake-") || strings.Contains(line, "password") {
				t.Errorf("logged: %s", line)
			}
		}
		l.wantRejected(map[Reason]int{Invalid: 3, NotAllowed: 1, DuplicateName: 1})
		m.find("h", "b")
		l.want("listed a b")
		if lines := l.log.take("target rejected"); len(lines) > 0 {
			t.Errorf("logged again:\n%s", strings.Join(lines, ""))
		}

		m.find("g", "a")
		l.wantRejected(map[Reason]int{})
		m.find("g", "a", "x/y") // it comes back
		l.wantRejected(map[Reason]int{Invalid: 1})
		if lines := l.log.take("target rejected"); len(lines) != 1 {
			t.Errorf("logged:\n%s", strings.Join(lines, ""))
		}
	})
}

func TestComplaintsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake("m")
		l := newLab(t, with(t, "relabel_configs: [{source_labels: [__address__], target_label: __modules__}]", m))
		var many []string
		for i := range 1000 {
			many = append(many, fmt.Sprintf("h%d", i))
		}
		m.find("g", many...)
		l.wantRejected(map[Reason]int{Invalid: 1000})
		if n := len(l.log.take("target rejected")); n != 100 {
			t.Errorf("logged %d, want 100", n)
		}
		l.wantRejected(map[Reason]int{Invalid: 1000})
		if n := len(l.log.take("target rejected")); n != 0 {
			t.Errorf("logged %d again", n)
		}
	})
}

// TestDuplicates checks which of two endpoints with one name there is.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := newFake("m"), newFake("n")
		l := newLab(t, with(t, "relabel_configs: [{regex: 'n|group', action: labeldrop}]", m, n))
		// Equal in all: one endpoint.
		m.find("g", "a")
		n.find("h", "a")
		l.want("listed a")
		l.wantRejected(map[Reason]int{})

		// Else the first discovery wins, whoever was there first.
		cfg := with(t, "relabel_configs: [{regex: 'n', action: labeldrop}]", n, m)
		l.apply(cfg)
		l.want("listed a")
		l.wantRejected(map[Reason]int{DuplicateName: 1})
		if got := l.Endpoints(cfg).Endpoints[1].Labels["group"]; got != "h" {
			t.Errorf("the one of group %q wins, want h", got)
		}

		// Within one, the order of the targets does not matter.
		two := func(first, second model.LabelValue) {
			n.up <- []*targetgroup.Group{{Source: "h", Targets: []model.LabelSet{
				{"__address__": "a", "group": first}, {"__address__": "a", "group": second},
			}}}
			settle()
			if got := l.Endpoints(cfg).Endpoints[1].Labels["group"]; got != "x" {
				t.Errorf("the one of group %q wins, want x", got)
			}
		}
		two("x", "y")
		two("y", "x")
		l.wantRejected(map[Reason]int{DuplicateName: 2})
	})
}

// TestTooManyTargets checks that a source which finds too many keeps what it found
// before.
func TestTooManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake("m")
		cfg := with(t, "", m)
		cfg.Global.Limits.DiscoveryTargets = 3
		l := newLab(t, cfg)
		l.want("listed")
		m.find("g", "a", "b", "c", "d")
		l.wantRejected(map[Reason]int{TooMany: 4})
		l.want("listed")
		if n := l.Endpoints(l.cfg).Waiting; n != 1 {
			t.Errorf("%d sources wait, want the one that has found nothing that counts", n)
		}
		m.find("g", "a", "b")
		l.wantRejected(map[Reason]int{})
		l.want("listed a b")
		m.find("h", "c", "d")
		l.wantRejected(map[Reason]int{TooMany: 4})
		m.find("i", "e")
		l.wantRejected(map[Reason]int{TooMany: 5})
		l.want("listed a b")
		if lines := l.log.take("more than 3 targets; see global.limits.discovery_targets"); len(lines) != 2 {
			t.Errorf("logged:\n%s", strings.Join(lines, ""))
		}
		m.find("h")
		l.wantRejected(map[Reason]int{})
		l.want("listed a b e")
	})
}

// What a source returns repeats no key, such as the one that it was asked with: names,
// labels and models are shown without it, and a URL with it is none.
func TestTargetsRepeatNoSecret(t *testing.T) {
	const key = "sk-0123456789abcdef"
	cfg := parse(t, "", `
discovery:
  - static_configs:
      - {targets: [a], labels: {__endpoint__: "a sk-0123456789abcdef", team: "\x1b\u009b\u202esk-0123%34%35%36789abcdef\n", __model__: "m sk-0123456789abcdef"}}
      - {targets: [b], labels: {sk_0123456789abcdef: x}}
      - {targets: [sk-0123456789abcdef.example]}
      - {targets: [c], labels: {__path__: /sk-0123456789abcdef/v1}}
      - {targets: [d], labels: {__url__: "http://d/sk-0123456789abcdef"}}
      - {targets: [e], labels: {__modules__: "sk-0123456789abcdef"}}
`)
	log := newJournal()
	f := New(Options{
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(log, nil)), Secrets: safetext.NewSecrets(key, "sk_0123456789abcdef"),
	})
	if err := f.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	set := f.Endpoints(cfg)
	if len(set.Endpoints) != 1 || set.Rejected[Invalid] != 5 {
		t.Fatalf("%d endpoints, rejected %v", len(set.Endpoints), set.Rejected)
	}
	e := set.Endpoints[0]
	if e.Name != "a <secret>" || e.Labels["team"] != "<secret>" || e.Model != "m <secret>" {
		t.Errorf("name %q, labels %v, model %q", e.Name, e.Labels, e.Model)
	}
	for _, line := range log.take("target rejected") {
		if strings.Contains(line, "0123456789") {
			t.Errorf("logged: %s", line)
		}
	}
}
