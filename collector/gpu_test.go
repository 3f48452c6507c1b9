package collector

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/xid"
)

// gpuSamples returns the samples of a snapshot, in the order of a page.
func gpuSamples(t *testing.T, s *gpu.Snapshot) []string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots { return gpu.Snapshots{s} }))
	var page bytes.Buffer
	if err := NewExposition(reg).Write(&page, expfmt.FmtText); err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(page.String()) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out
}

// readDevice returns the GPU of a file of package gpu, in which readings were
// worked out by hand. A MIG device begins with a line UUID PROFILE GI/CI.
func readDevice(t testing.TB, file, uuid, name string) gpu.DeviceSnapshot {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "gpu", "testdata", "readings", file))
	if err != nil {
		t.Fatal(err)
	}
	d := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: uuid, Up: true, Name: name, PCIBusID: "00000000:19:00.0", ComputeCapability: "9.0"}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		mig := len(d.MIG) - 1
		switch {
		case strings.HasPrefix(line, "MIG-") && len(words) == 3 && strings.Contains(words[2], "/"):
			instance, compute, _ := strings.Cut(words[2], "/")
			d.MIG = append(d.MIG, gpu.MIGSnapshot{
				UUID: words[0], Profile: words[1], GPUInstance: atoi(t, instance), ComputeInstance: atoi(t, compute),
			})
		case strings.HasPrefix(line, "MIG-"):
			d.MIG[mig].Readings = append(d.MIG[mig].Readings, readReading(t, words[1:]))
		default:
			d.Readings = append(d.Readings, readReading(t, words))
		}
	}
	return d
}

