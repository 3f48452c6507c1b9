package collector

import "github.com/inference-exporter/inference_exporter/internal/estimate"

// trafficFamilies compare what a module asks with what users ask.
func trafficFamilies() []*findingsFamily {
	return []*findingsFamily{
		trafficGauge("input_distance_ratio", "ratio",
			"Wasserstein distance between the prompt lengths from which the probes of the last hour were drawn and those of users, divided by the mean prompt length of users. 0 is the same distribution. Only for modules with traffic; absent while the lengths of users are unknown.",
			func(l *estimate.Likeness) gauge { return gauge{l.Input, true} }),
		trafficGauge("output_distance_ratio", "ratio",
			"The same as inference_probe_traffic_input_distance_ratio for the lengths of answers.",
			func(l *estimate.Likeness) gauge { return gauge{l.Output, true} }),
		trafficGauge("requests", "",
			"Requests of users from which the lengths of a module with traffic are drawn: those that the servers counted in inference_probe_traffic_window_seconds, without the probes of this exporter. Absent while there are fewer than 200 in 24 hours; the module then asks its own lengths.",
			func(l *estimate.Likeness) gauge { return gauge{l.Requests, true} }),
		trafficGauge("window_seconds", "seconds",
			"Time that the requests of inference_probe_traffic_requests cover: the latest 30 minutes or, with fewer than 200 requests in it, as much longer as it takes to have 200, up to 24 hours.",
			func(l *estimate.Likeness) gauge { return gauge{l.Span.Seconds(), true} }),
	}
}

// trafficGauge returns a family of one gauge for each module with traffic.
func trafficGauge(name, unit, help string, get func(l *estimate.Likeness) gauge) *findingsFamily {
	return findingsGauge("traffic_"+name, unit, help, func(f *estimate.Findings) gauge {
		if f.Likeness == nil {
			return gauge{}
		}
		return get(f.Likeness)
	})
}
