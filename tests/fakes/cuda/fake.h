// What the parts of the fake CUDA runtime share: simulated time, streams, and effects at a point of time.
//
// The device computes nothing. Work that is submitted takes a known time on its stream's time line, which
// runs with the host's clock; only copies, fills and frees have an effect, and they have it when their time
// on the device has come: a value that is read before its synchronization is an old one.
#pragma once
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <stddef.h>

typedef long long ns_t;
struct Capture;

// A stream, or the part of it that a graph captures.
typedef struct Stream {
    int device;
    int blocking;            // waits for the null stream, and the null stream for it
    int priority;
    ns_t end;                // when all that was submitted is done
    struct Capture *capture; // the graph under construction that takes the work instead
    ns_t captured_end;       // on the graph's own time line, which begins at 0
    struct Stream *next;
    ns_t ends[1024];         // of the last submissions
    unsigned long submitted;
} Stream;

// What work does to memory at its end. `run` is called once, with the lock held.
typedef struct Effect {
    void (*run)(struct Effect *);
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
    int value;  // of a fill
    int device; // of a crash
} Effect;

// Each call of CUDA begins with this: it takes some time, and fails once the device is lost.
#define ENTER                                    \
    do {                                         \
        cudaError_t failed_ = fake_enter();      \
        if (failed_) return fake_report(failed_); \
    } while (0)

ns_t fake_now(void);
ns_t fake_setting(const char *name, ns_t otherwise); // FAKE_CUDA_<name>: a whole number
double fake_rate(const char *name, double otherwise);  // a number above 0
void fake_log(const char *format, ...);              // to stderr, if FAKE_CUDA_LOG is set
void fake_lock(void);
void fake_unlock(void);

// Errors: fake_report keeps it as the thread's last error and returns it.
cudaError_t fake_report(cudaError_t error);
cudaError_t fake_enter(void);
void fake_lose(int device, cudaError_t error);
cudaError_t fake_lost(int device);
int fake_unsupported(const char *name, int code); // what every function returns that is not written here

int fake_device_count(void);
int fake_current_device(void);

// Time lines.
Stream *fake_stream(cudaStream_t handle);
cudaError_t fake_submit(cudaStream_t stream, ns_t duration, const Effect *effect, ns_t *end);
cudaError_t fake_require_no_capture(cudaStream_t stream); // before the host waits
ns_t fake_device_end(int device);
void fake_wait_until(ns_t end); // and let happen what was due
void fake_settle(void);
void fake_schedule(const Effect *effect, ns_t at); // with the lock held, like the three below

// Graphs: work of a stream under capture goes there.
void fake_capture(Stream *stream, ns_t duration, const Effect *effect);
void fake_end_capture(struct Capture *capture);
int fake_capturing(int device);

// Kernels by name: how long one takes, whether it loses the device.
cudaError_t fake_launch(const char *name, ns_t otherwise, cudaStream_t stream);
cudaError_t fake_multiply(const char *name, double m, double n, double k, cudaStream_t stream);
