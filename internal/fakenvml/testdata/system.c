#include "fakenvml.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef EMPTY

#define ENTER_SYSTEM ENTER((nvmlDevice_t){0})

nvmlReturn_t nvmlInit_v2(void) {
	ENTER_SYSTEM;
	initialised++;
	return leave(NVML_SUCCESS);
}

// note_heap writes what the C allocator has given out in the whole process, exactly.
static void note_heap(void) {
	const char *path = getenv("FAKENVML_HEAP");
	struct mallinfo2 info = mallinfo2();
	FILE *file = path ? fopen(path, "w") : NULL;
	if (!file) return;
	fprintf(file, "%zu\n", info.uordblks + info.hblkhd);
	fclose(file);
}

nvmlReturn_t nvmlShutdown(void) {
	ENTER_SYSTEM;
	initialised--;
	note_heap();
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
