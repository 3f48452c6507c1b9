package incidents

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/notifier"
)

// Two gateways that are lost at once are two notifications, and two alerts on one of them
// are one.
func TestGatewaysAreNotifiedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startAlertmanager(t)
		defer a.stop()
		now := time.Now()
		for _, of := range []struct{ name, gateway string }{
			{"InferenceGatewayLost", "a"}, {"InferenceGatewayWithoutBackends", "a"}, {"InferenceGatewayLost", "b"},
		} {
			a.Send(&notifier.Alert{
				StartsAt: now, EndsAt: now.Add(time.Hour),
				Labels: labels.FromStrings("alertname", of.name, "severity", "warning", "category", "availability", "gateway", of.gateway),
			})
		}
		time.Sleep(time.Minute)
		var got []string
		for _, n := range a.all() {
			got = append(got, n.receiver+" "+n.group)
		}
		if len(got) != 2 || got[0] == got[1] {
			t.Errorf("notifications: %q, want one for each gateway", got)
		}
	})
}
