package otlp

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestReceiverComesBack refuses pushes as a collector does whose pipeline is full or
// cannot take them, then ends the collector. What it gets when it is back is the page of
// then: nothing is missing, counted twice or begun again.
func TestReceiverComesBack(t *testing.T) {
	c := newCollector(t)
	s := newStand(t, c)
	const (
		results  = "inference_probe_results_total"
		failures = "inference_exporter_metrics_push_failures_total"
		success  = `outcome="success"`
	)
	before := s.waitFor("pushes and probes", func(p *page) bool {
		return len(c.received()) > 0 && p.sum(results, `endpoint="well"`, success) > 0
	})
	full, err := status.New(codes.ResourceExhausted, "full").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for _, refusal := range []error{
		full.Err(),                                    // 429 with Retry-After
		status.Error(codes.Unavailable, "busy"),       // 503
		status.Error(codes.InvalidArgument, "refuse"), // 400
	} {
		n := c.refusals()
		c.refuse(refusal)
		s.waitFor("refusals", func(*page) bool { return c.refusals() >= n+2 })
	}
	c.stop()
	refused := float64(c.refusals())
	during := s.waitFor("failures without a receiver", func(p *page) bool { return p.sum(failures) >= refused+2 })
	if n, m := during.sum(results, success), before.sum(results, success); n <= m {
		t.Errorf("%v successful probes before the outage, %v in it", m, n)
	}
	c.refuse(nil)
	taken := len(c.received())
	c.start()
	compared := &comparison{t: t}
	after := s.watch("pushes that equal the page", compared, func(p *page) bool { return len(compared.left(p)) == 0 })
	for _, series := range compared.left(after) {
		t.Errorf("%s was never equal to the page", series)
	}
	first := ofPush(t, c.received()[taken].metrics)
	for series, p := range before.points {
		if !p.grows() || p.Value == 0 || unsteady(p.Name) {
			continue
		}
		if now := first[series]; now == nil || now.Start != p.Start || now.Value < p.Value || now.Count < p.Count {
			t.Errorf("%s was %+v before the outage, and is %+v after it", series, p, now)
		}
	}
	if n := after.sum(failures); n < refused+2 {
		t.Errorf("%v failures were counted, %v requests were refused", n, refused)
	}
	t.Logf("%v refused, %v failures, %d pushes compared afterwards", refused, after.sum(failures), compared.pushes)
}
