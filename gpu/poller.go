package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// stopWithin is how long Run waits for the library when it is to end.
const stopWithin = 800 * time.Millisecond

// Options are the settings of a Poller.
type Options struct {
	// Interval is the time from one poll to the next; 0 is 5 seconds.
	Interval time.Duration
	// Timeout is how long a poll, or the opening of one GPU, may take before
	// the driver counts as stuck; 0 is 10 seconds.
	Timeout time.Duration
	// StaleAfter is the age at which readings are dropped; 0 is three
	// intervals, or more where polls may take so long.
	StaleAfter time.Duration
	// Bandwidth is the memory bandwidth of GPUs and MIG devices in bytes per
	// second, by UUID. It goes before what the poller knows itself.
	Bandwidth map[string]float64
	// Required says that there should be GPUs: to find no library of a driver is
	// a failure like any other, and not what is normal on a machine without GPUs.
	Required bool
	// Processes asks for the compute processes too.
	Processes bool
	// Proc is where the process file system is; "" is /proc.
	Proc string
	// Logger logs changes; nil discards.
	Logger *slog.Logger
	// Secrets are what no text of a snapshot repeats.
	Secrets *safetext.Secrets
}

// Poller reads the GPUs periodically. Its Snapshot never waits for the
// driver.
type Poller struct {
	options Options
	log     *slog.Logger
	worker  worker
	asked   *lastAsked
	current atomic.Pointer[Snapshot]

	bandwidth *atomic.Pointer[map[string]float64] // configured, by UUID

	called  atomic.Bool   // Run was
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

// NewScanning returns a Poller that owns the scanner.
func NewScanning(scanner Scanner, o Options) *Poller {
	p := newPoller(scanner.Source(), o)
	p.worker = newScan(scanner, p)
	return p
}

func newPoller(source string, o Options) *Poller {
	o.Interval = cmp.Or(o.Interval, 5*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	// Readings are as old as the beginning of their poll, and the next ones come
	// at the end of the next poll.
	o.StaleAfter = cmp.Or(o.StaleAfter, max(3*o.Interval, 2*o.Timeout+o.Interval))
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Poller{
		options: o, log: log, asked: &lastAsked{}, bandwidth: &atomic.Pointer[map[string]float64]{},
		// A worker that Run has left must not be kept by what it has to say.
		orders: make(chan bool), results: make(chan outcome, 1), opened: make(chan struct{}, 1),
	}
	p.bandwidth.Store(&o.Bandwidth)
	p.current.Store(&Snapshot{Source: source, State: StateStarting, Required: o.Required})
	return p
}

// progress holds the watchdog back, as one GPU more was opened or read.
func (p *Poller) progress() {
	select {
	case p.opened <- struct{}{}:
	default: // the watchdog has yet to see the one before
	}
}

// SetBandwidth replaces Options.Bandwidth, from the next poll on.
func (p *Poller) SetBandwidth(byUUID map[string]float64) { p.bandwidth.Store(&byUUID) }

// Snapshot returns what the last poll found, without readings that are too old.
// It never blocks and is never nil.
func (p *Poller) Snapshot() *Snapshot {
	s := p.current.Load()
	if s.State != StateUp || time.Since(s.At) <= p.options.StaleAfter {
		return s
	}
	old := *s
	old.Devices = make([]DeviceSnapshot, len(s.Devices))
	for i, d := range s.Devices {
		old.Devices[i] = withoutReadings(d, d.Up)
	}
	return &old
}

// Run polls until ctx ends and returns nil within a second, also when the
// driver does not return. It returns an error only when called a second time.
func (p *Poller) Run(ctx context.Context) error {
	if p.called.Swap(true) {
		return errors.New("run GPU poller: called twice")
	}
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

// watch orders one cycle after the other until ctx ends, and publishes StateStuck
// when one takes too long.
func (p *Poller) watch(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	watchdog := time.NewTimer(p.options.Timeout)
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
			watchdog.Reset(p.options.Timeout)
			p.orders <- stuck // the worker waits for nothing else
			stuck = false
		case <-p.opened:
			if busy && !stuck {
				watchdog.Reset(p.options.Timeout)
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
			next.Reset(max(0, time.Until(began.Add(cmp.Or(o.wait, p.options.Interval)))))
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

// Scanner reads GPUs without a library that has to be opened, such as by files of the
// kernel. One goroutine calls it.
type Scanner interface {
	// Source is its name, Snapshot.Source.
	Source() string
	// Scan reads all GPUs once. It calls asking before what may hang, for the watchdog.
	// An error is that there is none, and an *Error.
	Scan(asking func(device, question string)) (Scan, error)
}

// Scan is what a Scanner found.
type Scan struct {
	// Driver is its version; "" is unknown.
	Driver string
	// Devices are the GPUs that the driver has, with readings in any order. Those that do
	// not answer are not Up.
	Devices []DeviceSnapshot
	// Problems are why readings failed that other GPUs or polls have, by reading.
	Problems map[string]error
}

// scanAgain is the pause after which a scan that found no GPU is repeated: the driver
// may be loaded later, as an operator does in Kubernetes.
const scanAgain = time.Minute

// scan is the poller's side of a Scanner.
type scan struct {
	roster
	poller   *Poller
	scanner  Scanner
	tables   *tables
	problems *onceLog
}

func newScan(scanner Scanner, p *Poller) *scan {
	log := p.log.With(slog.String("source", scanner.Source()))
	return &scan{roster: newRoster(log), poller: p, scanner: scanner, tables: newTables(), problems: newOnceLog(log)}
}

// cycle reads all GPUs once. There is nothing to reopen.
func (s *scan) cycle(bool) outcome {
	at := time.Now()
	latest := ""
	found, err := s.scanner.Scan(func(device, question string) {
		s.poller.asked.set(device, question)
		if device != latest {
			s.poller.progress() // the GPU before was read in time
		}
		latest = device
	})
	if err != nil {
		return s.failure(err, nil)
	}
	for _, reading := range slices.Sorted(maps.Keys(found.Problems)) {
		s.problems.problem(reading, found.Problems[reading])
	}
	byUUID := map[string]DeviceSnapshot{}
	for _, d := range found.Devices[:min(len(found.Devices), maxDevices)] {
		byUUID[d.UUID] = s.complete(d)
	}
	count := len(byUUID)
	devices, up := s.list(byUUID, nil)
	if up == 0 {
		return outcome{Snapshot: Snapshot{State: StateLost, Err: errLost, Devices: devices}}
	}
	return outcome{Snapshot: Snapshot{State: StateUp, At: at, Duration: time.Since(at), Driver: found.Driver, Count: count, Devices: devices}}
}

// complete adds the memory bandwidth of a GPU and puts its readings in order.
func (s *scan) complete(d DeviceSnapshot) DeviceSnapshot {
	if !d.Up {
		return withoutReadings(d, false)
	}
	if value, source, ok := bandwidth(*s.poller.bandwidth.Load(), d.UUID, d.Name, 0, 0); ok {
		d.Readings = append(d.Readings, Reading{MemoryBandwidth, source, value})
	}
	d.Readings = s.tables.sorted(d.Readings)
	return d
}

func (s *scan) failure(err error, devices []DeviceSnapshot) outcome {
	return outcome{Snapshot{State: stateOf(err), Err: err, Devices: devices}, scanAgain}
}

func (s *scan) close() {}
