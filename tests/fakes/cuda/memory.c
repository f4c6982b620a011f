// Memory: the device's is the host's, counted; copies and fills take effect at their time on the device.
#include "fake.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_DEVICES 16
#define STAGED_BYTES (64 << 10) // so little from pageable memory is copied by the call, and not waited for
#define COPY_NS 1500
#define FILL_NS 1000
#define DEVICE_GBPS 2000

typedef struct Block {
    char *begin;
    size_t size;
    enum cudaMemoryType type;
    int device;
    int mapped; // else allocated
    struct Block *next;
} Block;

static Block *blocks;
static size_t used[MOST_DEVICES], most_used[MOST_DEVICES];
static unsigned long long thresholds[MOST_DEVICES]; // of the pools, which CuPy reads back

static size_t memory_size(void) { return (size_t)fake_setting("MEMORY", 8LL << 30); }

static double link_gbps(void) { return fake_rate("GBPS", 20); } // bytes per nanosecond

static cudaError_t allocate(void **pointer, size_t size, enum cudaMemoryType type) {
    int device = fake_current_device(), on_device = type != cudaMemoryTypeHost;
    *pointer = NULL;
    fake_lock();
    if (on_device && size > memory_size() - used[device]) {
        fake_unlock();
        return fake_report(cudaErrorMemoryAllocation);
    }
    if (size) {
        // A GPU's memory is as good as endless here: only what is written takes any of the host's.
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        char *begin = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (begin == MAP_FAILED) { // as pinned memory that the host has not
            fake_unlock();
            return fake_report(cudaErrorMemoryAllocation);
        }
        Block *block = malloc(sizeof *block);
        *block = (Block){.begin = begin, .size = size, .type = type, .device = device, .next = blocks};
        blocks = block;
        if (on_device) used[device] += size;
        if (used[device] > most_used[device]) most_used[device] = used[device];
        *pointer = begin;
    }
    fake_unlock();
    fake_log("allocate %zu bytes at %p\n", size, *pointer);
    return cudaSuccess;
}

static void release(const void *pointer) {
    for (Block **place = &blocks; *place; place = &(*place)->next)
        if ((*place)->begin == pointer) {
            Block *block = *place;
            *place = block->next;
            if (block->type != cudaMemoryTypeHost) used[block->device] -= block->size;
            munmap(block->begin, block->size);
            free(block);
            return;
        }
}

static const Block *block_of(const void *pointer) {
    const char *byte = pointer;
    for (const Block *block = blocks; block; block = block->next)
        if (byte >= block->begin && byte < block->begin + block->size) return block;
    return NULL;
}

static enum cudaMemoryType type_of(const void *pointer) {
    fake_lock();
    const Block *block = block_of(pointer);
    enum cudaMemoryType type = block ? block->type : cudaMemoryTypeUnregistered;
    fake_unlock();
    return type;
}

cudaError_t cudaMalloc(void **pointer, size_t size) {
    ENTER;
    return allocate(pointer, size, cudaMemoryTypeDevice);
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags) {
    ENTER;
    return allocate(pointer, size, cudaMemoryTypeManaged);
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    ENTER;
    return allocate(pointer, size, cudaMemoryTypeHost);
}

cudaError_t cudaMallocHost(void **pointer, size_t size) { return cudaHostAlloc(pointer, size, 0); }

// Unlike an asynchronous one, this waits for the device.
cudaError_t cudaFree(void *pointer) {
    ENTER;
    if (!pointer) return cudaSuccess;
    fake_wait_until(fake_device_end(fake_current_device()));
    fake_lock();
    release(pointer);
    fake_unlock();
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *pointer) { return cudaFree(pointer); }

// ---- asynchronous allocation: one pool for each device, which is the device itself

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    return cudaMalloc(pointer, size);
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocAsync(pointer, size, stream);
}

