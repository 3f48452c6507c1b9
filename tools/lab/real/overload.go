package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// overload sends many requests at once, again and again until a page shows that they wait, and probes beside the last of them.
func overload(ctx context.Context, b *bench) (string, error) {
	const requests = 48
	if b.body == nil {
		return "", cannot("no request to repeat")
	}
	if err := b.startDaemon(ctx); err != nil {
		return "", err
	}
	statuses, seen := make(chan int, requests), make(chan struct{})
	for range requests {
		go func() {
			status := b.post(ctx)
			for !isClosed(seen) && ctx.Err() == nil {
				status = b.post(ctx)
			}
			statuses <- status
		}()
	}
	saturated := b.saturated()
	close(seen)
	b.front.tee.forget()
	results, err := b.probe(ctx, "short", "-n", "3")
	if err != nil {
		return "", err
	}
	count := map[int]int{}
	for range requests {
		count[<-statuses]++
	}
	var c comparison
	var said []string
	for _, r := range results {
		e := b.front.tee.of(r.TraceID)
		if e == nil {
			return "", fmt.Errorf("no exchange of a probe that ended as %s", r.Outcome)
		}
		gaveUp := r.Outcome == "timeout_first_token" && e.err != nil && len(readReply(e).tokens) == 0
		if want := outcomeOf(e); r.Outcome != want && !gaveUp {
			return "", fmt.Errorf("outcome %s, the reply is %s", r.Outcome, want)
		}
		said = append(said, r.Outcome)
		if r.Outcome == "success" {
			c.add(r, e)
		}
	}
	text, err := c.verdict()
	if err == nil && b.server.slots > 0 && saturated == "" {
		return "", fmt.Errorf("no page showed %d running requests, the configured limit, and others waiting", b.server.slots)
	}
	return fmt.Sprintf("%sbeside %d requests at once, answered by status %v: %s; %s", saturated, requests, count, strings.Join(said, ", "), text), err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// saturated waits until the daemon shows as many running requests as the
// server has slots, and others that wait, as on the page that it read.
func (b *bench) saturated() string {
	for range 80 {
		time.Sleep(250 * time.Millisecond)
		p, err := b.daemon.page()
		if b.server.slots == 0 {
			return ""
		}
		if err != nil {
			continue // it has just started
		}
		running, _ := p.sum("inference_server_requests_running")
		waiting, _ := p.sum("inference_server_requests_waiting")
		if running != float64(b.server.slots) || waiting == 0 {
			continue
		}
		if _, _, err := b.pages()[0].compareValues(p); err == nil {
			return fmt.Sprintf("%g running, the configured limit, and %g waiting, as on the page; ", running, waiting)
		}
	}
	return ""
}
