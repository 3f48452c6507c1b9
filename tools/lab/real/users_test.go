package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestCompareUsers has 97 requests of 50 ms, one of 300 ms, which a slow client may have made of 240 ms, and two of 3 s;
// 2 of the exporter's own, of 50 ms, are among those that it counts.
func TestCompareUsers(t *testing.T) {
	l := &load{Completed: 100, Seconds: 20, P50: 50, P99: 3000}
	for i := range 100 {
		ttft := 0.05
		switch i {
		case 7:
			ttft = 0.3
		case 30, 60:
			ttft = 3
		}
		l.TTFTs, l.Latencies = append(l.TTFTs, ttft), append(l.Latencies, ttft+0.03)
	}
	counts := func(slo string, eligible, bad, possible int) string {
		return fmt.Sprintf(`inference_users_slo_eligible_total{slo=%[1]q} %[2]d
inference_users_slo_bad_total{slo=%[1]q} %[3]d
inference_users_slo_possibly_bad_total{slo=%[1]q} %[4]d
`, slo, eligible, bad, possible)
	}
	window := func(p50, p99 float64) string {
		return fmt.Sprintf(`inference_users_ttft_window_seconds{stat="p50_lower"} %g
inference_users_ttft_window_seconds{stat="p50_upper"} %g
inference_users_ttft_window_seconds{stat="p99_lower"} %g
`, p50, 2*p50, p99)
	}
	f := func(want, ttft, e2e, quantiles string) {
		t.Helper()
		p, err := readPage([]byte(ttft + e2e + quantiles))
		if err != nil {
			t.Fatal(err)
		}
		text, err := l.compare(p, 2)
		if err != nil {
			text = err.Error()
		}
		if err == nil != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s, %v; want %q", text, err, want)
		}
	}
	ttft, e2e, quantiles := counts("ttft", 102, 3, 3), counts("e2e", 102, 2, 2), window(0.04, 2.5)
	f("", ttft, e2e, quantiles)
	f("", counts("ttft", 102, 2, 2), e2e, quantiles)
	f("", counts("ttft", 102, 0, 102), e2e, quantiles) // no bound is near
	f("", counts("ttft", 96, 2, 3), e2e, quantiles)    // the first ones are left out
	f("no inference_users_slo_eligible_total of e2e", ttft, "", quantiles)
	f("the tool has 100 requests", counts("ttft", 103, 3, 3), e2e, quantiles)
	f("the tool has 100 requests", counts("ttft", 90, 3, 3), e2e, quantiles)
	f("ttft: 102 counted, of which 6 to 6", counts("ttft", 102, 6, 6), e2e, quantiles)
	f("ttft: 102 counted, of which 0 to 1", counts("ttft", 102, 0, 1), e2e, quantiles)
	f("e2e: 102 counted, of which 3 to 2", ttft, counts("e2e", 102, 3, 2), quantiles)
	f("p50 of the TTFT from 100ms", ttft, e2e, window(0.1, 2.5))
	f("p99 of the TTFT from 4s", ttft, e2e, window(0.04, 4))
	f("no inference_users_ttft_window_seconds of p50", ttft, e2e, "")
}
