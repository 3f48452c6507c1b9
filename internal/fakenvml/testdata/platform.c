// What a device is to its CPU, to its rack and to virtual machines: addressing_mode,
// confidential, platform, virtualization_mode, license, and vgpuN with vgpuN.sample.
#include "fakenvml.h"

#include <stdio.h>
#include <string.h>

#if !defined(EMPTY) && !defined(BARE)

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode) {
	ENTER(device);
	long long found;
	if (!number(device.handle->prefix, "virtualization_mode", &found)) return leave(NVML_ERROR_NOT_SUPPORTED);
	*mode = (nvmlGpuVirtualizationMode_t)found;
	return leave(NVML_SUCCESS);
}

// license STATE EXPIRY_STATUS YEAR MONTH DAY HOUR MINUTE SECOND
nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t device, nvmlGridLicensableFeatures_t *features) {
	ENTER(device);
	unsigned int state, status, year, month, day, hour, minute, second;
	const char *found = text(device.handle->prefix, "license");
	memset(features, 0, sizeof *features);
	if (!found || sscanf(found, "%u %u %u %u %u %u %u %u", &state, &status, &year, &month, &day, &hour, &minute, &second) != 8)
		return leave(NVML_SUCCESS); // none to be had
	features->isGridLicenseSupported = 1;
	features->licensableFeaturesCount = 1;
	nvmlGridLicensableFeature_t *f = &features->gridLicensableFeatures[0];
	f->featureState = state;
	f->licenseExpiry = (nvmlGridLicenseExpiry_t){
		.year = year, .month = (unsigned short)month, .day = (unsigned short)day, .hour = (unsigned short)hour,
		.min = (unsigned short)minute, .sec = (unsigned short)second, .status = (unsigned char)status};
	return leave(NVML_SUCCESS);
}

// vgpuN UUID VM BYTES, from 0 without gaps; - is unknown. The driver's number of a vGPU is
// 1000 of it for each GPU, and its profile that of the GPU's vgpu_profile.
enum { vgpus_a_device = 1000, vgpus_max = 32 };

static const char *vgpu(unsigned int instance, char uuid[80], char vm[80], char bytes[32]) {
	char key[32];
	nvmlDevice_t device = handle((int)(instance / vgpus_a_device), -1);
	snprintf(key, sizeof key, "vgpu%u", instance % vgpus_a_device);
	const char *found = text(device.handle->prefix, key);
	return found && sscanf(found, "%79s %79s %31s", uuid, vm, bytes) == 3 ? device.handle->prefix : NULL;
}

static unsigned int vgpus(nvmlDevice_t device) {
	char uuid[80], vm[80], bytes[32];
	unsigned int n = 0;
	while (n < vgpus_max && vgpu((unsigned int)device.handle->index * vgpus_a_device + n, uuid, vm, bytes)) n++;
	return n;
}

nvmlReturn_t nvmlDeviceGetActiveVgpus(nvmlDevice_t device, unsigned int *count, nvmlVgpuInstance_t *instances) {
	ENTER(device);
	unsigned int room = *count;
	*count = vgpus(device);
	if (*count > room) return leave(NVML_ERROR_INSUFFICIENT_SIZE);
	for (unsigned int n = 0; n < *count; n++) instances[n] = (unsigned int)device.handle->index * vgpus_a_device + n;
	return leave(NVML_SUCCESS);
}

#define VGPU_TEXT(function, tail, value)                                                       \
	nvmlReturn_t function(nvmlVgpuInstance_t instance, char *to, unsigned int length tail) {   \
		ENTER((nvmlDevice_t){0});                                                              \
		char uuid[80], vm[80], bytes[32];                                                      \
		if (!vgpu(instance, uuid, vm, bytes)) return leave(NVML_ERROR_NOT_FOUND);              \
		snprintf(to, length, "%s", value);                                                     \
		return leave(NVML_SUCCESS);                                                            \
	}

