// As load.py, where there is no PyTorch: nvcc -O2 -o load load.cu. It has no matmul.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <cuda_runtime.h>

static void must(cudaError_t e) {
	if (e != cudaSuccess) {
		fprintf(stderr, "%s\n", cudaGetErrorString(e));
		exit(1);
	}
}

static double now() {
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv) {
	if (argc != 3 || !strcmp(argv[1], "matmul")) {
		fprintf(stderr, "usage: load copy|half|held SECONDS\n");
		return 2;
	}
	const char *state = argv[1];
	const bool held = !strcmp(state, "held"), half = !strcmp(state, "half");
	const double seconds = atof(argv[2]);
	size_t free, total;
	must(cudaMemGetInfo(&free, &total));
	const size_t size = held ? free / 2 : (free / 4 < (4ull << 30) ? free / 4 : 4ull << 30);
	void *a, *b = nullptr;
	must(cudaMalloc(&a, size));
	if (!held) {
		must(cudaMalloc(&b, size));
	}
	must(cudaDeviceSynchronize());
	puts("running");
	fflush(stdout);
	double moved = 0;
	const double began = now();
	while (now() - began < seconds) {
		const double turn = now();
		if (held) {
			std::this_thread::sleep_for(std::chrono::milliseconds(100));
			continue;
		}
		for (int i = 0; i < 8; i++) {
			must(cudaMemcpyAsync(b, a, size, cudaMemcpyDeviceToDevice));
			moved += 2.0 * size;
		}
		must(cudaDeviceSynchronize());
		if (half) {
			std::this_thread::sleep_for(std::chrono::duration<double>(now() - turn));
		}
	}
	printf("moved %f\n", moved / (now() - began));
	return 0;
}
