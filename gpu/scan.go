package gpu

import (
	"log/slog"
	"maps"
	"slices"
	"time"
)

// scanned is what one reading of all GPUs found, without a library that has to be opened.
type scanned struct {
	driver string // its version; "" is unknown
	// devices are the GPUs that the driver has, with readings in any order. Those that do not answer are not Up.
	devices  []DeviceSnapshot
	problems map[string]error // why readings failed that other GPUs or polls have, by reading
}

// scanAgain is the pause after which a scan that found no GPU is repeated: the driver may be loaded later, as an
// operator does in Kubernetes.
const scanAgain = time.Minute

// scan is the worker that calls read. That calls asking before what may hang, for the watchdog; its error is that there
// is no GPU, and an *Error.
type scan struct {
	roster
	poller   *Poller
	read     func(asking func(device, question string)) (scanned, error)
	tables   *tables
	problems *onceLog
}

func newScanning(source string, o Options, read func(asking func(device, question string)) (scanned, error)) *Poller {
	p := newPoller(source, o)
	log := p.log.With(slog.String("source", source))
	p.worker = &scan{roster: newRoster(log), poller: p, read: read, tables: newTables(), problems: newOnceLog(log)}
	return p
}

// cycle reads all GPUs once. There is nothing to reopen.
func (s *scan) cycle(bool) outcome {
	at := time.Now()
	latest := ""
	found, err := s.read(func(device, question string) {
		s.poller.asking(device, question)
		if device != latest {
			s.poller.progress() // the GPU before was read in time
		}
		latest = device
	})
	if err != nil {
		return s.failure(err, nil)
	}
	for _, reading := range slices.Sorted(maps.Keys(found.problems)) {
		s.problems.problem(reading, found.problems[reading])
	}
	byUUID := map[string]DeviceSnapshot{}
	for _, d := range found.devices[:min(len(found.devices), maxDevices)] {
		byUUID[d.UUID] = s.complete(d)
	}
	count := len(byUUID)
	devices, up := s.list(byUUID, nil)
	if up == 0 {
		return outcome{Snapshot: Snapshot{State: StateLost, Err: errLost, Devices: devices}}
	}
	return outcome{Snapshot: Snapshot{State: StateUp, At: at, Duration: time.Since(at), Driver: found.driver, Count: count, Devices: devices}}
}

// complete adds the memory bandwidth of a GPU and puts its readings in order.
func (s *scan) complete(d DeviceSnapshot) DeviceSnapshot {
	if !d.Up {
		return withoutReadings(d, false)
	}
	if value, source, ok := bandwidth(*s.poller.bandwidth.Load(), d.UUID, d.Name, 0, 0); ok {
		d.Readings = append(d.Readings, Reading{MemoryBandwidth, source, value})
	}
	out := readings{d.Readings}
	addPeaks(&out, d.Name)
	d.Readings = s.tables.sorted(out.list)
	return d
}

func (s *scan) failure(err error, devices []DeviceSnapshot) outcome {
	return outcome{Snapshot{State: stateOf(err), Err: err, Devices: devices}, scanAgain}
}

func (s *scan) close() {}
