package main

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is so many seconds after the onset of the first incident of scenario.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }

// paged returns a notification that the pager got.
func paged(seconds int, group string, firing ...alert) note {
	return note{at: at(seconds), receiver: "pager", group: group, firing: firing}
}

// scenario is a run in which all is as wanted: a server, a machine of two, of which one is
// found and resolved later, and an endpoint of which only a ticket may come.
func scenario() ([]*incident, []note) {
	single := &incident{name: "single", servers: []string{"a/single"}, alert: "EndpointDown", cause: "process_gone", within: 3 * time.Minute, onset: at(0), end: at(200)}
	node := &incident{name: "node", servers: []string{"a/node-0", "a/node-1"}, within: 3 * time.Minute, onset: at(200), end: at(380)}
	one := &incident{name: "one", servers: []string{"a/one@far"}, quiet: true, ticket: "ProbersDisagree", onset: at(0), end: at(200)}
	down := func(endpoint string) alert {
		return alert{name: "EndpointDown", endpoint: "a/" + endpoint, text: "summary: the server process is gone"}
	}
	return []*incident{single, node, one}, []note{
		paged(160, "s", down("single")),
		{at: at(170), receiver: "chat", group: "o", firing: []alert{{name: "ProbersDisagree", endpoint: "a/one"}}},
		paged(260, "s"),
		paged(350, "n", down("node-0"), down("node-1")),
		paged(400, "n", down("node-1")),
		paged(430, "n"),
	}
}

func TestJudge(t *testing.T) {
	incidents, notes := scenario()
	if misses := judge(incidents, withNews(notes)); len(misses) > 0 {
		t.Errorf("misses %q", misses)
	}
	got := table(incidents, notes)
	for _, want := range []string{
		"| single | 2.7 | 1 | EndpointDown | the server process is gone | 1 of 1 | 1.0 | - | - | - |\n",
		"| node | 2.5 | 1 | EndpointDown | the server process is gone | 2 of 2 | 0.8 | - | - | - |\n",
		"| one | - | 0 | - | - | 0 of 1 | - | ProbersDisagree | - | - |\n\n2 messages",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant in it\n%s", got, want)
		}
	}
	for name, c := range map[string]struct {
		change func([]note) []note
		want   string
	}{
		"no page":             {func(n []note) []note { return n[1:] }, "single: 0 pages, want 1"},
		"late":                {func(n []note) []note { n[0].at = at(181); return n }, "first page came after 3.0 min"},
		"not resolved":        {func(n []note) []note { return n[:4] }, "node: not resolved"},
		"resolved late":       {func(n []note) []note { n[5].at = at(380 + 661); return n }, "resolved 11.0 min after its end"},
		"resolved early":      {func(n []note) []note { n[2].at = at(190); return n }, "single: resolved 0.2 min before its end"},
		"paged twice":         {func(n []note) []note { return slices.Insert(n, 3, n[0], n[2]) }, "single: 2 pages"},
		"by another alert":    {func(n []note) []note { n[0].firing[0].name = "EndpointFailing"; return n }, "paged by EndpointFailing, want EndpointDown"},
		"another cause":       {func(n []note) []note { n[0].firing[0].text = "the key is refused"; return n }, `says "the key is refused", want "the server process is gone"`},
		"after the end":       {func(n []note) []note { n[0].at = at(210); return n }, "single: paged 0.2 min after its end"},
		"in two messages":     {func(n []note) []note { return slices.Insert(n, 3, paged(349, "n", n[3].firing[0])) }, "node: 2 pages"},
		"not named":           {func(n []note) []note { n[3].firing = n[3].firing[:1]; n[4].firing = n[3].firing; return n }, "node: not named: [a/node-1]"},
		"no ticket":           {func(n []note) []note { return slices.Delete(n, 1, 2) }, "one: no ticket ProbersDisagree"},
		"instead of a ticket": {func(n []note) []note { n[1].receiver = "pager"; return n }, "one: 1 pages, want none"},
		"of another cluster":  {func(n []note) []note { n[0].firing[0].endpoint = "b/single"; return n }, "a page of no incident: EndpointDown(b/single)"},
		"of a machine": {func(n []note) []note {
			return append(n, note{at(360), "hardware-pager", "h", []alert{{name: "GPULost"}}, nil})
		}, "a page of no incident: GPULost"},
	} {
		incidents, fresh := scenario()
		misses := strings.Join(judge(incidents, withNews(c.change(fresh))), "\n")
		if !strings.Contains(misses, c.want) {
			t.Errorf("%s: misses %q, want %q", name, misses, c.want)
		}
	}
}

