package collector

import "github.com/inference-exporter/inference_exporter/internal/estimate"

// SetTTFTParts replaces the parts of the time to first token of the probes of an
// endpoint; nil is not known. They must not be changed afterwards. It changes nothing for
// an endpoint that is not known.
func (s *Servers) SetTTFTParts(endpoint string, p *estimate.TTFTParts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.endpoints[endpoint]; ok {
		e.parts = p
	}
}

// ttftPartsFamily divides the time to first token of probes.
func ttftPartsFamily() *endpointFamily {
	return newEndpointFamily(Family{
		Name: "ttft_part_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"part"}, Values: labelValues(estimate.TTFTPartNames()),
		Help: "Parts of the mean time to first token of the successful probes of the last 5 minutes, or of the time since a server was restarted; their sum is this mean. network: a round trip to the endpoint, measured by connection set-up. gateway_queue: waiting at the gateway. engine_queue: waiting at the server. prefill: from there to the first token. rest: anything else, including the parts that are absent. Queues and prefill are as reported in the replies or, where these do not report them, means over all requests of the pages of gateway and servers. All are absent with fewer than 3 probes, without such a report, and if these means exceed the time that probes measured, as other requests then differ too much from probes.",
	}, func(e encoder, f *family, v endpointValues) {
		if v.parts == nil {
			return
		}
		for _, i := range f.order {
			if seconds := v.parts.Seconds[i]; seconds != nil {
				e.gauge(i, *seconds)
			}
		}
	})
}
