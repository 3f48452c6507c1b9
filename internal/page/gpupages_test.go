package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// gpuHost is the page of a host: a text that may change.
type gpuHost struct {
	*httptest.Server
	text atomic.Value
}

func newGPUHost(t *testing.T, text string) *gpuHost {
	t.Helper()
	h := &gpuHost{}
	h.text.Store(text)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, h.text.Load())
	}))
	t.Cleanup(h.Close)
	return h
}

func gpuPageOf(t *testing.T, hosts ...*gpuHost) *config.MetricsPages {
	t.Helper()
	page := &config.MetricsPages{Interval: model.Duration(time.Hour), Timeout: model.Duration(time.Minute)}
	for _, h := range hosts {
		u, err := url.Parse(h.URL)
		if err != nil {
			t.Fatal(err)
		}
		page.URLs = append(page.URLs, config.PageURL{URL: u})
	}
	return page
}

// gpuReader reads pages of accelerators.
type gpuReader struct {
	*gpuPages
	endpoint *Endpoint
}

func (r *gpuReader) poll(ctx context.Context) {
	r.current, r.statuses = r.next(r.endpoint.Scrape(ctx, Known{}))
}

func readerOf(t *testing.T, page *config.MetricsPages, secrets ...string) *gpuReader {
	t.Helper()
	known := safetext.NewSecrets(secrets...)
	all := NewGPUPages(nil, known)
	all.Open("cards", page)
	e, err := New(page.Endpoint("cards"), Options{Mappings: all.Mappings, Secrets: known})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &gpuReader{all.byName["cards"], e}
}

const twoCards = `# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",Hostname="n1"} 40
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-b",Hostname="n1"} 50
`

// A page that fails takes its own GPUs away and nothing else, with a reason.
func TestPagesFail(t *testing.T) {
	good, bad := newGPUHost(t, twoCards), newGPUHost(t, "")
	r := readerOf(t, gpuPageOf(t, good, bad))
	huge := "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-c\"} 1\n" + strings.Repeat("# "+strings.Repeat("x", 1<<16)+"\n", 200)
	var many strings.Builder
	for i := range maxDevices + 1 {
		fmt.Fprintf(&many, "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-%d\"} 1\n", i)
	}
	for _, test := range []struct {
		text string
		want Reason
	}{
		{"", ReasonUnmapped},
		{"vllm:num_requests_running 1\n", ReasonUnmapped},
		{"<html>", ReasonFormat},
		{huge, ReasonTooLarge},
		{many.String(), ReasonTooLarge},
		{strings.Repeat("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-c\"} 1\n", 2), ReasonDuplicate},
		{"# TYPE DCGM_FI_DEV_GPU_TEMP summary\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-c\"} 1\n", ReasonType},
		{"DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"" + strings.Repeat("c", 20_000) + "\"} 1\n", ReasonTooLarge},
	} {
		bad.text.Store(test.text)
		r.poll(t.Context())
		s := r.current
		if s.State != gpu.StateUp || len(s.Devices) != 2 {
			t.Errorf("%.40q: state %s with %d GPUs, want up with the 2 of the other host", test.text, s.State, len(s.Devices))
		}
		for _, st := range r.statuses {
			if st.URL == bad.URL+"/metrics" && (st.Reason != test.want || st.Err == nil) {
				t.Errorf("%.40q: reason %s (%v), want %s", test.text, st.Reason, st.Err, test.want)
			}
		}
	}
	good.text.Store("x 1\n")
	r.poll(t.Context())
	if s := r.current; s.State != gpu.StateFailed || s.Err == nil || len(s.Devices) != 0 || s.Failures[gpu.StateFailed] != 1 {
		t.Errorf("without a page: %+v", s)
	}
	good.text.Store(twoCards)
	r.poll(t.Context())
	if s := r.current; s.State != gpu.StateUp || s.Failures[gpu.StateFailed] != 1 {
		t.Errorf("with a page again: %+v", s)
	}
}

// The page is read with the mapping that the configuration names, or not at all.
func TestSoftware(t *testing.T) {
	for software, want := range map[string]Reason{"": "", "dcgm-exporter": "", "gke-tpu": ReasonUnmapped} {
		page := gpuPageOf(t, newGPUHost(t, twoCards))
		page.Software = software
		r := readerOf(t, page)
		r.poll(t.Context())
		if got := r.statuses[0].Reason; got != want {
			t.Errorf("%s: reason %q, want %q", software, got, want)
		}
	}
}