func TestReadNote(t *testing.T) {
	n, err := readNote(strings.NewReader(`{"receiver":"pager","groupKey":"k","status":"firing","alerts":[
		{"status":"firing","labels":{"alertname":"InferenceEndpointDown","cluster":"c","endpoint":"e","scope":"host h"},"annotations":{"summary":"s","description":"d"}},
		{"status":"resolved","labels":{"alertname":"InferenceReplicaLost","endpoint":"e"}}]}`))
	if err != nil || n.String() != "pager: EndpointDown(c/e)" || !n.pages() || n.group != "k" {
		t.Errorf("%+v, %v", n, err)
	}
	if got, want := n.firing[0], (alert{"EndpointDown", "c/e", "host h", "description: d\nsummary: s\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := readNote(strings.NewReader(`{`)); err == nil {
		t.Error("half of a message was read")
	}
}

// Each receiver of the routes gets the webhook, and nothing else changes.
func TestWithWebhooks(t *testing.T) {
	got, err := withWebhooks("route:\n  receiver: chat\nreceivers:\n  - name: pager\n  - name: chat\n", "http://127.0.0.1:1/")
	want := "route:\n  receiver: chat\nreceivers:\n" +
		"  - name: pager\n    webhook_configs: [{url: \"http://127.0.0.1:1/\", send_resolved: true}]\n" +
		"  - name: chat\n    webhook_configs: [{url: \"http://127.0.0.1:1/\", send_resolved: true}]\n"
	if err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := withWebhooks("route: {}\n", ""); err == nil {
		t.Error("routes without receivers were taken")
	}
}

// Each incident is of servers that exist, each of one incident, and speaks of a known cause.
func TestKinds(t *testing.T) {
	known := map[string]bool{}
	hosts := map[string]string{}
	for _, of := range targets() {
		known[of.key()] = true
		hosts[of.key()] = of.host
	}
	for _, in := range kinds() {
		for _, key := range in.servers {
			if !known[key] {
				t.Errorf("%s: no server %s, or it is of another incident too", in.name, key)
			}
			delete(known, key)
			if hosts[key] != hosts[in.servers[0]] {
				t.Errorf("%s: %s is on another machine", in.name, key)
			}
		}
		if in.cause != "" && titleOf(in.cause) == "" {
			t.Errorf("%s: no cause %s", in.name, in.cause)
		}
		if end := in.begins + in.lasts; end > lasting && in.lasts != lastingOfUsers {
			t.Errorf("%s ends after all", in.name)
		}
	}
}

// A server has the fault that it is given, and recovers.
func TestServer(t *testing.T) {
	s, err := startServer(target{cluster: "c", endpoint: "served", host: "127.0.0.1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		fault fault
		want  string // in the answer or the error
	}{
		{fault{}, `"model":"served"`},
		{fault{show: "status_401"}, "Invalid API key"},
		{fault{model: "another"}, `"model":"another"`},
		{fault{gone: true}, "connection refused"},
		{fault{show: "repeated_token"}, `"content":"!"`},
		{fault{}, `"model":"served"`},
	} {
		if err := s.set(c.fault); err != nil {
			t.Fatal(err)
		}
		got := ""
		answer, err := client.Post("http://"+s.address+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"`+cmp.Or(c.fault.model, "served")+`","max_tokens":4,"stream":true,"messages":[{"role":"user","content":"count"}]}`))
		if err != nil {
			got = err.Error()
		} else {
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			got = string(text)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %s, want %s in it", c.fault, got, c.want)
		}
	}
	if err := s.set(fault{gone: true}); err != nil {
		t.Error(err)
	}
}
