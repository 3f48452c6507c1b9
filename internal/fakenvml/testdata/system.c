#include "fakenvml.h"

#include <stdio.h>

#ifndef EMPTY

#define ENTER_SYSTEM ENTER((nvmlDevice_t){0})

nvmlReturn_t nvmlInit_v2(void) {
	ENTER_SYSTEM;
	initialised++;
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlShutdown(void) {
	ENTER_SYSTEM;
	initialised--;
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
	ENTER_SYSTEM;
	long long value = 0;
	number("", "devices", &value);
	*count = (unsigned int)value;
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
	long long devices = 0;
	nvmlReturn_t failure = enter(__func__, index < devices_max ? handle((int)index, -1).handle : NULL);
	if (failure != NVML_SUCCESS) return leave(failure);
	number("", "devices", &devices);
	if (index >= devices_max || index >= devices) return leave(NVML_ERROR_INVALID_ARGUMENT);
	*device = handle((int)index, -1);
	return leave(NVML_SUCCESS);
}

#ifndef BARE

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	ENTER_SYSTEM;
	const char *found = text("", "driver_version");
	if (!found) return leave(NVML_ERROR_NOT_SUPPORTED);
	snprintf(version, length, "%s", found);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
	ENTER_SYSTEM;
	long long value;
	if (!number("", "cuda_version", &value)) return leave(NVML_ERROR_NOT_SUPPORTED);
	*version = (int)value;
	return leave(NVML_SUCCESS);
}

#endif
#endif
