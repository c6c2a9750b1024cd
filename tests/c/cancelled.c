/* Threads that are cancelled at any instruction of the exported functions, asynchronously and at their
 * next cancellation point: each ends with its result, no lock is kept, and no object is lost. */
#define _GNU_SOURCE
#include "client.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static D3DKMT_HANDLE adapter;
static D3DKMT_CREATEDEVICE made;
static volatile int is_running;

/* Calls that leave nothing, and a device that the main thread destroys if this one ends before. */
static void make_calls(void)
{
    D3DKMT_HANDLE object = 1;
    HANDLE shared;
    OBJECT_ATTRIBUTES attributes = {0};
    CHECK(D3DKMTCloseAdapter(NULL) == STATUS_INVALID_PARAMETER);
    CHECK(D3DKMTShareObjects(1, &object, &attributes, 0, &shared) != STATUS_SUCCESS);
    CHECK(D3DKMTCancelPresents(NULL) == STATUS_NOT_SUPPORTED);
    CHECK(D3DKMTCheckExclusiveOwnership() == 0);
    CHECK(windtunnel_event_is_set(NULL) == 0);
    CHECK(windtunnel_event_reset(NULL) == STATUS_INVALID_HANDLE);
    CHECK(windtunnel_event_wait(NULL) == STATUS_INVALID_HANDLE);
    CHECK(windtunnel_event_close(NULL) == STATUS_INVALID_HANDLE);
    CHECK(windtunnel_process_open(-1, 0) == NULL);
    CHECK(windtunnel_nt_handle_type(NULL, NULL, 0) == STATUS_INVALID_HANDLE);
    CHECK(windtunnel_nt_handle_name(NULL, NULL, 0) == STATUS_INVALID_HANDLE);
    made.hAdapter = adapter;
    CHECK(D3DKMTCreateDevice(&made) == STATUS_SUCCESS);
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = made.hDevice};
    if (D3DKMTDestroyDevice(&destroy) == STATUS_SUCCESS) {
        made.hDevice = 0;
    }
}

static void *call_on(void *kind)
{
    CHECK(pthread_setcanceltype(*(int *)kind, NULL) == 0);
    for (;;) {
        make_calls();
        is_running = 1;
        pthread_testcancel();
    }
}

static void cancel_one(int kind)
{
    pthread_t thread;
    is_running = 0;
    made.hDevice = 0;
    CHECK(pthread_create(&thread, NULL, call_on, &kind) == 0);
    while (!is_running) {
        sched_yield();
    }
    for (volatile int turn = rand() % 20000; turn > 0; turn--) {
    }
    CHECK(pthread_cancel(thread) == 0);
    void *result = NULL;
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    if (made.hDevice != 0) {
        /* Already destroyed, if the thread ended before it noted that. */
        D3DKMT_DESTROYDEVICE destroy = {.hDevice = made.hDevice};
        (void)D3DKMTDestroyDevice(&destroy);
    }
}

int main(int count, char **arguments)
{
    adapter = open_adapter();
    int turns = count > 1 ? atoi(arguments[1]) : 200;
    for (int turn = 0; turn < turns; turn++) {
        cancel_one(PTHREAD_CANCEL_ASYNCHRONOUS);
        cancel_one(PTHREAD_CANCEL_DEFERRED);
    }
    close_adapter(adapter);
    puts("cancelled: all answered");
    return EXIT_SUCCESS;
}
