package incidents

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/alert"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/marker"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/alertmanager/timeinterval"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

// alertmanagerFile is the configuration of the example stack.
const alertmanagerFile = "../../../../examples/stack/alertmanager.yml"

// alertmanager is an Alertmanager whose receivers write down what they get.
type alertmanager struct {
	t      *testing.T
	alerts *mem.Alerts
	stop   func()

	mu    sync.Mutex
	notes []note
}

// note is a notification.
type note struct {
	at       time.Time
	receiver string
	group    string   // key of the group
	firing   []string // names of alerts, with their severity
}

func (n note) String() string {
	return n.at.Format(time.TimeOnly) + " " + n.receiver + " [" + strings.Join(n.firing, " ") + "]"
}

// retention is the default of --data.retention.
const retention = 120 * time.Hour

// startAlertmanager starts an Alertmanager, put together as its own program
// does.
func startAlertmanager(t *testing.T) *alertmanager {
	t.Helper()
	text, err := os.ReadFile(alertmanagerFile)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load(string(text))
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	registry, flags, events := prom.NewRegistry(), featurecontrol.NoopFlags{}, eventrecorder.NopRecorder()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := nflog.New(nflog.Options{Retention: retention, Logger: logger, Metrics: registry})
	check(err)
	silences, err := silence.New(silence.Options{Retention: retention, Logger: logger, Metrics: registry, EventRecorder: events})
	check(err)
	silencer := silence.NewSilencer(silences, logger, events)
	tmpl, err := template.FromGlobs(nil)
	check(err)
	a := &alertmanager{t: t}
	a.alerts, err = mem.NewAlerts(context.Background(), 30*time.Minute, 0, silencer, logger, events, registry, flags)
	check(err)

	receivers := map[string][]notify.Integration{}
	for _, r := range conf.Receivers {
		receivers[r.Name] = []notify.Integration{notify.NewIntegration(receiver{a}, sendsResolved{}, "record", 0, r.Name)}
	}
	inhibitor := inhibit.NewInhibitor(a.alerts, conf.InhibitRules, logger, events)
	groups := marker.NewGroupMarker()
	stages := notify.NewPipelineBuilder(registry, flags, events).New(
		receivers, func() time.Duration { return 0 }, inhibitor, silencer, timeinterval.NewIntervener(nil), groups, log, nil,
	)
	dispatcher := dispatch.NewDispatcher(
		a.alerts, dispatch.NewRoute(conf.Route, nil), stages, groups,
		func(d time.Duration) time.Duration { return max(d, notify.MinTimeout) },
		30*time.Second, nil, logger, events, dispatch.NewDispatcherMetrics(false, registry, flags), tmpl,
	)
	go inhibitor.Run()
	inhibitor.WaitForLoading()
	go dispatcher.Run(time.Now())
	dispatcher.WaitForLoading()
	a.stop = func() {
		dispatcher.Stop()
		inhibitor.Stop()
		a.alerts.Close()
	}
	return a
}

// sendsResolved says that receivers want to know of the end.
type sendsResolved struct{}

// SendResolved implements notify.ResolvedSender.
func (sendsResolved) SendResolved() bool { return true }

// receiver writes notifications down.
type receiver struct{ *alertmanager }

// Notify implements notify.Notifier.
func (r receiver) Notify(ctx context.Context, alerts ...*alert.Alert) (bool, error) {
	n := note{at: time.Now()}
	n.receiver, _ = notify.ReceiverName(ctx)
	n.group, _ = notify.GroupKey(ctx)
	for _, a := range alerts {
		if !a.Resolved() {
			n.firing = append(n.firing, strings.TrimPrefix(a.Name(), "Inference")+"/"+string(a.Labels["severity"]))
		}
	}
	slices.Sort(n.firing)
	n.firing = slices.Compact(n.firing)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, n)
	return false, nil
}

// all returns all notifications but those of the watchdog.
func (a *alertmanager) all() []note {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.notes), func(n note) bool { return n.receiver == "watchdog" })
}

// Send implements rules.Sender: it does with alerts what Prometheus and the API of
// Alertmanager do.
func (a *alertmanager) Send(alerts ...*notifier.Alert) {
	now := time.Now()
	put := make([]*alert.Alert, len(alerts))
	for i, from := range alerts {
		lset := model.LabelSet{}
		from.Labels.Range(func(l labels.Label) {
			if l.Value != "" {
				lset[model.LabelName(l.Name)] = model.LabelValue(l.Value)
			}
		})
		put[i] = &alert.Alert{Alert: model.Alert{Labels: lset, StartsAt: from.StartsAt, EndsAt: from.EndsAt}, UpdatedAt: now}
		if err := put[i].Validate(); err != nil {
			a.t.Errorf("alert %v: %v", lset, err)
		}
	}
	if err := a.alerts.Put(context.Background(), put...); err != nil {
		a.t.Errorf("alerts: %v", err)
	}
}
