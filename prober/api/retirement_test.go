package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// noon is 1767182400 in Unix seconds.
func noon() time.Time { return time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC) }

// The examples of RFC 8594 and RFC 9745, the forms of older drafts, and what no date is made of.
func TestRetirementFrom(t *testing.T) {
	f := func(name, value string, want Retirement) {
		t.Helper()
		h := http.Header{}
		h.Set(name, value)
		if got := RetirementFrom(h, noon()); got != want {
			t.Errorf("%s: %s: %+v, want %+v", name, value, got, want)
		}
	}
	f("Sunset", "Wed, 31 Dec 2025 23:59:59 GMT", Retirement{Header: 1767225599})
	f("Sunset", "Wednesday, 31-Dec-25 23:59:59 GMT", Retirement{Header: 1767225599})
	f("Deprecation", "@1688169599", Retirement{Deprecated: 1688169599})
	f("Deprecation", "Sun, 11 Nov 2018 23:59:59 GMT", Retirement{Deprecated: 1541980799})
	f("Deprecation", "true", Retirement{})
	f("X-Model-Deprecation-Timestamp", "2026-07-31T12:00:00Z", Retirement{Header: 1785499200})
	for _, bad := range []string{
		"", "soon", "@", "@-5", "@0", "@99999999999999999999", "@1688169599.5", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "\x1b[31m",
	} {
		f("Sunset", bad, Retirement{})
		f("Deprecation", bad, Retirement{})
	}
	both := http.Header{"Sunset": {"Wed, 31 Dec 2025 23:59:59 GMT"}, "Deprecation": {"@1688169599"}}
	if got := RetirementFrom(both, noon()); got != (Retirement{Header: 1767225599, Deprecated: 1688169599}) {
		t.Errorf("both: %+v", got)
	}
}

func TestRetirementOfListedModels(t *testing.T) {
	got, err := ParseModels([]byte(`{"data":[
		{"id":"openai","shutdown_date":"2026-10-23"}, {"id":"openai-stays","shutdown_date":null},
		{"id":"openrouter","expiration_date":"2026-12-31"},
		{"id":"mistral","deprecation":"2026-07-31T12:00:00Z","deprecation_replacement_model":"m"}, {"id":"mistral-stays","deprecation":null},
		{"id":"azure","lifecycle_status":"generally-available","deprecation":{"fine_tune":1677662127,"inference":1709284527}},
		{"id":"odd","shutdown_date":true,"expiration_date":[],"deprecation":{"inference":"never"}},
		{"id":"negative","deprecation":{"inference":-1}}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	dates := map[string]int64{}
	for _, m := range got {
		dates[m.ID] = m.Retires
	}
	want := map[string]int64{
		"openai": 1792713600, "openai-stays": 0, "openrouter": 1798675200, "mistral": 1785499200, "mistral-stays": 0,
		"azure": 1709284527, "odd": 0, "negative": 0,
	}
	if d := cmp.Diff(want, dates); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRetirementLearns(t *testing.T) {
	r := Retirement{Header: 20, Listed: 30}
	r.Learn(Retirement{Listed: 10, Deprecated: 5}, false)
	if r != (Retirement{20, 10, 5}) || r.End() != 10 {
		t.Errorf("%+v ends at %d", r, r.End())
	}
	if r.Learn(Retirement{Listed: 30}, true); r != (Retirement{Listed: 30}) {
		t.Errorf("after a success: %+v", r)
	}
	if end := (Retirement{Listed: 7}).End(); end != 7 {
		t.Errorf("listed alone: %d", end)
	}
	if end := (Retirement{Header: 7, Deprecated: 3}).End(); end != 7 {
		t.Errorf("header alone: %d", end)
	}
}
