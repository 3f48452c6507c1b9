//go:build linux && cgo

package collector

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
)

// rawField reads a value of the driver by its number, through the binding and nothing of package gpu.
func rawField(d nvml.Device, id int, scope uint32) (float64, bool) {
	values := []nvml.FieldValue{{FieldId: uint32(id), ScopeId: scope}}
	if r := d.GetFieldValues(values); r != nvml.SUCCESS || values[0].NvmlReturn != uint32(nvml.SUCCESS) {
		return 0, false
	}
	bits := binary.NativeEndian.Uint64(values[0].Value[:])
	switch nvml.ValueType(values[0].ValueType) {
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(bits), true
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(uint32(bits)), true
	case nvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(bits)), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(uint16(bits)), true
	case nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(bits)), true
	default:
		return float64(bits), true
	}
}

// rawReading is a value of the driver in the unit of a reading.
type rawReading struct {
	kind  gpu.Kind
	label string
	value float64
}

// rawReadings reads through the binding what readings.yml reads: fields that one number has, and the questions below.
func rawReadings(d nvml.Device) (all []rawReading) {
	add := func(kind gpu.Kind, label string, value float64) { all = append(all, rawReading{kind, label, value}) }
	mode, _, r := d.GetMigMode()
	split := r == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
	for _, i := range gpu.Readings() {
		for _, source := range i.NVML {
			if source.Field == 0 || source.Links != "" || source.BitErrorRatio || source.Positive || source.Slow || source.Unsplit && split {
				continue
			}
			if v, ok := rawField(d, source.Field, source.Scope); ok {
				add(i.Kind, source.As, v*source.Times/source.Per)
			}
		}
	}
	if m, r := d.GetMemoryInfo_v2(); r == nvml.SUCCESS {
		add(gpu.MemoryTotal, "", float64(m.Total))
		add(gpu.MemoryUsed, "", float64(m.Used))
		add(gpu.MemoryFree, "", float64(m.Free))
		add(gpu.MemoryReserved, "", float64(m.Reserved))
	}
	for _, ask := range []struct {
		kind  gpu.Kind
		label string
		unit  float64
		call  func() (uint32, nvml.Return)
	}{
		{gpu.Power, "", 1e-3, d.GetPowerUsage},
		{gpu.PowerLimit, "", 1e-3, d.GetEnforcedPowerLimit},
		{gpu.Temperature, "gpu", 1, func() (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }},
		{gpu.Clock, "sm", 1e6, func() (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_SM) }},
		{gpu.Clock, "memory", 1e6, func() (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_MEM) }},
		{gpu.ClockMax, "sm", 1e6, func() (uint32, nvml.Return) { return d.GetMaxClockInfo(nvml.CLOCK_SM) }},
		{gpu.ClockMax, "memory", 1e6, func() (uint32, nvml.Return) { return d.GetMaxClockInfo(nvml.CLOCK_MEM) }},
		{gpu.Utilization, "", 1e-2, func() (uint32, nvml.Return) { u, r := d.GetUtilizationRates(); return u.Gpu, r }},
	} {
		if v, r := ask.call(); r == nvml.SUCCESS {
			add(ask.kind, ask.label, float64(v)*ask.unit)
		}
	}
	for _, ask := range []struct {
		kind gpu.Kind
		call func() (int, nvml.Return)
	}{
		{gpu.PCIeLinkGeneration, d.GetCurrPcieLinkGeneration},
		{gpu.PCIeLinkWidth, d.GetCurrPcieLinkWidth},
		{gpu.PCIeLinkGenerationMax, d.GetMaxPcieLinkGeneration},
		{gpu.PCIeLinkWidthMax, d.GetMaxPcieLinkWidth},
	} {
		if v, r := ask.call(); r == nvml.SUCCESS {
			add(ask.kind, "", float64(v))
		}
	}
	for label, kind := range map[string]nvml.MemoryErrorType{"corrected": nvml.MEMORY_ERROR_TYPE_CORRECTED, "uncorrected": nvml.MEMORY_ERROR_TYPE_UNCORRECTED} {
		if v, r := d.GetTotalEccErrors(kind, nvml.VOLATILE_ECC); r == nvml.SUCCESS {
			add(gpu.ECCErrors, label, float64(v))
		}
	}
	return all
}

// changing are the kinds that change while one looks, with the share by which.
func changing(kind gpu.Kind) float64 {
	switch {
	case kind == gpu.MemoryUsed, kind == gpu.MemoryFree:
		return 0.01
	case kind == gpu.Power, kind == gpu.Utilization, kind == gpu.Clock, strings.Contains(string(kind), "power_watts"):
		return 0.25
	case strings.Contains(string(kind), "temperature"):
		return 0.1
	}
	return 0
}

