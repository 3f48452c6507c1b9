//go:build linux && cgo

package gpu

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
)

func itoa(n int) string { return strconv.Itoa(n) }

// reader makes a call comparable.
func reader[T any](f func() (T, error)) func() (any, error) {
	return func() (any, error) { return f() }
}

func check(t *testing.T, name string, read func() (any, error), want any) {
	t.Helper()
	got, err := read()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s = %v, %v, want %v", name, got, err, want)
	}
}

// testValues: each method asks for what it says. The expected values are those
// of fakenvml.Machine, all different from one another.
func testValues(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(2)
	machine["device1.name"] = "Other"
	l := openFake(t, p, machine)
	d := deviceOf(t, l, 1)
	check(t, "DriverVersion", reader(l.DriverVersion), "550.54.15")
	check(t, "CUDAVersion", reader(l.CUDAVersion), "12.4")
	check(t, "DeviceCount", reader(l.DeviceCount), 2)
	for question, want := range map[string]string{
		"UUID": "GPU-00000000-0000-0000-0000-000000000001", "name": "Other", "PCI bus id": "00000000:3C:00.0", "compute capability": "9.0",
		"chassis serial number": "1823825185529", "slot number": "5", "tray index": "4", "host id": "1", "module id": "2",
		"fabric cluster": "01020304-0506-0708-090a-0b0c0d0e0f10", "fabric clique": "32766", "confidential computing mode": "on",
	} {
		checkText(t, d, question, want)
	}
	for question, want := range map[string][]float64{
		"minor number": {1}, "memory": {85520809984, 60000000000, 24983938304, 536871680}, "memory bus width": {5120},
		"utilization": {87, 41}, "encoder utilization": {3}, "decoder utilization": {4},
		"clock graphics": {1755}, "clock sm": {1740}, "clock memory": {2619}, "clock video": {1545},
		"highest clock graphics": {1980}, "highest clock sm": {1975}, "highest clock memory": {2620}, "highest clock video": {1546},
		"power": {412345}, "power limit": {700000}, "energy": {9876543210123}, "temperature": {54}, "fans": {33, 104}, "performance state": {0},
		"PCIe generation": {4}, "PCIe width": {8}, "highest PCIe generation": {5}, "highest PCIe width": {16}, "PCIe replays": {7},
		"ECC errors, corrected": {11}, "ECC errors, uncorrected": {12}, "ECC errors, corrected, lifetime": {13}, "ECC errors, uncorrected, lifetime": {14},
		"remapped rows": {1, 2, 1, 0}, "clock event reasons": {0x24}, // software power cap and thermal
		"MIG mode": {0}, "unit counters": {1}, "default power limit": {750000}, "requested power limit": {720000},
		"SRAM ECC errors": {21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 1}, "repair": {1, 0}, "unrepairable memory": {1}, "row remapper": {640, 5, 4, 3, 2},
		"temperature margin": {-3}, "temperature of shutdown": {95}, "temperature of slowdown": {92}, "temperature of memory maximum": {94}, "temperature of GPU maximum": {87},
	} {
		checkNumbers(t, d, question, want...)
	}
	checkFabric(t, d, 3, 1)
	// Of the 15 profiles of the header this GPU has the first and LLM inference, which is in force.
	profiles, err := d.Numbers("workload power profiles")
	if err != nil || len(profiles) != 15 || profiles[0] != 0 || profiles[6] != 1 || !math.IsNaN(profiles[1]) || !math.IsNaN(profiles[14]) {
		t.Errorf("workload power profiles = %v, %v", profiles, err)
	}
}

// checkFabric looks at the state of the fabric and its health alone.
func checkFabric(t *testing.T, d Device, state, healthy float64) {
	t.Helper()
	got, err := d.Numbers("fabric state")
	if err != nil || len(got) != 15 || got[0] != state || got[1] != healthy {
		t.Errorf("fabric state = %v, %v, want %v, %v and 13 faults", got, err, state, healthy)
	}
}

func checkText(t *testing.T, d Device, question, want string) {
	t.Helper()
	check(t, question, func() (any, error) { return d.Text(question) }, want)
}

func checkNumbers(t *testing.T, d Device, question string, want ...float64) {
	t.Helper()
	check(t, question, func() (any, error) { return d.Numbers(question) }, want)
}

