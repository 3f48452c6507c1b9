#include "fakenvml.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int initialised;

enum { lines_max = 4096 };
static char content[1 << 18];
static struct line {
	const char *key, *value;
} lines[lines_max];
static int lines_count;
static struct stat seen;
static pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlDevice_st handles[devices_max][slots_max + 1];

nvmlDevice_t handle(int index, int slot) {
	struct nvmlDevice_st *d = &handles[index][slot + 1];
	d->index = index;
	d->slot = slot;
	if (slot < 0)
		snprintf(d->prefix, sizeof d->prefix, "device%d.", index);
	else
		snprintf(d->prefix, sizeof d->prefix, "device%d.mig%d.", index, slot);
	return (nvmlDevice_t){d};
}

static int compare(const void *a, const void *b) {
	return strcmp(((const struct line *)a)->key, ((const struct line *)b)->key);
}

// split takes the content apart in place.
static void split(void) {
	lines_count = 0;
	for (char *line = strtok(content, "\n"); line; line = strtok(NULL, "\n")) {
		char *space = strchr(line, ' ');
		if (!space || lines_count == lines_max) continue;
		*space = 0;
		lines[lines_count].key = line;
		lines[lines_count++].value = space + 1;
	}
	qsort(lines, (size_t)lines_count, sizeof *lines, compare);
}

// load reads the file unless it is the one that was read last.
static void load(void) {
	const char *path = getenv("FAKENVML_STATE");
	struct stat now;
	if (!path || stat(path, &now)) {
		lines_count = 0;
		return;
	}
	if (now.st_ino == seen.st_ino && now.st_size == seen.st_size &&
	    !memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim))
		return;
	FILE *file = fopen(path, "r");
	if (!file) return;
	content[fread(content, 1, sizeof content - 1, file)] = 0;
	fclose(file);
	seen = now;
	split();
}

const char *text(const char *prefix, const char *key) {
	char whole[192];
	snprintf(whole, sizeof whole, "%s%s", prefix, key);
	struct line wanted = {.key = whole};
	struct line *found = bsearch(&wanted, lines, (size_t)lines_count, sizeof *lines, compare);
	return found ? found->value : NULL;
}

int number(const char *prefix, const char *key, long long *value) {
	const char *found = text(prefix, key);
	if (!found) return 0;
	*value = (long long)strtoull(found, NULL, 10);
	return 1;
}

// behaviour looks up FUNCTION.what, of the device before that of all.
static int behaviour(const char *function, const char *what, nvmlDevice_t device, long long *value) {
	char key[128];
	snprintf(key, sizeof key, "%s.%s", function, what);
	return (device.handle && number(device.handle->prefix, key, value)) || number("", key, value);
}

static void note(const char *function) {
	const char *path = getenv("FAKENVML_CALLS");
	FILE *file = path ? fopen(path, "a") : NULL;
	if (!file) return;
	fprintf(file, "%s\n", function);
	fclose(file);
}

nvmlReturn_t enter(const char *function, struct nvmlDevice_st *d) {
	nvmlDevice_t device = {d};
	long long value;
	pthread_mutex_lock(&one_call);
	load();
	note(function);
	time_t start = time(NULL);
	while (behaviour(function, "sleep", device, &value) && time(NULL) - start < value) {
		pthread_mutex_unlock(&one_call);
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
		pthread_mutex_lock(&one_call);
		load();
	}
	if (behaviour(function, "return", device, &value)) return (nvmlReturn_t)value;
	if (!initialised && strcmp(function, "nvmlInit_v2")) return NVML_ERROR_UNINITIALIZED;
	if (d && number(handle(d->index, -1).handle->prefix, "lost", &value)) return NVML_ERROR_GPU_IS_LOST;
	return NVML_SUCCESS;
}

nvmlReturn_t leave(nvmlReturn_t code) {
	pthread_mutex_unlock(&one_call);
	return code;
}
