package collector

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// cardRecord is what the exporter and nvidia-smi showed of a GPU within a second of each other, by the state that it was in.
type cardRecord struct {
	page  map[string]map[string]string // values by series, without the labels that are the same for all
	smi   map[string]map[string]string // values by column
	moved map[string]float64           // bytes per second that were read and written, of states in which that is known
	later []string                     // series that the exporter has only had since
}

// readCard reads the record of a folder: metrics.txt, a page for each state, nvidia-smi.csv, a row for each, moved.txt, and
// later.txt, if there is one.
func readCard(t *testing.T, dir string) cardRecord {
	t.Helper()
	c := cardRecord{page: map[string]map[string]string{}, smi: map[string]map[string]string{}, moved: map[string]float64{}}
	if later, err := os.ReadFile(filepath.Join(dir, "later.txt")); err == nil {
		c.later = strings.Fields(string(later))
	}
	state := ""
	for line := range strings.Lines(readText(t, dir, "metrics.txt")) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			state = strings.TrimSpace(name)
			c.page[state] = map[string]string{}
			continue
		}
		series, value := ownSeries(strings.TrimSpace(line))
		c.page[state][series] = value
	}
	r := csv.NewReader(strings.NewReader(readText(t, dir, "nvidia-smi.csv")))
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		c.smi[row[0]] = smiRow(rows[0], row)
	}
	for line := range strings.Lines(readText(t, dir, "moved.txt")) {
		var v float64
		if _, err := fmt.Sscanf(line, "%s %g", &state, &v); err != nil {
			t.Fatal(err)
		}
		c.moved[state] = v
	}
	return c
}

