// Simulated time: each stream's time line, what happens when on it, and the host's waits.
#include "fake.h"
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_DEVICES 16
#define SPINNING_NS 200000 // the last part of a wait is spun away: sleep wakes up late

typedef struct Due {
    ns_t at;
    Effect effect;
    struct Due *next;
} Due;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Due *pending; // by time
static Stream null_streams[MOST_DEVICES];
static __thread Stream *per_thread_streams[MOST_DEVICES];
static Stream *others; // created, and per-thread default streams

ns_t fake_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void refuse(const char *variable, const char *value, const char *wanted) {
    fprintf(stderr, "%s is %s, not '%s'\n", variable, wanted, value);
    _exit(2);
}

ns_t fake_setting(const char *name, ns_t otherwise) {
    char variable[64], *end;
    snprintf(variable, sizeof variable, "FAKE_CUDA_%s", name);
    const char *value = getenv(variable);
    if (!value || !*value) return otherwise;
    ns_t found = strtoll(value, &end, 10);
    if (*end || found < 0) refuse(variable, value, "a whole number");
    return found;
}

double fake_rate(const char *name, double otherwise) {
    char variable[64], *end;
    snprintf(variable, sizeof variable, "FAKE_CUDA_%s", name);
    const char *value = getenv(variable);
    if (!value || !*value) return otherwise;
    double found = strtod(value, &end);
    if (*end || !(found > 0)) refuse(variable, value, "a number above 0");
    return found;
}

// The host's part of a launch, and what passes then until an idle device begins: about an H100's.
static ns_t call_ns(void) { return fake_setting("CALL_NS", 1500); }
static ns_t latency_ns(void) { return fake_setting("LATENCY_NS", 2500); }

__attribute__((constructor)) static void configure(void) {
    for (int device = 0; device < MOST_DEVICES; device++) {
        null_streams[device].device = device;
        null_streams[device].blocking = 1;
    }
}

