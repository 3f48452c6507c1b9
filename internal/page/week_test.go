package page

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

func loadOf(at time.Time, running, waiting float64, servers int) *Total {
	return &Total{
		At: at, Servers: make([]string, servers),
		Values: map[config.Quantity]float64{config.RequestsRunning: running, config.RequestsWaiting: waiting},
	}
}

// The load of an hour is its highest mean of a minute, that of a day the highest of its hours.
func TestWeek(t *testing.T) {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := new(Week)
	end := start.Add(9 * 24 * time.Hour)
	for at := start; at.Before(end); at = at.Add(15 * time.Second) {
		day, hour, second := at.YearDay()-start.YearDay(), at.Hour(), at.Minute()*60+at.Second()
		running, servers := 10.0, 4
		if hour == 14 && second >= 600 && second < 660 { // of each day a busy minute, with readings of 20, 40, 60 and 80
			running, servers = 20*float64(1+second%60/15)+float64(day), 5
		}
		if hour == 15 && second == 0 {
			running = 500 // a reading is no minute: 500 and three times 10
		}
		ours := hour == 3 && second < 600
		if ours {
			running = 2000
		}
		w.Read(loadOf(at, running-1, 1, servers), ours)
		if day == 2 && hour > 4 && hour < 12 {
			w.Read(nil, false) // which changes nothing
		}
	}
	// 500 + 3 × 10 over 4 readings is more than the mean of the busy minute, 50 and the day.
	want := make([]loadtest.Carried, 7)
	for i := range want {
		want[i] = loadtest.Carried{Requests: 133, Servers: 4} // 132.5, rounded
	}
	now := end.Add(-time.Minute)
	if got := w.Days(now); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := w.Now(now); got == nil || *got != (loadtest.Carried{Requests: 10, Servers: 4}) {
		t.Errorf("now %v", got)
	}
	if w.Now(end.Add(loadAge)) != nil {
		t.Error("an old minute is that of now")
	}
	data, err := json.Marshal(w.Save())
	var saved SavedWeek
	if err != nil || json.Unmarshal(data, &saved) != nil || saved.Check(now) != nil {
		t.Fatalf("%s, %v", data, err)
	}
	if len(data) > 2000 {
		t.Errorf("%d bytes of an endpoint", len(data))
	}
	if got := NewWeek(&saved).Days(now); !slices.Equal(got, want) {
		t.Errorf("restored %v, want %v", got, want)
	}
	// After two days without a reading their hours are not known.
	if got := NewWeek(&saved).Days(now.Add(48 * time.Hour)); len(got) != 5 {
		t.Errorf("two days later: %v", got)
	}
	if got := NewWeek(&saved).Days(now.Add(weekHours * time.Hour)); len(got) != 0 {
		t.Errorf("a week later: %v", got)
	}
}

func TestWeekThatCannotBe(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	hour := now.Unix() / 3600
	for name, s := range map[string]*SavedWeek{
		"of the future": {Latest: hour + 1},
		"before 1970":   {Latest: -5},
	} {
		if s.Check(now) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (*SavedWeek)(nil).Check(now); err != nil {
		t.Error(err)
	}
	if new(Week).Save() != nil {
		t.Error("nothing is saved as something")
	}
}
