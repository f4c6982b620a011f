// Events: points on a stream's time line, or on that of a graph under capture.
#include "fake.h"
#include <stdlib.h>

#define RECORD_NS 200 // what the device takes to write a time stamp

typedef struct Event {
    int device;
    int timed;
    int recorded;
    ns_t at;
    struct Capture *capture; // when it was recorded in one: `at` is then on the graph's time line
} Event;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags) {
    ENTER;
    Event *event = calloc(1, sizeof *event);
    event->device = fake_current_device();
    event->timed = !(flags & cudaEventDisableTiming);
    *handle = (cudaEvent_t)event;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *handle) { return cudaEventCreateWithFlags(handle, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    ENTER;
    free(handle);
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
    ENTER;
    Event *event = (Event *)handle;
    Stream *stream = fake_stream(stream_handle);
    if (event->device != stream->device) return fake_report(cudaErrorInvalidResourceHandle);
    cudaError_t failed = fake_submit(stream_handle, RECORD_NS, NULL, &event->at);
    if (failed) return fake_report(failed);
    event->recorded = 1;
    event->capture = stream->capture;
    if (event->capture) event->at = stream->captured_end;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
    return cudaEventRecordWithFlags(handle, stream, 0);
}

// A stream that waits for an event of a graph under capture becomes part of that capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
    ENTER;
    Event *event = (Event *)handle;
    Stream *stream = fake_stream(stream_handle);
    fake_lock();
    if (event->recorded && event->capture) {
        ns_t already = stream->capture ? stream->captured_end : 0;
        stream->capture = event->capture;
        stream->captured_end = event->at > already ? event->at : already;
    } else if (event->recorded && event->at > stream->end) {
        stream->end = event->at;
    }
    fake_unlock();
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    ENTER;
    Event *event = (Event *)handle;
    if (event->capture) return fake_report(cudaErrorCapturedEvent);
    fake_settle();
    return fake_now() < event->at ? fake_report(cudaErrorNotReady) : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    ENTER;
    Event *event = (Event *)handle;
    if (event->capture) return fake_report(cudaErrorCapturedEvent);
    fake_wait_until(event->at);
    return fake_report(fake_lost(event->device));
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
    ENTER;
    Event *start = (Event *)start_handle, *end = (Event *)end_handle;
    if (!start->timed || !end->timed || !start->recorded || !end->recorded)
        return fake_report(cudaErrorInvalidResourceHandle);
    if (fake_now() < end->at) return fake_report(cudaErrorNotReady);
    *milliseconds = (float)((end->at - start->at) / 1e6);
    return cudaSuccess;
}
