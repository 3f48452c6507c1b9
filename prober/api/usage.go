package api

// noUsage is a Usage that reports nothing.
func noUsage() Usage {
	return Usage{Prompt: Unknown, Cached: Unknown, Output: Unknown, Reasoning: Unknown}
}

// known returns the first value that is not negative, else -1.
func known[T ~int | ~int64](values ...T) T {
	for _, v := range values {
		if v >= 0 {
			return v
		}
	}
	return -1
}

// joinReasoning makes Output include Reasoning where the server counts it apart.
// Total, its count of prompt and output together, decides; where that is Unknown
// or fits neither sum, the usual way of the protocol does. Chat completions of
// xAI count the reasoning apart, and those of all others do not.
func (u *Usage) joinReasoning(total int, usuallyApart bool) {
	if u.Reasoning <= 0 || u.Output == Unknown {
		return
	}
	apart, sum := usuallyApart, u.Output+u.Reasoning
	if u.Prompt >= 0 {
		switch total {
		case u.Prompt + sum:
			apart = true
		case u.Prompt + u.Output:
			apart = false
		}
	}
	switch {
	case apart && sum > maxCount:
		u.Output = Unknown
	case apart:
		u.Output = sum
	}
}

// Tally folds the usages of one reply: the last report of each count wins, and
// reports are never added, since they are running totals where a server sends
// several. A zero never replaces a positive count: some servers send zeros on
// every frame but one. The zero value is ready to use.
type Tally struct {
	usage Usage
	begun bool
}

// Add takes the usage of the next frame, which may be nil.
func (t *Tally) Add(u *Usage) {
	if u == nil {
		return
	}
	if !t.begun {
		t.usage, t.begun = noUsage(), true
	}
	fold := func(old *int, new int) {
		if new > 0 || new == 0 && *old <= 0 {
			*old = new
		}
	}
	fold(&t.usage.Prompt, u.Prompt)
	fold(&t.usage.Cached, u.Cached)
	fold(&t.usage.Output, u.Output)
	fold(&t.usage.Reasoning, u.Reasoning)
}

// Usage returns the counts of the reply. A part that exceeds its known whole
// is Unknown: such a server contradicts itself.
func (t *Tally) Usage() Usage {
	if !t.begun {
		return noUsage()
	}
	u := t.usage
	if u.Prompt >= 0 && u.Cached > u.Prompt {
		u.Cached = Unknown
	}
	if u.Output >= 0 && u.Reasoning > u.Output {
		u.Reasoning = Unknown
	}
	return u
}
