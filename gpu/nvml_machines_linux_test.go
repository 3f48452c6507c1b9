//go:build linux && cgo

package gpu

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
)

// The machines here were not seen: what their drivers answer is composed of the
// driver's header, data sheets and what others recorded, as each says. The
// numbers that are read are invented.

// first returns the state of a machine with one GPU.
func first(properties fakenvml.State) fakenvml.State {
	machine := fakenvml.State{"driver_version": "580.95.05", "cuda_version": "13000", "devices": "1"}
	for key, value := range properties {
		machine["device0."+key] = value
	}
	return machine
}

// blackwell is a B200 with all links of NVLink 5 up: no totals, what each link
// counts instead.
func blackwell() fakenvml.State {
	s := fakenvml.State{
		"uuid": "GPU-b200", "name": "NVIDIA B200", "compute_capability": "10.0",
		"memory_total": "191503532032", "memory_used": "150000000000", "memory_free": "40966661120", "memory_reserved": "536870912",
		"power_usage": "812345", "power_limit": "1000000", "clock_event_reasons": "4096", // a bit that the header does not have
		"mig_mode": "0", "gpm_supported": "1", "gpm2": "0", "gpm5": "0", "gpm10": "0", "virtualization_mode": "0", "addressing_mode": "1",
		"field91.0": "uint32 18", "field230.0": "uint32 5", "field185.2": "uint32 98765",
	}
	for link := range 18 {
		for id, value := range map[int]string{
			165: "uint32 1", 166: "uint32 7", 201: "uint64 100", 202: "uint64 51200", 203: "uint64 200", 204: "uint64 102400",
			208: "uint64 1", 214: "uint64 0", 215: "uint64 2", 219: "uint64 3",
			220: "uint64 4095",                            // 15e-255: no errors
			235: "uint64 1000000000000", 236: "uint64 50", // of up to 16 bins
		} {
			s[fmt.Sprintf("field%d.%d", id, link)] = value
		}
	}
	s["field165.4"] = "uint32 2"     // it sleeps
	s["field220.7"] = "uint64 268"   // 0x10c: 1e-12
	s["field220.8"] = "uint64 1288"  // 0x508: 5e-8
	s["field242.8"] = "uint64 9"     // bin 7
	s["field166.9"] = "return 3"     // not supported, and yet the others count
	s["field235.17"] = "return 21"   // no data: no sum of the bin
	s["field190.1"] = "return 3"     // no module
	s["field197.0"] = "return 2"     // an argument that it does not know
	s["field269.0"] = "uint64 1"     // ns
	s["field82.0"] = "uint32 66"     // HBM
	s["field74.0"] = "uint64 500000" // ns
	maps.Copy(s, fakenvml.State{
		"field77.0": "uint64 2000000000", "field79.0": "return 3", // ns
		"power_limit_default": "1000000", "power_limit_requested": "1000000", "temperature_margin": "28",
		"field193.0": "int32 -8", "field194.0": "int32 -2", "field195.0": "int32 0", "field196.0": "int32 0",
		"sram": "4 0 1 5 0 2 1 1 0 0 0 0", "repair": "0 1", "unrepairable": "0", "row_remapper": "2558 1 0 0 1",
		"field173.0": "uint32 6", "field179.0": "uint32 1", "field180.0": "uint32 0", "field182.0": "uint32 2",
		"power_profiles": "99 64", // of max_p, max_q, balanced and llm_inference the last one is in force
		"field251.0":     "uint32 1", "field254.0": "uint32 1000", "field255.0": "uint32 350", "field274.0": "uint32 90", "field297.0": "uint32 12",
		"platform": "- 0 0 1 5", "fabric_state": "3", "fabric_summary": "1", // a board of eight: one host's fabric
	})
	return s
}

