package collector

// endpointValues is the state behind the samples of an endpoint with servers.
type endpointValues struct {
	servers  [numStates]int // by index in states
	overhead [numOverheads]gauge
}

// endpointFamily is a family of the series of endpoints with servers.
type endpointFamily = familyOf[endpointValues]

// endpointFamilies returns the families of what the servers tell of their
// endpoint, in the order of the documentation.
func endpointFamilies() []*endpointFamily {
	return []*endpointFamily{
		newEndpointFamily(Family{
			Name: "servers", Type: Gauge, Labels: []string{"state"}, Values: labelValues(states()),
			Help: "Servers of an endpoint by the state of their metrics page: read (up), not there (down), not to be trusted (unreadable) or of an unknown engine (unmapped). Fewer in all than usual means that replicas are gone. Absent for an endpoint without a page.",
		}, func(e encoder, f *family, v endpointValues) {
			if v.servers == [numStates]int{} {
				return
			}
			for _, i := range f.order {
				e.gauge(i, float64(v.servers[i]))
			}
		}),
		newEndpointFamily(Family{
			Name: "ttft_overhead_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"source"}, Values: overheadSources(),
			Help: "What network, gateway and client add to the time to first token: as probes see it less what the server says. reply: the latest probe, as its own reply tells; absent after a failure. histogram: means over at most 5 minutes, of successful probes and of all requests of all servers, of which the probes are at least half. traffic: the same where they are not, so that it is mostly about how other requests differ from the probes, and often negative; compare it with its own past only.",
		}, func(e encoder, f *family, v endpointValues) {
			for _, i := range f.order {
				if v.overhead[i].present {
					e.gauge(i, v.overhead[i].value)
				}
			}
		}),
	}
}

// newEndpointFamily returns a family with the labels of every endpoint family.
// f.Name comes without "endpoint_".
func newEndpointFamily(f Family, emit func(e encoder, f *family, v endpointValues)) *endpointFamily {
	f.Name, f.Group = "endpoint_"+f.Name, GroupEndpoint
	return &endpointFamily{newFamily(f, []string{"endpoint", "model"}, nil), emit}
}
