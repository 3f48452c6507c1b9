// Command incidents causes two incidents, one after the other, and counts the
// notifications: a server that is killed, and a machine of three endpoints that is lost.
// All of it is real, the time included: the exporter, Prometheus and Alertmanager run as
// processes, with the rules and the routes that the exporter prints. It takes some nine
// minutes, and fails where a bound is missed. tools/lab/alertsim/incidents has many more
// incidents, in a clock of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// patience bounds each wait until all is well before the incidents.
	patience = 2 * time.Minute
	// apart is the time between the incidents: outages that are found within 3 minutes of
	// each other are one to the rules, which are evaluated every 15 s.
	apart = 3*time.Minute + 20*time.Second
	// pageWithin is when the first page is due, resolvedWithin when its end is after that
	// of the incident, and slack for how much longer either is waited for.
	pageWithin, resolvedWithin, slack = 3 * time.Minute, 5 * time.Minute, 30 * time.Second
	// quiet is how long it is watched after the last page was resolved.
	quiet = 75 * time.Second
)

func main() {
	programs := programs{}
	flag.StringVar(&programs.exporter, "exporter", "", "program to test")
	flag.StringVar(&programs.prometheus, "prometheus", "", "prometheus to run")
	flag.StringVar(&programs.promtool, "promtool", "", "promtool to make a past for it with")
	flag.StringVar(&programs.alertmanager, "alertmanager", "", "alertmanager to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, programs); err != nil {
		fmt.Fprintln(os.Stderr, "incidents:", err)
		stop()
		os.Exit(1)
	}
}

// run causes the incidents, prints what came of them, and returns what is not as wanted.
func run(ctx context.Context, p programs) error {
	for _, path := range []*string{&p.exporter, &p.prometheus, &p.promtool, &p.alertmanager} {
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
	fmt.Printf("all endpoints are well after %.0f s\n", time.Since(began).Seconds())
	incidents := []*incident{
		{name: "a server killed", endpoints: []string{"single"}},
		{name: "a machine of three endpoints lost", endpoints: []string{"node-0", "node-1", "node-2"}, common: true},
	}
	if err := s.cause(ctx, incidents); err != nil {
		return err
	}
	notes := s.notes.all()
	for _, n := range notes {
		fmt.Printf("%6.0f s  %s\n", n.at.Sub(began).Seconds(), n)
	}
	fmt.Printf("\n%s", table(incidents, notes))
	fmt.Printf("in %.1f minutes\n", time.Since(began).Minutes())
	var misses []error
	for _, miss := range judge(incidents, notes) {
		misses = append(misses, errors.New(miss))
	}
	if len(misses) > 0 {
		s.keepLogs()
	}
	return errors.Join(misses...)
}

// cause causes the incidents one after the other: each ends once it was paged, and not
// before the next one begins.
func (s *stand) cause(ctx context.Context, incidents []*incident) error {
	for i, in := range incidents {
		last := i == len(incidents)-1
		in.onset = time.Now()
		if err := s.kill(in.endpoints); err != nil {
			return err
		}
		fmt.Printf("%s: begins\n", in.name)
		paged := func() bool { return len(in.pages(s.notes.all())) > 0 }
		if err := s.wait(ctx, pageWithin+slack, paged); err != nil {
			return err
		}
		if rest := time.Until(in.onset.Add(apart)); !last {
			if err := sleep(ctx, rest); err != nil {
				return err
			}
		}
		in.end = time.Now()
		if err := s.revive(in.endpoints); err != nil {
			return err
		}
		fmt.Printf("%s: ends\n", in.name)
	}
	over := func() bool { return allResolved(incidents, s.notes.all()) }
	if err := s.wait(ctx, resolvedWithin+slack, over); err != nil {
		return err
	}
	return sleep(ctx, quiet)
}

// wait waits until something is so, for a limited time, after which it is up to judge.
func (s *stand) wait(ctx context.Context, most time.Duration, is func() bool) error {
	for deadline := time.Now().Add(most); !is() && time.Now().Before(deadline); {
		if err := s.failed(); err != nil {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
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
