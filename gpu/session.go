package gpu

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Bounds of what a session keeps.
const (
	maxDevices     = 64 // open, and as many that are lost
	maxXIDs        = 64 // taken of the driver in one poll
	maxXIDsADevice = 64 // different ones
)

// After a failure the library is reopened, ever later, and for the sake of a GPU that is missing at the longest of
// these pauses only: it takes the unit counters of the others away until the next poll. Where there is no driver, one
// may be installed some day.
const (
	firstPause  = time.Second
	longestWait = time.Minute
	noDriverFor = 10 * time.Minute
)

// session is the poller's side of the library. One goroutine owns it.
type session struct {
	roster
	poller   *Poller
	lib      Library
	settings *settings

	open         bool
	driver, cuda string
	count        int
	devices      []*device
	unopened     error // why a GPU could not be opened, permission aside
	pause        time.Duration
	reopen       time.Time // when to try again to reach GPUs that are lost
}

func newSession(lib Library, p *Poller) *session {
	return &session{
		roster: newRoster(p.log), poller: p, lib: lib,
		settings: &settings{tables: newTables(), poller: p, proc: "/proc", log: newOnceLog(p.log)},
	}
}

// outcome is what a cycle found. Without devices nothing is known beyond what was.
type outcome struct {
	Snapshot
	wait time.Duration // until the next cycle; 0 is the usual interval
}

// cycle polls all devices once, after reopening the library where asked to.
func (s *session) cycle(reopen bool) outcome {
	began := time.Now()
	if s.open && (reopen || s.missing() && !began.Before(s.reopen)) {
		s.takeXIDs() // the library forgets them
		s.close()
	}
	if !s.open {
		if err := s.start(); err != nil {
			return s.failure(err, nil)
		}
	}
	at := time.Now() // opening may have taken seconds
	devices, err := s.poll(at)
	if err != nil {
		return s.failure(err, devices)
	}
	s.pause = 0
	if s.missing() && !began.Before(s.reopen) {
		s.reopen = began.Add(longestWait)
	}
	return outcome{Snapshot: Snapshot{
		State: StateUp, At: at, Duration: time.Since(at), Driver: s.driver, CUDA: s.cuda, Count: s.count, Devices: devices,
	}}
}

// start opens the library and all devices.
func (s *session) start() error {
	s.poller.asking("", "opening the library")
	if err := s.lib.Open(); err != nil {
		return err
	}
	s.open = true
	s.driver, _ = s.lib.DriverVersion()
	s.cuda, _ = s.lib.CUDAVersion()
	count, err := s.lib.DeviceCount()
	if err != nil {
		return err
	}
	if count <= 0 {
		return errNoDevices
	}
	s.count = count
	return s.openDevices(min(count, maxDevices))
}

// errNoDevices is a driver without a GPU.
var errNoDevices = errors.New("the driver has no GPU")

// openDevices opens what may be opened, and fails where that is nothing.
func (s *session) openDevices(count int) error {
	s.unopened = nil
	var denied error
	failed := make([]error, count)
	for i := range count {
		d, err := openDevice(s.lib, i, s.settings)
		s.poller.progress()
		switch {
		case err == nil:
			s.devices = append(s.devices, d)
			continue
		case libraryDown(err):
			return err
		case stateOf(err) == StateDenied:
			denied = err
		default:
			s.unopened = err
		}
		failed[i] = err
	}
	if len(s.devices) == 0 {
		return cmp.Or(s.unopened, denied)
	}
	for i, err := range failed {
		s.settings.log.unopened(i, err)
	}
	return nil
}

// read reads a device, and asks for its critical errors the first time.
func (s *session) read(d *device, now time.Time) (DeviceSnapshot, error) {
	if !d.watched {
		if err := fetch(d, "critical errors", &d.watched, func() (bool, error) { return true, s.lib.Watch(d.Device) }); err != nil {
			return DeviceSnapshot{}, err
		}
	}
	return d.read(now)
}

