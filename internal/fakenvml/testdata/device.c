// What a device is and reads. The keys are in the calls.
#include "fakenvml.h"

#include <stdio.h>
#include <stdlib.h>

#if !defined(EMPTY) && !defined(BARE)

#define TEXT(function, key)                                                         \
	nvmlReturn_t function(nvmlDevice_t device, char *value, unsigned int length) { \
		ENTER(device);                                                              \
		const char *found = text(device.handle->prefix, key);                       \
		if (!found) return leave(NVML_ERROR_NOT_SUPPORTED);                         \
		snprintf(value, length, "%s", found);                                       \
		return leave(NVML_SUCCESS);                                                 \
	}

#define VALUE(function, type, key)                                                             \
	nvmlReturn_t function(nvmlDevice_t device, type *value) {                                  \
		ENTER(device);                                                                         \
		long long found;                                                                       \
		if (!number(device.handle->prefix, key, &found)) return leave(NVML_ERROR_NOT_SUPPORTED); \
		*value = (type)found;                                                                  \
		return leave(NVML_SUCCESS);                                                            \
	}

// A value of one of several, such as a clock.
#define CHOICE(function, kind, type, ...)                                                           \
	nvmlReturn_t function(nvmlDevice_t device, kind which, type *value) {                           \
		static const char *keys[] = {__VA_ARGS__};                                                  \
		ENTER(device);                                                                              \
		long long found;                                                                            \
		if ((unsigned int)which >= sizeof keys / sizeof *keys) return leave(NVML_ERROR_INVALID_ARGUMENT); \
		if (!number(device.handle->prefix, keys[which], &found)) return leave(NVML_ERROR_NOT_SUPPORTED); \
		*value = (type)found;                                                                       \
		return leave(NVML_SUCCESS);                                                                 \
	}

#define UTILIZATION(function, key)                                                                    \
	nvmlReturn_t function(nvmlDevice_t device, unsigned int *value, unsigned int *microseconds) {     \
		ENTER(device);                                                                                \
		long long found;                                                                              \
		if (!number(device.handle->prefix, key, &found)) return leave(NVML_ERROR_NOT_SUPPORTED);      \
		*value = (unsigned int)found;                                                                 \
		*microseconds = 167000;                                                                       \
		return leave(NVML_SUCCESS);                                                                   \
	}

TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetSerial, "serial")
VALUE(nvmlDeviceGetMinorNumber, unsigned int, "minor")
VALUE(nvmlDeviceGetMemoryBusWidth, unsigned int, "memory_bus_width")
UTILIZATION(nvmlDeviceGetEncoderUtilization, "encoder_utilization")
UTILIZATION(nvmlDeviceGetDecoderUtilization, "decoder_utilization")
CHOICE(nvmlDeviceGetClockInfo, nvmlClockType_t, unsigned int, "clock_graphics", "clock_sm", "clock_memory", "clock_video")
CHOICE(nvmlDeviceGetMaxClockInfo, nvmlClockType_t, unsigned int, "clock_graphics_max", "clock_sm_max", "clock_memory_max",
       "clock_video_max")
VALUE(nvmlDeviceGetPowerUsage, unsigned int, "power_usage")
VALUE(nvmlDeviceGetEnforcedPowerLimit, unsigned int, "power_limit")
VALUE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, "power_limit_default")
VALUE(nvmlDeviceGetPowerManagementLimit, unsigned int, "power_limit_requested")
VALUE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
CHOICE(nvmlDeviceGetTemperature, nvmlTemperatureSensors_t, unsigned int, "temperature")
CHOICE(nvmlDeviceGetTemperatureThreshold, nvmlTemperatureThresholds_t, unsigned int, "threshold_shutdown", "threshold_slowdown",
       "threshold_memory_max", "threshold_gpu_max")
VALUE(nvmlDeviceGetNumFans, unsigned int, "fans")
CHOICE(nvmlDeviceGetFanSpeed_v2, unsigned int, unsigned int, "fan0", "fan1", "fan2", "fan3")
VALUE(nvmlDeviceGetPerformanceState, nvmlPstates_t, "pstate")
VALUE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, "pcie_generation")
VALUE(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, "pcie_width")
VALUE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, "pcie_generation_max")
VALUE(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, "pcie_width_max")
VALUE(nvmlDeviceGetPcieReplayCounter, unsigned int, "pcie_replays")
VALUE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "clock_event_reasons")
VALUE(nvmlDeviceGetMaxMigDeviceCount, unsigned int, "mig_slots")
VALUE(nvmlDeviceGetGpuInstanceId, unsigned int, "gpu_instance")
VALUE(nvmlDeviceGetComputeInstanceId, unsigned int, "compute_instance")

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "pci_bus_id");
	if (!found) return leave(NVML_ERROR_NOT_SUPPORTED);
	snprintf(info->busId, sizeof info->busId, "%s", found);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "compute_capability");
	if (!found || sscanf(found, "%d.%d", major, minor) != 2) return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

