// Command incidents causes incidents of many kinds and counts the notifications. All of
// it is real, the time included: exporters, Prometheus and Alertmanager run as processes, with
// the rules and the routes that the exporter prints; the inference servers are simulated. It
// takes about half an hour, and fails where something is not as wanted.
// tools/lab/alertsim/incidents has other incidents, in a clock of its own.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// patience bounds the wait until all is well before the incidents.
	patience = 3 * time.Minute
	// quiet is how long it is watched after the last page was resolved.
	quiet = 75 * time.Second
)

func main() {
	programs := programs{}
	flag.StringVar(&programs.exporter, "exporter", "", "program to test")
	flag.StringVar(&programs.prometheus, "prometheus", "", "prometheus to run")
	flag.StringVar(&programs.alertmanager, "alertmanager", "", "alertmanager to run")
	only := flag.String("only", "", "regular expression of the servers whose incidents are caused, as in users/; default all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, programs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "incidents:", err)
		stop()
		os.Exit(1)
	}
}

// run causes the incidents, prints what came of them, and returns what is not as wanted.
func run(ctx context.Context, p programs, only string) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	for _, path := range []*string{&p.exporter, &p.prometheus, &p.alertmanager} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	began := time.Now()
	s, err := startStand(ctx, p)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.waitUntilWell(ctx); err != nil {
		return err
	}
	fmt.Printf("all endpoints are well after %.0f s, load %s\n", time.Since(began).Seconds(), load())
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	incidents := slices.DeleteFunc(kinds(), func(in *incident) bool { return !chosen.MatchString(in.servers[0]) })
	stopped := s.cause(ctx, incidents) // what is known by then is worth a look
	notes := s.notes.all()
	for _, in := range incidents {
		for _, a := range in.news(notes)[:min(1, len(in.news(notes)))] {
			fmt.Printf("\n%s: %s, scope %q\n%s", in.name, a, a.scope, a.text)
		}
	}
	fmt.Printf("\n%s", table(incidents, notes))
	fmt.Printf("in %.1f minutes, load %s\n", time.Since(began).Minutes(), load())
	misses := []error{stopped}
	for _, miss := range judge(incidents, notes) {
		misses = append(misses, errors.New(miss))
	}
	if len(misses) > 1 {
		s.keepLogs()
	}
	return errors.Join(misses...)
}

// cause causes the incidents, and waits until their pages are resolved.
func (s *stand) cause(ctx context.Context, incidents []*incident) error {
	began := time.Now()
	for _, next := range s.events(ctx, incidents) {
		if err := s.wait(ctx, time.Until(began.Add(next.at)), func() bool { return false }); err != nil {
			return err
		}
		if err := next.do(); err != nil {
			return err
		}
	}
	over := func() bool {
		notes := s.notes.all()
		return !slices.ContainsFunc(incidents, func(in *incident) bool { return !in.isOver(notes) })
	}
	if err := s.wait(ctx, resolvedWithin, over); err != nil {
		return err
	}
	return sleep(ctx, quiet)
}

// event is something that happens so long after the calm.
type event struct {
	at time.Duration
	do func() error
}

// events are all that happens, in its order.
func (s *stand) events(ctx context.Context, incidents []*incident) []event {
	all := []event{{restart, func() error {
		of := s.exporters["b"]
		of.Stop()
		fmt.Println("exporter b starts again")
		return s.startExporter(of.watcher)
	}}}
	for _, in := range incidents {
		end := in.begins + in.lasts
		of := s.servers[in.servers[0]]
		all = append(all, event{in.begins, func() error {
			in.onset = time.Now()
			return s.set(in, in.fault)
		}}, event{end, func() error {
			in.end, in.asks = time.Now(), of.asks()-in.asks
			if of.crowd != nil {
				in.truth, in.saw = of.crowd.truth(in.onset, in.end), s.witness(ctx, of.target)
			}
			return s.set(in, fault{})
		}}, event{in.begins + time.Minute, func() error {
			in.asks = of.asks()
			return nil
		}})
		for i := time.Duration(1); in.turn > 0 && i*in.turn < in.lasts; i++ {
			f := in.fault
			if i%2 == 1 {
				f = fault{}
			}
			all = append(all, event{in.begins + i*in.turn, func() error { return s.set(in, f) }})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

// set has the servers of an incident fail, or be well again.
func (s *stand) set(in *incident, f fault) error {
	for _, key := range in.servers {
		if err := s.servers[key].set(f); err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
	}
	return nil
}

// wait waits until something is so, for a limited time.
func (s *stand) wait(ctx context.Context, most time.Duration, is func() bool) error {
	for deadline := time.Now().Add(most); !is() && time.Now().Before(deadline); {
		if err := s.failed(); err != nil {
			return err
		}
		if err := sleep(ctx, min(time.Second, time.Until(deadline))); err != nil {
			return err
		}
	}
	return nil
}

// load returns the load averages of the machine; "unknown" where it shows none.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
