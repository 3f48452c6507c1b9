package main

// instance is one alert of a rule, told apart by its labels, with the state
// that `for` and `keep_firing_for` give it. Its zero value is inactive.
type instance struct {
	endpoint string
	active   bool // pending or firing
	firing   bool
	since    int64 // of active
	gone     int64 // when the condition ended that keep_firing_for outlasts; 0 is not
}

// step takes one evaluation at t: holds tells whether the condition did. It
// tells whether the alert began to fire. All times are in milliseconds.
func (a *instance) step(t int64, holds bool, hold, keep int64) bool {
	if !holds {
		a.miss(t, keep)
		return false
	}
	a.gone = 0
	if !a.active {
		a.active, a.since = true, t
	}
	if a.firing || t-a.since < hold {
		return false
	}
	a.firing = true
	return true
}

// miss takes an evaluation at which the condition did not hold.
func (a *instance) miss(t, keep int64) {
	if a.firing && keep > 0 {
		if a.gone == 0 {
			a.gone = t
		}
		if t-a.gone < keep {
			return
		}
	}
	a.active, a.firing, a.gone = false, false, 0
}
