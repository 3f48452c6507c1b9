package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// layout is where gpu_metrics of a version has what is read of it, as amd.yml describes. An offset of 0 is that of the
// header, and means that the version has no such field.
type layout struct {
	Size, Throttle, Energy int
	XGMIRead               int `yaml:"xgmi_read"`
	XGMIWrite              int `yaml:"xgmi_write"`
	Residencies            map[string][]int
}

const (
	xgmiLinks   = 8
	energyUnit  = 1.0 / (1 << 16)
	apuRevision = 2 // from this format_revision on it is an APU
)

// metrics is a gpu_metrics file.
type metrics struct {
	data   []byte
	format byte   // format_revision
	layout layout // zero where the version is not read
}

// parseMetrics reads the header: structure_size, format_revision, content_revision. It is not ok for what is no such
// file.
func parseMetrics(data []byte) (metrics, bool) {
	if len(data) < 4 || len(data) < int(binary.LittleEndian.Uint16(data)) {
		return metrics{}, false
	}
	m := metrics{data: data, format: data[2]}
	if l := amd().Layouts[fmt.Sprintf("%d.%d", data[2], data[3])]; len(data) >= l.Size {
		m.layout = l
	}
	return m, true
}

// integrated reports whether the GPU is part of a processor and shares its memory.
func (m *metrics) integrated() bool { return m.format >= apuRevision }

// u64 returns a field that the version has and the GPU knows.
func (m *metrics) u64(offset int) (uint64, bool) {
	if offset == 0 {
		return 0, false
	}
	v := binary.LittleEndian.Uint64(m.data[offset:])
	return v, v != math.MaxUint64
}

// readings returns what is read of gpu_metrics alone. before are the residencies of the poll before, without which it
// is unknown what grows; the new ones are returned.
func (m *metrics) readings(before map[int]uint32) (list []Reading, residencies map[int]uint32) {
	if v, ok := m.u64(m.layout.Energy); ok {
		list = append(list, Reading{Kind: Energy, Value: float64(v) * energyUnit})
	}
	list = append(list, m.xgmi(m.layout.XGMIWrite, XGMITransmit)...)
	list = append(list, m.xgmi(m.layout.XGMIRead, XGMIReceive)...)
	active := map[string]bool{} // by reason, whether it keeps the clocks down
	if mask, ok := m.u64(m.layout.Throttle); ok {
		for reason, bits := range throttleBits() {
			active[reason] = mask&bits != 0
		}
	}
	residencies = map[int]uint32{}
	for reason, offsets := range m.layout.Residencies {
		for _, offset := range offsets {
			v := binary.LittleEndian.Uint32(m.data[offset:])
			if old, known := before[offset]; known {
				active[reason] = active[reason] || v != old
			}
			residencies[offset] = v
		}
	}
	for reason, is := range active {
		list = append(list, Reading{ClockEventActive, reason, flag(is)})
	}
	return list, residencies
}

// xgmi returns the sum over the links. A GPU without links has none that counts.
func (m *metrics) xgmi(offset int, kind Kind) []Reading {
	sum, found := 0.0, false
	for link := range xgmiLinks {
		if offset == 0 {
			return nil
		}
		if v, ok := m.u64(offset + 8*link); ok {
			sum, found = sum+float64(v)*1024, true
		}
	}
	if !found {
		return nil
	}
	return []Reading{{Kind: kind, Value: sum}}
}

// throttleBits are the bits of indep_throttle_status, by SMU_THROTTLER_*_BIT of
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h: power from bit 0 on, currents from 16, temperatures from 32 to 45, and
// PROCHOT, the signal of an overheated processor or power supply, 46 and 47.
func throttleBits() map[string]uint64 {
	return map[string]uint64{"sw_power_cap": 0xff, "current_limit": 0xff << 16, "hw_thermal": 0x3fff << 32, "hw_power_brake": 3 << 46}
}

// maxFile bounds a file of sysfs: one page of memory, of which gpu_metrics is a part.
const maxFile = 4096

// readFile reads a file of sysfs by one system call. os.ReadFile waits without end for drivers that answer EAGAIN, as
// files of sysfs can be polled.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	_ = f.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) // a file that cannot be polled has no EAGAIN either
	data := make([]byte, maxFile)
	n, err := f.Read(data)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return data[:n], nil
}

// directory reads the files of one directory of sysfs and keeps why one could not be read.
type directory struct {
	path string
	// asking is called before a file is read, which may hang.
	asking func(name string)
	// failed are the errors of files that exist, by name. A driver that resets the GPU or lets it sleep refuses to
	// answer for a while.
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

// fileCode returns the code of why a file was not read.
func fileCode(err error) Code {
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded):
		return CodeNoData // the GPU is reset, or sleeps
	case errors.Is(err, fs.ErrPermission):
		return CodeNoPermission
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENXIO):
		return CodeLost
	case errors.Is(err, syscall.ETIMEDOUT):
		return CodeTimeout
	}
	return CodeUnknown
}