static void release_now(Effect *effect) { release(effect->to); }

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    ENTER;
    return fake_report(fake_submit(stream, 0, &(Effect){.run = release_now, .to = pointer}, NULL));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    *pool = (cudaMemPool_t)(size_t)(device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    return fake_report((int)(size_t)pool == device + 1 ? cudaSuccess : cudaErrorNotSupported);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    ENTER;
    int device = (int)(size_t)pool - 1;
    if (attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh)
        most_used[device] = *(unsigned long long *)value;
    if (attribute == cudaMemPoolAttrReleaseThreshold) thresholds[device] = *(unsigned long long *)value;
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    ENTER;
    int device = (int)(size_t)pool - 1;
    switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent: *(unsigned long long *)value = used[device]; break;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh: *(unsigned long long *)value = most_used[device]; break;
    case cudaMemPoolAttrReleaseThreshold: *(unsigned long long *)value = thresholds[device]; break;
    default: return fake_report(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count) {
    ENTER;
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
    ENTER;
    return cudaSuccess;
}

// For libraries that take two functions as their allocator, as torch takes RMM's.
void *fake_pluggable_malloc(ptrdiff_t size, int device, cudaStream_t stream) {
    void *pointer = NULL;
    cudaMalloc(&pointer, size);
    return pointer;
}

void fake_pluggable_free(void *pointer, ptrdiff_t size, int device, cudaStream_t stream) {
    cudaFreeAsync(pointer, stream);
}

// ---- what is known of it

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    ENTER;
    *total = memory_size();
    *available = *total - used[fake_current_device()];
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    ENTER;
    fake_lock();
    const Block *block = block_of(pointer);
    *attributes = (struct cudaPointerAttributes){.device = cudaInvalidDeviceId}; // and of no type
    if (block) {
        attributes->type = block->type;
        attributes->device = block->device;
        attributes->devicePointer = (void *)pointer;
        attributes->hostPointer = block->type == cudaMemoryTypeDevice ? NULL : (void *)pointer;
    }
    fake_unlock();
    return cudaSuccess;
}

// ---- copies and fills

static void copy_now(Effect *effect) {
    for (size_t row = 0; row < effect->height; row++)
        memmove(effect->to + row * effect->to_pitch, effect->from + row * effect->from_pitch, effect->width);
}

static void copy_staged(Effect *effect) {
    copy_now(effect);
    free((char *)effect->from);
}

static void fill_now(Effect *effect) { memset(effect->to, effect->value, effect->width); }

// Pinned memory is copied at its time on the device. From and to pageable memory the call itself copies: the
// stream is waited for before, and the copy after, unless it is so small that CUDA keeps it for itself.
static cudaError_t copy(Effect effect, cudaStream_t stream) {
    size_t size = effect.width * effect.height;
    if (!size) return cudaSuccess;
    enum cudaMemoryType to = type_of(effect.to), from = type_of(effect.from);
    int within = to >= cudaMemoryTypeDevice && from >= cudaMemoryTypeDevice;
    ns_t duration = COPY_NS + (ns_t)(size / (within ? DEVICE_GBPS : link_gbps()));
    int uploads = from == cudaMemoryTypeUnregistered;
    effect.run = copy_now;
    if (to != cudaMemoryTypeUnregistered && !uploads) return fake_submit(stream, duration, &effect, NULL);

    cudaError_t failed = fake_require_no_capture(stream);
    if (failed) return failed;
    if (uploads && size <= STAGED_BYTES) {
        char *staged = malloc(size);
        Effect stage = effect;
        stage.to = staged, stage.to_pitch = effect.width;
        copy_now(&stage);
        effect.from = staged, effect.from_pitch = effect.width, effect.run = copy_staged;
        return fake_submit(stream, duration, &effect, NULL);
    }
    // The copy that the host makes here goes on during the device's, and is part of its time.
    fake_wait_until(fake_stream(stream)->end);
    ns_t end;
    failed = fake_submit(stream, duration, NULL, &end);
    if (failed) return failed;
    copy_now(&effect);
    fake_wait_until(end);
    return fake_lost(fake_current_device());
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    ENTER;
    return fake_report(copy((Effect){.to = to, .from = from, .width = size, .height = 1}, stream));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    ENTER;
    return fake_report(copy((Effect){.to = to, .to_pitch = to_pitch, .from = from, .from_pitch = from_pitch,
                                     .width = width, .height = height},
                            stream));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size,
                                cudaStream_t stream) {
    return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    cudaError_t failed = cudaMemcpyAsync(to, from, size, kind, NULL);
    return failed ? failed : cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    ENTER;
    Effect effect = {.run = fill_now, .to = to, .value = value, .width = size};
    return fake_report(fake_submit(stream, FILL_NS + (ns_t)size / DEVICE_GBPS, &effect, NULL));
}

cudaError_t cudaMemset(void *to, int value, size_t size) { return cudaMemsetAsync(to, value, size, NULL); }