#define COMMA ,
VGPU_TEXT(nvmlVgpuInstanceGetUUID, , uuid)
VGPU_TEXT(nvmlVgpuInstanceGetVmID, COMMA nvmlVgpuVmIdType_t *kind, vm)

nvmlReturn_t nvmlVgpuInstanceGetFbUsage(nvmlVgpuInstance_t instance, unsigned long long *used) {
	ENTER((nvmlDevice_t){0});
	char uuid[80], vm[80], bytes[32];
	if (!vgpu(instance, uuid, vm, bytes)) return leave(NVML_ERROR_NOT_FOUND);
	if (sscanf(bytes, "%llu", used) != 1) return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlVgpuInstanceGetType(nvmlVgpuInstance_t instance, nvmlVgpuTypeId_t *type) {
	ENTER((nvmlDevice_t){0});
	*type = instance / vgpus_a_device;
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlVgpuTypeGetName(nvmlVgpuTypeId_t type, char *name, unsigned int *length) {
	ENTER((nvmlDevice_t){0});
	const char *found = text(handle((int)type, -1).handle->prefix, "vgpu_profile");
	if (!found) return leave(NVML_ERROR_NOT_SUPPORTED);
	snprintf(name, *length, "%s", found);
	return leave(NVML_SUCCESS);
}

// vgpu_sampleN INDEX TIMESTAMP SM, from 0 without gaps
nvmlReturn_t nvmlDeviceGetVgpuUtilization(nvmlDevice_t device, unsigned long long since, nvmlValueType_t *type,
                                          unsigned int *count, nvmlVgpuInstanceUtilizationSample_t *samples) {
	ENTER(device);
	unsigned int room = samples ? *count : 0, n = 0;
	*type = NVML_VALUE_TYPE_UNSIGNED_INT;
	for (int i = 0;; i++) {
		nvmlVgpuInstanceUtilizationSample_t s = {0};
		char key[32];
		snprintf(key, sizeof key, "vgpu_sample%d", i);
		const char *found = text(device.handle->prefix, key);
		if (!found || sscanf(found, "%u %llu %u", &s.vgpuInstance, &s.timeStamp, &s.smUtil.uiVal) != 3) break;
		if (s.timeStamp <= since) continue;
		s.vgpuInstance += (unsigned int)device.handle->index * vgpus_a_device;
		if (n < room) samples[n] = s;
		n++;
	}
	*count = n;
	if (n == 0) return leave(NVML_ERROR_NOT_FOUND);
	return leave(n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

#ifndef OLD

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode) {
	ENTER(device);
	long long found;
	if (mode->version != nvmlDeviceAddressingMode_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!number(device.handle->prefix, "addressing_mode", &found)) return leave(NVML_ERROR_NOT_SUPPORTED);
	mode->value = (unsigned int)found;
	return leave(NVML_SUCCESS);
}

// confidential ENABLED DEVTOOLS MULTI_GPU, of the system
nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *settings) {
	ENTER((nvmlDevice_t){0});
	const char *found = text("", "confidential");
	if (settings->version != nvmlSystemConfComputeSettings_v1) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!found || sscanf(found, "%u %u %u", &settings->ccFeature, &settings->devToolsMode, &settings->multiGpuMode) != 3)
		return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

// platform CHASSIS SLOT TRAY HOST MODULE; - is no chassis. Both forms have the same layout.
nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info) {
	ENTER(device);
	char chassis[16];
	const char *found = text(device.handle->prefix, "platform");
	if (info->version != nvmlPlatformInfo_v1 && info->version != nvmlPlatformInfo_v2) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (!found || sscanf(found, "%15s %hhu %hhu %hhu %hhu", chassis, &info->slotNumber, &info->trayIndex, &info->hostId, &info->moduleId) != 5)
		return leave(NVML_ERROR_NOT_SUPPORTED);
	if (*chassis != '-') memcpy(info->chassisSerialNumber, chassis, sizeof chassis);
	return leave(NVML_SUCCESS);
}

#endif
#endif
