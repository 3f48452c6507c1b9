//go:build linux && cgo

package gpu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// fabricState returns what fabric makes of the newest form of the answer that the driver has.
func fabricState(d nvml.Device) ([]float64, error) { return fabric(fabricInfo(d)) }

func fabricInfo(d nvml.Device) (nvml.GpuFabricInfo_v3, nvml.Return) {
	info, r := d.GetGpuFabricInfoV().V3()
	if !refused(call("nvmlDeviceGetGpuFabricInfoV").result(r)) {
		return info, r
	}
	older, r := d.GetGpuFabricInfoV().V2()
	return newerFabric(older), r
}

// newerFabric converts the older form; what only the newer one has is 0.
func newerFabric(older nvml.GpuFabricInfo_v2) nvml.GpuFabricInfo_v3 {
	return nvml.GpuFabricInfo_v3{
		ClusterUuid: older.ClusterUuid, CliqueId: older.CliqueId, State: older.State, Status: older.Status, HealthMask: older.HealthMask,
	}
}

// fabric returns the state of a device in the NVLink fabric and, once it was registered, whether that went without an
// error and the driver knows of no fault, and then fabricFaults.
func fabric(info nvml.GpuFabricInfo_v3, r nvml.Return) ([]float64, error) {
	const name = call("nvmlDeviceGetGpuFabricInfoV")
	switch err := name.result(r); {
	case err != nil:
		return nil, err
	case info.State == nvml.GPU_FABRIC_STATE_NOT_SUPPORTED:
		return nil, name.unsupported()
	case info.State != nvml.GPU_FABRIC_STATE_COMPLETED:
		return []float64{float64(info.State)}, nil
	}
	faults := fabricFaults(info)
	healthy := info.HealthSummary != nvml.GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY && !slices.Contains(faults, 1) &&
		configuration(info) <= nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE // a reason may be newer than this program
	return append([]float64{float64(info.State), flag(healthy)}, faults...), nil
}

// fabricFaults returns for each fault, in the order of fabric_fault in readings.yml, whether it is there; NaN where the
// driver does not know. Whether the GPU was given a partition of the fabric is the choice of who runs it.
func fabricFaults(info nvml.GpuFabricInfo_v3) []float64 {
	faults := []float64{
		flag(nvml.Return(info.Status) != nvml.SUCCESS),
		fault(uint32(info.HealthSummary), nvml.GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY),
	}
	for _, p := range []struct{ shift, width, fault uint32 }{
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW, nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE},
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_RECOVERY_TRUE},
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ROUTE_UNHEALTHY, nvml.GPU_FABRIC_HEALTH_MASK_ROUTE_UNHEALTHY_TRUE},
		{nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_ACCESS_TIMEOUT_RECOVERY, nvml.GPU_FABRIC_HEALTH_MASK_ACCESS_TIMEOUT_RECOVERY_TRUE},
	} {
		faults = append(faults, fault(info.HealthMask>>p.shift&p.width, p.fault))
	}
	for reason := uint32(nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_SYSGUID); reason <= nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_GPU_STATE_INVALID; reason++ {
		faults = append(faults, fault(configuration(info), reason))
	}
	return faults
}

// configuration returns why the fabric is configured incorrectly.
func configuration(info nvml.GpuFabricInfo_v3) uint32 {
	return info.HealthMask >> nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION
}

// fault reports whether a part of the health has the value that is a fault; 0 is what the driver does not know.
func fault(part, bad uint32) float64 {
	if part == 0 {
		return math.NaN()
	}
	return flag(part == bad)
}

// fabricText returns which fabric of several hosts a GPU was registered with; "" is none.
func (d *nvmlDevice) fabricText(question string) (string, error) {
	info, r := fabricInfo(d.handle)
	if err := call("nvmlDeviceGetGpuFabricInfoV").result(r); err != nil {
		return "", err
	}
	u := info.ClusterUuid
	switch {
	case info.State != nvml.GPU_FABRIC_STATE_COMPLETED, u == [16]uint8{}:
		return "", nil
	case question == "fabric clique":
		return strconv.FormatUint(uint64(info.CliqueId), 10), nil
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
}

// platformText returns where a GPU is. The binding asks for the first form of the answer, in which what is now the
// serial number of the chassis, the slot, the tray and the host have other names at the same places. A GPU without a
// chassis is in no rack: the driver then returns numbers that mean nothing.
func (d *nvmlDevice) platformText(question string) (string, error) {
	info, r := d.handle.GetPlatformInfo()
	if err := call("nvmlDeviceGetPlatformInfo").result(r); err != nil {
		return "", err
	}
	chassis := strings.TrimRight(string(info.ChassisSerialNumber[:]), "\x00")
	if question == "chassis serial number" || chassis == "" && question != "module id" {
		return chassis, nil
	}
	return strconv.Itoa(int(map[string]uint8{
		"slot number": info.SlotNumber, "tray index": info.TrayIndex, "host id": info.HostId, "module id": info.ModuleId,
	}[question])), nil
}
