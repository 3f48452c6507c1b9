package api

import "testing"

func TestFinishReason(t *testing.T) {
	for _, s := range FinishReasons() {
		if got := FinishReason(s); got != s {
			t.Errorf("%s: %s", s, got)
		}
	}
	for s, want := range map[string]string{"": "", "stop_sequence": "stop", "eos_token": "stop", "load": "other", "STOP!": "other"} {
		if got := FinishReason(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
