package alerts

import "time"

// A minute is bad when at least one of its probes is. Failures that come in
// one burst then count once. How many bad minutes are expected follows from
// the objective and from how many probes there were, whatever their interval;
// badMinuteSigmas standard deviations more, and badMinuteExtra on top because
// so few are not normally distributed, are beyond chance. With an objective of
// 0.99 that asks for 13, 8, 6 and 5 of 30 minutes for a probe every 5, 15, 30
// and 60 s. With objectives below 0.93, 0.81, 0.65 and 0.43 it asks for more than
// there are: almost every minute is bad by right, and only burn rates can tell.
const (
	badMinuteWindow = 30 // minutes
	badMinuteSigmas = 4
	badMinuteExtra  = 2
)

// fewestProbesToPage is how many probes in badMinuteWindow make bad minutes
// worth a page. With fewer than one in 40 s, a short burst fills as many
// minutes as a lasting trouble.
const fewestProbesToPage = 45

// burn is a pair of windows over which the error budget is spent too fast.
type burn struct {
	long, short string // windows
	rate        string // of spending, as a multiple of what the objective allows
	fewestLong  int    // bad probes in the long window
	fewestShort int    // bad probes in the short window; 0 asks for none
	lasting     string // for
	keep        string // keep_firing_for
}

// Where objectives are strict and probes rare, one bad probe is a high rate:
// the fewest bad probes keep it from being an alert.
func fastBurns() []burn {
	return []burn{
		{long: "1h", short: "5m", rate: "14.4", fewestLong: 5, fewestShort: 2, lasting: "2m", keep: "5m"},
		{long: "6h", short: "30m", rate: "6", fewestLong: 10, lasting: "15m", keep: "15m"},
	}
}

func slowBurns() []burn {
	return []burn{
		{long: "1d", short: "2h", rate: "3", fewestLong: 20, lasting: "1h", keep: "6h"},
		{long: "3d", short: "6h", rate: "1", fewestLong: 20, lasting: "3h", keep: "6h"},
	}
}

// highestBurn bounds the share of bad probes that a burn rate asks for: with a
// loose objective a multiple of the error budget would exceed 1 and no share
// ever reach it.
const highestBurn = 0.9

// fewestForMedian is how many probes each of two medians must rest on, so that
// a ratio of 1.5 between them is beyond chance: 1 in 20,000 looks where the
// logarithm of TTFT has a standard deviation of 0.5.
const fewestForMedian = 60

// medianWindow is the window of the medians that are compared with those of a
// week before. It holds half as many probes again as are needed, for some fail
// or are skipped. Modules too slow for two hours are not compared at all.
func (o Options) medianWindow() time.Duration {
	const longest = 2 * time.Hour
	window := 30 * time.Minute
	for _, interval := range o.Modules {
		if w := (interval * fewestForMedian * 3 / 2).Round(time.Minute); w <= longest {
			window = max(window, w)
		}
	}
	return window
}

// failureWindow is the window in which an endpoint that is down has failed
// probes: an hour, or more where the slowest module needs it.
func (o Options) failureWindow() time.Duration {
	window := time.Hour
	for _, interval := range o.Modules {
		window = max(window, 4*interval)
	}
	return window
}

// skipWindow is the window in which a module whose every run is left out has
// counted some of them: 15 minutes, or more where the slowest module needs it.
func (o Options) skipWindow() time.Duration {
	window := 15 * time.Minute
	for _, interval := range o.Modules {
		window = max(window, 4*interval)
	}
	return window
}
