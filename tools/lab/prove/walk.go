package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// retryEvery is how long a walk waits before it asks again what had no data.
const retryEvery = 3 * time.Second

// errNothing says that a query has no data, or nothing but NaN.
var errNothing = errors.New("no data")

// failures are the checks that failed, each with the reason.
type failures map[*check]error

// walk runs checks until all have data or ctx ends, and returns those that have
// none.
func walk(ctx context.Context, c stand.Client, checks []*check) failures {
	failed := once(ctx, c, checks)
	for len(failed) > 0 {
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(retryEvery):
		}
		again := make([]*check, 0, len(failed))
		for check := range failed {
			again = append(again, check)
		}
		now := once(ctx, c, again)
		if ctx.Err() != nil { // the answers may be cut off
			return failed
		}
		failed = now
	}
	return failed
}

// once runs each check once.
func once(ctx context.Context, c stand.Client, checks []*check) failures {
	failed := failures{}
	for _, check := range checks {
		if err := check.run(ctx, c); err != nil {
			failed[check] = err
		}
	}
	return failed
}

// run asks for an alternative of the check that has data. The error is that of
// the first.
func (c *check) run(ctx context.Context, client stand.Client) error {
	var first error
	for _, exprs := range c.alternatives {
		err := c.runAll(ctx, client, exprs)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// runAll asks for everything that an alternative needs.
func (c *check) runAll(ctx context.Context, client stand.Client, exprs []parser.Expr) error {
	for _, e := range exprs {
		series, err := ask(ctx, client, e, c.overTime)
		if err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		points, numbers := stand.Numbers(series)
		switch {
		case points == 0:
			return fmt.Errorf("%w in %s", errNothing, e)
		case numbers == 0:
			return fmt.Errorf("%w but NaN in %s", errNothing, e)
		}
	}
	return nil
}

func ask(ctx context.Context, client stand.Client, e parser.Expr, overTime bool) ([]stand.Series, error) {
	now := time.Now()
	if !overTime {
		return client.Instant(ctx, e.String(), now)
	}
	w := window()
	return client.Range(ctx, e.String(), now.Add(-w.Range), now, w.Step)
}
