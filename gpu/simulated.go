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

// simulatedDevice looks like an H100 SXM with all its links up. Its
// values depend on the time alone.
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

const gibibyte = 1 << 30

// Memory is nearly full, as a server leaves it.
func (d *simulatedDevice) Memory() (Memory, error) {
	const total, reserved = 80 * gibibyte, gibibyte / 2
	used := uint64(d.now(wave{71.5, 0.5}) * gibibyte)
	return Memory{Total: total, Used: used, Free: total - reserved - used, Reserved: reserved, ReservedKnown: true}, nil
}

func (d *simulatedDevice) MemoryBusWidth() (int, error) { return 5120, nil }

func (d *simulatedDevice) Utilization() (gpu, memory int, err error) {
	return int(d.now(wave{92, 7})), int(d.now(wave{55, 20})), nil
}

func (d *simulatedDevice) EncoderUtilization() (int, error) { return 0, noSuch() }
func (d *simulatedDevice) DecoderUtilization() (int, error) { return 0, nil }

func (d *simulatedDevice) Clock(domain ClockDomain) (int, error) {
	if domain == ClockMemory {
		return d.MaxClock(domain)
	}
	return int(d.now(wave{1830, -60})), nil
}

func (d *simulatedDevice) MaxClock(domain ClockDomain) (int, error) {
	if domain == ClockMemory {
		return 2619, nil
	}
	return 1980, nil
}

func (d *simulatedDevice) PowerUsage() (int, error) { return int(1000 * d.now(simulatedWatts())), nil }
func (d *simulatedDevice) PowerLimit() (int, error) { return 700_000, nil }
func (d *simulatedDevice) Energy() (uint64, error) {
	return uint64(1000 * d.sum(simulatedWatts())), nil
}
func (d *simulatedDevice) Temperature() (int, error)      { return int(d.now(wave{58, 9})), nil }
func (d *simulatedDevice) FanCount() (int, error)         { return 0, noSuch() }
func (d *simulatedDevice) FanSpeed(int) (int, error)      { return 0, noSuch() }
func (d *simulatedDevice) PerformanceState() (int, error) { return 0, nil }

func (d *simulatedDevice) PCIeLink() (generation, width int, err error)    { return 5, 16, nil }
func (d *simulatedDevice) PCIeLinkMax() (generation, width int, err error) { return 5, 16, nil }
func (d *simulatedDevice) PCIeReplays() (int, error)                       { return 0, nil }

func (d *simulatedDevice) ECCErrors(bool, bool) (uint64, error) { return 0, nil }
func (d *simulatedDevice) RemappedRows() (RemappedRows, error)  { return RemappedRows{}, nil }
func (d *simulatedDevice) Fabric() (Fabric, error) {
	return Fabric{State: fabricCompleted, Healthy: true}, nil
}

// ClockEventReasons shows the power cap at the peaks of load.
func (d *simulatedDevice) ClockEventReasons() (uint64, error) {
	if d.now(wave{0, 1}) > 0.9 {
		return 0x4, nil
	}
	return 0, nil
}

func (d *simulatedDevice) Fields(fields []Field) ([]FieldResult, error) {
	results := make([]FieldResult, len(fields))
	for i, f := range fields {
		results[i] = d.field(f)
	}
	return results, nil
}

func (d *simulatedDevice) field(f Field) FieldResult {
	switch f.ID {
	case 82: // temperature of the memory
		return FieldResult{Value: float64(int(d.now(wave{66, 8})))}
	case 91: // how many NVLinks
		return FieldResult{Value: usualLinks}
	case 138, 139: // NVLink
		return FieldResult{Value: d.sum(simulatedLinkKiB())}
	case 197, 198: // PCIe
		return FieldResult{Value: d.sum(simulatedPCIeBytes())}
	case 38, 45, 52, 59, 230: // errors of NVLink, recovery
		return FieldResult{}
	case 165: // state of an NVLink
		return FieldResult{Value: 1}
	default:
		return FieldResult{Err: noSuch()}
	}
}

func (d *simulatedDevice) AddressingMode() (AddressingMode, error) { return "", noSuch() }
func (d *simulatedDevice) VirtualizationMode() (VirtualizationMode, error) {
	return VirtualizationNone, nil
}
func (d *simulatedDevice) License() (License, error) { return License{}, noSuch() }
func (d *simulatedDevice) VGPUs() ([]VGPU, error)    { return nil, noSuch() }

func (d *simulatedDevice) VGPUUtilization(uint64) ([]VGPUSample, error) { return nil, noSuch() }

func (d *simulatedDevice) MIGEnabled() (bool, error)        { return false, nil }
func (d *simulatedDevice) MIGDevices() ([]MIGDevice, error) { return nil, noSuch() }
func (d *simulatedDevice) Processes() ([]Process, error)    { return nil, noSuch() }
func (d *simulatedDevice) GPMSupported() (bool, error)      { return true, nil }
func (d *simulatedDevice) GPMSample() (GPMSample, error)    { return simulatedSample{}, nil }

func (d *simulatedDevice) ProcessUtilization(uint64) ([]ProcessSample, error) { return nil, noSuch() }

func (d *simulatedDevice) GPMMetrics(_, _ GPMSample, ids []int) (map[int]float64, error) {
	values := map[int]float64{}
	for _, id := range ids {
		if w, ok := simulatedShares()[id]; ok {
			values[id] = d.now(w)
		}
	}
	return values, nil
}

type simulatedSample struct{}

func (simulatedSample) Free() {}