// grace is a GB200: the memory of its own is reported, that of the CPU is
// addressed by hardware, and the module has a power limit.
func grace() fakenvml.State {
	s := fakenvml.State{
		"uuid": "GPU-gb200", "name": "NVIDIA GB200", "compute_capability": "10.0",
		"memory_total": "198642237440", "memory_used": "1000", "memory_free": "198105365528", "memory_reserved": "536870912",
		"power_usage": "901000", "power_limit": "1200000", "addressing_mode": "2", "virtualization_mode": "0", "mig_mode": "0",
		"field91.0": "uint32 0", "field185.1": "uint32 1650500", "field190.1": "uint32 2700000", "field185.2": "return 25",
		// Degraded bandwidth, and all else good.
		"fabric_state": "3", "fabric_summary": "2", "fabric_health": fmt.Sprint(1 | 2<<2 | 2<<4 | 2<<6 | 1<<8 | 1<<12),
		"fabric_cluster": "18 52 86 120 154 188 64 17 128 1 2 3 4 5 6 7", "fabric_clique": "32766",
		"platform":   "1823825185529 5 4 1 2", // of a GB300 as NVIDIA/k8s-test-infra#642 recorded it
		"field170.0": "uint32 2",
	}
	for link := range 2 {
		for id, value := range map[int]string{172: "uint32 44712", 231: "uint64 3", 232: "uint64 4", 233: "uint64 0"} {
			s[fmt.Sprintf("field%d.%d", id, link)] = value
		}
	}
	s["field171.0"], s["field171.1"] = "uint32 1", "uint32 0"
	return s
}

// spark is a GB10 as XuehaiPan/nvitop#208 and rossumai/nvgpu#37 recorded it: memory, its clock
// and the power limit are not supported, as the memory is the CPU's; a power
// of 11.17 W at 35 °C.
func spark() fakenvml.State {
	return fakenvml.State{
		"uuid": "GPU-gb10", "name": "NVIDIA GB10", "compute_capability": "12.1", "pci_bus_id": "0000000F:01:00.0",
		"utilization": "0", "memory_utilization": "0", "power_usage": "11170", "temperature": "35",
		"clock_sm": "2418", "clock_sm_max": "3003", "pstate": "0", "addressing_mode": "2", "virtualization_mode": "0",
	}
}

// proParts is an RTX PRO 6000 Blackwell in MIG mode, with profiles for
// graphics and for media.
func proParts() fakenvml.State {
	s := fakenvml.State{
		"uuid": "GPU-pro", "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "compute_capability": "12.0",
		"memory_total": "102641958912", "memory_used": "1", "memory_free": "102641958910", "memory_reserved": "1",
		"mig_mode": "1", "mig_slots": "4", "gpm_supported": "1", "power_usage": "300000", "utilization": "1", "memory_utilization": "1",
		"field91.0": "return 3", "virtualization_mode": "1",
	}
	for slot, profile := range []string{"1g.24gb+gfx", "1g.24gb+me.all", "2g.48gb-me"} {
		part := fmt.Sprintf("mig%d.", slot)
		maps.Copy(s, fakenvml.State{
			part + "uuid": fmt.Sprint("MIG-", slot), part + "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG " + profile,
			part + "gpu_instance": fmt.Sprint(slot + 3), part + "compute_instance": "0",
			part + "memory_total": "25000000000", part + "memory_used": fmt.Sprint(slot, "000000"), part + "memory_free": "20000000000", part + "memory_reserved": "5",
			part + "gpm2": "0", part + "gpm10": "0",
		})
	}
	return s
}

// guest is a vGPU in a virtual machine: its name is that of its profile, and
// the bandwidth of its share is unknown.
func guest() fakenvml.State {
	return fakenvml.State{
		"uuid": "GPU-guest", "name": "NVIDIA RTX PRO 6000 Blackwell DC-24Q", "compute_capability": "12.0",
		"memory_total": "25769803776", "memory_used": "20000000000", "memory_free": "5000000000", "memory_reserved": "769803776",
		"utilization": "50", "memory_utilization": "20", "clock_memory_max": "12481", "memory_bus_width": "512",
		"virtualization_mode": "2", "license": "1 2 2027 1 31 12 30 0", "addressing_mode": "0",
	}
}

