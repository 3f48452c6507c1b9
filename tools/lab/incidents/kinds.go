package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// watcher is an exporter: several of a cluster probe the same endpoints.
type watcher struct{ name, cluster string }

func watchers() []watcher {
	return []watcher{{"main", "main"}, {"a", "a"}, {"b", "b"}, {"near", "pair"}, {"far", "pair"}, {"users", "users"}}
}

// targets are all endpoints. Those of one machine share an address of the loopback network.
func targets() []target {
	var all []target
	add := func(cluster string, machines ...string) {
		for _, machine := range machines {
			for _, name := range strings.Fields(machine) {
				all = append(all, target{cluster: cluster, endpoint: name, host: fmt.Sprintf("127.0.1.%d", len(all)+1)})
				if first := strings.Fields(machine)[0]; name != first {
					all[len(all)-1].host = all[slices.IndexFunc(all, func(t target) bool { return t.name() == cluster+"/"+first })].host
				}
			}
		}
	}
	add("main", "killed", "refused", "cut", "hangs", "late", "errors-30", "errors-10", "flaps", "exclaims", "repeats", "renamed", "blip",
		"first-0 first-1 first-2", "second-0 second-1 second-2", "later",
		"ten-0 ten-1 ten-2 ten-3 ten-4 ten-5 ten-6 ten-7 ten-8 ten-9", "well-0", "well-1", "well-2")
	add("a", "same", "well")
	add("b", "same", "restarts", "well")
	add("pair", "both", "well")
	add("users", "tenant", "path", "crowded", "refused", "admits-none", "rank", "queue", "sleeps", "starts", "counts", "well")
	return append(all, target{"pair", "one", "127.0.2.1", "near"}, target{"pair", "one", "127.0.2.2", "far"})
}

const (
	// calm is how long all is well before the incidents, and lasting for how long most last, and those of few users.
	calm, lasting, lastingOfUsers = 2 * time.Minute, 12 * time.Minute, 16 * time.Minute
	// prompt is when the first page of an outage is due.
	prompt = 3 * time.Minute
	// restart is when the exporter of cluster b is started again.
	restart = 5 * time.Minute
)

