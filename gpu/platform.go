package gpu

import (
	"errors"
	"time"
)

// AddressingMode is how a GPU and its CPU address each other's memory.
type AddressingMode string

// The addressing modes.
const (
	AddressingNone AddressingMode = "none"
	AddressingHMM  AddressingMode = "hmm" // heterogeneous memory management: by software
	AddressingATS  AddressingMode = "ats" // address translation services: by hardware, as with Grace
)

// VirtualizationMode is what a GPU is to a virtual machine.
type VirtualizationMode string

// The virtualization modes.
const (
	VirtualizationNone        VirtualizationMode = "none" // bare metal
	VirtualizationPassthrough VirtualizationMode = "passthrough"
	VirtualizationGuest       VirtualizationMode = "vgpu"      // a vGPU, seen from its virtual machine
	VirtualizationHost        VirtualizationMode = "host_vgpu" // a GPU that is divided into vGPUs
	VirtualizationShared      VirtualizationMode = "host_vsga"
)

// License is the state of the license of a vGPU.
type License struct {
	Licensed bool
	// Expires is zero where the license does not expire or that is unknown.
	Expires time.Time
}

// VGPU is a vGPU that runs on a GPU, seen from its host.
type VGPU struct {
	ID uint32 // the driver's, while the vGPU runs
	// UUID, VM and Profile identify it; "" is unknown. VM is the name or
	// the number that the hypervisor gave to the virtual machine.
	UUID, VM, Profile string
	// MemoryUsed is in bytes; valid only if MemoryKnown.
	MemoryUsed  uint64
	MemoryKnown bool
}

// VGPUSample is what a vGPU used since the sample before, in percent.
type VGPUSample struct {
	ID        uint32
	Timestamp uint64 // microseconds, the driver's
	SM        int
}

// maxVGPUs bounds the vGPUs of a GPU; the driver's own bound is 32.
const maxVGPUs = 64

// platform is where a GPU is: what hardly changes beside its identity.
type platform struct {
	addressing     AddressingMode
	virtualization VirtualizationMode
	license        *License // nil where none is needed, or unknown
}

// learnPlatform reads the platform of a GPU. Only a vGPU has a license.
func (d *device) learnPlatform() error {
	err := errors.Join(
		d.ask("addressing mode", func() (err error) { d.platform.addressing, err = d.AddressingMode(); return err }),
		d.ask("virtualization mode", func() (err error) { d.platform.virtualization, err = d.VirtualizationMode(); return err }),
	)
	if err != nil || d.platform.virtualization != VirtualizationGuest {
		return err
	}
	d.platform.license = nil
	return d.ask("vGPU license", func() error {
		license, err := d.License()
		if err == nil {
			d.platform.license = &license
		}
		return err
	})
}

// read adds the readings of the platform. The usual one, memory of its own on
// bare metal, has none.
func (p *platform) read(out *readings) {
	if p.addressing != "" && p.addressing != AddressingNone {
		out.add(MemoryAddressing, string(p.addressing), 1)
	}
	if p.virtualization != "" && p.virtualization != VirtualizationNone {
		out.add(Virtualization, string(p.virtualization), 1)
	}
	if p.license == nil {
		return
	}
	out.add(VGPULicensed, "", flag(p.license.Licensed))
	if !p.license.Expires.IsZero() {
		out.add(VGPULicenseExpiry, "", float64(p.license.Expires.Unix()))
	}
}

// readVGPUs reads the vGPUs that run on a GPU.
func (d *device) readVGPUs() ([]VGPUSnapshot, error) {
	if d.platform.virtualization != VirtualizationHost {
		return nil, nil
	}
	var found []VGPU
	err := d.ask("vGPUs", func() (err error) { found, err = d.VGPUs(); return err })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	found = found[:min(len(found), maxVGPUs)]
	list := make([]VGPUSnapshot, len(found))
	at := make(map[uint32]int, len(found))
	for i, v := range found {
		list[i] = VGPUSnapshot{UUID: v.UUID, VM: v.VM, Profile: v.Profile, MemoryUsed: unknown, SMUtilization: unknown}
		if v.MemoryKnown {
			list[i].MemoryUsed = float64(v.MemoryUsed)
		}
		at[v.ID] = i
	}
	err = d.ask("vGPU utilization", func() error {
		samples, err := d.VGPUUtilization(d.seenVGPU)
		newest := map[uint32]uint64{}
		for _, s := range samples {
			d.seenVGPU = max(d.seenVGPU, s.Timestamp)
			if i, ok := at[s.ID]; ok && s.Timestamp >= newest[s.ID] {
				newest[s.ID] = s.Timestamp
				list[i].SMUtilization = percent(float64(s.SM))
			}
		}
		return err
	})
	return list, err
}

func platformReadings() []Info {
	return []Info{
		{
			Kind: MemoryAddressing, Type: Gauge, Hardware: "GPUs that share an address space with the CPU: Grace (ats), and others with recent drivers (hmm)",
			Label: "mode", Values: []string{string(AddressingHMM), string(AddressingATS)},
			Help: "1 for the mode in which GPU and CPU address each other's memory: by software (hmm) or by hardware (ats). Absent where they do not.",
		},
		{
			Kind: Virtualization, Type: Gauge, Hardware: "virtual machines, and hosts of vGPUs",
			Label: "mode", Values: []string{
				string(VirtualizationPassthrough), string(VirtualizationGuest), string(VirtualizationHost), string(VirtualizationShared),
			},
			Help: "1 for the virtualization mode of the GPU: passed through to this virtual machine (passthrough), a vGPU in a virtual machine (vgpu), " +
				"or a GPU of a host whose virtual machines share it (host_vgpu, host_vsga). Absent on bare metal.",
			NvidiaSMI: "gpu_virtualization_mode",
		},
		{
			Kind: VGPULicensed, Type: Gauge, Hardware: "vGPU, in its virtual machine",
			Help: "1 if the vGPU has a license, 0 otherwise: the driver then slows it down.",
			DCGM: "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
		},
		{
			Kind: VGPULicenseExpiry, Type: Gauge, Unit: "seconds", Hardware: "vGPU, in its virtual machine",
			Help: "Unix time at which the license of the vGPU expires. Absent if it does not expire or the driver does not report it.",
		},
	}
}