func readText(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ownSeries takes a line of a page apart. It leaves out the labels that say which GPU it is.
func ownSeries(line string) (series, value string) {
	series, value, _ = strings.Cut(line, "} ")
	name, labels, _ := strings.Cut(series, "{")
	var own []string
	for _, label := range strings.Split(labels, ",") {
		if key, _, _ := strings.Cut(label, "="); !slices.Contains([]string{"gpu", "uuid", "vendor", "host"}, key) {
			own = append(own, label)
		}
	}
	if len(own) > 0 {
		name += "{" + strings.Join(own, ",") + "}"
	}
	return name, value
}

// smiRow names the values of a row of nvidia-smi, without units in the names.
func smiRow(head, row []string) map[string]string {
	values := map[string]string{}
	for i, name := range head {
		name, _, _ = strings.Cut(name, " [")
		values[name] = row[i]
	}
	return values
}

// cardComparison is a series and the column of nvidia-smi that is the same.
type cardComparison struct {
	series, column string // the series without inference_gpu_
	unit           float64
	tolerance      float64 // in the unit of the series: what changes in a second
}

// cardComparisons returns what is compared with nvidia-smi.
func cardComparisons() []cardComparison {
	const mib, mhz, percent = 1 << 20, 1e6, 0.01
	all := []cardComparison{
		{"memory_total_bytes", "memory.total", mib, 0},
		{"memory_reserved_bytes", "memory.reserved", mib, mib},
		{"memory_used_bytes", "memory.used", mib, mib},
		{"memory_free_bytes", "memory.free", mib, mib},
		{"utilization_ratio", "utilization.gpu", percent, 0.01},
		{"memory_utilization_ratio", "utilization.memory", percent, 0.02},
		{"encoder_utilization_ratio", "utilization.encoder", percent, 0.02},
		{"decoder_utilization_ratio", "utilization.decoder", percent, 0.02},
		{`clock_hertz{domain="memory"}`, "clocks.current.memory", mhz, 0},
		{`clock_max_hertz{domain="sm"}`, "clocks.max.sm", mhz, 0},
		{`clock_max_hertz{domain="graphics"}`, "clocks.max.graphics", mhz, 0},
		{`clock_max_hertz{domain="memory"}`, "clocks.max.memory", mhz, 0},
		{`temperature_celsius{sensor="gpu"}`, "temperature.gpu", 1, 1},
		{`temperature_celsius{sensor="memory"}`, "temperature.memory", 1, 2},
		{"temperature_margin_celsius", "temperature.gpu.tlimit", 1, 2},
		{"power_watts", "power.draw.average", 1, 5},
		{"power_limit_watts", "enforced.power.limit", 1, 0},
		{"power_limit_default_watts", "power.default_limit", 1, 0},
		{"power_limit_requested_watts", "power.limit", 1, 0},
		{"module_power_watts", "module.power.draw.average", 1, 20},
		{"module_power_limit_watts", "module.enforced.power.limit", 1, 0},
		{"pstate", "pstate", 1, 0},
		{"pcie_link_generation", "pcie.link.gen.gpucurrent", 1, 0},
		{"pcie_link_generation", "pcie.link.gen.current", 1, 0},
		{"pcie_link_generation_max", "pcie.link.gen.max", 1, 0},
		{"pcie_link_width", "pcie.link.width.current", 1, 0},
		{"pcie_link_width_max", "pcie.link.width.max", 1, 0},
		{"row_remap_pending", "remapped_rows.pending", 1, 0},
		{"row_remap_failure", "remapped_rows.failure", 1, 0},
		{`remapped_rows{cause="correctable"}`, "remapped_rows.correctable", 1, 0},
		{`remapped_rows{cause="uncorrectable"}`, "remapped_rows.uncorrectable", 1, 0},
		{"sram_ecc_threshold_exceeded", "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", 1, 0},
		{"page_retirement_pending", "retired_pages.pending", 1, 0},
		{`retired_pages{cause="corrected"}`, "retired_pages.single_bit_ecc.count", 1, 0},
		{`retired_pages{cause="uncorrected"}`, "retired_pages.double_bit.count", 1, 0},
		{"recovery_action", "gpu_recovery_action", 1, 0},
		{"fabric_state", "fabric.state", 1, 0},
	}
	for _, severity := range []string{"corrected", "uncorrected"} {
		all = append(all, cardComparison{`ecc_errors_total{severity="` + severity + `"}`, "ecc.errors." + severity + ".volatile.total", 1, 0},
			cardComparison{`ecc_errors_aggregate{severity="` + severity + `"}`, "ecc.errors." + severity + ".aggregate.total", 1, 0})
	}
	for reason, name := range map[string]string{
		"hw_slowdown": "hw_slowdown", "hw_thermal": "hw_thermal_slowdown",
		"hw_power_brake": "hw_power_brake_slowdown", "sw_thermal": "sw_thermal_slowdown", "sync_boost": "sync_boost",
	} {
		all = append(all, cardComparison{`clock_event_active{reason="` + reason + `"}`, "clocks_event_reasons." + name, 1, 0})
	}
	return all
}

// smiNumber returns what nvidia-smi shows as a number: with a unit, in words, or as P0. It is not ok where it shows none.
func smiNumber(text string) (float64, bool) {
	if words, ok := map[string]float64{
		"No": 0, "Yes": 1, "Not Active": 0, "Active": 1, "None": 0, "Reset": 1, "Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4,
		"Not Started": 1, "In Progress": 2, "Completed": 3,
	}[text]; ok {
		return words, true
	}
	first, _, _ := strings.Cut(text, " ")
	v, err := strconv.ParseFloat(strings.TrimPrefix(first, "P"), 64)
	return v, err == nil
}

// compareCard compares a page of a GPU with a row of nvidia-smi. It returns what differs and the columns that it compared.
func compareCard(page, row map[string]string, later ...string) (differs, compared []string) {
	for _, c := range cardComparisons() {
		text, has := row[c.column]
		want, ok := smiNumber(text)
		value, there := page["inference_gpu_"+c.series]
		switch {
		case !has || !ok && !there || slices.Contains(later, c.series): // another release of nvidia-smi; neither has it
			continue
		case !ok || !there:
			differs = append(differs, fmt.Sprintf("%s is %q, %s of nvidia-smi %q", c.series, value, c.column, text))
			continue
		}
		got, err := strconv.ParseFloat(value, 64)
		if want *= c.unit; err != nil || !(math.Abs(got-want) <= c.tolerance) {
			differs = append(differs, fmt.Sprintf("%s is %s, %s of nvidia-smi %q", c.series, value, c.column, text))
		}
		compared = append(compared, c.column)
	}
	return differs, compared
}

// compareMoved compares the bandwidth that a page shows with the bytes per second that a load moved; "" is no difference.
func compareMoved(page map[string]string, moved float64) string {
	ratio, err1 := strconv.ParseFloat(page["inference_gpu_dram_bandwidth_utilization_ratio"], 64)
	peak, err2 := strconv.ParseFloat(page[`inference_gpu_memory_bandwidth_bytes_per_second{source="table"}`], 64)
	if got := ratio * peak; err1 != nil || err2 != nil || math.Abs(got/moved-1) > 0.005 {
		return fmt.Sprintf("%g bytes per second, want %g", got, moved)
	}
	return ""
}

// The values that the exporter showed of a real card, idle, while 3.026 TB/s were copied, 1.469 TB/s, matrices
// multiplied and memory held, are those of nvidia-smi, and the bandwidth in use is what the copies moved. Every family that
// it showed is still there. make gpu-real leaves such records.
func TestCard(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/nvidia-smi.csv")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("records: %v, %v", dirs, err)
	}
	var names []string
	for _, f := range Catalogue() {
		names = append(names, f.Name)
	}
	for _, dir := range dirs {
		c := readCard(t, filepath.Dir(dir))
		if len(c.page) < 5 || len(c.smi) != len(c.page) {
			t.Fatalf("%s: %d states, nvidia-smi has %d", dir, len(c.page), len(c.smi))
		}
		for state, page := range c.page {
			differs, compared := compareCard(page, c.smi[state], c.later...)
			for _, d := range differs {
				t.Errorf("%s: %s: %s", dir, state, d)
			}
			if len(compared) < 20 {
				t.Errorf("%s: %s: compared only %v", dir, state, compared)
			}
			for series := range page {
				if name, _, _ := strings.Cut(series, "{"); !slices.Contains(names, name) {
					t.Errorf("%s: %s is gone", dir, name)
				}
			}
		}
		for state, moved := range c.moved {
			if d := compareMoved(c.page[state], moved); d != "" {
				t.Errorf("%s: %s: %s", dir, state, d)
			}
		}
	}
}