// Memory as in the newer form: used leaves out what is reserved.
static int memory(nvmlDevice_t device, nvmlMemory_v2_t *m) {
	const char *prefix = device.handle->prefix;
	return number(prefix, "memory_total", (long long *)&m->total) && number(prefix, "memory_used", (long long *)&m->used) &&
	       number(prefix, "memory_free", (long long *)&m->free) &&
	       number(prefix, "memory_reserved", (long long *)&m->reserved);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *old) {
	ENTER(device);
	nvmlMemory_v2_t m;
	if (!memory(device, &m)) return leave(NVML_ERROR_NOT_SUPPORTED);
	*old = (nvmlMemory_t){.total = m.total, .free = m.free, .used = m.used + m.reserved};
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *value) {
	ENTER(device);
	long long gpu, memory;
	if (!number(device.handle->prefix, "utilization", &gpu) ||
	    !number(device.handle->prefix, "memory_utilization", &memory))
		return leave(NVML_ERROR_NOT_SUPPORTED);
	*value = (nvmlUtilization_t){(unsigned int)gpu, (unsigned int)memory};
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t severity, nvmlEccCounterType_t since,
                                         unsigned long long *count) {
	ENTER(device);
	char key[64];
	snprintf(key, sizeof key, "ecc_%scorrected%s", severity == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? "un" : "",
	         since == NVML_AGGREGATE_ECC ? "_lifetime" : "");
	if (!number(device.handle->prefix, key, (long long *)count)) return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failure) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "remapped_rows");
	if (!found || sscanf(found, "%u %u %u %u", correctable, uncorrectable, pending, failure) != 4)
		return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
	ENTER(device);
	long long value;
	if (!number(device.handle->prefix, "mig_mode", &value)) return leave(NVML_ERROR_NOT_SUPPORTED);
	*current = *pending = (unsigned int)value;
	return leave(NVML_SUCCESS);
}

// A slot has a MIG device if that has a UUID.
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int slot, nvmlDevice_t *mig) {
	ENTER(device);
	if (slot >= slots_max) return leave(NVML_ERROR_INVALID_ARGUMENT);
	*mig = handle(device.handle->index, (int)slot);
	return leave(text(mig->handle->prefix, "uuid") ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}

#ifndef OLD

VALUE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "clock_event_reasons")

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *value) {
	ENTER(device);
	if (value->version != nvmlMemory_v2) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	return leave(memory(device, value) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *value) {
	ENTER(device);
	long long found;
	if (value->version != nvmlTemperature_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (value->sensorType != NVML_TEMPERATURE_GPU) return leave(NVML_ERROR_INVALID_ARGUMENT);
	if (!number(device.handle->prefix, "temperature", &found)) return leave(NVML_ERROR_NOT_SUPPORTED);
	value->temperature = (int)found;
	return leave(NVML_SUCCESS);
}

// fabric_version is the only form that the driver knows; without it both. fabric_cluster is the UUID in 16 decimal bytes.
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
	ENTER(device);
	const char *prefix = device.handle->prefix;
	long long state, clique = 0, health = 0, summary = 0, only = info->version >> 24;
	number(device.handle->prefix, "fabric_version", &only);
	if (info->version != (only == 2 ? nvmlGpuFabricInfo_v2 : nvmlGpuFabricInfo_v3))
		return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!number(device.handle->prefix, "fabric_state", &state)) return leave(NVML_ERROR_NOT_SUPPORTED);
	number(prefix, "fabric_clique", &clique);
	number(prefix, "fabric_health", &health);
	number(prefix, "fabric_summary", &summary);
	char *next = (char *)text(prefix, "fabric_cluster");
	for (int i = 0; next && i < NVML_GPU_FABRIC_UUID_LEN; i++) info->clusterUuid[i] = (unsigned char)strtoul(next, &next, 10);
	// Both forms begin alike.
	info->state = (nvmlGpuFabricState_t)state;
	info->cliqueId = (unsigned int)clique;
	info->healthMask = (unsigned int)health;
	if (only != 2) info->healthSummary = (unsigned char)summary;
	return leave(NVML_SUCCESS);
}

#endif
#endif
