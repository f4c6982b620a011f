// libcufft.so.12: transforms that take as long as FAKE_CUDA_KERNELS="fft=..." says, and compute nothing.
#include "fake.h"
#include <cufftXt.h>

#define MOST_PLANS 4096
#define TRANSFORM_NS 5000

static cudaStream_t streams[MOST_PLANS]; // by plan, whose number is never used again
static int last;

static cufftResult transform(cufftHandle plan) {
    return fake_enter() || fake_launch("fft", TRANSFORM_NS, streams[plan]) ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}

cufftResult cufftGetVersion(int *version) {
    *version = CUFFT_VERSION;
    return CUFFT_SUCCESS;
}

cufftResult cufftCreate(cufftHandle *plan) {
    if (last + 1 == MOST_PLANS) return CUFFT_ALLOC_FAILED;
    *plan = ++last;
    return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle plan) {
    return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream) {
    streams[plan] = stream;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle plan, int automatic) {
    return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle plan, void *area) {
    return CUFFT_SUCCESS;
}

cufftResult cufftMakePlan1d(cufftHandle plan, int size, cufftType type, int batch, size_t *work_size) {
    *work_size = 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int *sizes, long long int *in_sizes,
                                long long int in_stride, long long int in_distance, cudaDataType in_type,
                                long long int *out_sizes, long long int out_stride, long long int out_distance,
                                cudaDataType out_type, long long int batch, size_t *work_size,
                                cudaDataType type) {
    *work_size = 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftXtExec(cufftHandle plan, void *input, void *output, int direction) {
    return transform(plan);
}

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *input, cufftComplex *output, int direction) {
    return transform(plan);
}

cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *input, cufftDoubleComplex *output, int direction) {
    return transform(plan);
}
