// Package gpu reads the GPUs of this machine: from memory in use to memory bandwidth, which bounds decode. One
// goroutine owns a driver's library and publishes immutable snapshots; nothing else ever waits for a driver.
package gpu

import (
	"cmp"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Vendor is who made a GPU. The set is closed: it is a label value.
type Vendor string

const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
	AWS    Vendor = "aws"
	Google Vendor = "google"
	Habana Vendor = "habana"
)

// Vendors returns all vendors.
func Vendors() []Vendor { return []Vendor{NVIDIA, AMD, Intel, AWS, Google, Habana} }

// SourceNVML is the Source of a snapshot of NVML.
const SourceNVML = "nvml"

// Snapshots are the latest ones of all sources. Where two sources read the same GPU, the first one counts.
type Snapshots []*Snapshot

// Devices returns the GPUs of all sources, each once and with its snapshot.
func (all Snapshots) Devices() iter.Seq2[*Snapshot, *DeviceSnapshot] { return all.devices(false) }

// Copies returns the GPUs that Devices leaves out, as a source before has them, each with the snapshot of its own
// source.
func (all Snapshots) Copies() iter.Seq2[*Snapshot, *DeviceSnapshot] { return all.devices(true) }

// devices returns the GPUs that are copies of others, or those that are not.
func (all Snapshots) devices(copies bool) iter.Seq2[*Snapshot, *DeviceSnapshot] {
	type identity struct {
		vendor     Vendor
		host, uuid string
		index      int // of a GPU without a UUID
	}
	return func(yield func(*Snapshot, *DeviceSnapshot) bool) {
		seen := map[identity]bool{}
		serials := map[string]*Snapshot{} // of the first source that has them
		for _, s := range all {
			for i := range s.Devices {
				d := &s.Devices[i]
				id := identity{uuid: d.UUID}
				if d.UUID == "" {
					id = identity{vendor: d.Vendor, host: d.Host, index: d.Index}
				}
				serial := d.serial()
				first := serials[serial]
				isCopy := seen[id] || first != nil && first != s // the partitions of a card share a serial on a page
				seen[id] = true
				if serial != "" && first == nil {
					serials[serial] = s
				}
				if isCopy == copies && !yield(s, d) {
					return
				}
			}
		}
	}
}

// serial returns the low 48 bits of the number of a card of AMD, "" for other GPUs. They end both forms of its UUID:
// `GPU-` and the number as sysfs shows it, and what amd-smi, and with it the Device Metrics Exporter, makes of the
// number (amdsmi_uuid_gen).
func (d *DeviceSnapshot) serial() string {
	const digits = 12
	n := len(d.UUID) - digits
	switch {
	case d.Vendor != AMD:
	case strings.HasPrefix(d.UUID, "GPU-") && n == len("GPU-0123"), n == len("01234567-0123-0123-0123-") && d.UUID[n-1] == '-':
		return strings.ToLower(d.UUID[n:])
	}
	return ""
}

// Snapshot is what one poll of a source found. It is immutable.
type Snapshot struct {
	Source       string        // what reads the GPUs: SourceNVML, amdgpu, or the name of a page
	State        State         // whether there are readings, and why not
	Err          error         // why, where it is not StateUp
	At           time.Time     // when the last poll that succeeded began; zero before the first one
	Duration     time.Duration // how long that took
	Simulated    bool          // no hardware made the readings
	Remote       bool          // the GPUs are those of the hosts of pages: how many there are changes with the hosts
	Required     bool          // as in the options: there should be GPUs
	Driver, CUDA string        // versions; "" is unknown
	// Count is how many GPUs the driver counts, with those that may not be opened; 0 before a poll succeeded.
	Count    int
	Devices  []DeviceSnapshot // in the order of their index, with those that are lost
	Failures map[State]uint64 // polls that failed, by state
}

// FailuresWith returns the failures with one more of a state.
func (s *Snapshot) FailuresWith(of State) map[State]uint64 {
	failures := map[State]uint64{}
	maps.Copy(failures, s.Failures)
	failures[of]++
	return failures
}

