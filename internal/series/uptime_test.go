package series

import (
	"encoding/json"
	"testing"
	"time"
)

// Counts that cannot be are not restored; those of the future, neither.
func TestUptimeRestoresNoNonsense(t *testing.T) {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	step := now.Unix() / 300
	for _, c := range []struct {
		in   counts
		want string
	}{
		{counts{newCount(step-1, 5, 2), newCount(step, 3, 3)}, text([]count{newCount(step-1, 5, 2), newCount(step, 3, 3)})},
		{counts{newCount(step, 5, 2), newCount(step+1, 3, 3)}, text([]count{newCount(step, 5, 2)})},
		{counts{newCount(step, 5, 6)}, "null"},
		{counts{newCount(step, 5, 2), newCount(step-1, 3, 3)}, "null"},
		{counts{newCount(step, 5, 2), newCount(step, 3, 3)}, "null"},
		{make(counts, 14), "null"},
	} {
		u := uptime{From: 1}
		u.Probes[0] = c.in
		if got := u.valid(now); text(got.Probes[0]) != c.want {
			t.Errorf("%v: got %s, want %s", c.in, text(got.Probes[0]), c.want)
		}
	}
	var u uptime
	if err := json.Unmarshal([]byte(`{"from":9223372036854775807,"probes":[[0]]}`), &u); err != nil {
		t.Fatal(err)
	}
	if v := u.valid(now); v.From != now.Unix() {
		t.Errorf("from %d", v.From)
	}
}