// missing reports whether a GPU that is or was there does not answer.
func (s *session) missing() bool {
	up := stats.Count(s.devices, func(d *device) bool { return !d.down })
	return s.unopened != nil || up < len(s.known)
}

// poll reads all devices. With an error, the devices are what is left to say of them.
func (s *session) poll(now time.Time) ([]DeviceSnapshot, error) {
	found := map[string]DeviceSnapshot{}
	lost := map[string]error{}
	for _, d := range s.devices {
		if d.down {
			continue
		}
		snapshot, err := s.read(d, now)
		if libraryDown(err) {
			s.takeXIDs()
			return s.allDown(), err
		}
		if err != nil {
			d.down = true
			lost[d.identity.UUID] = err
			snapshot = withoutReadings(d.identity, false)
			snapshot.MIG = s.known[snapshot.UUID].MIG
		}
		found[snapshot.UUID] = snapshot
	}
	s.takeXIDs()
	devices, up := s.list(found, lost)
	if up == 0 {
		return devices, cmp.Or(errors.Join(slices.Collect(maps.Values(lost))...), s.unopened, errLost)
	}
	return devices, nil
}

// errLost is that no GPU is left of those that were there.
var errLost error = &Error{Call: "read GPUs", Code: CodeLost}

// failure ends the use of the library until it is time to try again, each time later.
func (s *session) failure(err error, devices []DeviceSnapshot) outcome {
	s.close()
	o := outcome{Snapshot: Snapshot{State: stateOf(err), Err: err, Devices: devices}}
	if o.State == StateNotBuilt || o.State == StateNoLibrary && !s.poller.options.Required {
		s.pause, o.wait = 0, noDriverFor
	} else {
		s.pause = min(max(2*s.pause, firstPause), longestWait)
		o.wait = s.pause
	}
	return o
}

func (s *session) close() {
	s.poller.asking("", "closing the library")
	for _, d := range s.devices {
		d.free()
	}
	s.devices = nil
	if s.open {
		s.open = false
		s.lib.Close()
	}
}

func stateOf(err error) State {
	if errors.Is(err, errNoDevices) {
		return StateNoDevices
	}
	return cmp.Or(map[Code]State{
		CodeNotBuilt:        StateNotBuilt,
		CodeLibraryNotFound: StateNoLibrary,
		CodeDriverNotLoaded: StateNoDriver,
		CodeVersionMismatch: StateDriverChanged,
		CodeNoPermission:    StateDenied,
		CodeOperatingSystem: StateDenied,
		CodeLost:            StateLost,
		CodeResetRequired:   StateLost,
	}[codeOf(err)], StateFailed)
}

// takeXIDs counts the critical errors since the poll before.
func (s *session) takeXIDs() {
	type kind struct {
		uuid   string
		number uint64
	}
	fresh := map[kind]int{}
	s.poller.asking("", "critical errors")
	for range maxXIDs {
		x, err := s.lib.NextXID()
		if err != nil {
			if !hasCode(err, CodeTimeout, CodeNotSupported, CodeFunctionNotFound) && !libraryDown(err) {
				s.settings.log.problem("critical errors", err)
			}
			break
		}
		if s.countXID(x) {
			fresh[kind{x.UUID, x.Number}]++
		}
	}
	for k, n := range fresh {
		s.log.Warn("a GPU had a critical error", "uuid", k.uuid, "xid", k.number, "times", n)
	}
}

// countXID adds one critical error of a GPU that was opened, unless it had too many different ones.
func (s *session) countXID(x XID) bool {
	if !slices.ContainsFunc(s.devices, func(d *device) bool { return d.identity.UUID == x.UUID }) {
		return false
	}
	counts := s.xids[x.UUID]
	if counts == nil {
		counts = map[uint64]XIDCount{}
		s.xids[x.UUID] = counts
	}
	c, seen := counts[x.Number]
	if !seen && len(counts) >= maxXIDsADevice {
		return false
	}
	counts[x.Number] = XIDCount{Number: x.Number, Count: c.Count + 1, Last: x.At}
	return true
}