// kinds lists what goes wrong. Most of it begins within two minutes.
func kinds() []*incident {
	gone := fault{gone: true}
	many := func(name string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("main/%s-%d", name, i))
		}
		return all
	}
	of := func(name string) []string { return []string{name} }
	all := []*incident{
		{name: "server killed", servers: of("main/killed"), fault: gone, alert: "EndpointDown", cause: "process_gone", within: prompt},
		{name: "401, no key is configured", servers: of("main/refused"), fault: fault{show: "status_401"}, alert: "EndpointDown", cause: "key_missing", within: prompt},
		{name: "answers cut after two tokens", servers: of("main/cut"), fault: fault{show: "end_before_finish"}, alert: "EndpointDown", cause: "answers_broken", within: prompt},
		// The front end hangs, and the page of the engine says that it is idle.
		{name: "hangs before its headers", servers: of("main/hangs"), fault: fault{show: "stall_before_headers"}, alert: "EndpointDown", cause: "gateway_fault", within: prompt + time.Minute},
		{name: "TTFT of all answers over the objective", servers: of("main/late"), fault: fault{delay: 7 * time.Second}, alert: "TTFTHigh", within: 5 * time.Minute},
		{name: "30 % errors", servers: of("main/errors-30"), fault: fault{show: "status_500", share: 0.3}, alert: "EndpointFailing", cause: "server_error", within: 10 * time.Minute},
		{name: "10 % errors", servers: of("main/errors-10"), fault: fault{show: "status_500", share: 0.1}, alert: "EndpointFailing", cause: "server_error", within: lasting},
		{name: "flapping, 2 min down and 2 min up", servers: of("main/flaps"), fault: gone, turn: 2 * time.Minute, alert: "EndpointDown", cause: "process_gone", within: 8 * time.Minute},
		{name: `answers of "!" only`, servers: of("main/exclaims"), fault: fault{show: "repeated_token"}, within: 5 * time.Minute},
		{name: "answers of one word over and over", servers: of("main/repeats"), fault: fault{show: "repetition"}, within: 5 * time.Minute},
		{name: "another model answers", servers: of("main/renamed"), fault: fault{model: "another"}, alert: "ModelChanged", within: 5 * time.Minute},
		{name: "90 s without answers", servers: of("main/blip"), fault: gone, begins: 3 * time.Minute, lasts: 90 * time.Second, quiet: true},
		{name: "machine of ten lost", servers: many("ten", 10), fault: gone, alert: "EndpointDown", cause: "shared_cause", within: prompt},
		{name: "machine of three lost", servers: many("first", 3), fault: gone, alert: "EndpointDown", cause: "shared_cause", within: prompt},
		{name: "another endpoint, 2 min later", servers: of("main/later"), fault: gone, begins: 2 * time.Minute, alert: "EndpointDown", cause: "process_gone", within: prompt},
		{name: "another machine of three, 8 min later", servers: many("second", 3), fault: gone, begins: 8 * time.Minute, alert: "EndpointDown", cause: "shared_cause", within: prompt},
		{name: "same name in cluster a: killed", servers: of("a/same"), fault: gone, alert: "EndpointDown", cause: "process_gone", within: prompt},
		{name: "same name in cluster b: 401", servers: of("b/same"), fault: fault{show: "status_401"}, alert: "EndpointDown", cause: "key_missing", within: prompt},
		{name: "killed, and its exporter restarts after 5 min", servers: of("b/restarts"), fault: gone, alert: "EndpointDown", cause: "process_gone", within: prompt},
		{name: "two exporters, both see the outage", servers: of("pair/both"), fault: gone, alert: "EndpointDown", cause: "process_gone", within: prompt},
		// What users alone meet pages once it is bad for the hour.
		{name: "users: long prompts of a tenant", servers: of("users/tenant"), fault: fault{tenant: true}, lasts: lastingOfUsers, alert: "TTFTHigh", witness: "users", within: 14 * time.Minute},
		{name: "users are well, the path of the probes is slow", servers: of("users/path"), fault: fault{delay: 7 * time.Second}, alert: "TTFTHigh", witness: "probes_only", within: 5 * time.Minute},
		// Answers take 15 s, so that a probe comes every 30.
		{name: "users: many at once", servers: of("users/crowded"), fault: fault{crowded: 40}, alert: "TTFTHigh", witness: "both", within: 9 * time.Minute},
		{name: "users: 80 % errors", servers: of("users/refused"), fault: fault{refused: 0.8}, alert: "EndpointFailing", witness: "users", within: 10 * time.Minute},
		{name: "the scheduler admits nothing", servers: of("users/admits-none"), fault: fault{hangs: true, admitsNone: true}, alert: "EndpointDown", cause: "hung", within: prompt + time.Minute},
		{name: "one rank of two is starved", servers: of("users/rank"), fault: fault{crowded: 10}, quiet: true, ticket: "RankBehind"},
		{name: "the queue of the gateway is full", servers: of("users/queue"), fault: fault{queued: 40}, lasts: lastingOfUsers, quiet: true, ticket: "GatewayQueueSaturated"},
		{name: "the model sleeps", servers: of("users/sleeps"), fault: fault{asleep: true}, quiet: true, unasked: true},
		// Long enough for a page, if warm_up did not leave it out.
		{name: "a slow start, which is left out", servers: of("users/starts"), fault: fault{started: true, delay: 7 * time.Second}, lasts: 280 * time.Second, quiet: true},
		{name: "a slow start, which counts", servers: of("users/counts"), fault: fault{started: true, delay: 7 * time.Second}, lasts: 280 * time.Second, alert: "TTFTHigh", witness: "probes_only", within: 6 * time.Minute},
		{name: "two exporters, one sees no answer", servers: of("pair/one@far"), fault: gone, quiet: true, ticket: "ProbersDisagree"},
	}
	for i, in := range all {
		if in.begins == 0 {
			in.begins = time.Duration(i) * 5 * time.Second
		}
		if in.lasts == 0 {
			in.lasts = lasting - in.begins
		}
	}
	return all
}