// A GPU that a driver shows too is that of the driver: the first source counts.
func TestDriverWins(t *testing.T) {
	r := readerOf(t, gpuPageOf(t, newGPUHost(t, twoCards)))
	r.poll(t.Context())
	driver := &gpu.Snapshot{Source: gpu.SourceNVML, Devices: []gpu.DeviceSnapshot{{UUID: "GPU-a", Vendor: gpu.NVIDIA}}}
	var got []string
	for s, d := range (gpu.Snapshots{driver, r.current}).Devices() {
		got = append(got, s.Source+" "+d.UUID)
	}
	if want := "nvml GPU-a,cards GPU-b"; strings.Join(got, ",") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// Critical errors count from what the page shows: the latest number from the second
// reading on, and those of a window when there are more of them.
func TestXIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := acceleratorMappings(t).NewReader()
		step := func(text string) map[uint64]uint64 {
			t.Helper()
			s, err := readOn(r, []byte(text), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			counts := map[uint64]uint64{}
			for _, c := range s.Devices[0].XIDs {
				counts[c.Number] = c.Count
			}
			return counts
		}
		last := func(n int) string {
			return fmt.Sprintf("DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-a\"} 1\nDCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-a\"} %d\n", n)
		}
		for i, s := range []struct {
			last int
			want map[uint64]uint64
		}{{31, nil}, {31, nil}, {79, map[uint64]uint64{79: 1}}, {79, map[uint64]uint64{79: 1}}, {31, map[uint64]uint64{79: 1, 31: 1}}} {
			if got := step(last(s.last)); fmt.Sprint(got) != fmt.Sprint(orEmpty(s.want)) {
				t.Errorf("step %d: got %v, want %v", i, got, s.want)
			}
		}
		r = acceleratorMappings(t).NewReader()
		recent := func(n int) string {
			return fmt.Sprintf("DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-a\"} 1\nDCGM_FI_DEV_XID_ERRORS{UUID=\"GPU-a\"} 48\nDCGM_EXP_XID_ERRORS_COUNT{UUID=\"GPU-a\",xid=\"48\"} %d\n", n)
		}
		for i, s := range []struct {
			n    int
			want uint64
		}{{2, 2}, {3, 3}, {1, 3}, {2, 4}} {
			if got := step(recent(s.n))[48]; got != s.want {
				t.Errorf("window step %d: got %d, want %d", i, got, s.want)
			}
		}
	})
}

func orEmpty(m map[uint64]uint64) map[uint64]uint64 {
	if m == nil {
		return map[uint64]uint64{}
	}
	return m
}

