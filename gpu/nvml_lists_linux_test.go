//go:build linux && cgo

package gpu

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
)

// testMIG: slots are sparse, and a GPU is split while it is in use.
func testMIG(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	l := openFake(t, p, machine)
	d := deviceOf(t, l, 0)
	if devices, err := d.MIGDevices(); len(devices) != 0 || err != nil {
		t.Errorf("MIGDevices() of a whole GPU = %v, %v", devices, err)
	}
	maps.Copy(machine, fakenvml.State{
		"device0.mig_mode":  "1",
		"device0.mig_slots": "7",

		"device0.mig1.uuid": "MIG-one", "device0.mig1.name": "Fake GPU MIG 1g.10gb",
		"device0.mig1.gpu_instance": "9", "device0.mig1.compute_instance": "0",
		"device0.mig1.memory_total": "100", "device0.mig1.memory_used": "20",
		"device0.mig1.memory_free": "70", "device0.mig1.memory_reserved": "10",

		"device0.mig4.uuid": "MIG-four", "device0.mig4.name": "Fake GPU MIG 3g.40gb",
		"device0.mig4.gpu_instance": "2", "device0.mig4.compute_instance": "1",

		// Taken away between the handle and its number.
		"device0.mig5.uuid": "MIG-five",
		"device0.mig5.nvmlDeviceGetGpuInstanceId.return": "6",
	})
	machine.Write(t, p.State)
	checkNumbers(t, d, "MIG mode", 1)
	devices, err := d.MIGDevices()
	if err != nil || len(devices) != 2 {
		t.Fatalf("MIGDevices() = %v, %v, want 2", devices, err)
	}
	for i, want := range []struct {
		uuid, name     string
		instance, part int
	}{
		{"MIG-one", "Fake GPU MIG 1g.10gb", 9, 0},
		{"MIG-four", "Fake GPU MIG 3g.40gb", 2, 1},
	} {
		checkText(t, devices[i], "UUID", want.uuid)
		checkText(t, devices[i], "name", want.name)
		if got := devices[i]; got.GPUInstance != want.instance || got.ComputeInstance != want.part {
			t.Errorf("%s has instances %d, %d, want %d, %d", want.uuid, got.GPUInstance, got.ComputeInstance, want.instance, want.part)
		}
	}
	checkNumbers(t, devices[0], "memory", 100, 20, 70, 10)
	wantCode(t, "Memory that is not reported", only(devices[1].Numbers("memory")), CodeNotSupported)
	wantCode(t, "Watch", l.Watch(devices[0]), CodeNotSupported)

	machine["device0.mig_slots"] = "4000000000" // nonsense, and yet it ends
	machine.Write(t, p.State)
	if devices, err := d.MIGDevices(); len(devices) != 2 || err != nil {
		t.Errorf("MIGDevices() = %v, %v, want 2", devices, err)
	}
	machine["device0.mig1.nvmlDeviceGetGpuInstanceId.return"] = "15"
	machine.Write(t, p.State)
	wantCode(t, "MIGDevices of a lost GPU", only(d.MIGDevices()), CodeLost)
}

func testProcesses(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	d := deviceOf(t, openFake(t, p, machine), 0)
	check(t, "Processes", reader(d.Processes), []Process{})
	maps.Copy(machine, fakenvml.State{
		"device0.process0": "101 40000000000 -",
		"device0.process1": "102 - -",
		"device0.process2": "103 0 3",
	})
	machine.Write(t, p.State)
	check(t, "Processes", reader(d.Processes), []Process{
		{PID: 101, MemoryUsed: 40000000000},
		{PID: 102, MemoryUsed: -1},
		{PID: 103, MemoryUsed: 0},
	})
}

func testProcessUtilization(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	d := deviceOf(t, openFake(t, p, machine), 0)
	wantCode(t, "ProcessUtilization without samples", only(d.ProcessUtilization(0)), CodeNotFound)
	maps.Copy(machine, fakenvml.State{
		"device0.sample0": "101 1700000000000001 30",
		"device0.sample1": "102 1700000000000002 0",
		"device0.sample2": "0 1700000000000003 50",    // not filled
		"device0.sample3": "103 1700000000000004 101", // nor this
	})
	machine.Write(t, p.State)
	since := func(at uint64) func() (any, error) {
		return func() (any, error) { return d.ProcessUtilization(at) }
	}
	first := Sample{ID: 101, Timestamp: 1700000000000001, SM: 30}
	second := Sample{ID: 102, Timestamp: 1700000000000002}
	check(t, "ProcessUtilization", since(0), []Sample{first, second})
	check(t, "ProcessUtilization", since(1700000000000001), []Sample{second})

	machine["device0.samples_grow"] = "1"
	machine.Write(t, p.State)
	wantCode(t, "ProcessUtilization while a sample is added", only(d.ProcessUtilization(0)), CodeNoData)
}

func testGPM(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	machine["device0.gpm2"], machine["device0.gpm10"], machine["device0.gpm5"] = "100", "1000", "inf"
	d := deviceOf(t, openFake(t, p, machine), 0)
	sample := func() GPMSample {
		t.Helper()
		s, err := d.GPMSample()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	older := sample()
	machine["device0.gpm2"], machine["device0.gpm10"] = "187.5", "1041"
	machine.Write(t, p.State)
	newer := sample()
	metrics := func() (any, error) { return d.GPMMetrics(older, newer, []int{10, 2, 5, 3}) }
	// By how much the counters grew; 5 is not finite and 3 is not there.
	check(t, "GPMMetrics", metrics, map[int]float64{10: 41, 2: 87.5})

	newer.Free()
	machine["nvmlGpmSampleGet.return"] = "4"
	machine.Write(t, p.State)
	wantCode(t, "GPMSample without permission", only(d.GPMSample()), CodeNoPermission)
	older.Free()
	calls := read(t, p.Calls)
	allocated, freed := strings.Count(calls, "nvmlGpmSampleAlloc\n"), strings.Count(calls, "nvmlGpmSampleFree\n")
	if allocated < 3 || freed != allocated {
		t.Errorf("%d samples were freed of %d", freed, allocated)
	}
}

func testXIDs(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(3)
	l := openFake(t, p, machine)
	wantCode(t, "NextXID before any Watch", only(l.NextXID()), CodeTimeout)
	machine["device1.event_types"] = "4" // changes of the performance state only
	machine.Write(t, p.State)
	for _, index := range []int{0, 2, 2} {
		if err := l.Watch(deviceOf(t, l, index)); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, "Watch", l.Watch(deviceOf(t, l, 1)), CodeNotSupported)
	wantCode(t, "NextXID", only(l.NextXID()), CodeTimeout)

	// The second one takes the GPU away, which then no longer reports its UUID.
	maps.Copy(machine, fakenvml.State{"xid1": "2 13", "xid2": "0 79", "device0.lost": "1"})
	machine.Write(t, p.State)
	before := time.Now()
	for _, want := range []XID{
		{UUID: "GPU-00000000-0000-0000-0000-000000000002", Number: 13},
		{UUID: "GPU-00000000-0000-0000-0000-000000000000", Number: 79},
	} {
		got, err := l.NextXID()
		if err != nil || got.UUID != want.UUID || got.Number != want.Number || got.At.Before(before) {
			t.Errorf("NextXID() = %v, %v, want %v", got, err, want)
		}
	}
	wantCode(t, "NextXID", only(l.NextXID()), CodeTimeout)
	machine["nvmlEventSetWait_v2.return"] = "15"
	machine.Write(t, p.State)
	wantCode(t, "NextXID of a lost GPU", only(l.NextXID()), CodeLost)
}