// compareRaw compares the readings of a GPU with what the binding read before and after them. It returns what differs, and
// the kinds that it compared. Of two sources for one reading, either may be the one.
func compareRaw(readings []gpu.Reading, before, after []rawReading) (differs []string, compared map[gpu.Kind]bool) {
	compared = map[gpu.Kind]bool{}
	for _, r := range readings {
		is := func(raw rawReading) bool { return raw.kind == r.Kind && raw.label == r.Label }
		low, high := math.Inf(1), math.Inf(-1)
		for _, raw := range append(slices.Clone(before), after...) {
			if is(raw) {
				low, high = min(low, raw.value), max(high, raw.value)
			}
		}
		if math.IsInf(low, 0) {
			continue
		}
		compared[r.Kind] = true
		slack := changing(r.Kind) * high
		if !(low-slack <= r.Value && r.Value <= high+slack) {
			differs = append(differs, fmt.Sprintf("%s{%s} is %g, the binding read %g to %g", r.Kind, r.Label, r.Value, low, high))
		}
	}
	for _, raw := range after {
		if !slices.ContainsFunc(readings, func(r gpu.Reading) bool { return r.Kind == raw.kind && r.Label == raw.label }) {
			differs = append(differs, fmt.Sprintf("%s{%s} is missing, the binding read %g", raw.kind, raw.label, raw.value))
		}
	}
	return differs, compared
}

// realCard is a run of the checks on a card.
type realCard struct {
	t         *testing.T
	out       string
	poller    *gpu.Poller
	device    nvml.Device
	uuid      string
	shown     map[string]bool // families
	checked   map[string]bool // families that were compared
	unchecked []string        // what could not be
	metrics   strings.Builder
	rows      [][]string
	moved     strings.Builder
}

func (c *realCard) could(format string, args ...any) {
	c.unchecked = append(c.unchecked, fmt.Sprintf(format, args...))
}

// page returns what the exporter shows of the card, and keeps it under a state.
func (c *realCard) page(state string) map[string]string {
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots { return gpu.Snapshots{c.poller.Snapshot()} }))
	var text bytes.Buffer
	if err := NewExposition(reg).Write(&text, expfmt.FmtText); err != nil {
		c.t.Fatal(err)
	}
	page := map[string]string{}
	fmt.Fprintf(&c.metrics, "# %s\n", state)
	for line := range strings.Lines(text.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") || !strings.Contains(line, c.uuid) {
			continue
		}
		series, value := ownSeries(line)
		page[series] = value
		name, _, _ := strings.Cut(series, "{")
		c.shown[name] = true
		fmt.Fprintln(&c.metrics, strings.ReplaceAll(strings.ReplaceAll(line, c.uuid, "GPU-00000000-0000-0000-0000-000000000001"), `host="",`, ""))
	}
	return page
}

// badColumn is how nvidia-smi refuses a column that its release does not have.
var badColumn = regexp.MustCompile(`Field "([^"]+)" is not a valid field`)

// smi asks nvidia-smi for all columns that it has.
func (c *realCard) smi(state string) map[string]string {
	columns := []string{"timestamp", "name", "driver_version"}
	for _, comparison := range cardComparisons() {
		columns = append(columns, comparison.column)
	}
	slices.Sort(columns)
	for columns = slices.Compact(columns); len(columns) > 0; {
		text, err := exec.CommandContext(c.t.Context(), "nvidia-smi", "-i", c.uuid, "--format=csv", "--query-gpu="+strings.Join(columns, ",")).CombinedOutput()
		if bad := badColumn.FindSubmatch(text); bad != nil && slices.Contains(columns, string(bad[1])) {
			columns = slices.DeleteFunc(columns, func(column string) bool { return column == string(bad[1]) })
			continue
		}
		r := csv.NewReader(bytes.NewReader(text))
		r.TrimLeadingSpace = true
		rows, parseErr := r.ReadAll()
		if err != nil || parseErr != nil || len(rows) != 2 {
			c.could("nvidia-smi: %v, %v: %.200s", err, parseErr, text)
			return nil
		}
		if c.rows == nil {
			c.rows = append(c.rows, append([]string{"state"}, rows[0]...))
		}
		c.rows = append(c.rows, append([]string{state}, rows[1]...))
		return smiRow(rows[0], rows[1])
	}
	return nil
}

