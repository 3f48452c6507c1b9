// gpmID is a counter; a metric is by how much it grew between two samples.
#include "fakenvml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#if !defined(EMPTY) && !defined(BARE) && !defined(OLD)

struct nvmlGpmSample_st {
	double counter[NVML_GPM_METRIC_MAX]; // NAN without one
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support) {
	ENTER(device);
	long long value = 0;
	if (support->version != NVML_GPM_SUPPORT_VERSION) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	number(device.handle->prefix, "gpm_supported", &value);
	support->isSupportedDevice = (unsigned int)value;
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
	ENTER((nvmlDevice_t){0});
	sample->handle = malloc(sizeof *sample->handle);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
	ENTER((nvmlDevice_t){0});
	free(sample.handle);
	return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
	ENTER(device);
	for (int id = 0; id < NVML_GPM_METRIC_MAX; id++) {
		char key[16];
		snprintf(key, sizeof key, "gpm%d", id);
		const char *found = text(device.handle->prefix, key);
		sample.handle->counter[id] = found ? strtod(found, NULL) : NAN;
	}
	return leave(NVML_SUCCESS);
}

// A counter of inf gives a metric that is there and not a number.
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request) {
	ENTER((nvmlDevice_t){0});
	if (request->version != NVML_GPM_METRICS_GET_VERSION) return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	for (unsigned int i = 0; i < request->numMetrics; i++) {
		nvmlGpmMetric_t *m = &request->metrics[i];
		if (m->metricId >= NVML_GPM_METRIC_MAX) return leave(NVML_ERROR_INVALID_ARGUMENT);
		double older = request->sample1.handle->counter[m->metricId];
		double newer = request->sample2.handle->counter[m->metricId];
		m->nvmlReturn = isnan(older) || isnan(newer) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
		m->value = newer - older;
	}
	return leave(NVML_SUCCESS);
}

#endif
