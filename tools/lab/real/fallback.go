package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// guarded is the model that a gateway has a fallback for. The exporter learns what
// is usual from 20 replies, and 3 others in a row are a change.
const (
	guarded     = "guarded"
	before, all = 22, 45
)

// fallback ends the server of a model while it is probed, so that the gateway
// answers with another one. What the exporter reports of the model that answered,
// and of its changes, is compared with the replies.
func fallback(ctx context.Context, b *bench) (string, error) {
	b.front.tee.forget()
	go func() {
		for ctx.Err() == nil && len(b.answers()) < before {
			time.Sleep(50 * time.Millisecond)
		}
		b.find("primary").Stop()
	}()
	results, found, err := b.lab.probeTogether(ctx, "-n", strconv.Itoa(all), "--interval=300ms", "--model="+guarded, "--config.file="+b.config, "--module=watched", "real")
	if err != nil {
		return "", err
	}
	var seen []names
	for _, r := range results {
		e := b.front.tee.of(r.TraceID)
		switch {
		case e == nil:
			return "", fmt.Errorf("no exchange of a probe that ended as %s", r.Outcome)
		case r.Outcome != outcomeOf(e):
			return "", fmt.Errorf("outcome %s, the reply is %s", r.Outcome, outcomeOf(e))
		case r.Outcome != "success":
			continue
		}
		if r.Answer != namesIn(e) {
			return "", fmt.Errorf("the exporter names %v, the reply %v", r.Answer, namesIn(e))
		}
		seen = append(seen, r.Answer)
	}
	if failed := len(results) - len(seen); failed > 2 {
		return "", fmt.Errorf("%d of %d probes failed, so that the fallback was not taken", failed, len(results))
	}
	first, last := seen[0], seen[len(seen)-1]
	for source, changed := range map[string]bool{"model": first.Model != last.Model, "system_fingerprint": first.Fingerprint != last.Fingerprint} {
		if got := found.Changes[source]; (got == 1) != changed {
			return "", fmt.Errorf("%d changes of %s, the replies name %v, then %v", got, source, first, last)
		}
	}
	return fmt.Sprintf("taken: %d of %d probes succeeded; as in the replies, the model is %s, then %s, the system %s, then %s, and the changes are %v",
		len(seen), len(results), first.Model, last.Model, first.Fingerprint, last.Fingerprint, found.Changes), nil
}

// answers are the replies to probes that have ended.
func (b *bench) answers() (ended []*exchange) {
	for _, e := range b.front.tee.exchanges() {
		if e.header.Get("Traceparent") != "" && !e.ended.IsZero() {
			ended = append(ended, e)
		}
	}
	return ended
}

// find returns the server of a name behind the gateway.
func (b *bench) find(name string) *running {
	return b.behind[slices.IndexFunc(b.behind, func(p *running) bool { return p.server.name == name })]
}

// namesIn are the names in the events of a stream: the first that it has of each.
func namesIn(e *exchange) (n names) {
	for _, l := range e.lines {
		var event names
		if text, isData := strings.CutPrefix(l.text, "data:"); isData && json.Unmarshal([]byte(text), &event) == nil {
			n.Model = cmp.Or(n.Model, event.Model)
			n.Fingerprint = cmp.Or(n.Fingerprint, event.Fingerprint)
		}
	}
	return n
}

// adapter asks for an adapter of the model, which the server lists beside it.
func adapter(ctx context.Context, b *bench) (string, error) {
	text, err := get(b.front.tee.url() + "/v1/models")
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct{ ID, Parent string } `json:"data"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", err
	}
	if !slices.ContainsFunc(list.Data, func(m struct{ ID, Parent string }) bool { return m.ID == b.server.adapter && m.Parent == b.model }) {
		return "", cannot("the server lists no adapter of %s: %s", b.model, text)
	}
	said, err := b.compare(ctx, "adapter", "--model="+b.server.adapter, "--config.file="+b.config, "real")
	return fmt.Sprintf("listed beside its model, which is the one that is found; asked by name: %s", said), err
}