// The host is that of the page where it is named, else that of the URL but this machine.
func TestHostOf(t *testing.T) {
	for in, want := range map[string]string{
		"http://gpu-1:9400": "gpu-1", "http://localhost:9400": "", "http://127.0.0.1:9400": "", "http://[::1]:9400": "", "http://10.0.0.7:1": "10.0.0.7",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostOf(u); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// No secret of a request gets into what is shown of a page that repeats it.
func TestPageRepeatsSecret(t *testing.T) {
	const secret = "token-of-the-page-1234"
	h := newGPUHost(t, "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-a\"} "+secret+"\n")
	page := gpuPageOf(t, h)
	file := t.TempDir() + "/token"
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(fmt.Appendf(nil, "gpus: {pages: {a: {urls: [%q], http: {authorization: {credentials_file: %q}}}}}", h.URL, file), "a.yml")
	if err != nil {
		t.Fatal(err)
	}
	page.HTTP = c.GPUs.Pages["a"].HTTP
	r := readerOf(t, page)
	r.poll(t.Context())
	st := r.statuses[0]
	if st.Err == nil || bytes.Contains([]byte(st.Err.Error()), []byte(secret)) {
		t.Errorf("error %v, want one without the token", st.Err)
	}
}

// Texts of a page repeat neither a configured secret nor one of the page's own, and do
// nothing to a terminal, in whatever label they are.
func TestTextsOfAPageAreCleaned(t *testing.T) {
	const configured, own = "sk-configured-0123456789", "page-key-9876543210"
	poison := strings.NewReplacer("\n", `\n`).Replace("\x1b\u009b\u202e" + configured + "\n" + own + strings.Repeat("x", 2_000))
	var labels []string
	for _, name := range []string{"UUID", "modelName", "pci_bus_id", "Hostname", "DCGM_FI_DRIVER_VERSION", "GPU_I_PROFILE"} {
		labels = append(labels, name+`="`+poison+`"`)
	}
	h := newGPUHost(t, "DCGM_FI_DEV_FB_USED{GPU_I_ID=\"1\","+strings.Join(labels, ",")+"} 40\n")
	page := gpuPageOf(t, h)
	page.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: own}
	r := readerOf(t, page, configured)
	r.poll(t.Context())
	s := r.current
	if len(s.Devices) != 1 || len(s.Devices[0].MIG) != 1 {
		t.Fatalf("%d devices: %v", len(s.Devices), s.Err)
	}
	d := &s.Devices[0]
	for _, text := range []string{s.Driver, d.Host, d.UUID, d.Name, d.PCIBusID, d.MIG[0].Profile} {
		if !strings.HasPrefix(text, safetext.Placeholder+" "+safetext.Placeholder+"xxx") || !safetext.Printable(text) || len(text) > 256 {
			t.Errorf("%.80q of %d bytes", text, len(text))
		}
	}
}

// A page of which every reading has other parts and other errors has few of them.
func TestPageThatMakesUpParts(t *testing.T) {
	h := newGPUHost(t, "")
	r := readerOf(t, gpuPageOf(t, h))
	for reading := range 3 {
		var text strings.Builder
		for i := range 500 {
			fmt.Fprintf(&text, "DCGM_FI_DEV_FB_USED{UUID=\"GPU-a\",GPU_I_ID=\"%d\"} 1\n", reading*1000+i)
			fmt.Fprintf(&text, "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"GPU-a\",xid=\"%d\"} %d\n", 1+reading*1000+i, reading)
			fmt.Fprintf(&text, "DCGM_EXP_XID_ERRORS_COUNT{UUID=\"GPU-%d-%d\",xid=\"79\"} 1\n", reading, i)
		}
		h.text.Store(text.String())
		r.poll(t.Context())
		s := r.current
		if d := s.Devices[slices.IndexFunc(s.Devices, func(d gpu.DeviceSnapshot) bool { return d.UUID == "GPU-a" })]; len(d.MIG) > maxParts || len(d.XIDs) > maxXIDsADevice {
			t.Errorf("%d parts, %d errors", len(d.MIG), len(d.XIDs))
		}
		for _, s := range r.endpoint.servers {
			if n := len(s.reader.xids); n > 2*maxDevices {
				t.Errorf("%d devices are kept", n)
			}
		}
	}
}

// A page of which every reading has other GPUs is not read once there were too many of them.
func TestPageThatMakesUpGPUs(t *testing.T) {
	h := newGPUHost(t, "")
	r := readerOf(t, gpuPageOf(t, h))
	gpus := map[string]bool{}
	for reading := range 10 {
		h.text.Store(manyGPUs(reading*500, 500))
		r.poll(t.Context())
		for _, d := range r.current.Devices {
			gpus[d.UUID] = true
		}
	}
	if len(gpus) != maxDeviceNames/500*500 {
		t.Errorf("%d GPUs of 5,000 were shown, want %d", len(gpus), maxDeviceNames/500*500)
	}
	if st := r.statuses[0]; st.Reason != ReasonTooLarge {
		t.Errorf("reason %q", st.Reason)
	}
}

// manyGPUs is a page of so many GPUs from a number on.
func manyGPUs(first, n int) string {
	var text strings.Builder
	for i := range n {
		for _, series := range []string{"FB_USED", "GPU_TEMP", "POWER_USAGE"} {
			fmt.Fprintf(&text, "DCGM_FI_DEV_%s{gpu=\"%d\",UUID=\"GPU-%d\"} 1\n", series, i, first+i)
		}
	}
	return text.String()
}

// BenchmarkAcceleratorsLinear reports how much longer the reading of ten times as many GPUs takes.
func BenchmarkAcceleratorsLinear(b *testing.B) {
	r := acceleratorMappings(b).NewReader()
	reading := func(gpus int) func() {
		text := []byte(manyGPUs(0, gpus))
		return func() {
			if _, err := readOn(r, text, time.Unix(1, 0)); err != nil {
				b.Fatal(err)
			}
		}
	}
	testlab.Linear(b, reading(100), reading(1000))
}