// testNotAvailable: what the library has no value for is no value.
func testNotAvailable(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	for key, value := range map[string]string{
		"pstate":         "32", // the library's word for unknown
		"power_usage":    "4294967295",
		"minor":          "4294967295",
		"energy":         "18446744073709551615",
		"temperature":    "-5",
		"fabric_version": "3", "fabric_summary": "3", // limited capacity
	} {
		machine["device0."+key] = value
	}
	d := deviceOf(t, openFake(t, p, machine), 0)
	for _, question := range []string{"performance state", "power", "minor number", "energy", "clock tensor"} {
		wantCode(t, question, only(d.Numbers(question)), CodeNotSupported)
	}
	wantCode(t, "serial", only(d.Text("serial")), CodeNotSupported)
	checkNumbers(t, d, "temperature", -5)
	checkFabric(t, d, 3, 0) // in the newest form only, which has the summary

	machine["device0.fabric_version"] = "2"
	machine["device0.nvmlDeviceGetMemoryInfo_v2.return"] = "25"
	machine["device0.nvmlDeviceGetTemperatureV.return"] = "3"
	machine["device0.temperature"] = "61"
	machine.Write(t, p.State)
	checkFabric(t, d, 3, 1) // in the older form only, as what follows
	checkNumbers(t, d, "memory", 85520809984, 60536871680, 24983938304)
	checkNumbers(t, d, "temperature", 61)

	// Where a GPU is, and in which mode: no rack, a fabric of this host alone, and tools that may look in.
	machine["device0.platform"] = "- 255 255 1 7"
	delete(machine, "device0.fabric_cluster")
	machine["confidential"] = "1 1 0"
	machine.Write(t, p.State)
	for question, want := range map[string]string{
		"chassis serial number": "", "slot number": "", "host id": "", "module id": "7", "fabric cluster": "", "fabric clique": "",
		"confidential computing mode": "devtools",
	} {
		checkText(t, d, question, want)
	}
	for settings, want := range map[string]string{"0 0 0": "none", "0 0 1": "protected_pcie", "1 0 2": "nvle"} {
		machine["confidential"] = settings
		machine.Write(t, p.State)
		checkText(t, d, "confidential computing mode", want)
	}
	delete(machine, "confidential")
	delete(machine, "device0.platform")
	machine["device0.fabric_cluster"], machine["device0.fabric_state"] = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "2"
	machine.Write(t, p.State)
	wantCode(t, "confidential computing mode", only(d.Text("confidential computing mode")), CodeNotSupported)
	wantCode(t, "module id", only(d.Text("module id")), CodeNotSupported)
	checkText(t, d, "fabric cluster", "") // it is not registered yet
}

// TestNVMLOld: a driver without the newer functions gives what it has.
func TestNVMLOld(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Old, func(t *testing.T, p fakenvml.Process) {
		machine := fakenvml.Machine(1)
		machine["device0.process0"] = "4711 1000000 -"
		d := deviceOf(t, openFake(t, p, machine), 0)
		// Here the reserve counts as used: 60000000000 + 536871680.
		checkNumbers(t, d, "memory", 85520809984, 60536871680, 24983938304)
		checkNumbers(t, d, "temperature", 54)
		checkNumbers(t, d, "clock event reasons", 0x24)
		check(t, "Processes", reader(d.Processes), []Process{{PID: 4711, MemoryUsed: 1000000}})
		wantCode(t, "fabric state", only(d.Numbers("fabric state")), CodeFunctionNotFound)
		wantCode(t, "unit counters", only(d.Numbers("unit counters")), CodeFunctionNotFound)
		wantCode(t, "GPMSample", only(d.GPMSample()), CodeFunctionNotFound)
	})
}

func testFields(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	for key, value := range map[string]string{
		"field1.0":            "double 0.25",
		"field2.0":            "uint32 4294967295",
		"field3.0":            "ulong 1099511627776",
		"field4.0":            "uint64 9007199254740992",
		"field5.0":            "int64 -40",
		"field6.0":            "int32 -41",
		"field7.0":            "uint16 65535",
		"field8.0":            "double nan",
		"field9.0":            "double inf",
		"field10.0":           "other 1",
		"field11.0":           "return 15",
		"field165.17":         "return 2", // a link that is not there
		"field138.4294967295": "uint64 1234",
		"field138.3":          "uint64 56",
	} {
		machine["device0."+key] = value
	}
	d := deviceOf(t, openFake(t, p, machine), 0)
	for _, tt := range []struct {
		field Field
		want  float64
		code  Code
	}{
		{field: Field{ID: 1}, want: 0.25},
		{field: Field{ID: 2}, want: 4294967295},
		{field: Field{ID: 3}, want: 1099511627776},
		{field: Field{ID: 4}, want: 9007199254740992},
		{field: Field{ID: 5}, want: -40},
		{field: Field{ID: 6}, want: -41},
		{field: Field{ID: 7}, want: 65535},
		{field: Field{ID: 8}, code: CodeNotSupported},
		{field: Field{ID: 9}, code: CodeNotSupported},
		{field: Field{ID: 10}, code: CodeNotSupported},
		{field: Field{ID: 11}, code: CodeLost},
		{field: Field{ID: 12}, code: CodeNotSupported},
		{field: Field{ID: 165, Scope: 17}, code: CodeNotSupported},
		{field: Field{ID: 138, Scope: math.MaxUint32}, want: 1234},
		{field: Field{ID: 138, Scope: 3}, want: 56},
	} {
		// One that is there always, so that the call as a whole succeeds.
		results, err := d.Fields([]Field{tt.field, {ID: 82}})
		if err != nil || len(results) != 2 {
			t.Errorf("Fields(%v) = %v, %v", tt.field, results, err)
			continue
		}
		if tt.code != "" {
			wantCode(t, "field "+itoa(tt.field.ID), results[0].Err, tt.code)
		} else if results[0] != (FieldResult{Value: tt.want}) {
			t.Errorf("Fields(%v) = %v, want %v", tt.field, results[0], tt.want)
		}
		if results[1] != (FieldResult{Value: 61}) {
			t.Errorf("field 82 beside %v = %v, want 61", tt.field, results[1])
		}
	}
	wantCode(t, "fields that are not there", only(d.Fields([]Field{{ID: 12}})), CodeNotSupported)
	if results, err := d.Fields(nil); len(results) != 0 || err != nil {
		t.Errorf("Fields(nil) = %v, %v", results, err)
	}
}

