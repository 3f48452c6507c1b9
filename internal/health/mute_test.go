package health

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// A mute shows, probes go on under it, and it ends by itself.
func TestMute(t *testing.T) {
	l := newLab(t)
	s := l.patient(nil)
	l.probe(s, result.Success)
	l.at("06:10:00")
	if err := l.endpoint.Mute(30*time.Minute, " new\x1b driver\n"); err != nil {
		t.Fatal(err)
	}
	l.expect(Muted, "06:10:00")
	l.at("06:15:00")
	l.run(s, time.Second, "FF")
	l.expect(Muted, "06:10:00")
	got := l.status()
	if got.Unmuted != Down || got.UnmutedSince.Format(time.TimeOnly) != "06:15:00" || got.Failed != 2 || got.Why != "no connect_error (m)" ||
		got.Mute.Reason != "new driver" || got.Mute.Until.Format(time.TimeOnly) != "06:40:00" {
		t.Errorf("%+v, mute %+v", got, got.Mute)
	}
	l.at("06:39:59")
	l.expect(Muted, "06:10:00")
	l.at("06:40:00")
	l.expect(Down, "06:15:00")
	if l.status().Mute != nil {
		t.Error("the mute is still there")
	}
	l.expectIncidents("06:10:00 muted for 30m: new driver", "06:15:00 degraded: 2 of 2 probes failed (100 %); first: no connect_error")
	l.expectLog(
		`level=INFO msg="endpoint muted" endpoint=e until=2026-03-04T06:40:00.000Z reason="new driver"`,
		`level=INFO msg="probe failed" endpoint=e module=m outcome=connect_error err="no connect_error"`,
		`level=WARN msg="endpoint failing" endpoint=e module=m since=2026-03-04T06:15:00.000Z cause="no connect_error (m)" probes=2 failed=2`,
		`level=INFO msg="endpoint no longer muted" endpoint=e since=2026-03-04T06:10:00.000Z reason="new driver"`,
	)
}

func TestUnmute(t *testing.T) {
	l := newLab(t)
	l.probe(l.patient(nil), result.Success)
	for range 2 { // also without a mute
		l.endpoint.Unmute()
	}
	l.mute(time.Hour)
	l.at("06:30:00")
	l.mute(time.Hour) // longer, and still since 06:00
	l.expect(Muted, "06:00:00")
	l.at("07:29:59")
	l.expect(Muted, "06:00:00")
	l.endpoint.Unmute()
	l.expect(Up, "06:00:00")
	l.expectIncidents("06:00:00 muted for 1h29m: maintenance")
}

func (l *lab) mute(d time.Duration) {
	l.t.Helper()
	if err := l.endpoint.Mute(d, "maintenance"); err != nil {
		l.t.Fatal(err)
	}
}

func TestMuteRefused(t *testing.T) {
	l := newLab(t)
	l.one()
	f := func(d time.Duration, reason string, want error) {
		t.Helper()
		if err := l.endpoint.Mute(d, reason); !errors.Is(err, want) {
			t.Errorf("%q for %s: %v, want %v", reason, d, err, want)
		}
	}
	f(time.Hour, " \n\x00", ErrNoReason)
	f(time.Minute-1, "r", ErrDuration)
	f(7*24*time.Hour+1, "r", ErrDuration)
	l.expect(Waiting, "06:00:00")
	f(7*24*time.Hour, strings.Repeat("r", 10_000), nil)
	if n := len(l.status().Mute.Reason); n != 256 {
		t.Errorf("a reason of %d bytes", n)
	}
}

// Discovery may lose an endpoint under maintenance, and a reload may change it.
func TestMuteOutlastsTheEndpoint(t *testing.T) {
	l := newLab(t)
	l.one()
	l.mute(time.Hour)
	l.remove()
	l.at("06:30:00")
	l.one()
	l.expect(Muted, "06:00:00")
	l.remove()
	l.at("07:00:00")
	l.one()
	l.expect(Waiting, "07:00:00")
}
