package collector

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// allTTFTParts are parts all of which are known: 1 s of each, in the order of their names.
func allTTFTParts() *estimate.TTFTParts {
	p := &estimate.TTFTParts{TTFT: 15, Probes: 3}
	for i := range p.Seconds {
		p.Seconds[i] = new(float64(i + 1))
	}
	return p
}

func TestTTFTPartsAreOfTheirEndpoint(t *testing.T) {
	s := NewServers()
	s.SetTTFTParts("e", allTTFTParts()) // which is not known yet
	s.Set(ServersID{Endpoint: "e", Model: "m"}, nil)
	const network = namePrefix + `endpoint_ttft_part_seconds{endpoint="e",model="m",part="network"}`
	if _, ok := samples(t, s)[network]; ok {
		t.Error("parts from before the endpoint")
	}
	s.SetTTFTParts("e", allTTFTParts())
	got := samples(t, s)
	if got[network] != "1" || got[namePrefix+`endpoint_ttft_part_seconds{endpoint="e",model="m",part="rest"}`] != "5" {
		t.Errorf("page %v", got)
	}
	unknown := allTTFTParts()
	unknown.Seconds[1] = nil
	s.SetTTFTParts("e", unknown)
	if _, ok := samples(t, s)[namePrefix+`endpoint_ttft_part_seconds{endpoint="e",model="m",part="gateway_queue"}`]; ok {
		t.Error("a part that is not known")
	}
	s.Set(ServersID{Endpoint: "e", Model: "other"}, []page.Status{})
	for series := range samples(t, s) {
		if series != "" && len(series) > 40 && series[:40] == network[:40] {
			t.Errorf("%s of another model", series)
		}
	}
}