// host is a GPU that two virtual machines share.
func host() fakenvml.State {
	return fakenvml.State{
		"uuid": "GPU-host", "name": "NVIDIA L40S", "compute_capability": "8.9",
		"memory_total": "48305799168", "memory_used": "40000000000", "memory_free": "8000000000", "memory_reserved": "305799168",
		"virtualization_mode": "3", "vgpu_profile": "NVIDIA L40S-16Q",
		"vgpu0": "a1b2 vm-7 12000000000", "vgpu1": "c3d4 vm-8 -", "vgpu2": "e5f6 vm-9 0",
		"vgpu_sample0": "0 1700000000000001 40", "vgpu_sample1": "0 1700000000000002 75", "vgpu_sample2": "1 1700000000000002 101",
	}
}

// TestNVMLMachines: what each machine gives through the library, in the second
// of two polls 4 s apart. What is expected is worked out by hand in its file.
func TestNVMLMachines(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		for _, tt := range []struct {
			file  string
			state fakenvml.State
			later fakenvml.State // what changes until the second poll
		}{
			{"b200.txt", blackwell(), fakenvml.State{"gpm2": "87.5", "gpm5": "50", "gpm10": "62.5"}},
			{"gb200.txt", grace(), nil},
			{"gb10.txt", spark(), nil},
			{"rtx-pro-6000-mig.txt", proParts(), fakenvml.State{"mig0.gpm10": "25", "mig2.gpm2": "100", "mig2.gpm10": "75"}},
			{"vgpu-guest.txt", guest(), nil},
			{"vgpu-host.txt", host(), fakenvml.State{"vgpu_sample3": "2 1700000000000003 5"}},
		} {
			t.Run(tt.file, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first(tt.state).Write(t, p.State)
					s := newSession(NVML(p.Library), newPoller(SourceNVML, Options{Logger: testLogger(t)}))
					defer s.close()
					if o := s.cycle(false); o.State != StateUp {
						t.Fatalf("state %s: %v", o.State, o.Err)
					}
					time.Sleep(4 * time.Second)
					maps.Copy(tt.state, tt.later)
					first(tt.state).Write(t, p.State)
					o := s.cycle(false)
					if o.State != StateUp {
						t.Fatalf("state %s: %v", o.State, o.Err)
					}
					wantReadings(t, tt.file, o.Devices[0])
				})
			})
		}
	})
}

// TestNVMLCallsOfAPoll: a poll of a GPU with many links takes one call for its
// fields, and a second one once a minute; what hardly changes is not asked for.
func TestNVMLCallsOfAPoll(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		synctest.Test(t, func(t *testing.T) {
			first(blackwell()).Write(t, p.State)
			s := newSession(NVML(p.Library), newPoller(SourceNVML, Options{Logger: testLogger(t)}))
			defer s.close()
			s.cycle(false)
			s.cycle(false) // this one tries what the links count
			began, polls := len(read(t, p.Calls)), 12
			for range polls {
				time.Sleep(5 * time.Second)
				s.cycle(false)
			}
			calls := strings.Split(strings.TrimSpace(read(t, p.Calls)[began:]), "\n")
			count := map[string]int{}
			for _, c := range calls {
				count[c]++
			}
			if got := count["nvmlDeviceGetFieldValues"]; got != polls+1 {
				t.Errorf("%d calls for fields in %d polls of a minute, want one each and one for the slow ones", got, polls)
			}
			for _, rare := range []string{"nvmlDeviceGetAddressingMode", "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetName", "nvmlDeviceGetActiveVgpus", "nvmlDeviceGetPlatformInfo"} {
				if count[rare] != 0 {
					t.Errorf("%s was called %d times", rare, count[rare])
				}
			}
			for _, slow := range []string{"nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetPowerManagementDefaultLimit"} {
				if count[slow] != 1 {
					t.Errorf("%s was called %d times in a minute, want 1", slow, count[slow])
				}
			}
			if most := 30 * polls; len(calls) > most {
				t.Errorf("%d calls in %d polls, want %d at most", len(calls), polls, most)
			}
		})
	})
}
