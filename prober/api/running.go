package api

// runningCount makes Delta.Tokens of the counts of a server that counts along,
// and of none that reports its count at the end, or zeros until then.
type runningCount struct {
	last    int
	hidden  int  // reasoning that is part of the count and left no event
	reasons bool // reasoning is streamed
	counted bool // a frame carried a count
	broken  bool // a frame with material carried none, or a count fell
}

// next returns Delta.Tokens for a frame that may carry a token, given what the
// server counts of the output so far and of the reasoning in it.
func (r *runningCount) next(output, reasoning int, d *Delta) int {
	streamed := len(d.Reasoning) > 0 && !d.Summary
	if r.reasons = r.reasons || streamed; !r.reasons {
		r.hidden = max(r.hidden, reasoning)
	}
	n := max(Unknown, output-r.hidden)
	token := d.Visible() || streamed
	if token && n <= 0 || n != Unknown && n < r.last {
		r.broken = true
	}
	if r.broken || n == Unknown {
		return Unknown
	}
	// The first count of all may be the total on the last frame, unless
	// material comes with it.
	told := token || r.counted
	r.last, r.counted = n, true
	if !told {
		return Unknown
	}
	return n
}
