// Kernels compute nothing: here is how long each of them takes, and which one loses the device.
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATIONS 16

// FAKE_CUDA_KERNELS="add=20000 reduce=5000" names kernels by a part of their names, with nanoseconds; the
// first that fits counts. Like every setting it is read at each use, so that a test can set it.
static ns_t duration_of(const char *name, ns_t otherwise) {
    const char *rules = getenv("FAKE_CUDA_KERNELS");
    char part[128];
    ns_t duration;
    int length;
    for (; rules && sscanf(rules, " %127[^= ]=%lld%n", part, &duration, &length) == 2; rules += length)
        if (strstr(name, part)) return duration;
    return otherwise;
}

// A kernel with one of these parts in its name accesses memory that it may not.
static int crashes(const char *name) {
    const char *part = getenv("FAKE_CUDA_CRASH");
    return strstr(name, "crash") || (part && *part && strstr(name, part));
}

static void lose_now(Effect *effect) {
    fake_lose(effect->device, (cudaError_t)fake_setting("CRASH_ERROR", cudaErrorIllegalAddress));
}

cudaError_t fake_launch(const char *name, ns_t otherwise, cudaStream_t stream) {
    ns_t duration = duration_of(name, otherwise ? otherwise : fake_setting("KERNEL_NS", 2000));
    Effect crash = {.run = lose_now, .device = fake_current_device()};
    fake_log("launch %s on stream %p for %lld ns\n", name, (void *)stream, duration);
    return fake_submit(stream, duration, crashes(name) ? &crash : NULL, NULL);
}

// A product of an m by k and a k by n matrix: each multiplication counts with its addition.
cudaError_t fake_multiply(const char *name, double m, double n, double k, cudaStream_t stream) {
    cudaError_t failed = fake_enter();
    if (failed) return failed;
    ns_t duration = (ns_t)(2 * m * n * k / (1e3 * fake_rate("TFLOPS", 20)));
    return fake_launch(name, fake_setting("KERNEL_NS", 2000) + duration, stream);
}

// ---- kernels that are compiled into a library: known by the address of their host function

typedef struct Kernel {
    const void *function;
    const char *name;
} Kernel;

static Kernel *kernels; // open addressing, half empty at least
static size_t room, filled;

static Kernel *place_of(const void *function) {
    size_t i = ((size_t)function * 11400714819323198485ull >> 32) % room;
    while (kernels[i].function && kernels[i].function != function) i = (i + 1) % room;
    return &kernels[i];
}

static void grow(void) {
    Kernel *before = kernels;
    size_t count = room;
    room = room ? 2 * room : 1 << 16;
    kernels = calloc(room, sizeof *kernels);
    for (size_t i = 0; i < count; i++)
        if (before[i].function) *place_of(before[i].function) = before[i];
    free(before);
}

// torch's sleeps for so many cycles, and a cycle is a nanosecond here.
// After 10 ms of idling the clock is 345 of 1980 MHz for the first RAMP_US of work.
static ns_t at_clock(ns_t cycles) {
    static ns_t ramp_done;
    ns_t ramp = fake_setting("RAMP_US", 0) * 1000, now = fake_now(), end = fake_device_end(fake_current_device());
    if (!ramp) return cycles;
    ns_t start = end > now ? end : now;
    if (now - end > 10000000) ramp_done = start + ramp;
    if (start >= ramp_done) return cycles;
    double low = 345.0 / 1980, slow = (ramp_done - start) * low;
    return cycles <= slow ? (ns_t)(cycles / low) : (ramp_done - start) + (ns_t)(cycles - slow);
}

static ns_t duration_by_arguments(const char *name, void **arguments) {
    return strstr(name, "spin_kernel") ? at_clock(*(long long *)arguments[0]) : 0;
}

static cudaError_t launch(const void *function, void **arguments, cudaStream_t stream) {
    const char *name = room ? place_of(function)->name : NULL;
    if (!name) name = "a kernel"; // of CuPy, whose own copy of the runtime knows it
    return fake_report(fake_launch(name, duration_by_arguments(name, arguments), stream));
}

void **__cudaRegisterFatBinary(void *binary) {
    static void *handle;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) {}
void __cudaUnregisterFatBinary(void **handle) {}

void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name,
                            int limit, uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid, int *warp) {
    fake_lock();
    if (2 * filled >= room) grow();
    filled++;
    *place_of(function) = (Kernel){.function = function, .name = name};
    fake_unlock();
}

void __cudaRegisterVar(void **handle, char *variable, char *address, const char *name, int external,
                       size_t size, int constant, int global) {
}

// What stands between the <<< and >>> of a launch is pushed by the caller and popped by the kernel's stub.
static __thread struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configurations[CONFIGURATIONS];
static __thread int depth;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) {
    configurations[depth].grid = grid;
    configurations[depth].block = block;
    configurations[depth].shared = shared;
    configurations[depth++].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    depth--;
    *grid = configurations[depth].grid;
    *block = configurations[depth].block;
    *shared = configurations[depth].shared;
    *(cudaStream_t *)stream = configurations[depth].stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    *kernel = (cudaKernel_t)function;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream) {
    ENTER;
    return launch(function, arguments, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    ENTER;
    return launch(function, arguments, config->stream);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    *attributes = (struct cudaFuncAttributes){.maxThreadsPerBlock = 1024, .binaryVersion = 90, .ptxVersion = 90,
                                              .numRegs = 32, .maxDynamicSharedSizeBytes = 49152};
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *count, const void *function, int block,
                                                                   size_t shared, unsigned flags) {
    *count = 2;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *function, int block,
                                                          size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, block, shared, 0);
}

// A constant in a library's code: memory of this size holds any of them.
cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    static char constants[1 << 16];
    *address = constants;
    return cudaSuccess;
}
