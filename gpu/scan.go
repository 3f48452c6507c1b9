package gpu

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

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
	scanner   Scanner
	rank      map[Kind]int
	bandwidth *atomic.Pointer[map[string]float64]
	asked     *lastAsked
	progress  func()
	problems  *onceLog
}

func newScan(scanner Scanner, p *Poller) *scan {
	log := p.log.With(slog.String("source", scanner.Source()))
	return &scan{
		roster: newRoster(log), scanner: scanner, rank: rankOfKinds(), bandwidth: p.bandwidth, asked: p.asked, progress: p.progress,
		problems: &onceLog{log: log, seen: map[string]bool{}},
	}
}

// cycle reads all GPUs once. There is nothing to reopen.
func (s *scan) cycle(bool) (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("reading the GPUs panicked", "panic", r, "stack", string(debug.Stack()))
			o = outcome{state: StateFailed, err: fmt.Errorf("read GPUs: panic: %v", r), wait: scanAgain}
		}
	}()
	at := time.Now()
	latest := ""
	found, err := s.scanner.Scan(func(device, question string) {
		s.asked.set(device, question)
		if device != latest {
			s.progress() // the GPU before was read in time
		}
		latest = device
	})
	if err != nil {
		return outcome{state: stateOf(err), err: err, wait: scanAgain}
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
		return outcome{state: StateLost, err: errLost, devices: devices}
	}
	return outcome{state: StateUp, at: at, duration: time.Since(at), driver: found.Driver, count: count, devices: devices}
}

// complete adds the memory bandwidth of a GPU and puts its readings in order.
func (s *scan) complete(d DeviceSnapshot) DeviceSnapshot {
	if !d.Up {
		return withoutReadings(d, false)
	}
	if value, source, ok := bandwidth(*s.bandwidth.Load(), d.UUID, d.Name, 0, 0); ok {
		d.Readings = append(d.Readings, Reading{MemoryBandwidth, source, value})
	}
	d.Readings = sortReadings(d.Readings, s.rank)
	return d
}

func (s *scan) close() {}
