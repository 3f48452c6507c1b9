package gpu

import (
	"errors"
	"math"
	"strconv"
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

// fecBins is how many bins the history of the error correction of NVLink 5 has.
const fecBins = 16

// slowFieldReadings are the fields that show how good the NVLinks are, from
// NVLink 5 on: packets, what the error correction had to do, and the rate of
// errors that it left.
func slowFieldReadings() []fieldReading {
	var list []fieldReading
	for _, f := range []fieldReading{
		{name: "packets sent over each NVLink", field: Field{ID: 201}, kind: NVLinkTransmitPackets, convert: plain},
		{name: "packets received over each NVLink", field: Field{ID: 203}, kind: NVLinkReceivePackets, convert: plain},
	} {
		list = append(list, everyLink(f)...)
	}
	for bin := range fecBins {
		list = append(list, everyLink(fieldReading{
			name: "NVLink error correction", field: Field{ID: 235 + bin}, kind: NVLinkFEC, label: strconv.Itoa(bin),
		})...)
	}
	for link := range maxLinks {
		list = append(list, fieldReading{
			name: "NVLink bit error ratio", field: Field{220, uint32(link)}, kind: NVLinkBitErrorRatio, label: strconv.Itoa(link),
			convert: bitErrorRatio, link: true,
		})
	}
	for i := range list {
		list[i].unsplit = true
	}
	return list
}

// noBitErrors is how the driver reports a link without errors: as 15e-255, the
// smallest ratio that it can.
const noBitErrors = 0xfff

// bitErrorRatio decodes a ratio m * 10^-e, with e in the bits 0 to 7 and m in the
// bits 8 to 11.
func bitErrorRatio(v float64) float64 {
	if v < 0 || v > math.MaxUint32 {
		return math.NaN()
	}
	bits := uint32(v)
	if bits&0xfff == noBitErrors {
		return 0
	}
	return float64(bits>>8&0xf) * math.Pow(10, -float64(bits&0xff))
}

// fecBinNames are the values of the label of NVLinkFEC.
func fecBinNames() []string {
	names := make([]string, fecBins)
	for bin := range names {
		names[bin] = strconv.Itoa(bin)
	}
	return names
}

// linkQualityReadings are the kinds of slowFieldReadings.
func linkQualityReadings() []Info {
	return []Info{
		{
			Kind: NVLinkVersion, Type: Gauge, Hardware: withNVLink,
			Help: "Version of the NVLinks: 4 for Hopper, 5 for Blackwell.",
		},
		{
			Kind: NVLinkTransmitPackets, Type: Counter, Hardware: nvlink5,
			Help: "Packets that the GPU sent over all its NVLinks, read once a minute.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS",
		},
		{
			Kind: NVLinkReceivePackets, Type: Counter, Hardware: nvlink5,
			Help: "Packets that the GPU received over all its NVLinks, read once a minute.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS",
		},
		{
			Kind: NVLinkFEC, Type: Counter, Hardware: nvlink5, Label: "bin", Values: fecBinNames(),
			Help: "History of the forward error correction of all NVLinks of the GPU, by the number of symbols to correct (the driver's bin), read once a minute. The lowest bins grow on a healthy link; growth of high bins means that a link is close to errors that it cannot correct.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_*",
		},
		{
			Kind: NVLinkBitErrorRatio, Type: Gauge, Unit: "ratio", Hardware: nvlink5, Label: "link",
			Help: "Ratio of bits that are wrong after error correction (effective bit error rate), by link, read once a minute.",
			DCGM: "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT",
		},
	}
}
