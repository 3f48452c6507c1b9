package gpu

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// has reports whether a device has a reading of a kind.
func has(d DeviceSnapshot, kind Kind) bool {
	return slices.ContainsFunc(d.Readings, func(r Reading) bool { return r.Kind == kind })
}

// A question is asked again or not, and logged or not, by why it failed.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		code  Code
		asked int // in three polls
		lines int // of the log
	}{
		{CodeNotSupported, 1, 0},
		{CodeFunctionNotFound, 1, 0},
		{CodeNoPermission, 1, 1},
		{CodeNotFound, 3, 0},
		{CodeNoData, 3, 0},
		{CodeTimeout, 3, 1},
		{CodeOperatingSystem, 3, 1},
		{CodeUnknown, 3, 1},
	} {
		t.Run(string(test.code), func(t *testing.T) {
			device := rtx4090("GPU-0")
			device.fail = map[string]error{"power": failed(test.code)}
			var log testLog
			library := newFake(device)
			s := newTestSession(t, library, Options{})
			s.settings.log.log = slog.New(slog.NewTextHandler(&log, nil))
			for range 3 {
				d := s.must(t).Devices[0]
				if !d.Up || has(d, Power) || !has(d, PowerLimit) {
					t.Errorf("want all but the power, got %v", d)
				}
			}
			if got := library.called("power"); got != test.asked {
				t.Errorf("asked %d times, want %d", got, test.asked)
			}
			if got := strings.Count(log.String(), "\n"); got != test.lines {
				t.Errorf("%d lines of log, want %d:\n%s", got, test.lines, &log)
			}
		})
	}
}

// A field that a device does not have is not asked for again; those that do
// not go with MIG are not asked for at all while it is on.
func TestFieldsAsked(t *testing.T) {
	device := h100("GPU-0")
	s := newTestSession(t, newFake(device), Options{})
	delete(device.fields, Field{82, 0})
	s.must(t)
	if !slices.Contains(device.asked, Field{82, 0}) || len(device.asked) != 39 {
		t.Errorf("the first poll asked for %d fields: %v", len(device.asked), device.asked)
	}
	s.must(t) // this one tries what the links of NVLink 5 count
	s.must(t)
	if slices.Contains(device.asked, Field{82, 0}) || len(device.asked) != 32 {
		t.Errorf("the third poll asked for %d fields: %v", len(device.asked), device.asked)
	}
	device.numbers["MIG mode"] = []float64{1}
	s.must(t)
	want := []Field{{297, 0}, {74, 0}, {76, 0}, {269, 0}, {270, 0}, {271, 0}, {77, 0}, {79, 0}, {185, 2}, {185, 1}, {190, 1}, {82, 0}, {197, 0}, {198, 0}, {230, 0}}
	if diff := cmp.Diff(want, device.asked); diff != "" {
		t.Errorf("fields under MIG (-want +got):\n%s", diff)
	}
}

// The log names a field by its reading, as its number alone means nothing to a reader.
func TestFieldInWords(t *testing.T) {
	device := h100("GPU-0")
	device.fieldFaults = map[Field]error{}
	for link := range uint32(18) {
		device.fieldFaults[Field{165, link}] = failed(CodeNoPermission)
	}
	var log testLog
	s := newTestSession(t, newFake(device), Options{})
	s.settings.log.log = slog.New(slog.NewTextHandler(&log, nil))
	s.must(t)
	s.must(t)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "reading=nvlink_up") {
		t.Errorf("want one line:\n%s", text)
	}
}

func TestQuestionsUnderMIG(t *testing.T) {
	device := h100("GPU-0")
	device.numbers["MIG mode"] = []float64{1}
	library := newFake(device)
	s := newTestSession(t, library, Options{Processes: true})
	s.must(t)
	for _, call := range []string{"utilization", "encoder utilization", "decoder utilization", "remapped rows", "row remapper", "ProcessUtilization", "Processes", "GPMSample"} {
		if n := library.called(call); n != 0 {
			t.Errorf("%s was asked under MIG", call)
		}
	}
	device.numbers["MIG mode"] = []float64{0}
	if d := s.must(t).Devices[0]; !has(d, Utilization) || !has(d, "remapped_rows") {
		t.Error("no utilisation after MIG was turned off")
	}
}

func TestNotANumber(t *testing.T) {
	device := h100("GPU-0")
	device.fields[Field{82, 0}] = math.NaN()
	device.fields[Field{197, 0}] = math.Inf(1)
	s := newTestSession(t, newFake(device), Options{})
	for _, r := range s.must(t).Devices[0].Readings {
		if math.IsNaN(r.Value) || math.IsInf(r.Value, 0) {
			t.Errorf("%v", r)
		}
	}
}

func TestIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := h100("GPU-0")
		library := newFake(device)
		s := newTestSession(t, library, Options{})
		d := s.must(t).Devices[0]
		d.Readings = nil
		want := DeviceSnapshot{
			Vendor: NVIDIA, UUID: "GPU-0", Up: true, Name: "NVIDIA H100 80GB HBM3",
			PCIBusID: "00000000:19:00.0", ComputeCapability: "9.0",
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("identity (-want +got):\n%s", diff)
		}
		for range 59 { // 5 s each
			time.Sleep(5 * time.Second)
			s.must(t)
		}
		if n := library.called("name"); n != 1 {
			t.Errorf("the name was asked for %d times within 5 minutes", n)
		}
		library.set(func() { library.fail["name"] = failed(CodeUnknown) })
		time.Sleep(5 * time.Second)
		if d := s.must(t).Devices[0]; library.called("name") != 2 || d.Name != "NVIDIA H100 80GB HBM3" {
			t.Errorf("asked for %d times, %q", library.called("name"), d.Name)
		}
	})
}

// What is not known of a device has no value.
func TestBareDevice(t *testing.T) {
	s := newTestSession(t, newFake(&fakeDevice{texts: map[string]string{"UUID": "GPU-0"}}), Options{})
	s.library.fail["Fields"] = failed(CodeNotSupported)
	want := []DeviceSnapshot{{Vendor: NVIDIA, UUID: "GPU-0", Up: true, Minor: -1}}
	if diff := cmp.Diff(want, s.must(t).Devices); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
}

func TestFansAreBounded(t *testing.T) {
	device := rtx4090("GPU-0")
	device.numbers["fans"] = make([]float64, 1000)
	s := newTestSession(t, newFake(device), Options{})
	n := 0
	for _, r := range s.must(t).Devices[0].Readings {
		if r.Kind == FanSpeed {
			n++
		}
	}
	if n != 16 {
		t.Errorf("%d fans", n)
	}
}

func TestProcesses(t *testing.T) {
	const id = "4f3c1a0b2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8"
	proc := t.TempDir()
	writeProcess(t, proc, "41", "vllm\n", "0::/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-"+id+".scope\n")
	writeProcess(t, proc, "42", "bad\xffname\n", "0::/user.slice\n")
	device := rtx4090("GPU-0")
	device.processes = []Process{
		{PID: 40, MemoryUsed: unknown},
		{PID: 42, MemoryUsed: 100},
		{PID: 41, MemoryUsed: 7000},
		{PID: 42, MemoryUsed: 10},
	}
	device.samples = []Sample{
		{ID: 41, Timestamp: 2000, SM: 75}, {ID: 41, Timestamp: 1000, SM: 5}, {ID: 42, Timestamp: 3000}, {ID: 99, Timestamp: 2500, SM: 1},
	}
	s := newTestSession(t, newFake(device), Options{Processes: true})
	s.settings.proc = proc
	want := []ProcessReading{
		{PID: 41, Name: "vllm", Container: id, PodUID: "11111111-2222-3333-4444-555555555555", MemoryUsed: 7000, SMUtilization: 0.75},
		{PID: 42, Name: "bad\xffname", MemoryUsed: 110, SMUtilization: 0},
		{PID: 40, MemoryUsed: -1, SMUtilization: -1},
	}
	if diff := cmp.Diff(want, s.must(t).Devices[0].Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	device.samples, device.fail = nil, map[string]error{"ProcessUtilization": failed(CodeNotFound)}
	for _, p := range s.must(t).Devices[0].Processes {
		if p.SMUtilization != -1 {
			t.Errorf("%v has no new sample", p)
		}
	}
	if diff := cmp.Diff([]uint64{0, 3000}, device.since); diff != "" {
		t.Errorf("asked for samples since (-want +got):\n%s", diff)
	}
}

func writeProcess(t *testing.T, proc, pid, comm, cgroup string) {
	t.Helper()
	dir := filepath.Join(proc, pid)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"comm": comm, "cgroup": cgroup} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProcessesAreBounded(t *testing.T) {
	device := rtx4090("GPU-0")
	for pid := range 1000 {
		device.processes = append(device.processes, Process{PID: 100000 + pid, MemoryUsed: float64(pid)})
	}
	s := newTestSession(t, newFake(device), Options{Processes: true})
	s.settings.proc = t.TempDir()
	list := s.must(t).Devices[0].Processes
	if len(list) != 128 || list[0].MemoryUsed != 999 {
		t.Errorf("%d processes, the first has %v", len(list), list[0])
	}
}

// Processes are asked for only when wanted.
func TestNoProcesses(t *testing.T) {
	library := newFake(rtx4090("GPU-0"))
	s := newTestSession(t, library, Options{})
	s.must(t)
	if n := library.called("Processes") + library.called("ProcessUtilization"); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// splitH100 has one MIG device for each name, each a GPU instance of its own.
func splitH100(uuids ...string) *fakeDevice {
	d := h100("GPU-0")
	d.numbers["MIG mode"] = []float64{1}
	for i, uuid := range uuids {
		d.parts = append(d.parts, MIGDevice{GPUInstance: i, Device: &fakeDevice{
			texts:   map[string]string{"UUID": uuid, "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"},
			numbers: map[string][]float64{"memory": {1, 0, 0}}, gpm: shares,
		}})
	}
	return d
}

// MIG devices come and go; the samples of removed ones are freed, and a new one
// in the same place starts again.
func TestPartsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := splitH100("MIG-a", "MIG-b")
		library := newFake(device)
		s := newTestSession(t, library, Options{})
		device.numbers["MIG mode"] = []float64{0}
		s.must(t)
		device.numbers["MIG mode"] = []float64{1}
		s.must(t)
		if library.samples != 2 {
			t.Errorf("%d samples are kept for two parts and no whole", library.samples)
		}
		time.Sleep(5 * time.Second)
		for _, m := range s.must(t).Devices[0].MIG {
			if got, ok := tensor(m.Readings); !ok || got != 0.05 {
				t.Errorf("%s: %v, %v", m.UUID, got, ok)
			}
		}
		library.set(func() { device.parts = splitH100("MIG-c", "MIG-b").parts })
		time.Sleep(5 * time.Second)
		parts := s.must(t).Devices[0].MIG
		if _, ok := tensor(parts[0].Readings); ok || parts[0].UUID != "MIG-c" {
			t.Errorf("a new part has a share: %v", parts[0])
		}
		if _, ok := tensor(parts[1].Readings); !ok {
			t.Errorf("an old part lost its share: %v", parts[1])
		}
		if library.samples != 2 {
			t.Errorf("%d samples are kept for two parts", library.samples)
		}
		library.set(func() { device.numbers["MIG mode"] = []float64{0} })
		time.Sleep(5 * time.Second)
		if d := s.must(t).Devices[0]; d.MIG != nil || library.samples != 1 {
			t.Errorf("without MIG: %v, %d samples", d.MIG, library.samples)
		}
	})
}

