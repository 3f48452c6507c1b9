// A stand-in for the driver's library. Every call reads anew what it is to
// answer from the file that the environment names in FAKENVML_STATE: one "key
// value" a line. Keys are
//
//   FUNCTION.return CODE     the function fails with the code
//   FUNCTION.sleep SECONDS   the function returns that much later, or when the
//                            line is gone
//   driver_version, cuda_version, devices
//   deviceN.KEY              a property of a device: see device.c and others
//   deviceN.FUNCTION.return, deviceN.FUNCTION.sleep
//   deviceN.lost             the device does not answer any more
//   deviceN.migM.KEY         a property of the MIG device in a slot
//   xidN DEVICE NUMBER       the N-th critical error, from 1
//
// A property that is not there is one that the device does not support. If the
// environment names a file in FAKENVML_CALLS, the name of every function called
// is added to it. nvmlShutdown writes the bytes that the process has of malloc
// to the file in FAKENVML_HEAP.
//
// Builds: with -DOLD a driver without the newer functions, with -DBARE one with
// hardly any, with -DEMPTY a library that is not a driver's.

#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include <nvml.h>

enum { devices_max = 16, slots_max = 8 };

// A device or MIG device; its prefix is that of its keys.
struct nvmlDevice_st {
	char prefix[32];
	int index, slot; // slot is -1 for a GPU
};

// handle returns the device of a slot of a GPU, or the GPU for -1.
nvmlDevice_t handle(int index, int slot);

// enter begins every function: it reads the state, notes the call, sleeps and
// returns the code to fail with. No other call goes on until leave. device is
// NULL for a function of the system.
nvmlReturn_t enter(const char *function, struct nvmlDevice_st *device);
nvmlReturn_t leave(nvmlReturn_t code);

// The state between enter and leave. text is NULL without the key; number
// leaves *value alone and is 0. prefix "" is for keys of the system.
const char *text(const char *prefix, const char *key);
int number(const char *prefix, const char *key, long long *value);

// A function of one device that begins with enter.
#define ENTER(device)                                            \
	do {                                                         \
		nvmlReturn_t failure = enter(__func__, (device).handle); \
		if (failure != NVML_SUCCESS) return leave(failure);      \
	} while (0)

extern int initialised;
