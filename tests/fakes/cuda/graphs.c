// Graphs: what streams write down between the begin and the end of a capture, and its replay as one work.
#include "fake.h"
#include <stdlib.h>
#include <string.h>

typedef struct Node {
    ns_t end; // on the graph's time line, which begins at 0
    Effect effect;
} Node;

// A graph under construction, a graph, and an executable one are the same list of nodes.
typedef struct Capture {
    unsigned long long id;
    Stream *origin;
    ns_t duration;
    size_t count;
    Node *nodes;
} Capture;

static int captures_of[64]; // by device
static unsigned long long last_id;
static __thread enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

int fake_capturing(int device) { return captures_of[device] > 0; }

static void nothing(Effect *effect) {}

void fake_capture(Stream *stream, ns_t duration, const Effect *effect) {
    Capture *capture = stream->capture;
    stream->captured_end += duration;
    if (stream->captured_end > capture->duration) capture->duration = stream->captured_end;
    capture->nodes = realloc(capture->nodes, (capture->count + 1) * sizeof *capture->nodes);
    capture->nodes[capture->count++] =
        (Node){.end = stream->captured_end, .effect = effect ? *effect : (Effect){.run = nothing}};
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    ENTER;
    Stream *stream = fake_stream(handle);
    if (handle == NULL || handle == cudaStreamLegacy) return fake_report(cudaErrorStreamCaptureUnsupported);
    if (stream->capture) return fake_report(cudaErrorIllegalState);
    fake_lock();
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->capture->id = ++last_id;
    stream->capture->origin = stream;
    stream->captured_end = 0;
    captures_of[stream->device]++;
    fake_unlock();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    ENTER;
    Stream *stream = fake_stream(handle);
    if (!stream->capture) return fake_report(cudaErrorIllegalState);
    if (stream->capture->origin != stream) return fake_report(cudaErrorStreamCaptureUnmatched);
    fake_lock();
    *graph = (cudaGraph_t)stream->capture;
    captures_of[stream->device]--;
    fake_end_capture(stream->capture);
    fake_unlock();
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status) {
    ENTER;
    *status = fake_stream(handle)->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                     size_t *count) {
    ENTER;
    Capture *capture = fake_stream(handle)->capture;
    *status = capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (id) *id = capture ? capture->id : 0;
    if (graph) *graph = (cudaGraph_t)capture;
    if (dependencies) *dependencies = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    ENTER;
    if (nodes) return fake_report(cudaErrorNotSupported);
    *count = ((Capture *)graph)->count;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags) {
    ENTER;
    Capture *copy = malloc(sizeof *copy);
    *copy = *(Capture *)graph;
    copy->nodes = malloc((copy->count + 1) * sizeof *copy->nodes);
    memcpy(copy->nodes, ((Capture *)graph)->nodes, copy->count * sizeof *copy->nodes);
    *executable = (cudaGraphExec_t)copy;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags) {
    return cudaGraphInstantiate(executable, graph, flags);
}

static void discard(Capture *capture) {
    free(capture->nodes);
    free(capture);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    discard((Capture *)graph);
    return cudaSuccess;
}

// A replay may still be under way; its effects were copied when it was launched.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    discard((Capture *)executable);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    ENTER;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    ENTER;
    Capture *capture = (Capture *)executable;
    fake_log("launch graph of %zu nodes for %lld ns\n", capture->count, capture->duration);
    ns_t end;
    cudaError_t failed = fake_submit(stream, capture->duration, NULL, &end);
    if (failed) return fake_report(failed);
    fake_lock();
    for (size_t i = 0; i < capture->count; i++)
        fake_schedule(&capture->nodes[i].effect, end - capture->duration + capture->nodes[i].end);
    fake_unlock();
    return cudaSuccess;
}
