package gpu

import "errors"

// What a GPU is to a virtual machine, as far as it matters to what is asked of it.
const (
	virtualizationGuest = "vgpu"      // a vGPU, seen from its virtual machine
	virtualizationHost  = "host_vgpu" // a GPU that is divided into vGPUs
)

// maxVGPUs bounds the vGPUs of a GPU; the driver's own bound is 32.
const maxVGPUs = 64

// platform is where a GPU is: what hardly changes beside its identity. An empty text is unknown.
type platform struct {
	addressing     string
	virtualization string
	confidential   string
	license        []float64 // whether it is licensed, and until when; nil where none is needed, or unknown
}

// learnPlace reads where a GPU is in its rack and in the NVLink fabric.
func (d *device) learnPlace() error {
	p := &d.identity.Place
	return errors.Join(
		d.text("chassis serial number", d, &p.ChassisSerial),
		d.text("slot number", d, &p.Slot),
		d.text("tray index", d, &p.Tray),
		d.text("host id", d, &p.Host),
		d.text("module id", d, &p.Module),
		d.text("fabric cluster", d, &p.FabricCluster),
		d.text("fabric clique", d, &p.FabricClique),
	)
}

// learnPlatform reads the platform of a GPU. Only a vGPU has a license.
func (d *device) learnPlatform() error {
	p := &d.platform
	err := errors.Join(
		d.text("addressing mode", d, &p.addressing),
		d.text("virtualization mode", d, &p.virtualization),
		d.text("confidential computing mode", d, &p.confidential),
	)
	p.license = nil
	if err != nil || p.virtualization != virtualizationGuest {
		return err
	}
	p.license, err = d.numbers("vGPU license", "vGPU license", d)
	return err
}

// read adds the readings of the platform. The usual one, memory of its own on bare metal that is not encrypted, has none.
func (p *platform) read(out *readings) {
	for kind, mode := range map[Kind]string{
		MemoryAddressing: p.addressing, Virtualization: p.virtualization, ConfidentialComputing: p.confidential,
	} {
		if mode != "" && mode != "none" {
			out.add(kind, mode, 1)
		}
	}
	if p.license != nil {
		out.add(VGPULicensed, "", p.license[0])
		out.add(VGPULicenseExpiry, "", p.license[1])
	}
}

func (d *device) readVGPUs() ([]VGPUSnapshot, error) {
	if d.platform.virtualization != virtualizationHost {
		return nil, nil
	}
	var found []VGPU
	err := fetch(d, "vGPUs", &found, d.VGPUs)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var shares map[int]float64
	err = fetch(d, "vGPU utilization", &shares, func() (map[int]float64, error) { return newest(&d.seenVGPU, d.VGPUUtilization) })
	var list []VGPUSnapshot
	for _, v := range found[:min(len(found), maxVGPUs)] {
		v.SMUtilization = orUnknown(shares, v.ID)
		list = append(list, v.VGPUSnapshot)
	}
	return list, err
}

// newest asks for the samples since those seen before and returns the share of time that the newest one of each process
// or vGPU has.
func newest(seen *uint64, ask func(since uint64) ([]Sample, error)) (map[int]float64, error) {
	samples, err := ask(*seen)
	shares, at := map[int]float64{}, map[int]uint64{}
	for _, s := range samples {
		*seen = max(*seen, s.Timestamp)
		if s.Timestamp >= at[s.ID] {
			at[s.ID], shares[s.ID] = s.Timestamp, float64(s.SM)/100
		}
	}
	return shares, err
}

func orUnknown(shares map[int]float64, id int) float64 {
	if share, known := shares[id]; known {
		return share
	}
	return unknown
}