func readReading(t testing.TB, words []string) gpu.Reading {
	t.Helper()
	kind, label, _ := strings.Cut(strings.TrimSuffix(words[0], "}"), "{")
	v, err := strconv.ParseFloat(words[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return gpu.Reading{Kind: gpu.Kind(kind), Label: label, Value: v}
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gpuUp returns the snapshot of a successful poll.
func gpuUp(devices ...gpu.DeviceSnapshot) *gpu.Snapshot {
	return &gpu.Snapshot{
		Source: gpu.SourceNVML, State: gpu.StateUp, At: epoch, Duration: 12500 * time.Microsecond, Driver: "550.54.15", CUDA: "12.4",
		Count: len(devices), Devices: devices,
	}
}

// A GPU that is lost keeps its place, so that the right tray is pulled; outside of a rack the module alone is known.
func TestGPUPlace(t *testing.T) {
	rack := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-r", Place: gpu.Place{
		ChassisSerial: "1823825185529", Slot: "5", Tray: "4", Host: "1", Module: "2", FabricCluster: "c", FabricClique: "32766",
	}}
	board := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-b", Index: 1, Up: true, Place: gpu.Place{Module: "7"}}
	bare := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-x", Index: 2, Up: true}
	var got []string
	for _, line := range gpuSamples(t, gpuUp(rack, board, bare)) {
		if strings.HasPrefix(line, "inference_gpu_platform_info") || strings.HasPrefix(line, "inference_gpu_fabric_info") {
			got = append(got, line)
		}
	}
	want := []string{
		`inference_gpu_fabric_info{clique_id="32766",cluster_uuid="c",gpu="0",host="",uuid="GPU-r",vendor="nvidia"} 1`,
		`inference_gpu_platform_info{chassis_serial_number="",gpu="1",host="",host_id="",module_id="7",slot_number="",tray_index="",uuid="GPU-b",vendor="nvidia"} 1`,
		`inference_gpu_platform_info{chassis_serial_number="1823825185529",gpu="0",host="",host_id="1",module_id="2",slot_number="5",tray_index="4",uuid="GPU-r",vendor="nvidia"} 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The page of each GPU, with what its driver and hardware give and nothing else.
func TestGPUPages(t *testing.T) {
	h100 := readDevice(t, "h100-sxm.txt", "GPU-h100", "NVIDIA H100 80GB HBM3")
	h100.XIDs = []gpu.XIDCount{{Number: 13, Count: 1, Last: epoch}, {Number: 79, Count: 2, Last: epoch.Add(1500 * time.Millisecond)}}
	rtx4090 := readDevice(t, "rtx-4090.txt", "GPU-4090", "NVIDIA GeForce RTX 4090")
	rtx4090.Processes = []gpu.ProcessReading{
		{PID: 4711, Name: "VLLM::EngineCore", Container: "c0ffee", PodUID: "0b5c", MemoryUsed: 19e9, SMUtilization: 0.36},
		{PID: 4712, MemoryUsed: -1, SMUtilization: 0}, // the driver does not report its memory
		{PID: 4713, MemoryUsed: 1e6, SMUtilization: -1},
	}
	for file, device := range map[string]gpu.DeviceSnapshot{
		"gpu-h100-sxm.golden": h100,
		"gpu-a100-mig.golden": readDevice(t, "a100-mig.txt", "GPU-a100", "NVIDIA A100-SXM4-80GB"),
		"gpu-rtx-4090.golden": rtx4090,
		"gpu-t4.golden":       readDevice(t, "t4.txt", "GPU-t4", "Tesla T4"),
	} {
		t.Run(file, func(t *testing.T) {
			golden(t, filepath.Join("testdata", file), strings.Join(gpuSamples(t, gpuUp(device)), "\n")+"\n")
		})
	}
}

// What is shown of the poller in each of its states.
func TestGPUStates(t *testing.T) {
	lost := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-a", Index: 3, XIDs: []gpu.XIDCount{{Number: 79, Count: 1, Last: epoch}}}
	old := gpu.Snapshot{
		Source: gpu.SourceNVML, At: epoch, Duration: time.Second, Driver: "550", Count: 8, Devices: []gpu.DeviceSnapshot{lost},
		Err: errors.New("x"), Failures: map[gpu.State]uint64{gpu.StateLost: 2},
	}
	tests := []struct {
		state   gpu.State
		wanted  bool         // there should be GPUs
		before  gpu.Snapshot // what a poll that succeeded left behind
		up      string
		devices string
		polled  bool // something is said of polls
	}{
		{state: gpu.StateStarting, polled: true},
		{state: gpu.StateNotBuilt},
		{state: gpu.StateNoLibrary},
		{state: gpu.StateNoLibrary, before: old, up: "0", devices: "8", polled: true},
		{state: gpu.StateNotBuilt, wanted: true, up: "0"},
		{state: gpu.StateNoLibrary, wanted: true, up: "0", polled: true},
		{state: gpu.StateStarting, wanted: true, polled: true},
		{state: gpu.StateNoDriver, up: "0", polled: true},
		{state: gpu.StateNoDevices, up: "0", devices: "0", polled: true},
		{state: gpu.StateNoDevices, before: old, up: "0", devices: "0", polled: true},
		{state: gpu.StateDenied, up: "0", polled: true},
		{state: gpu.StateDriverChanged, before: old, up: "0", devices: "8", polled: true},
		{state: gpu.StateLost, before: old, up: "0", devices: "8", polled: true},
		{state: gpu.StateStuck, before: old, up: "0", devices: "8", polled: true},
		{state: gpu.StateFailed, up: "0", polled: true},
		{state: gpu.StateUp, before: old, up: "1", devices: "8", polled: true},
	}
	for _, tt := range tests {
		s := tt.before
		s.Source, s.State, s.Required = gpu.SourceNVML, tt.state, tt.wanted
		got := map[string]string{}
		for _, line := range gpuSamples(t, &s) {
			name, value, _ := strings.Cut(line, " ")
			got[name] = value
		}
		f := func(name, want string) {
			t.Helper()
			if got["inference_gpu_"+name] != want {
				t.Errorf("%s (polled before: %t): %s is %q, want %q", tt.state, !s.At.IsZero(), name, got["inference_gpu_"+name], want)
			}
		}
		f(`up{source="nvml"}`, tt.up)
		f(`devices{source="nvml"}`, tt.devices)
		for _, state := range gpuStates() {
			want := "0"
			switch tt.state {
			case gpu.StateNotBuilt:
				want = ""
			case state:
				want = "1"
			}
			f(`state{source="nvml",state="`+string(state)+`"}`, want)
		}
		want := ""
		if tt.polled {
			want = strconv.FormatUint(s.Failures[gpu.StateLost], 10)
		}
		f(`poll_failures_total{source="nvml",state="lost"}`, want)
		if s.At.IsZero() {
			f(`last_poll_timestamp_seconds{source="nvml"}`, "")
			f(`poll_duration_seconds{source="nvml"}`, "")
			continue
		}
		f(`last_poll_timestamp_seconds{source="nvml"}`, "1.7e+09")
		f(`poll_duration_seconds{source="nvml"}`, "1")
		f(`device_up{gpu="3",host="",source="nvml",uuid="GPU-a",vendor="nvidia"}`, "0")
		f(`xid_errors_total{gpu="3",host="",uuid="GPU-a",vendor="nvidia",xid="79"}`, "1")
	}
}

// A driver can say anything, and a kind without a family is no series.
func TestGPUStrangeTexts(t *testing.T) {
	s := gpuUp(gpu.DeviceSnapshot{
		Vendor: gpu.NVIDIA, UUID: "GPU-\xff", Name: "a\"\\\n\xfe", Up: true,
		Readings: []gpu.Reading{{Kind: "unheard_of", Value: 1}, {Kind: "pstate", Value: 8}},
		MIG:      []gpu.MIGSnapshot{{UUID: "MIG-a", Readings: []gpu.Reading{{Kind: "pstate", Value: 1}}}},
	})
	s.Driver = "\xff"
	got := gpuSamples(t, s)
	for _, want := range []string{
		"inference_gpu_pstate{gpu=\"0\",host=\"\",uuid=\"GPU-\uFFFD\",vendor=\"nvidia\"} 8",
		"inference_gpu_info{compute_capability=\"\",cuda_version=\"12.4\",driver_version=\"\uFFFD\",gpu=\"0\",host=\"\",name=\"a\\\"\\\\\\n\uFFFD\",pci_bus_id=\"\",source=\"nvml\",uuid=\"GPU-\uFFFD\",vendor=\"nvidia\"} 1",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	for _, line := range got {
		if strings.Contains(line, "unheard_of") || strings.Contains(line, "mig_pstate") {
			t.Errorf("a series for what has no family: %s", line)
		}
	}
}

// What a driver that hangs costs a scrape: nothing, as the snapshot is read
// once.
func TestGPUReadsOneSnapshot(t *testing.T) {
	calls := 0
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots {
		calls++
		return gpu.Snapshots{gpuUp(gpu.DeviceSnapshot{UUID: "GPU-a"}, gpu.DeviceSnapshot{UUID: "GPU-b", Index: 1})}
	}))
	if _, err := reg.Gather(); err != nil {
		t.Fatal(err)
	}
	if calls != 1 {
		t.Errorf("the snapshot was read %d times", calls)
	}
}

// The metrics of a snapshot are made once, however many scrapes there are, also
// at the same time.
func TestGPUMetricsAreMadeOnce(t *testing.T) {
	var current atomic.Pointer[gpu.Snapshot]
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots { return gpu.Snapshots{current.Load()} }))
	power := func() (watts float64) {
		families, err := reg.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			if f.GetName() == "inference_gpu_power_watts" {
				watts = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return watts
	}
	readings := []gpu.Reading{{Kind: gpu.Power, Value: 100}}
	first := gpuUp(gpu.DeviceSnapshot{UUID: "GPU-a", Up: true, Readings: readings})
	current.Store(first)
	if got := power(); got != 100 {
		t.Errorf("%v W, want 100", got)
	}
	readings[0].Value = 1 // which nobody does, so that to see it is to make them again
	var scrapes sync.WaitGroup
	for range 8 {
		scrapes.Go(func() {
			if got := power(); got != 100 {
				t.Errorf("%v W in a later scrape, want 100", got)
			}
		})
	}
	scrapes.Wait()
	current.Store(gpuUp(gpu.DeviceSnapshot{UUID: "GPU-a", Up: true, Readings: []gpu.Reading{{Kind: gpu.Power, Value: 200}}}))
	if got := power(); got != 200 {
		t.Errorf("%v W in the next snapshot, want 200", got)
	}
}

// A page of several sources has each GPU once: that of the first source which reads it.
func TestGPUSources(t *testing.T) {
	power := func(watts float64) []gpu.Reading { return []gpu.Reading{{Kind: gpu.Power, Value: watts}} }
	nvml := gpuUp(gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-a", Up: true, Readings: power(1)})
	amd := gpuUp(gpu.DeviceSnapshot{Vendor: gpu.AMD, UUID: "GPU-b", Up: true, Readings: power(2)})
	amd.Source = "amdgpu"
	page := gpuUp(
		gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, Host: "n1", UUID: "GPU-a", Up: true, Readings: power(3)},
		gpu.DeviceSnapshot{Vendor: gpu.Google, Host: "n1", Up: true, Readings: power(4)},
		gpu.DeviceSnapshot{Vendor: gpu.Google, Host: "n2", Up: true, Readings: power(5)},
		gpu.DeviceSnapshot{Vendor: gpu.Google, Host: "n2", Up: true, Readings: power(6)},
	)
	page.Source = "tpus"
	absent := &gpu.Snapshot{Source: "none", State: gpu.StateNoLibrary}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots { return gpu.Snapshots{nvml, amd, absent, page} }))
	var text bytes.Buffer
	if err := NewExposition(reg).Write(&text, expfmt.FmtText); err != nil {
		t.Fatal(err)
	}
	for _, family := range []struct{ name, want string }{
		{"power_watts", `{gpu="0",host="",uuid="GPU-a",vendor="nvidia"} 1
{gpu="0",host="",uuid="GPU-b",vendor="amd"} 2
{gpu="0",host="n1",uuid="",vendor="google"} 4
{gpu="0",host="n2",uuid="",vendor="google"} 5`},
		{"up", `{source="amdgpu"} 1
{source="nvml"} 1
{source="tpus"} 1`},
		{"device_up", `{gpu="0",host="",source="amdgpu",uuid="GPU-b",vendor="amd"} 1
{gpu="0",host="",source="nvml",uuid="GPU-a",vendor="nvidia"} 1
{gpu="0",host="n1",source="tpus",uuid="",vendor="google"} 1
{gpu="0",host="n2",source="tpus",uuid="",vendor="google"} 1`},
	} {
		var got []string
		for line := range strings.Lines(text.String()) {
			if rest, ok := strings.CutPrefix(line, "inference_gpu_"+family.name+"{"); ok {
				got = append(got, "{"+strings.TrimSpace(rest))
			}
		}
		slices.Sort(got)
		if strings.Join(got, "\n") != family.want {
			t.Errorf("%s:\n%s\nwant\n%s", family.name, strings.Join(got, "\n"), family.want)
		}
	}
}

func TestGPUSimulated(t *testing.T) {
	s := gpuUp()
	if slices.Contains(gpuSamples(t, s), `inference_gpu_simulated{source="nvml"} 1`) {
		t.Error("a GPU counts as simulated")
	}
	s.Simulated = true
	if !slices.Contains(gpuSamples(t, s), `inference_gpu_simulated{source="nvml"} 1`) {
		t.Error("a simulated GPU is not marked")
	}
}

// everyReading returns a GPU with every family that a GPU can have.
func everyReading() gpu.DeviceSnapshot {
	d := gpu.DeviceSnapshot{
		Vendor: gpu.NVIDIA, UUID: "GPU-a", Up: true, XIDs: []gpu.XIDCount{{Number: 79, Count: 1, Last: epoch}},
		Processes: []gpu.ProcessReading{{PID: 1}}, MIG: []gpu.MIGSnapshot{{UUID: "MIG-b"}},
		VGPUs: []gpu.VGPUSnapshot{{UUID: "vgpu-c"}}, Place: gpu.Place{Module: "1", FabricCluster: "d"},
	}
	for _, i := range gpu.Readings() {
		r := gpu.Reading{Kind: i.Kind, Value: 1}
		if i.Label != "" {
			r.Label = "0"
		}
		d.Readings = append(d.Readings, r)
		d.MIG[0].Readings = append(d.MIG[0].Readings, r)
	}
	return d
}

// BenchmarkScrapeGPUs measures the page of a machine with 8 GPUs of the kind
// that has most to say.
func BenchmarkScrapeGPUs(b *testing.B) {
	var devices []gpu.DeviceSnapshot
	for i := range 8 {
		d := readDevice(b, "h100-sxm.txt", "GPU-"+strconv.Itoa(i), "NVIDIA H100 80GB HBM3")
		d.Index = i
		devices = append(devices, d)
	}
	s := gpuUp(devices...)
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots { return gpu.Snapshots{s} }))
	page := NewExposition(reg)
	for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim} {
		b.Run(formatName(format), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var out countingWriter
				if err := page.Write(&out, format); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/page")
		})
	}
}

// docs/gpu.md is generated from the table of readings.
func TestReferenceGPU(t *testing.T) {
	intro, err := os.ReadFile(filepath.Join("testdata", "gpu.intro.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range gpuStates() {
		if !strings.Contains(string(intro), "\n| `"+string(state)+"` |") {
			t.Errorf("the page does not explain the state %s", state)
		}
	}
	var b strings.Builder
	b.Write(intro)
	writePagesReference(t, &b)
	b.WriteString("\n## Readings, and their names elsewhere\n\n")
	b.WriteString("Units are base units: bytes and not MiB, hertz and not MHz, ratios of 1 and not percent. DCGM, `nvidia-smi --query-gpu` and sysfs use others. " +
		"The column amdgpu has the files that are read of AMD's GPUs, the column hardware the GPUs of NVIDIA that have the reading. " +
		"Those marked † have an `inference_gpu_mig_*` twin.\n\n")
	b.WriteString("| `inference_gpu_` | unit | DCGM | nvidia-smi | amdgpu | hardware |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, i := range gpu.Readings() {
		name := "`" + string(i.Kind) + "`"
		if slices.Contains(migKinds(), i.Kind) {
			name += " †"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", name, i.Unit, codes(i.DCGM), codes(i.NvidiaSMI), codes(i.AMDGPU), i.Hardware)
	}
	b.WriteString("\n## XIDs\n\n")
	b.WriteString("What alerts and pages say of the XIDs of `xid_errors_total` and `xid_last_timestamp_seconds`. The name and the immediate action are those of NVIDIA's catalogue. " +
		"Those of the class `fatal` page; those of `depends` are fatal or harmless by a sub-code, which only the kernel log has (144 to 150), or by the new recovery action (154): they page together with a recovery action or an endpoint that fails. " +
		"`contained` is a ticket, `program` nothing.\n\n")
	b.WriteString("| XID | class | meaning | name | action |\n| --- | --- | --- | --- | --- |\n")
	for _, x := range xid.All() {
		fmt.Fprintf(&b, "| %d | %s | %s | `%s` | `%s` |\n", x.Number, x.Class, x.Meaning, x.Name, x.Action)
	}
	b.WriteString("\n## Products that are known\n\n")
	b.WriteString("By the data sheets. `hardware.gpu` takes these names, with or without the vendor's, in any case; also those that the driver uses. " +
		"Operations are 10^12 a second of dense matrices, half of what a data sheet gives with sparsity; `fp16` is as fast as `bf16` where it is not named. " +
		"The data sheets, and what the figures were compared with, are named in `gpu/products.yml`.\n\n")
	b.WriteString("| product | GB/s | peak operations |\n| --- | --- | --- |\n")
	for _, name := range gpu.Products() {
		bandwidth, ok := gpu.ProductBandwidth(name)
		if !ok {
			t.Errorf("product %s is not known by its name", name)
		}
		fmt.Fprintf(&b, "| %s | %g | %s |\n", name, bandwidth/1e9, peaksText(name))
	}
	golden(t, filepath.Join("..", "docs", "gpu.md"), b.String())
}

// peaksText lists how fast a product multiplies, without formats that follow from others.
func peaksText(name string) string {
	var all []string
	for _, precision := range []string{"fp16", "bf16", "fp8", "fp4", "mxfp4", "int8", "int4"} {
		peak, _ := gpu.ProductPeak(name, precision)
		follows := map[string]string{"fp16": "bf16", "mxfp4": "fp4"}[precision]
		if other, _ := gpu.ProductPeak(name, follows); peak > 0 && peak != other {
			all = append(all, fmt.Sprintf("%s %g", precision, peak/1e12))
		}
	}
	return strings.Join(all, ", ")
}

// codes writes a list of names as code.
func codes(names string) string {
	if names == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(names, ", ", "`, `") + "`"
}

// examples returns the blocks of code of one language in the pages.
func examples(t *testing.T, language string, pages ...string) []string {
	t.Helper()
	var out []string
	for _, name := range pages {
		page, err := os.ReadFile(filepath.Join("..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(page), "```"+language+"\n")[1:] {
			text, _, _ := strings.Cut(block, "```")
			out = append(out, text)
		}
	}
	return out
}

// The queries of the pages name metrics that there are.
func TestReferenceQueries(t *testing.T) {
	queries := examples(t, "promql", "gpu.md", "metrics.md")
	if len(queries) < 8 {
		t.Errorf("found %d queries", len(queries))
	}
	names := map[string]bool{}
	for _, f := range Catalogue() {
		names[f.Name] = true
		if f.Type == Histogram {
			names[f.Name+"_bucket"], names[f.Name+"_sum"], names[f.Name+"_count"] = true, true, true
		}
	}
	for _, query := range queries {
		for _, name := range regexp.MustCompile(namePrefix+`\w+`).FindAllString(query, -1) {
			if !names[name] {
				t.Errorf("there is no %s\n%s", name, query)
			}
		}
	}
}

// The worked example comes out as the page says.
func TestReferenceCeiling(t *testing.T) {
	for _, text := range examples(t, "yaml", "gpu.md") {
		c, err := config.Parse([]byte(text), "gpu.md")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := newStore()
		p.OpenEndpoint(EndpointInfo{Endpoint: "e", Hardware: c.Endpoints[0].Hardware})
		if got := samples(t, p)[`inference_endpoint_decode_ceiling_tokens_per_second{endpoint="e"}`]; got != "209.375" {
			t.Errorf("the ceiling is %q, want 3.35e12 / 16e9 = 209.375", got)
		}
	}
}

// A vGPU has what its host knows of it, and nothing else.
func TestVGPUs(t *testing.T) {
	device := gpu.DeviceSnapshot{Vendor: gpu.NVIDIA, UUID: "GPU-host", Index: 1, Up: true, VGPUs: []gpu.VGPUSnapshot{
		{UUID: "a1b2", VM: "vm-7", Profile: "NVIDIA L40S-16Q", MemoryUsed: 12e9, SMUtilization: 0.75},
		{UUID: "c3d4", MemoryUsed: -1, SMUtilization: -1},
	}}
	samples := slices.DeleteFunc(gpuSamples(t, gpuUp(device)), func(s string) bool { return !strings.HasPrefix(s, "inference_gpu_vgpu_") })
	want := []string{
		`inference_gpu_vgpu_info{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_profile="",vgpu_uuid="c3d4",vm=""} 1`,
		`inference_gpu_vgpu_info{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_profile="NVIDIA L40S-16Q",vgpu_uuid="a1b2",vm="vm-7"} 1`,
		`inference_gpu_vgpu_memory_used_bytes{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_uuid="a1b2"} 1.2e+10`,
		`inference_gpu_vgpu_sm_utilization_ratio{gpu="1",host="",uuid="GPU-host",vendor="nvidia",vgpu_uuid="a1b2"} 0.75`,
	}
	slices.Sort(samples)
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}
