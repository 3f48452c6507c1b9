package collector

import "github.com/inference-exporter/inference_exporter/internal/result"

// calls are the times of calls of tools.
type calls struct{ firstArgument, complete histogram }

// configured returns the times, kept where there are some; nil where no call is
// asked for.
func (c *calls) configured(asked bool) *calls {
	switch {
	case !asked:
		return nil
	case c == nil:
		return &calls{firstArgument: newHistogram(&ttftBounds), complete: newHistogram(&ttftBounds)}
	}
	return c
}

// observe observes a success whose call is valid.
func (c *calls) observe(r *result.Result) {
	if c == nil || r.Call.Complete <= 0 {
		return
	}
	c.firstArgument.observeTraced(r.Call.FirstArgument.Seconds(), r.TraceID, r.Start)
	c.complete.observeTraced(r.Call.Complete.Seconds(), r.TraceID, r.Start)
}

// callFamilies are when the calls come that modules with tool_call ask for.
func callFamilies() []*probeFamily {
	return []*probeFamily{
		callHistogram("probe_first_argument_seconds",
			"Time to the first piece of the arguments of a valid tool call: from the start of the request on a ready connection. What TTFT is to text: before it come reasoning, text and the name of the tool. Only for modules with tool_call.",
			func(c *calls) *histogram { return &c.firstArgument }),
		callHistogram("probe_complete_call_seconds",
			"Time to the last piece of the arguments of a valid tool call: from the start of the request on a ready connection. An agent cannot run the tool before. Only for modules with tool_call.",
			func(c *calls) *histogram { return &c.complete }),
	}
}

// callHistogram returns a family of one histogram for each series that asks for
// calls.
func callHistogram(name, help string, get func(*calls) *histogram) *probeFamily {
	return newProbeFamily(Family{Name: name, Type: Histogram, Unit: "seconds", Help: help}, ttftBounds,
		func(e encoder, _ *family, v *values) {
			if v.calls != nil {
				e.histogram(get(v.calls))
			}
		})
}