// A wrong value of any series that is compared is found, one that is absent, and a bandwidth that is wrong by a hundredth.
func TestCardCanFail(t *testing.T) {
	c := readCard(t, "testdata/h100")
	page, row := c.page["copy"], c.smi["copy"]
	_, compared := compareCard(page, row, c.later...)
	for _, comparison := range cardComparisons() {
		series := "inference_gpu_" + comparison.series
		before := page[series]
		if !slices.Contains(compared, comparison.column) {
			continue
		}
		v, err := strconv.ParseFloat(before, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{strconv.FormatFloat(v+comparison.tolerance*2+1, 'g', -1, 64), "NaN", ""} {
			page[series] = wrong
			if wrong == "" {
				delete(page, series)
			}
			if differs, _ := compareCard(page, row, c.later...); len(differs) == 0 {
				t.Errorf("%s of %q passes", series, wrong)
			}
		}
		page[series] = before
	}
	if compareMoved(page, 1.01*c.moved["copy"]) == "" || compareMoved(page, 0.99*c.moved["copy"]) == "" || compareMoved(nil, 1) == "" {
		t.Error("a bandwidth that is wrong passes")
	}
}

// Each name that the table of readings has for nvidia-smi is compared, or left out for a reason.
func TestCardComparesAll(t *testing.T) {
	leftOut := map[string]string{
		"power.draw":                              "compared as power.draw.average, which it is on recent GPUs",
		"clocks_event_reasons_counters.*":         "grow between the two readings",
		"edpp_multiplier":                         "not among the columns of the releases that were seen",
		"fan.speed":                               "one for all fans",
		"fabric.status":                           "a word for an error, and the health beside it",
		"gpu_virtualization_mode":                 "a word for the label",
		"remapped_rows.histogram.*":               "compared with NVML",
		"ecc.errors.uncorrected.volatile.sram.*":  "named by unit and kind",
		"ecc.errors.uncorrected.aggregate.sram.*": "named by unit and kind",
	}
	columns := map[string]bool{}
	for _, c := range cardComparisons() {
		columns[c.column] = true
	}
	for _, i := range gpu.Readings() {
		for _, name := range strings.Split(i.NvidiaSMI, ", ") {
			found := name == "" || leftOut[name] != ""
			for column := range columns {
				ok, err := filepath.Match(name, column)
				if err != nil {
					t.Fatal(err)
				}
				found = found || ok
			}
			if !found {
				t.Errorf("%s: %s of nvidia-smi is not compared", i.Kind, name)
			}
		}
	}
}