// look waits for two polls and compares what they show in a state.
func (c *realCard) look(state string, moved func() float64) {
	time.Sleep(12 * time.Second)
	before := rawReadings(c.device)
	polled := c.poller.Snapshot().At
	for waited := 0; c.poller.Snapshot().At.Equal(polled); waited++ {
		if waited > 300 {
			c.t.Fatal("the poller no longer polls")
		}
		time.Sleep(50 * time.Millisecond)
	}
	row, page := c.smi(state), c.page(state)
	snapshot := c.poller.Snapshot()
	for _, d := range snapshot.Devices {
		if d.UUID == c.uuid {
			differs, compared := compareRaw(d.Readings, before, rawReadings(c.device))
			c.failed(state, differs)
			for kind := range compared {
				c.checked["inference_gpu_"+string(kind)] = true
			}
		}
	}
	differs, compared := compareCard(page, row)
	c.failed(state, differs)
	for _, comparison := range cardComparisons() {
		if slices.Contains(compared, comparison.column) {
			name, _, _ := strings.Cut(comparison.series, "{")
			c.checked["inference_gpu_"+name] = true
		}
	}
	if bytesPerSecond := moved(); bytesPerSecond > 0 {
		if page["inference_gpu_dram_bandwidth_utilization_ratio"] == "" {
			c.could("the bandwidth in use: the card has no unit counters, or refuses them")
		} else if d := compareMoved(page, bytesPerSecond); d != "" {
			c.failed(state, []string{d})
		}
		c.checked["inference_gpu_dram_bandwidth_utilization_ratio"] = true
		fmt.Fprintf(&c.moved, "%s %g\n", state, bytesPerSecond)
	}
	c.t.Logf("%s: polled in %s, %d columns of nvidia-smi compared", state, snapshot.Duration.Round(time.Millisecond), len(compared))
}

func (c *realCard) failed(state string, differs []string) {
	for _, d := range differs {
		c.t.Errorf("%s: %s", state, d)
	}
}

// loader returns the command that loads the card, nil where there is neither PyTorch nor nvcc.
func (c *realCard) loader() []string {
	dir := filepath.Join("testdata", "load")
	if exec.CommandContext(c.t.Context(), "python3", "-c", "import torch; torch.cuda.mem_get_info()").Run() == nil {
		return []string{"python3", filepath.Join(dir, "load.py")}
	}
	program := filepath.Join(c.t.TempDir(), "load")
	if out, err := exec.CommandContext(c.t.Context(), "nvcc", "-O2", "-o", program, filepath.Join(dir, "load.cu")).CombinedOutput(); err != nil {
		c.could("load: neither PyTorch with CUDA nor nvcc: %v %.200s", err, out)
		return nil
	}
	return []string{program}
}

// under looks at the card while it is loaded.
func (c *realCard) under(loader []string, state string) {
	const seconds = 30
	cmd := exec.CommandContext(c.t.Context(), loader[0], append(slices.Clone(loader[1:]), state, strconv.Itoa(seconds))...)
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES="+c.uuid)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.could("%s: %v", state, err)
		return
	}
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); err != nil || line != "running\n" {
		c.could("the load %s: %q, %v, %v", state, line, err, cmd.Wait())
		return
	}
	c.look(state, func() (moved float64) {
		text, _ := io.ReadAll(out)
		_, _ = fmt.Sscanf(string(text), "moved %g", &moved)
		if err := cmd.Wait(); err != nil {
			c.could("the load %s: %v", state, err)
		}
		return moved
	})
}

// parts compares the MIG devices with those that nvidia-smi lists.
func (c *realCard) parts() {
	for _, d := range c.poller.Snapshot().Devices {
		if d.UUID != c.uuid {
			continue
		}
		if len(d.MIG) == 0 {
			c.could("MIG: it is off, or has no device; switching it needs root and a card that nothing uses")
			return
		}
		text, err := exec.CommandContext(c.t.Context(), "nvidia-smi", "-L").Output()
		if err != nil {
			c.could("MIG: nvidia-smi -L: %v", err)
			return
		}
		for _, m := range d.MIG {
			if !strings.Contains(string(text), m.UUID) {
				c.t.Errorf("nvidia-smi -L does not list %s", m.UUID)
			}
		}
	}
}

