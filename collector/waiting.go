package collector

import "time"

// JudgeWaiting counts a user who came at the given time, while a probe waited for its first
// token, and waited so long for one; negative is a token that did not come. The
// wait counts as a time to first token wherever percentiles of these are read, and for
// the objective of it, which it returns to be missed or not. It must be called after the probe was
// judged, and only where the objectives of the series count such users.
func (s *Series) JudgeWaiting(at time.Time, wait time.Duration) (bad bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values
	if v.slo == nil {
		return false
	}
	bad = wait < 0 || wait > v.slo.thresholds[sloTTFT]
	v.slo.waited++
	v.slo.count(sloTTFT, bad)
	v.slo.ttfts.observe(at, wait)
	if wait >= 0 {
		v.ttft.observe(wait.Seconds())
	}
	return bad
}

// waitingFamily counts the users who waited while a probe did.
func waitingFamily() *probeFamily {
	return probeCounter("probe_waiting_total", "",
		"Probes that were due while the one before waited for its first token, and that count in inference_probe_ttft_seconds, in the window and for the TTFT objective as users who waited until that token came. Absent without count_waiting in the objectives.",
		func(v *values) (uint64, bool) {
			if v.slo == nil || !v.slo.countWaiting {
				return 0, false
			}
			return v.slo.waited, true
		})
}
