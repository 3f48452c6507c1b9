package amd

import (
	"encoding/binary"
	"math"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// layout is where gpu_metrics of a version has what is read of it: offsets in bytes by
// the structures gpu_metrics_vF_C of drivers/gpu/drm/amd/include/kgd_pp_interface.h in
// Linux 6.12, with the natural alignment of C. An offset of 0 is that of the header, and
// means that the version has no such field.
type layout struct {
	size int
	// throttle is indep_throttle_status (64 bits), whose bits are those of every GPU.
	throttle int
	// residencies are counters (32 bits) that grow while a limit holds the clocks down.
	residencies []residency
	energy      int // energy_accumulator (64 bits), in 2^-16 J
	xgmiRead    int // xgmi_read_data_acc, xgmi_write_data_acc (64 bits), in KiB
	xgmiWrite   int
}

type residency struct {
	offset int
	reason string
}

// The reasons for which clocks are not higher, as those of NVIDIA are called. Temperatures
// and the signal of an overheated processor act in the firmware.
const (
	powerLimit  = "sw_power_cap"
	thermal     = "hw_thermal"
	powerBrake  = "hw_power_brake"
	xgmiLinks   = 8
	energyUnit  = 1.0 / (1 << 16)
	unknown64   = math.MaxUint64
	kibibyte    = 1024
	apuRevision = 2 // from this format_revision on it is an APU
)

// layouts are those of the versions that are read, by format_revision and content_revision.
// Versions 1.0 and 2.0 are not aligned, 1.1, 1.2 and 2.1 have a throttle_status whose bits
// differ between GPUs, and that of 1.4 and 1.5 is not documented.
func layouts() map[[2]byte]layout {
	return map[[2]byte]layout{
		{1, 3}: {size: 120, throttle: 112},
		{1, 4}: {size: 288, energy: 24, xgmiRead: 104, xgmiWrite: 168},
		{1, 5}: {size: 360, energy: 88, xgmiRead: 176, xgmiWrite: 240},
		{1, 6}: {size: 384, energy: 88, xgmiRead: 200, xgmiWrite: 264, residencies: []residency{
			{108, powerBrake}, {112, powerLimit}, {116, thermal}, {120, thermal}, {124, thermal},
		}},
		{2, 2}: {size: 128, throttle: 120},
		{2, 3}: {size: 152, throttle: 120},
		{2, 4}: {size: 168, throttle: 120},
		{3, 0}: {size: 264, residencies: []residency{
			{228, powerBrake}, {232, powerLimit}, {236, powerLimit}, {240, powerLimit}, {244, thermal}, {248, thermal}, {252, thermal},
		}},
	}
}

// metrics is a gpu_metrics file.
type metrics struct {
	data    []byte
	version [2]byte
	layout  layout // zero where the version is not read
}

// parseMetrics reads the header: structure_size, format_revision, content_revision. It is
// not ok for what is no such file.
func parseMetrics(data []byte) (metrics, bool) {
	if len(data) < 4 || len(data) < int(binary.LittleEndian.Uint16(data)) {
		return metrics{}, false
	}
	m := metrics{data: data, version: [2]byte{data[2], data[3]}}
	if l := layouts()[m.version]; len(data) >= l.size {
		m.layout = l
	}
	return m, true
}

// integrated reports whether the GPU is part of a processor and shares its memory.
func (m *metrics) integrated() bool { return m.version[0] >= apuRevision }

// u64 returns a field that the version has and the GPU knows.
func (m *metrics) u64(offset int) (uint64, bool) {
	if offset == 0 {
		return 0, false
	}
	v := binary.LittleEndian.Uint64(m.data[offset:])
	return v, v != unknown64
}

// readings returns what is read of gpu_metrics alone. before are the residencies of the
// poll before, without which it is unknown what grows; the new ones are returned.
func (m *metrics) readings(before map[int]uint32) (list []gpu.Reading, residencies map[int]uint32) {
	if v, ok := m.u64(m.layout.energy); ok {
		list = append(list, gpu.Reading{Kind: gpu.Energy, Value: float64(v) * energyUnit})
	}
	list = append(list, m.xgmi(m.layout.xgmiWrite, gpu.XGMITransmit)...)
	list = append(list, m.xgmi(m.layout.xgmiRead, gpu.XGMIReceive)...)
	if mask, ok := m.u64(m.layout.throttle); ok {
		for _, reason := range []string{powerLimit, gpu.CurrentLimit, thermal, powerBrake} {
			list = append(list, throttled(reason, mask&throttleBits(reason) != 0))
		}
	}
	residencies = map[int]uint32{}
	grew := map[string]bool{}
	for _, r := range m.layout.residencies {
		v := binary.LittleEndian.Uint32(m.data[r.offset:])
		if old, known := before[r.offset]; known {
			grew[r.reason] = grew[r.reason] || v != old
		}
		residencies[r.offset] = v
	}
	for reason, active := range grew {
		list = append(list, throttled(reason, active))
	}
	return list, residencies
}

// xgmi returns the sum over the links. A GPU without links has none that counts.
func (m *metrics) xgmi(offset int, kind gpu.Kind) []gpu.Reading {
	sum, found := 0.0, false
	for link := range xgmiLinks {
		if offset == 0 {
			return nil
		}
		if v, ok := m.u64(offset + 8*link); ok {
			sum, found = sum+float64(v)*kibibyte, true
		}
	}
	if !found {
		return nil
	}
	return []gpu.Reading{{Kind: kind, Value: sum}}
}

// throttled returns whether a reason keeps the clocks down.
func throttled(reason string, active bool) gpu.Reading {
	r := gpu.Reading{Kind: gpu.ClockEventActive, Label: reason}
	if active {
		r.Value = 1
	}
	return r
}

// throttleBits are the bits of indep_throttle_status, by SMU_THROTTLER_*_BIT of
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h: power from bit 0 on, currents from 16,
// temperatures from 32 to 45, and PROCHOT, the signal of an overheated processor or power
// supply, 46 and 47.
func throttleBits(reason string) uint64 {
	switch reason {
	case powerLimit:
		return 0xff
	case gpu.CurrentLimit:
		return 0xff << 16
	case thermal:
		return 0x3fff << 32
	case powerBrake:
		return 3 << 46
	}
	return 0
}
