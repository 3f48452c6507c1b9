// What a device tells many of: fields, processes, events.
#include "fakenvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(EMPTY) && !defined(BARE)

// decode reads "TYPE NUMBER", or "return CODE".
static nvmlReturn_t decode(const char *found, nvmlFieldValue_t *v) {
	char type[16], value[48];
	if (!found || sscanf(found, "%15s %47s", type, value) != 2) return NVML_ERROR_NOT_SUPPORTED;
	if (!strcmp(type, "return")) return (nvmlReturn_t)atoi(value);
	if (!strcmp(type, "double")) {
		v->valueType = NVML_VALUE_TYPE_DOUBLE;
		v->value.dVal = strtod(value, NULL);
	} else if (!strcmp(type, "uint32")) {
		v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		v->value.uiVal = (unsigned int)strtoul(value, NULL, 10);
	} else if (!strcmp(type, "ulong")) {
		v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG;
		v->value.ulVal = strtoul(value, NULL, 10);
	} else if (!strcmp(type, "uint64")) {
		v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		v->value.ullVal = strtoull(value, NULL, 10);
	} else if (!strcmp(type, "int64")) {
		v->valueType = NVML_VALUE_TYPE_SIGNED_LONG_LONG;
		v->value.sllVal = strtoll(value, NULL, 10);
	} else if (!strcmp(type, "int32")) {
		v->valueType = NVML_VALUE_TYPE_SIGNED_INT;
		v->value.siVal = atoi(value);
	} else if (!strcmp(type, "uint16")) {
		v->valueType = NVML_VALUE_TYPE_UNSIGNED_SHORT;
		v->value.usVal = (unsigned short)atoi(value);
	} else {
		v->valueType = NVML_VALUE_TYPE_COUNT; // one that nobody knows
	}
	return NVML_SUCCESS;
}

// fieldID.SCOPE
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values) {
	ENTER(device);
	nvmlReturn_t code = NVML_ERROR_NOT_SUPPORTED;
	for (int i = 0; i < count; i++) {
		char key[48];
		snprintf(key, sizeof key, "field%u.%u", values[i].fieldId, values[i].scopeId);
		memset(&values[i].value, 0xff, sizeof values[i].value);
		values[i].nvmlReturn = decode(text(device.handle->prefix, key), &values[i]);
		if (values[i].nvmlReturn == NVML_SUCCESS) code = NVML_SUCCESS;
	}
	return leave(code);
}

// processN PID BYTES GPU_INSTANCE, from 0 without gaps; - is unknown.
static int process(nvmlDevice_t device, int n, nvmlProcessInfo_t *p) {
	char key[32], bytes[32], instance[32];
	snprintf(key, sizeof key, "process%d", n);
	const char *found = text(device.handle->prefix, key);
	if (!found || sscanf(found, "%u %31s %31s", &p->pid, bytes, instance) != 3) return 0;
	p->usedGpuMemory = *bytes == '-' ? ~0ull : strtoull(bytes, NULL, 10);
	p->gpuInstanceId = *instance == '-' ? ~0u : (unsigned int)atoi(instance);
	p->computeInstanceId = *instance == '-' ? ~0u : 0;
	return 1;
}

static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
	nvmlProcessInfo_t p;
	unsigned int room = *count, n = 0;
	for (; process(device, (int)n, &p); n++)
		if (n < room) infos[n] = p;
	*count = n;
	return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos) {
	ENTER(device);
	return leave(processes(device, count, infos));
}

#ifndef OLD

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
	ENTER(device);
	return leave(processes(device, count, infos));
}

#endif

// sampleN PID TIMESTAMP SM, from 0 without gaps. With samples_grow there is one
// more at the second call than at the first.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count,
                                             unsigned long long since) {
	ENTER(device);
	unsigned int room = samples ? *count : 0, n = 0;
	for (int i = 0;; i++) {
		nvmlProcessUtilizationSample_t s = {0};
		char key[32];
		snprintf(key, sizeof key, "sample%d", i);
		const char *found = text(device.handle->prefix, key);
		if (!found || sscanf(found, "%u %llu %u", &s.pid, &s.timeStamp, &s.smUtil) != 3) break;
		if (s.timeStamp <= since) continue;
		if (n < room) samples[n] = s;
		n++;
	}
	if (samples && text(device.handle->prefix, "samples_grow")) n++;
	*count = n;
	if (n == 0) return leave(NVML_ERROR_NOT_FOUND);
	return leave(n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

struct nvmlEventSet_st {
	int registered[devices_max];
};

static int delivered; // critical errors, by the number of their key

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
	ENTER(device);
	if (!number(device.handle->prefix, "event_types", (long long *)types)) return leave(NVML_ERROR_NOT_SUPPORTED);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
	ENTER((nvmlDevice_t){0});
	set->handle = calloc(1, sizeof *set->handle);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
	ENTER((nvmlDevice_t){0});
	free(set.handle);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
	ENTER(device);
	if (device.handle->slot >= 0 || types != nvmlEventTypeXidCriticalError) return leave(NVML_ERROR_NOT_SUPPORTED);
	set.handle->registered[device.handle->index] = 1;
	return leave(NVML_SUCCESS);
}

// Nothing is waited for.
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned int milliseconds) {
	ENTER((nvmlDevice_t){0});
	(void)milliseconds;
	for (;;) {
		char key[32];
		int index;
		unsigned long long xid;
		snprintf(key, sizeof key, "xid%d", delivered + 1);
		const char *found = text("", key);
		if (!found || sscanf(found, "%d %llu", &index, &xid) != 2 || index < 0 || index >= devices_max)
			return leave(NVML_ERROR_TIMEOUT);
		delivered++;
		if (!set.handle->registered[index]) continue;
		*event = (nvmlEventData_t){handle(index, -1), nvmlEventTypeXidCriticalError, xid, ~0u, ~0u};
		return leave(NVML_SUCCESS);
	}
}

#endif
