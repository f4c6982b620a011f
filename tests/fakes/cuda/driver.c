// libcuda.so.1: the driver's functions that the libraries call beside the runtime's. CuPy launches its kernels
// here, known by their names.
#include "fake.h"
#include <ctype.h>
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A context is its device's number and one.
static CUcontext context_of(int device) { return (CUcontext)(size_t)(device + 1); }

static CUresult reported(cudaError_t error) { return (CUresult)error; } // most have the same numbers

static int is_installed(void) { return fake_setting("DRIVER", 1) != 0; }

// Without a driver XLA has a stub of its own, which gives no error a name either.
CUresult cuInit(unsigned flags) {
    if (!is_installed()) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    CUresult early = (CUresult)fake_setting("COUNT_ERROR", CUDA_SUCCESS);
    return early || fake_device_count() ? early : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) { return reported(cudaDriverGetVersion(version)); }
CUresult cuDeviceGetCount(int *count) { return reported(cudaGetDeviceCount(count)); }

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    return reported(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device));
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    return reported(cudaDeviceGetPCIBusId(text, length, device));
}

// The runtime's cudaErrorNoDevice is the driver's CUDA_ERROR_NO_DEVICE.
CUresult cuGetErrorName(CUresult error, const char **text) {
    static __thread char name[64];
    if (!is_installed()) return CUDA_ERROR_INVALID_VALUE;
    char *end = name + sprintf(name, "CUDA_ERROR");
    for (const char *of = cudaGetErrorName((cudaError_t)error) + strlen("cudaError"); *of; of++) {
        if (isupper(*of)) *end++ = '_';
        *end++ = toupper(*of);
    }
    *end = 0;
    *text = error ? name : "CUDA_SUCCESS";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = cudaGetErrorString((cudaError_t)error);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = context_of(fake_current_device());
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    return context ? reported(cudaSetDevice((int)(size_t)context - 1)) : CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) { return reported(cudaGetDevice(device)); }

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    *context = context_of(fake_stream(stream)->device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    if (flags) *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    *context = context_of(device);
    return CUDA_SUCCESS;
}

// ---- modules and their kernels

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    *module = malloc(1);
    return reported(fake_enter());
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
    return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module) {
    CUresult failed = reported(fake_enter());
    if (!failed) free(module);
    return failed;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    *function = (CUfunction)strdup(name);
    return reported(fake_enter());
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit) {
    *grid = 264;
    *block = 512;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int block, size_t shared) {
    return reported(cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, function, block, shared));
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **arguments,
                        void **extra) {
    cudaError_t failed = fake_enter();
    if (failed) return reported(failed);
    const char *name = (const char *)function;
    ns_t spins = strcmp(name, "gpuperf_spin") ? 0 : *(long long *)arguments[0];
    return reported(fake_launch(name, spins, stream));
}