// write leaves the record and the report.
func (c *realCard) write() {
	for name := range c.shown {
		if !c.checked[name] {
			c.could("%s: shown, and compared with nothing", name)
		}
	}
	for _, f := range Catalogue() {
		if f.Group == GroupGPU && !c.shown[f.Name] && strings.HasPrefix(f.Name, "inference_gpu_") && slices.Contains(f.Labels, "uuid") {
			c.could("%s: the card does not have it", f.Name)
		}
	}
	c.could("the watchdog: a driver that hangs is tested with the fake library alone (TestStuck in gpu)")
	c.could("XIDs: none was caused")
	slices.Sort(c.unchecked)
	var table bytes.Buffer
	w := csv.NewWriter(&table)
	if err := w.WriteAll(c.rows); err != nil {
		c.t.Error(err)
	}
	var report strings.Builder
	fmt.Fprintf(&report, "compared: %d families\nnot checked:\n  %s\n", len(c.checked), strings.Join(c.unchecked, "\n  "))
	c.t.Log(report.String())
	for name, text := range map[string]string{"metrics.txt": c.metrics.String(), "nvidia-smi.csv": table.String(), "moved.txt": c.moved.String(), "report.txt": report.String()} {
		if err := os.WriteFile(filepath.Join(c.out, name), []byte(text), 0o644); err != nil {
			c.t.Error(err)
		}
	}
}

// TestRealCard compares each family with what a real card gives otherwise: nvidia-smi, the values of the binding, and bytes that a load
// moved. make gpu-real runs it; it takes some minutes, and without a card it says so and passes.
func TestRealCard(t *testing.T) {
	out := os.Getenv("INFERENCE_EXPORTER_GPU_REAL")
	if out == "" {
		t.Skip("make gpu-real runs it")
	}
	library := gpu.NVML("")
	if err := library.Open(); err != nil {
		t.Skipf("no card: nothing was checked: %v", err)
	}
	binding := nvml.New()
	if r := binding.Init(); r != nvml.SUCCESS {
		t.Skipf("no card: nothing was checked: the binding: %d", r)
	}
	t.Cleanup(func() { _ = binding.Shutdown() })
	device, r := binding.DeviceGetHandleByIndex(0)
	uuid, r2 := device.GetUUID()
	if r != nvml.SUCCESS || r2 != nvml.SUCCESS {
		t.Skipf("no card: nothing was checked: the binding: %d, %d", r, r2)
	}
	library.Close()
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &realCard{t: t, out: out, device: device, uuid: uuid, poller: gpu.New(library, gpu.Options{Required: true}), shown: map[string]bool{}, checked: map[string]bool{}}
	go func() { _ = c.poller.Run(t.Context()) }()
	nothing := func() float64 { return 0 }
	c.look("idle", nothing)
	if loader := c.loader(); loader != nil {
		for _, state := range []string{"copy", "half", "matmul", "held"} {
			c.under(loader, state)
		}
		c.look("after", nothing)
	}
	c.parts()
	c.write()
}

// What the binding reads of a card of the fake library is what the poller shows, and each kind that is compared is found
// when it is wrong or missing.
func TestRawCanFail(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		fakenvml.State{
			"driver_version": "580.95.05", "cuda_version": "13000", "devices": "1", "device0.uuid": "GPU-a", "device0.name": "NVIDIA H100 80GB HBM3",
			"device0.memory_total": "85899345920", "device0.memory_used": "70000000000", "device0.memory_free": "15362475008", "device0.memory_reserved": "536870912",
			"device0.utilization": "90", "device0.memory_utilization": "40", "device0.power_usage": "600000", "device0.temperature": "60",
			"device0.clock_sm": "1755", "device0.clock_sm_max": "1980", "device0.field82.0": "uint32 71", "device0.field230.0": "uint32 1",
		}.Write(t, p.State)
		binding := nvml.New(nvml.WithLibraryPath(p.Library))
		poller := gpu.New(gpu.NVML(p.Library), gpu.Options{Required: true})
		go func() { _ = poller.Run(t.Context()) }()
		for poller.Snapshot().State == gpu.StateStarting {
			time.Sleep(time.Millisecond)
		}
		if r := binding.Init(); r != nvml.SUCCESS {
			t.Fatal(r)
		}
		device, r := binding.DeviceGetHandleByIndex(0)
		if r != nvml.SUCCESS {
			t.Fatal(r)
		}
		raw := rawReadings(device)
		readings := poller.Snapshot().Devices[0].Readings
		differs, compared := compareRaw(readings, raw, raw)
		if len(differs) > 0 || len(compared) < 8 {
			t.Errorf("%v; compared %v", differs, compared)
		}
		for i, reading := range readings {
			if !compared[reading.Kind] {
				continue
			}
			wrong := slices.Clone(readings)
			wrong[i].Value = 1 + 2*reading.Value
			if differs, _ := compareRaw(wrong, raw, raw); len(differs) != 1 {
				t.Errorf("%s is twice as high: %v", reading.Kind, differs)
			}
			if differs, _ := compareRaw(slices.Delete(wrong, i, i+1), raw, raw); len(differs) != 1 {
				t.Errorf("%s is missing: %v", reading.Kind, differs)
			}
		}
	})
}
