// libcublas.so.13: products that take the time of their multiplications, and compute nothing.
#include "fake.h"
#include <cublas_v2.h>
#include <stdlib.h>

typedef struct Handle {
    cudaStream_t stream;
    cublasMath_t math;
    cublasPointerMode_t pointers;
} Handle;

// CUDA's own error is lost here, as in cuBLAS.
static cublasStatus_t multiply(cublasHandle_t handle, const char *name, double m, double n, double k) {
    return fake_multiply(name, m, n, k, ((Handle *)handle)->stream) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                    : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    if (fake_enter()) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof(Handle));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    ((Handle *)handle)->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
    *stream = ((Handle *)handle)->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    ((Handle *)handle)->math = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
    *mode = ((Handle *)handle)->math;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    ((Handle *)handle)->pointers = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode) {
    *mode = ((Handle *)handle)->pointers;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t size) {
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

#define GEMM(letter, type)                                                                            \
    cublasStatus_t cublas##letter##gemm_v2(cublasHandle_t handle, cublasOperation_t transposed_a,     \
                                           cublasOperation_t transposed_b, int m, int n, int k,       \
                                           const type *alpha, const type *a, int stride_a,            \
                                           const type *b, int stride_b, const type *beta, type *c,    \
                                           int stride_c) {                                            \
        return multiply(handle, #letter "gemm", m, n, k);                                             \
    }
GEMM(S, float)
GEMM(D, double)
GEMM(C, cuComplex)
GEMM(Z, cuDoubleComplex)

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transposed_a, cublasOperation_t transposed_b,
                            int m, int n, int k, const void *alpha, const void *a, cudaDataType type_a,
                            int stride_a, const void *b, cudaDataType type_b, int stride_b, const void *beta,
                            void *c, cudaDataType type_c, int stride_c, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm) {
    return multiply(handle, "gemm", m, n, k);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transposed_a,
                                          cublasOperation_t transposed_b, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType type_a, int stride_a,
                                          long long int distance_a, const void *b, cudaDataType type_b,
                                          int stride_b, long long int distance_b, const void *beta, void *c,
                                          cudaDataType type_c, int stride_c, long long int distance_c, int count,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
    return multiply(handle, "gemm", m, n, (double)k * count);
}
