package gpu

import (
	"fmt"
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Simulated returns a library with two GPUs that do not exist, under the load of an inference server that comes and
// goes within minutes. A snapshot of it says so.
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

// simulatedDevice looks like an H100 SXM with all its links up. Its values depend on the time alone.
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

func (d *simulatedDevice) Text(question string) (string, error) {
	switch question {
	case "UUID":
		return fmt.Sprintf("GPU-simulated-%d", d.index), nil
	case "name":
		return "Simulated H100", nil
	case "PCI bus id":
		return fmt.Sprintf("00000000:%02X:00.0", 0x1B+d.index), nil
	case "compute capability":
		return "9.0", nil
	case "virtualization mode":
		return "none", nil
	case "chassis serial number":
		return "simulated", nil
	case "slot number", "tray index", "host id", "fabric clique":
		return "1", nil
	case "fabric cluster":
		return "00000000-0000-0000-0000-000000000001", nil
	case "module id":
		return fmt.Sprint(1 + d.index), nil
	}
	return "", noSuch()
}

const gibibyte = 1 << 30

// Numbers shows nearly full memory, as a server leaves it, and the power cap at the peaks of load.
func (d *simulatedDevice) Numbers(question string) ([]float64, error) {
	const total, reserved, reasonPowerCap = 80 * gibibyte, gibibyte / 2, 0x4
	used, clock := math.Floor(d.now(wave{71.5, 0.5})*gibibyte), d.now(wave{1830, -60})
	numbers := map[string][]float64{
		"minor number": {float64(d.index)}, "unit counters": {1}, "MIG mode": {0},
		"memory": {total, used, total - reserved - used, reserved}, "memory bus width": {5120},
		"utilization": {d.now(wave{92, 7}), d.now(wave{55, 20})}, "decoder utilization": {0},
		"clock graphics": {clock}, "clock sm": {clock}, "clock video": {clock}, "clock memory": {2619},
		"highest clock graphics": {1980}, "highest clock sm": {1980}, "highest clock video": {1980}, "highest clock memory": {2619},
		"clock event reasons": {reasonPowerCap * flag(d.now(wave{0, 1}) > 0.9)},
		"power":               {1000 * d.now(simulatedWatts())}, "power limit": {700_000}, "default power limit": {700_000}, "requested power limit": {700_000},
		"energy": {1000 * d.sum(simulatedWatts())}, "temperature": {d.now(wave{58, 9})}, "temperature margin": {d.now(wave{29, -9})}, "performance state": {0},
		"PCIe generation": {5}, "PCIe width": {16}, "highest PCIe generation": {5}, "highest PCIe width": {16}, "PCIe replays": {0},
		"ECC errors, corrected": {0}, "ECC errors, uncorrected": {0}, "ECC errors, corrected, lifetime": {0}, "ECC errors, uncorrected, lifetime": {0},
		"remapped rows": {0, 0, 0, 0}, "row remapper": {640, 0, 0, 0, 0}, "SRAM ECC errors": make([]float64, 12), "repair": {0, 0}, "unrepairable memory": {0},
		"fabric state": append([]float64{3, 1}, make([]float64, 13)...),
	}[question]
	for i, v := range numbers {
		numbers[i] = math.Floor(v)
	}
	if numbers == nil {
		return nil, noSuch()
	}
	return numbers, nil
}

func (d *simulatedDevice) Fields(fields []Field) ([]FieldResult, error) {
	return stats.Map(fields, d.field), nil
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
	case 38, 45, 52, 59, 77, 79, 173, 179, 180, 230: // errors of NVLink, limits of the board, errors of PCIe, recovery
		return FieldResult{}
	case 165: // state of an NVLink
		return FieldResult{Value: 1}
	default:
		return FieldResult{Err: noSuch()}
	}
}

func (d *simulatedDevice) MIGDevices() ([]MIGDevice, error)            { return nil, noSuch() }
func (d *simulatedDevice) VGPUs() ([]VGPU, error)                      { return nil, noSuch() }
func (d *simulatedDevice) Processes() ([]Process, error)               { return nil, noSuch() }
func (d *simulatedDevice) VGPUUtilization(uint64) ([]Sample, error)    { return nil, noSuch() }
func (d *simulatedDevice) ProcessUtilization(uint64) ([]Sample, error) { return nil, noSuch() }
func (d *simulatedDevice) GPMSample() (GPMSample, error)               { return simulatedSample{}, nil }

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
