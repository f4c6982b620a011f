// The devices themselves, their properties, and errors: those of a thread, and those that lose a device.
#include "fake.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEVICES 16
#define VERSION 13020 // of CUDA: 13.2
#define CLOCK_KHZ 1000000 // so that a cycle is a nanosecond

// pytest-gpuperf calls each device emulated whose name begins like this; no GPU's does.
static const char NAME[] = "Emulated CUDA device";

static __thread int current;
static __thread cudaError_t last;
static cudaError_t lost[MOST_DEVICES];

int fake_current_device(void) { return current; }

// ---- errors

cudaError_t fake_report(cudaError_t error) {
    if (error) last = error;
    return error;
}

void fake_lose(int device, cudaError_t error) { lost[device] = error; }

cudaError_t fake_lost(int device) { return lost[device]; }

cudaError_t fake_enter(void) {
    fake_settle(); // a crash may be due
    return fake_lost(current) ? fake_lost(current) : (cudaError_t)fake_setting("REFUSE", cudaSuccess);
}

int fake_unsupported(const char *name, int code) {
    fake_log("%s is not part of the fake\n", name);
    return code;
}

cudaError_t cudaPeekAtLastError(void) { return fake_lost(current) ? fake_lost(current) : last; }

cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();
    last = cudaSuccess;
    return error;
}

// CuPy's modules have a runtime of their own in them. What its queries return stays in that one as the last
// error, where torch never meets it.
#define QUERY_OF_CUPY(query, Handle)                \
    cudaError_t fake_cupy_##query(Handle handle) {  \
        cudaError_t before = last, result = query(handle); \
        last = before;                              \
        return result;                              \
    }
QUERY_OF_CUPY(cudaEventQuery, cudaEvent_t)
QUERY_OF_CUPY(cudaStreamQuery, cudaStream_t)

static const struct {
    cudaError_t error;
    const char *name, *words;
} ERRORS[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorCompatNotSupportedOnDevice, "cudaErrorCompatNotSupportedOnDevice", "forward compatibility was attempted on non supported HW"},
    {cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch", "system has unsupported display driver / cuda driver combination"},
    {cudaErrorOperatingSystem, "cudaErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {cudaErrorMpsConnectionFailed, "cudaErrorMpsConnectionFailed",
     "MPS client failed to connect to the MPS control daemon or the MPS server"},
    {cudaErrorMpsRpcFailure, "cudaErrorMpsRpcFailure",
     "the remote procedural call between the MPS server and the MPS client failed"},
    {cudaErrorMpsServerNotReady, "cudaErrorMpsServerNotReady",
     "MPS server is not ready to accept new MPS client requests"},
    {cudaErrorMpsMaxClientsReached, "cudaErrorMpsMaxClientsReached",
     "the hardware resources required to create MPS client have been exhausted"},
    {cudaErrorMpsMaxConnectionsReached, "cudaErrorMpsMaxConnectionsReached",
     "the hardware resources required to support device connections have been exhausted"},
    {cudaErrorSystemNotReady, "cudaErrorSystemNotReady", "system not yet initialized"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorNvlinkUncorrectable, "cudaErrorNvlinkUncorrectable",
     "uncorrectable NVLink error detected during the execution"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].error == error) return ERRORS[i].name;
    return "cudaErrorUnknown";
}

const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].error == error) return ERRORS[i].words;
    return "unknown error";
}

// ---- devices

static int driver_version(void) { return (int)fake_setting("DRIVER", VERSION); }

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 0;
    cudaError_t early = (cudaError_t)fake_setting("COUNT_ERROR", 0); // of cuInit
    if (early) return fake_report(early);
    if (driver_version() < VERSION) return fake_report(cudaErrorInsufficientDriver);
    *count = fake_device_count();
    return *count ? cudaSuccess : fake_report(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device) {
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= fake_device_count()) return fake_report(cudaErrorInvalidDevice);
    current = device;
    return fake_report(fake_enter()); // its context begins here
}

// The numbers are a Hopper GPU's, where a library computes with them.
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    if (device < 0 || device >= fake_device_count()) return fake_report(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){
        .totalGlobalMem = fake_setting("MEMORY", 8LL << 30),
        .major = 9,
        .multiProcessorCount = 132,
        .warpSize = 32,
        .maxThreadsPerBlock = 1024,
        .maxThreadsPerMultiProcessor = 2048,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .sharedMemPerBlock = 49152,
        .sharedMemPerMultiprocessor = 233472,
        .sharedMemPerBlockOptin = 232448,
        .regsPerBlock = 65536,
        .regsPerMultiprocessor = 65536,
        .l2CacheSize = 60 << 20,
        .concurrentKernels = 1,
        .unifiedAddressing = 1,
        .managedMemory = 1,
        .memoryPoolsSupported = 1,
        .memoryBusWidth = 5120,
        // A bus that NVML does not know, also on a machine with a GPU.
        .pciDomainID = 0xfa4e,
        .pciBusID = 0xfa,
        .pciDeviceID = device,
    };
    memcpy(properties->name, NAME, sizeof NAME);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "fa4e:fa:%02x.0", device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    struct cudaDeviceProp properties;
    cudaError_t failed = cudaGetDeviceProperties(&properties, device);
    if (failed) return failed;
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrWarpSize: *value = properties.warpSize; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = properties.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxBlockDimX: *value = properties.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = properties.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = properties.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = properties.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = properties.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = properties.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = properties.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = properties.sharedMemPerMultiprocessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = properties.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = properties.regsPerBlock; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = properties.regsPerMultiprocessor; break;
    case cudaDevAttrL2CacheSize: *value = properties.l2CacheSize; break;
    case cudaDevAttrClockRate: *value = CLOCK_KHZ; break;
    case cudaDevAttrMemoryClockRate: *value = CLOCK_KHZ; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = properties.memoryBusWidth; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrManagedMemory: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrPciDomainId: *value = properties.pciDomainID; break;
    case cudaDevAttrPciBusId: *value = properties.pciBusID; break;
    case cudaDevAttrPciDeviceId: *value = properties.pciDeviceID; break;
    default: *value = 0;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = driver_version();
    return cudaSuccess;
}

// torch calls the driver through what this finds.
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    *function = dlsym(RTLD_DEFAULT, name);
    if (found) *found = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