// The masks are composed by hand of the two bits for each of bandwidth (0), route
// recovery (2), route health (4) and recovery of time-outs (6), of which 1 is bad
// and 2 good; of four bits for the configuration (8), of which 1 is good; and
// of two for the partition (12).
func TestFabricHealth(t *testing.T) {
	const allGood = 2 | 2<<2 | 2<<4 | 2<<6 | 1<<8 | 1<<12
	for _, tt := range []struct {
		name  string
		info  nvml.GpuFabricInfo_v3
		want  bool
		fault string // of fabric_fault
	}{
		{"nothing is reported", nvml.GpuFabricInfo_v3{}, true, ""},
		{"all is good", nvml.GpuFabricInfo_v3{HealthMask: allGood, HealthSummary: 1}, true, ""},
		{"unknown error", nvml.GpuFabricInfo_v3{Status: 999}, false, "registration_failed"},
		{"error of all that is good", nvml.GpuFabricInfo_v3{Status: 3, HealthMask: allGood, HealthSummary: 1}, false, "registration_failed"},
		{"bandwidth", nvml.GpuFabricInfo_v3{HealthMask: 1}, false, "degraded_bandwidth"},
		{"route recovery", nvml.GpuFabricInfo_v3{HealthMask: 1 << 2}, false, "route_recovery"},
		{"route", nvml.GpuFabricInfo_v3{HealthMask: 1 << 4}, false, "route_unhealthy"},
		{"time-outs", nvml.GpuFabricInfo_v3{HealthMask: 1 << 6}, false, "access_timeout_recovery"},
		{"good configuration", nvml.GpuFabricInfo_v3{HealthMask: 1 << 8}, true, ""},
		{"wrong system", nvml.GpuFabricInfo_v3{HealthMask: 2 << 8}, false, "incorrect_system_guid"},
		{"invalid state", nvml.GpuFabricInfo_v3{HealthMask: 8 << 8}, false, "gpu_state_invalid"},
		{"too few links", nvml.GpuFabricInfo_v3{HealthMask: 5 << 8}, false, "insufficient_nvlinks"},
		{"a reason that is newer", nvml.GpuFabricInfo_v3{HealthMask: 9 << 8}, false, ""},
		{"one fault of all that is good", nvml.GpuFabricInfo_v3{HealthMask: allGood - 1}, false, "degraded_bandwidth"},
		{"no partition", nvml.GpuFabricInfo_v3{HealthMask: 2 << 12}, true, ""},
		{"summary: unhealthy", nvml.GpuFabricInfo_v3{HealthSummary: 2}, false, ""},
		{"summary: limited", nvml.GpuFabricInfo_v3{HealthSummary: 3}, false, "limited_capacity"},
	} {
		tt.info.State = 3
		got, err := fabric(tt.info, nvml.SUCCESS)
		if err != nil || !slices.Equal(got[:2], []float64{3, flag(tt.want)}) {
			t.Errorf("%s: %v, %v, want %t", tt.name, got, err, tt.want)
		}
		var out readings
		for _, a := range newTables().question("fabric state").gives {
			if a.kind == "fabric_fault" {
				a.add(got, &out)
			}
		}
		faults := slices.DeleteFunc(out.list, func(r Reading) bool { return r.Value == 0 })
		if len(faults) != len(strings.Fields(tt.fault)) || len(faults) == 1 && faults[0].Label != tt.fault {
			t.Errorf("%s: faults %v, want %q", tt.name, faults, tt.fault)
		}
		if known := len(out.list); tt.info.HealthMask == allGood && known != 13 || tt.info.HealthMask == 0 && tt.info.HealthSummary == 0 && known != 1 {
			t.Errorf("%s: %d faults are known, want those that the driver reports", tt.name, known)
		}
		older := nvml.GpuFabricInfo_v2{State: tt.info.State, Status: tt.info.Status, HealthMask: tt.info.HealthMask, CliqueId: 7}
		tt.info.HealthSummary, tt.info.CliqueId = 0, 7 // the older form has no summary
		if got := newerFabric(older); got != tt.info {
			t.Errorf("%s, older form: %+v, want %+v", tt.name, got, tt.info)
		}
	}
	for state := range uint8(3) {
		got, err := fabric(nvml.GpuFabricInfo_v3{State: state, Status: 999}, nvml.SUCCESS)
		if want := []float64{float64(state)}; state > 0 && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("state %d: %v, %v, want no health", state, got, err)
		}
		if state == 0 {
			wantCode(t, "a GPU without a fabric", err, CodeNotSupported)
		}
	}
}