// Reads returns the kinds of readings that any of the GPUs has, sorted.
func (s *Snapshot) Reads() []string {
	var kinds []string
	for i := range s.Devices {
		for _, r := range s.Devices[i].Readings {
			kinds = append(kinds, string(r.Kind))
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// DeviceSnapshot is one GPU.
type DeviceSnapshot struct {
	Vendor Vendor // "" is unknown
	Host   string // the machine that it is in; "" is this one
	UUID   string // as in GPU-...
	Index  int    // the driver's number; negative is unknown
	// Up is false for a GPU that does not answer any more; it then keeps its identity and has no readings.
	Up                                bool
	Name, PCIBusID, ComputeCapability string           // "" is unknown
	Minor                             int              // N of /dev/nvidiaN, negative when unknown
	Place                             Place            // where it is in a rack
	Readings                          []Reading        // in the order of the table Readings
	MIG                               []MIGSnapshot    // the parts of a GPU that is split
	XIDs                              []XIDCount       // critical errors since the exporter began to watch
	Processes                         []ProcessReading // those that compute, where they were asked for
	VGPUs                             []VGPUSnapshot   // those that run on it, where this is their host
}

// Place is where a GPU is in a rack such as NVL72, so that the right tray is pulled: it stays known of a GPU that is
// lost. "" is unknown, or there is no rack.
type Place struct {
	ChassisSerial string // of the rack's chassis
	Slot, Tray    string // its numbers in the chassis: that of the slot counts the trays of switches too
	Host, Module  string // numbers of the host in the tray, and of the GPU in the host
	// FabricCluster is the UUID of the NVLink domain that several hosts share, FabricClique the part of it that the GPU
	// can reach.
	FabricCluster, FabricClique string
}

// VGPUSnapshot is one vGPU on its host.
type VGPUSnapshot struct {
	UUID, VM, Profile         string  // as in VGPU
	MemoryUsed, SMUtilization float64 // in bytes, and a ratio; negative is unknown
}

// MIGSnapshot is one MIG device.
type MIGSnapshot struct {
	UUID, Profile                string // profile as in 1g.10gb
	GPUInstance, ComputeInstance int
	Readings                     []Reading
}

// Reading is one value of a device in base units (bytes, seconds, hertz, watts, joules, ratios of 1, degrees Celsius).
type Reading struct {
	Kind  Kind
	Label string // the value of the kind's own label; "" where it has none
	Value float64
}

// XIDCount is how often a device had a critical error.
type XIDCount struct {
	Number uint64
	Count  uint64
	Last   time.Time
}

// ProcessReading is what a process has on a device.
type ProcessReading struct {
	PID                       int
	Name                      string  // of the program, "" unknown
	Container, PodUID         string  // where the process runs; "" is unknown
	MemoryUsed, SMUtilization float64 // in bytes, and a ratio; negative is unknown
}

// State is the state of the poller. The set is closed: it is a label value.
type State string

const (
	StateStarting      State = "starting"        // no poll has ended yet
	StateUp            State = "up"              // readings are there
	StateNotBuilt      State = "not_built"       // a build without NVML
	StateNoLibrary     State = "no_library"      // no driver on this machine, which is normal for a prober
	StateNoDriver      State = "no_driver"       // the library is there, the driver is not
	StateNoDevices     State = "no_devices"      // a driver without a GPU
	StateDenied        State = "denied"          // no permission for any device
	StateDriverChanged State = "driver_mismatch" // the driver was replaced while it was in use
	StateLost          State = "lost"            // every GPU is lost
	StateStuck         State = "stuck"           // the driver does not return
	StateFailed        State = "failed"          // anything else
)

// roster is what is known of all GPUs of a source, those that are lost included.
type roster struct {
	log   *slog.Logger
	known map[string]DeviceSnapshot      // every GPU ever seen, by UUID, as last seen
	xids  map[string]map[uint64]XIDCount // by UUID and number
}

func newRoster(log *slog.Logger) roster {
	return roster{log: log, known: map[string]DeviceSnapshot{}, xids: map[string]map[uint64]XIDCount{}}
}

// list updates what is known of all GPUs, those that are lost included, and returns it in the order of their index,
// with how many are up. It logs each GPU that went or came back. found is added to.
func (r *roster) list(found map[string]DeviceSnapshot, lost map[string]error) (devices []DeviceSnapshot, up int) {
	for uuid, before := range r.known {
		if _, there := found[uuid]; !there {
			found[uuid] = withoutReadings(before, false)
		}
	}
	for uuid, now := range found {
		before, seen := r.known[uuid]
		switch wasUp := before.Up || !seen; {
		case wasUp && !now.Up:
			r.log.Warn("a GPU is lost", "uuid", uuid, "gpu", now.Index, "err", lost[uuid])
		case !wasUp && now.Up:
			r.log.Info("a GPU is back", "uuid", uuid, "gpu", now.Index)
		}
		r.know(uuid, now)
		if now.Up {
			up++
		}
	}
	return r.all(), up
}

// all returns what is known of all GPUs, with their critical errors.
func (r *roster) all() []DeviceSnapshot {
	var devices []DeviceSnapshot
	for uuid, d := range r.known {
		d.XIDs = slices.SortedFunc(maps.Values(r.xids[uuid]), func(a, b XIDCount) int { return cmp.Compare(a.Number, b.Number) })
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b DeviceSnapshot) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return devices
}

// allDown returns the same with no GPU that answers.
func (r *roster) allDown() []DeviceSnapshot {
	devices := r.all()
	for i, d := range devices {
		devices[i] = withoutReadings(d, false)
	}
	return devices
}

// know keeps what is known of a GPU. Of GPUs that are lost, some are forgotten when there are too many.
func (r *roster) know(uuid string, now DeviceSnapshot) {
	r.known[uuid] = now
	for other, d := range r.known {
		if len(r.known) <= 2*maxDevices {
			return
		}
		if !d.Up {
			delete(r.known, other)
			delete(r.xids, other)
		}
	}
}

// withoutReadings returns what identifies a GPU, with its critical errors.
func withoutReadings(d DeviceSnapshot, up bool) DeviceSnapshot {
	d.Up = up
	d.Readings, d.Processes, d.VGPUs = nil, nil, nil
	d.MIG = slices.Clone(d.MIG)
	for i := range d.MIG {
		d.MIG[i].Readings = nil
	}
	return d
}

// maxTextBytes bounds a text of a driver, a file or a page.
const maxTextBytes = 256

// Clean makes all texts of a snapshot, which others wrote, safe to show: each is one bounded line of printable
// characters without the secrets. It must not have been published; its devices may share what they hold with others.
func (s *Snapshot) Clean(secrets *safetext.Secrets) {
	line := func(texts ...*string) {
		for _, t := range texts {
			*t = secrets.Line(*t, maxTextBytes)
		}
	}
	line(&s.Driver, &s.CUDA)
	if s.Err != nil {
		if text := secrets.Line(s.Err.Error(), 2*maxTextBytes); text != s.Err.Error() {
			s.Err = errors.New(text)
		}
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		line(&d.Host, &d.UUID, &d.Name, &d.PCIBusID, &d.ComputeCapability)
		p := &d.Place
		line(&p.ChassisSerial, &p.Slot, &p.Tray, &p.Host, &p.Module, &p.FabricCluster, &p.FabricClique)
		d.MIG, d.Processes, d.VGPUs = slices.Clone(d.MIG), slices.Clone(d.Processes), slices.Clone(d.VGPUs)
		for i := range d.MIG {
			line(&d.MIG[i].UUID, &d.MIG[i].Profile)
		}
		for i := range d.Processes {
			line(&d.Processes[i].Name, &d.Processes[i].Container, &d.Processes[i].PodUID)
		}
		for i := range d.VGPUs {
			line(&d.VGPUs[i].UUID, &d.VGPUs[i].VM, &d.VGPUs[i].Profile)
		}
	}
}