void fake_log(const char *format, ...) {
    if (!fake_setting("LOG", 0)) return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

void fake_lock(void) { pthread_mutex_lock(&mutex); }
void fake_unlock(void) { pthread_mutex_unlock(&mutex); }

// CUDA_VISIBLE_DEVICES shows so many of them: those before the first number that is none of theirs.
int fake_device_count(void) {
    ns_t all = fake_setting("DEVICES", 1);
    int count = all > MOST_DEVICES ? MOST_DEVICES : (int)all, shown = 0;
    const char *listed = getenv("CUDA_VISIBLE_DEVICES");
    if (!listed) return count;
    for (char *end; isdigit(*listed) && strtol(listed, &end, 10) < count; listed = end + 1) {
        shown++;
        if (*end != ',') break;
    }
    return shown;
}

static ns_t later(ns_t a, ns_t b) { return a > b ? a : b; }

static void spin_until(ns_t end) {
    while (fake_now() < end) {
    }
}

// The default stream of this thread lives for as long as the process does.
static Stream *per_thread_stream(int device) {
    if (!per_thread_streams[device]) {
        Stream *stream = calloc(1, sizeof *stream);
        stream->device = device;
        stream->blocking = 1;
        fake_lock();
        stream->next = others;
        others = stream;
        fake_unlock();
        per_thread_streams[device] = stream;
    }
    return per_thread_streams[device];
}

Stream *fake_stream(cudaStream_t handle) {
    int device = fake_current_device();
    if (handle == NULL || handle == cudaStreamLegacy) return &null_streams[device];
    if (handle == cudaStreamPerThread) return per_thread_stream(device);
    return (Stream *)handle;
}

static void settle(ns_t now) {
    while (pending && pending->at <= now) {
        Due *due = pending;
        pending = due->next;
        due->effect.run(&due->effect);
        free(due);
    }
}

void fake_settle(void) {
    fake_lock();
    settle(fake_now());
    fake_unlock();
}

void fake_schedule(const Effect *effect, ns_t at) {
    Due **place = &pending;
    while (*place && (*place)->at <= at) place = &(*place)->next;
    Due *due = malloc(sizeof *due);
    *due = (Due){.at = at, .effect = *effect, .next = *place};
    *place = due;
}

// The null stream begins after all that blocking streams were given, and they after it.
static ns_t beginning(Stream *stream) {
    ns_t begin = later(fake_now() + latency_ns(), stream->end);
    Stream *null = &null_streams[stream->device];
    if (stream != null) return stream->blocking ? later(begin, null->end) : begin;
    for (Stream *other = others; other; other = other->next)
        if (other->blocking && other->device == stream->device) begin = later(begin, other->end);
    return begin;
}

cudaError_t fake_submit(cudaStream_t handle, ns_t duration, const Effect *effect, ns_t *end) {
    ns_t entered = fake_now();
    Stream *stream = fake_stream(handle);
    if (stream->device != fake_current_device()) return cudaErrorInvalidResourceHandle;
    spin_until(entered + call_ns());
    fake_lock();
    if (stream->capture) {
        fake_capture(stream, duration, effect);
    } else {
        settle(fake_now());
        ns_t depth = fake_setting("QUEUE", 1000); // of the driver's, after which a launch waits; 0: endless
        if (depth > 0 && depth <= 1024 && stream->submitted >= (unsigned long)depth) {
            ns_t oldest = stream->ends[(stream->submitted - depth) % 1024];
            fake_unlock();
            while (fake_now() < oldest) {
            }
            fake_lock();
            settle(fake_now());
        }
        stream->end = beginning(stream) + duration;
        stream->ends[stream->submitted++ % 1024] = stream->end;
        if (effect) fake_schedule(effect, stream->end);
        if (end) *end = stream->end;
    }
    fake_unlock();
    return cudaSuccess;
}

// All streams that took part in a capture leave it with the one that began it.
void fake_end_capture(struct Capture *capture) {
    for (Stream *stream = others; stream; stream = stream->next)
        if (stream->capture == capture) stream->capture = NULL;
}

ns_t fake_device_end(int device) {
    fake_lock();
    ns_t end = null_streams[device].end;
    for (Stream *other = others; other; other = other->next)
        if (other->device == device) end = later(end, other->end);
    fake_unlock();
    return end;
}

void fake_wait_until(ns_t end) {
    for (ns_t now = fake_now(); now < end; now = fake_now())
        if (end - now > SPINNING_NS) {
            ns_t nap = (end - now) / 2;
            nanosleep(&(struct timespec){nap / 1000000000, nap % 1000000000}, NULL);
        }
    fake_settle();
}

// ---- streams

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority) {
    ENTER;
    Stream *stream = calloc(1, sizeof *stream);
    stream->device = fake_current_device();
    stream->blocking = !(flags & cudaStreamNonBlocking);
    stream->priority = priority;
    fake_lock();
    stream->next = others;
    others = stream;
    fake_unlock();
    *handle = (cudaStream_t)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *handle) { return cudaStreamCreateWithPriority(handle, 0, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags) {
    return cudaStreamCreateWithPriority(handle, flags, 0);
}

// Its work goes on: the time line stays, without its handle.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags) {
    *flags = fake_stream(handle)->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
    *priority = fake_stream(handle)->priority;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

// The host may not ask for, or wait for, what a graph has only written down.
cudaError_t fake_require_no_capture(cudaStream_t handle) {
    int captured = handle ? fake_stream(handle)->capture != NULL : fake_capturing(fake_current_device());
    return captured ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    ENTER;
    cudaError_t captured = fake_require_no_capture(handle);
    if (captured) return fake_report(captured);
    spin_until(fake_now() + call_ns() / 3);
    fake_settle();
    return fake_now() < fake_stream(handle)->end ? fake_report(cudaErrorNotReady) : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    ENTER;
    cudaError_t captured = fake_require_no_capture(handle);
    if (captured) return fake_report(captured);
    Stream *stream = fake_stream(handle);
    fake_wait_until(stream->end);
    return fake_report(fake_lost(stream->device));
}

cudaError_t cudaDeviceSynchronize(void) {
    ENTER;
    cudaError_t captured = fake_require_no_capture(NULL);
    if (captured) return fake_report(captured);
    spin_until(fake_now() + call_ns() / 2);
    fake_wait_until(fake_device_end(fake_current_device()));
    return fake_report(fake_lost(fake_current_device()));
}
