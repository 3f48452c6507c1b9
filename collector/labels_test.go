package collector

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLabelBlock(t *testing.T) {
	f := func(base []pair, configured map[string]string, want string) {
		t.Helper()
		b := newLabelBlock(base, configured, []string{"model", "outcome"})
		if b.text != want {
			t.Errorf("labels %s, want %s", b.text, want)
		}
	}
	f(nil, nil, "")
	f([]pair{{"endpoint", "e"}, {"model", ""}, {"module", "i"}}, nil, `endpoint="e",module="i",`)
	f([]pair{{"endpoint", "e"}}, map[string]string{"zone": "z", "a": "1", "empty": "", "model": "no", "outcome": "no"}, `a="1",endpoint="e",zone="z",`)
	f([]pair{{"endpoint", "a\\b\"c\nd"}}, nil, `endpoint="a\\b\"c\nd",`)
	f([]pair{{"endpoint", "a\xffb"}}, nil, "endpoint=\"a\uFFFDb\",")
}

// Each own label stands where its name belongs among the others.
func TestOwnLabelPlace(t *testing.T) {
	b := newLabelBlock([]pair{{"endpoint", "e"}, {"model", "m"}, {"module", "i"}, {"prefix", "cold"}, {"s", "t"}}, nil, nil)
	f := func(own ownLabel, want string) {
		t.Helper()
		at := b.at[own]
		if got := b.text[:at.text] + "|" + b.text[at.text:]; got != want {
			t.Errorf("%s goes to %s, want %s", ownNames[own], got, want)
		}
	}
	f(ownNone, `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f(ownKind, `endpoint="e",|model="m",module="i",prefix="cold",s="t",`)
	f(ownOutcome, `endpoint="e",model="m",module="i",|prefix="cold",s="t",`)
	f(ownReason, `endpoint="e",model="m",module="i",prefix="cold",|s="t",`)
	f(ownSLO, `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f(ownStat, `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f(ownVerdict, `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f(ownSource, `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
}

func FuzzBoundModel(f *testing.F) {
	f.Add("meta-llama/Llama-3.1-8B-Instruct")
	f.Add(strings.Repeat("é", 65))
	f.Add(strings.Repeat("x", 127) + "\xf0\x9f\x98\x80")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, name string) {
		got := boundModel(name)
		if len(got) > maxModelBytes || !utf8.ValidString(got) {
			t.Errorf("boundModel(%q) = %q, %d bytes", name, got, len(got))
		}
		if utf8.ValidString(name) && len(name) <= maxModelBytes && got != name {
			t.Errorf("boundModel(%q) = %q, want it unchanged", name, got)
		}
		if boundModel(got) != got {
			t.Errorf("boundModel is not stable on %q", got)
		}
	})
}
