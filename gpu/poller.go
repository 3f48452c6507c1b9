package gpu

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// stopWithin is how long Run waits for the library when it is to end.
	stopWithin = 800 * time.Millisecond
	// pollInterval is the time from the beginning of one poll to that of the next, pollTimeout how long a poll, or the
	// opening of one GPU, may take before the driver counts as stuck.
	pollInterval = 5 * time.Second
	pollTimeout  = 10 * time.Second
	// staleAfter is the age at which readings are dropped. They are as old as the beginning of their poll, and the next
	// ones come at the end of the next poll.
	staleAfter = 2*pollTimeout + pollInterval
)

// Options are the settings of a Poller.
type Options struct {
	// Required says that there should be GPUs: to find no library of a driver is a failure like any other, and not what
	// is normal on a machine without GPUs.
	Required  bool
	Processes bool              // reads the compute processes too
	Logger    *slog.Logger      // logs changes; nil discards
	Secrets   *safetext.Secrets // what no text of a snapshot repeats
}

// Poller reads the GPUs periodically. Its Snapshot never waits for the driver.
type Poller struct {
	options Options
	log     *slog.Logger
	worker  worker
	asked   atomic.Pointer[string] // the latest question to the driver: the one at which a poll hangs
	current atomic.Pointer[Snapshot]

	bandwidth atomic.Pointer[map[string]float64] // configured, by UUID

	orders  chan bool     // to the worker: poll, with the library reopened or not
	results chan outcome  // of the worker
	opened  chan struct{} // by the worker: one GPU more
}

// worker reads the GPUs of one source. One goroutine uses it.
type worker interface {
	// cycle polls all GPUs once, after reopening what it reads where asked to.
	cycle(reopen bool) outcome
	// failure is the outcome of a cycle that failed; the devices are what is left to say of them.
	failure(err error, devices []DeviceSnapshot) outcome
	// close gives back what it holds.
	close()
}

// New returns a Poller that owns the library.
func New(lib Library, o Options) *Poller {
	p := newPoller(SourceNVML, o)
	p.worker = newSession(lib, p)
	_, p.current.Load().Simulated = lib.(*simulatedLibrary)
	return p
}

func newPoller(source string, o Options) *Poller {
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	p := &Poller{
		options: o, log: log,
		// A worker that Run has left must not be kept by what it has to say.
		orders: make(chan bool), results: make(chan outcome, 1), opened: make(chan struct{}, 1),
	}
	p.SetBandwidth(nil)
	p.current.Store(&Snapshot{Source: source, State: StateStarting, Required: o.Required})
	return p
}

// asking takes in a question to a device, for the watchdog; "" is the driver as a whole.
func (p *Poller) asking(device, question string) {
	text := "in " + question
	if device != "" {
		text += " of " + device
	}
	p.asked.Store(&text)
}

// progress holds the watchdog back, as one GPU more was opened or read.
func (p *Poller) progress() {
	select {
	case p.opened <- struct{}{}:
	default: // the watchdog has yet to see the one before
	}
}

// SetBandwidth sets the memory bandwidth of GPUs and MIG devices in bytes per second, by UUID, from the next poll on.
// It goes before what the poller knows itself.
func (p *Poller) SetBandwidth(byUUID map[string]float64) { p.bandwidth.Store(&byUUID) }

// Snapshot returns what the last poll found, without readings that are too old. It never blocks and is never nil.
func (p *Poller) Snapshot() *Snapshot {
	s := p.current.Load()
	if s.State != StateUp || time.Since(s.At) <= staleAfter {
		return s
	}
	old := *s
	old.Devices = stats.Map(s.Devices, func(d DeviceSnapshot) DeviceSnapshot { return withoutReadings(d, d.Up) })
	return &old
}

// Run, which is called once, polls until ctx ends and returns nil within a second, also when the driver does not
// return.
func (p *Poller) Run(ctx context.Context) error {
	var left atomic.Bool // a library that hangs is not closed any more
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for reopen := range p.orders {
			p.results <- p.cycle(reopen)
		}
		if !left.Load() {
			p.worker.close()
		}
	}()
	p.watch(ctx)
	close(p.orders)
	select {
	case <-ended:
	case <-time.After(stopWithin):
		left.Store(true)
	}
	return nil
}

// cycle polls all GPUs once. A panic is a poll that failed.
func (p *Poller) cycle(reopen bool) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			p.log.Error("reading the GPUs panicked", "source", p.current.Load().Source, "panic", r, "stack", string(debug.Stack()))
			o = p.worker.failure(fmt.Errorf("read GPUs: panic: %v", r), nil)
		}
	}()
	return p.worker.cycle(reopen)
}

// watch orders one cycle after the other until ctx ends, and publishes StateStuck when one takes too long.
func (p *Poller) watch(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	watchdog := time.NewTimer(pollTimeout)
	watchdog.Stop()
	defer watchdog.Stop()
	busy, stuck := false, false
	var began time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			began, busy = time.Now(), true
			watchdog.Reset(pollTimeout)
			p.orders <- stuck // the worker waits for nothing else
			stuck = false
		case <-p.opened:
			if busy && !stuck {
				watchdog.Reset(pollTimeout)
			}
		case <-watchdog.C:
			stuck = true
			p.publish(Snapshot{State: StateStuck, Err: &Error{Call: "read GPUs", Code: CodeTimeout, Detail: *cmp.Or(p.asked.Load(), new(string))}})
		case o := <-p.results:
			busy = false
			watchdog.Stop()
			if stuck { // what came so late is not worth showing
				next.Reset(firstPause)
				continue
			}
			p.publish(o.Snapshot)
			next.Reset(max(0, time.Until(began.Add(cmp.Or(o.wait, pollInterval)))))
		}
	}
}

// publish shows an outcome and logs a change of state.
func (p *Poller) publish(s Snapshot) {
	before := p.current.Load()
	s.Source, s.Simulated, s.Required, s.Failures = before.Source, before.Simulated, before.Required, before.Failures
	if s.State != StateUp {
		s.At, s.Duration = before.At, before.Duration
		s.Driver, s.CUDA, s.Count = before.Driver, before.CUDA, before.Count
		s.Failures = before.FailuresWith(s.State)
		if s.Devices == nil {
			for _, d := range before.Devices {
				s.Devices = append(s.Devices, withoutReadings(d, false))
			}
		}
	}
	s.Clean(p.options.Secrets)
	p.current.Store(&s)
	if s.State != before.State {
		p.logState(&s)
	}
}

func (p *Poller) logState(s *Snapshot) {
	switch {
	case s.State == StateUp:
		p.log.Info("reading the GPUs", "source", s.Source, "gpus", len(s.Devices), "driver", s.Driver, "cuda", s.CUDA, "reads", s.Reads())
	case !s.Required && (s.State == StateNotBuilt || s.State == StateNoLibrary):
		p.log.Info("no GPUs found", "source", s.Source, "state", s.State)
		p.log.Debug("why there are none", "source", s.Source, "err", s.Err)
	default:
		p.log.Warn("reading the GPUs failed", "source", s.Source, "state", s.State, "err", s.Err)
	}
}
