package gpu

import (
	"fmt"
	"math"
	"time"
)

// Simulated returns a library with two GPUs that do not exist, under the load
// of an inference server that comes and goes within minutes. A snapshot of it
// says so.
func Simulated() Library {
	l := &simulatedLibrary{}
	start := time.Now()
	for i := range 2 {
		l.devices = append(l.devices, &simulatedDevice{index: i, start: start, phase: float64(i) * math.Pi / 3})
	}
	return l
}

type simulatedLibrary struct{ devices []*simulatedDevice }

func (l *simulatedLibrary) Open() error                    { return nil }
func (l *simulatedLibrary) Close()                         {}
func (l *simulatedLibrary) DriverVersion() (string, error) { return "simulated", nil }
func (l *simulatedLibrary) CUDAVersion() (string, error)   { return "simulated", nil }
func (l *simulatedLibrary) DeviceCount() (int, error)      { return len(l.devices), nil }
func (l *simulatedLibrary) Watch(Device) error             { return nil }

func (l *simulatedLibrary) Device(index int) (Device, error) { return l.devices[index], nil }

func (l *simulatedLibrary) NextXID() (XID, error) {
	return XID{}, &Error{Call: "simulated", Code: CodeTimeout}
}

// simulatedPeriod is the time from one peak of load to the next.
const simulatedPeriod = 3 * time.Minute

// wave is a value that swings around a mean.
type wave struct{ mean, swing float64 }

// simulatedDevice looks like an H100 SXM with all its links up. What it
// tells follows from the time alone.
type simulatedDevice struct {
	index int
	start time.Time
	phase float64
}

func (d *simulatedDevice) now(w wave) float64 {
	return w.mean + w.swing*math.Sin(d.angle(time.Since(d.start)))
}

// sum is the integral of a wave over the time since the start, in seconds.
func (d *simulatedDevice) sum(w wave) float64 {
	t := time.Since(d.start)
	return w.mean*t.Seconds() + w.swing*simulatedPeriod.Seconds()/(2*math.Pi)*(math.Cos(d.angle(0))-math.Cos(d.angle(t)))
}

func (d *simulatedDevice) angle(t time.Duration) float64 {
	return 2*math.Pi*t.Seconds()/simulatedPeriod.Seconds() + d.phase
}

// The load of a simulated GPU.
func simulatedWatts() wave     { return wave{480, 140} }
func simulatedLinkKiB() wave   { return wave{3e6, 2e6} } // a second
func simulatedPCIeBytes() wave { return wave{4e8, 3e8} } // a second
func simulatedShares() map[int]wave { // percent, by the numbers of the driver
	return map[int]wave{1: {92, 6}, 2: {78, 15}, 3: {31, 9}, 5: {22, 12}, 10: {61, 22}}
}

// noSuch is the answer to what the simulated GPU does not have.
func noSuch() error { return &Error{Call: "simulated", Code: CodeNotSupported} }

func (d *simulatedDevice) UUID() (string, error) {
	return fmt.Sprintf("GPU-simulated-%d", d.index), nil
}
func (d *simulatedDevice) Name() (string, error)     { return "Simulated H100", nil }
func (d *simulatedDevice) MinorNumber() (int, error) { return d.index, nil }

func (d *simulatedDevice) PCIBusID() (string, error) {
	return fmt.Sprintf("00000000:%02X:00.0", 0x1B+d.index), nil
}

func (d *simulatedDevice) ComputeCapability() (string, error) { return "9.0", nil }
