// Whether a device is to be repaired or replaced: sram, repair, unrepairable and
// row_remapper; how far it is from being slowed down: temperature_margin; and
// what it was set to: power_profiles.
#include "fakenvml.h"

#include <stdio.h>
#include <string.h>

#if !defined(EMPTY) && !defined(BARE) && !defined(OLD)

// sram CORRECTED PARITY SECDED, the same of the lifetime, L2 SM PCIE MICROCONTROLLER OTHER, EXCEEDED
nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *s) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "sram");
	if (s->version != nvmlEccSramErrorStatus_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!found || sscanf(found, "%llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu %u", &s->volatileCor, &s->volatileUncParity,
	                     &s->volatileUncSecDed, &s->aggregateCor, &s->aggregateUncParity, &s->aggregateUncSecDed,
	                     &s->aggregateUncBucketL2, &s->aggregateUncBucketSm, &s->aggregateUncBucketPcie, &s->aggregateUncBucketMcu,
	                     &s->aggregateUncBucketOther, &s->bThresholdExceeded) != 12)
		return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

// repair CHANNEL TPC
nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *s) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "repair");
	if (s->version != nvmlRepairStatus_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!found || sscanf(found, "%u %u", &s->bChannelRepairPending, &s->bTpcRepairPending) != 2) return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, nvmlUnrepairableMemoryStatus_v1_t *s) {
	ENTER(device);
	long long found;
	if (!number(device.handle->prefix, "unrepairable", &found)) return leave(NVML_ERROR_NOT_SUPPORTED);
	s->bUnrepairableMemory = (unsigned int)found;
	return leave(NVML_SUCCESS);
}

// row_remapper MAX HIGH PARTIAL LOW NONE
nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *h) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "row_remapper");
	if (!found || sscanf(found, "%u %u %u %u %u", &h->max, &h->high, &h->partial, &h->low, &h->none) != 5)
		return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin) {
	ENTER(device);
	long long found;
	if (margin->version != nvmlMarginTemperature_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!number(device.handle->prefix, "temperature_margin", &found)) return leave(NVML_ERROR_NOT_SUPPORTED);
	margin->marginTemperature = (int)found;
	return leave(NVML_SUCCESS);
}

// power_profiles VALID ENFORCED, bits
nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(nvmlDevice_t device, nvmlWorkloadPowerProfileCurrentProfiles_t *p) {
	ENTER(device);
	const char *found = text(device.handle->prefix, "power_profiles");
	if (p->version != nvmlWorkloadPowerProfileCurrentProfiles_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!found || sscanf(found, "%u %u", &p->perfProfilesMask.mask[0], &p->enforcedProfilesMask.mask[0]) != 2)
		return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

#endif