// A MIG device that went while it was looked at is left out; the others stay.
func TestPartGoes(t *testing.T) {
	device := splitH100("MIG-a", "MIG-b", "MIG-c")
	for i, call := range []string{"UUID", "memory"} {
		device.parts[i].Device.(*fakeDevice).fail = map[string]error{call: failed(CodeNotFound)}
	}
	s := newTestSession(t, newFake(device), Options{})
	parts := s.must(t).Devices[0].MIG
	if len(parts) != 2 || parts[0].UUID != "MIG-b" || len(parts[0].Readings) != 0 || len(parts[1].Readings) != 3 {
		t.Errorf("%v", parts)
	}
}

func TestPartsAreBounded(t *testing.T) {
	var uuids []string
	for i := range 1000 {
		uuids = append(uuids, fmt.Sprint("MIG-", i))
	}
	s := newTestSession(t, newFake(splitH100(uuids...)), Options{})
	if n := len(s.must(t).Devices[0].MIG); n != 64 {
		t.Errorf("%d parts", n)
	}
}

// The memory of a GPU instance is asked for once in a poll, also when it is
// not to be had.
func TestFailedPartIsAskedOnce(t *testing.T) {
	device := a100("GPU-0")
	library := newFake(device)
	for _, p := range device.parts {
		p.Device.(*fakeDevice).fail = map[string]error{"memory": failed(CodeUnknown)}
	}
	s := newTestSession(t, library, Options{})
	s.must(t)
	if n := library.called("memory"); n != 3 { // the GPU and its two GPU instances
		t.Errorf("asked %d times", n)
	}
}

func TestPartBandwidth(t *testing.T) {
	device := splitH100("MIG-a", "MIG-b")
	s := newTestSession(t, newFake(device), Options{})
	s.poller.SetBandwidth(map[string]float64{"MIG-b": 5e11, "GPU-0": 3e12})
	d := s.must(t).Devices[0]
	if got := showReadings("", d.Readings)[4]; got != "memory_bandwidth_bytes_per_second{config} 3000000000000" {
		t.Errorf("GPU: %s", got)
	}
	if has(DeviceSnapshot{Readings: d.MIG[0].Readings}, MemoryBandwidth) {
		t.Error("a part has a bandwidth that nobody gave")
	}
	if got := showReadings("", d.MIG[1].Readings)[3]; got != "memory_bandwidth_bytes_per_second{config} 500000000000" {
		t.Errorf("part: %s", got)
	}
	s.settings.poller.bandwidth.Store(&map[string]float64{"GPU-0": 2e12})
	d = s.must(t).Devices[0]
	if got := showReadings("", d.Readings)[4]; got != "memory_bandwidth_bytes_per_second{config} 2000000000000" {
		t.Errorf("GPU, configured again: %s", got)
	}
	if has(DeviceSnapshot{Readings: d.MIG[1].Readings}, MemoryBandwidth) {
		t.Error("a part has a bandwidth that is no longer configured")
	}
}
