package amd

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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
	active := map[string]bool{} // by reason, whether it keeps the clocks down
	if mask, ok := m.u64(m.layout.throttle); ok {
		for reason, bits := range throttleBits() {
			active[reason] = mask&bits != 0
		}
	}
	residencies = map[int]uint32{}
	for _, r := range m.layout.residencies {
		v := binary.LittleEndian.Uint32(m.data[r.offset:])
		if old, known := before[r.offset]; known {
			active[r.reason] = active[r.reason] || v != old
		}
		residencies[r.offset] = v
	}
	for reason, is := range active {
		r := gpu.Reading{Kind: gpu.ClockEventActive, Label: reason}
		if is {
			r.Value = 1
		}
		list = append(list, r)
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

// throttleBits are the bits of indep_throttle_status, by SMU_THROTTLER_*_BIT of
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h: power from bit 0 on, currents from 16,
// temperatures from 32 to 45, and PROCHOT, the signal of an overheated processor or power
// supply, 46 and 47.
func throttleBits() map[string]uint64 {
	return map[string]uint64{powerLimit: 0xff, gpu.CurrentLimit: 0xff << 16, thermal: 0x3fff << 32, powerBrake: 3 << 46}
}

// maxFile bounds a file of sysfs: one page of memory, of which gpu_metrics is a part.
const maxFile = 4096

// directory reads the files of one directory of sysfs and keeps why one could not be read.
type directory struct {
	path string
	// asking is called before a file is read, which may hang.
	asking func(name string)
	// failed are the errors of files that exist, by name. A driver that resets the GPU or
	// lets it sleep refuses to answer for a while.
	failed map[string]error
	read   int // how many files were read
}

// bytes returns the content of a file; nil if there is none, or it has no answer.
func (d *directory) bytes(name string) []byte {
	d.asking(name)
	data, err := readFile(filepath.Join(d.path, name))
	switch {
	case err == nil:
		d.read++
		return data
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EINVAL):
	default:
		d.failed[name] = err
	}
	return nil
}

// text returns the content of a file on one line, without spaces around it.
func (d *directory) text(name string) string {
	return strings.TrimSpace(strings.TrimRight(string(d.bytes(name)), "\x00"))
}

// number returns a decimal number. It is not ok where there is none.
func (d *directory) number(name string) (float64, bool) {
	v, err := strconv.ParseUint(d.text(name), 10, 64)
	return float64(v), err == nil
}

// names returns what a pattern matches in the directory, without its path.
func (d *directory) names(pattern string) []string {
	matches, _ := filepath.Glob(filepath.Join(d.path, pattern)) // the pattern is well-formed
	for i, m := range matches {
		matches[i], _ = filepath.Rel(d.path, m)
	}
	return matches
}

// link returns the last part of what a symbolic link points to; "" if there is none.
func link(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// codeOf returns the code of why a file was not read.
func codeOf(err error) gpu.Code {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EAGAIN):
		return gpu.CodeNoData // the GPU is reset, or sleeps
	case errors.Is(err, fs.ErrPermission):
		return gpu.CodeNoPermission
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENXIO):
		return gpu.CodeLost
	case errors.Is(err, syscall.ETIMEDOUT):
		return gpu.CodeTimeout
	}
	return gpu.CodeUnknown
}
