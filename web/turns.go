package web

import (
	"context"
	"fmt"
	"time"
)

// maxWait is how long a request waits for its turn.
const maxWait = 5 * time.Second

// turns lets a few requests run at once; a further one waits.
type turns chan struct{}

// take waits for a turn, which leave ends. The error is a Refusal that says
// why there is none.
func (t turns) take(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case t <- struct{}{}:
		return nil
	case <-late.C:
		return &Refusal{Busy: true, Reason: fmt.Sprintf("%d such requests run, and none ended within %s", cap(t), limit)}
	case <-ctx.Done():
		return canceled()
	}
}

func (t turns) leave() { <-t }

// canceled refuses a request that ends early. Mostly its client is gone and
// sees nothing of it; at the end of the program it must not take an empty
// answer for a good one.
func canceled() *Refusal {
	return &Refusal{Busy: true, Reason: "the request was canceled, or the exporter stops"}
}
