/* Events and sync files of a client: descriptors of eventfd(2) that poll, epoll and read see. With an
 * argument, the client closes an event before the object that was created with it. */
#define _GNU_SOURCE
#include "client.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static D3DKMT_HANDLE device;

static HANDLE handle(int descriptor)
{
    return (HANDLE)(intptr_t)descriptor;
}

static int descriptor(HANDLE event)
{
    return (int)(intptr_t)event;
}

static int is_readable(int event)
{
    struct pollfd wanted = {.fd = event, .events = POLLIN};
    return poll(&wanted, 1, 0) == 1 && (wanted.revents & POLLIN) != 0;
}

static D3DKMT_HANDLE create_fence(void)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device};
    create.Info.Type = D3DDDI_MONITORED_FENCE;
    CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS);
    return create.hSyncObject;
}

static void destroy_sync(D3DKMT_HANDLE object)
{
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = object};
    CHECK(D3DKMTDestroySynchronizationObject(&destroy) == STATUS_SUCCESS);
}

static NTSTATUS wait_for(D3DKMT_HANDLE fence, uint64_t value, HANDLE event)
{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &fence, .FenceValueArray = &value, .hAsyncEvent = event};
    return D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
}

static void signal_fence(D3DKMT_HANDLE fence, uint64_t value)
{
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &fence, .FenceValueArray = &value};
    CHECK(D3DKMTSignalSynchronizationObjectFromCpu(&signal) == STATUS_SUCCESS);
}

static D3DKMT_HANDLE create_context(void)
{
    D3DKMT_CREATECONTEXTVIRTUAL create = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&create) == STATUS_SUCCESS);
    return create.hContext;
}

static NTSTATUS enqueue(D3DKMT_HANDLE context, D3DKMT_HANDLE object, HANDLE event)
{
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 signal = {.ObjectCount = object != 0,
        .ObjectHandleArray = &object, .BroadcastContextCount = 1, .BroadcastContextArray = &context};
    signal.Flags.EnqueueCpuEvent = event != NULL;
    signal.CpuEventHandle = event;
    return D3DKMTSignalSynchronizationObjectFromGpu2(&signal);
}

static NTSTATUS create_notification(HANDLE event, D3DKMT_HANDLE *object)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device};
    create.Info.Type = D3DDDI_CPU_NOTIFICATION;
    create.Info.CPUNotification.Event = event;
    NTSTATUS status = D3DKMTCreateSynchronizationObject2(&create);
    *object = create.hSyncObject;
    return status;
}

/* The counter of an event, which is empty afterwards. */
static uint64_t take(int event)
{
    uint64_t counter = 0;
    return read(event, &counter, sizeof counter) == sizeof counter ? counter : 0;
}

static void own_events(void)
{
    D3DKMT_HANDLE fence = create_fence();
    int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(wait_for(fence, 1, handle(event)) == STATUS_SUCCESS);
    CHECK(!is_readable(event) && take(event) == 0);
    signal_fence(fence, 1);
    CHECK(is_readable(event) && take(event) == 1 && !is_readable(event));
    CHECK(wait_for(fence, 0, handle(event)) == STATUS_SUCCESS); /* It has passed. */
    CHECK(take(event) == 1);

    /* An event that blocks, is a semaphore and is closed before it is set: its copy sees it. */
    int blocking = eventfd(0, EFD_SEMAPHORE), copy = dup(blocking);
    CHECK(wait_for(fence, 2, handle(blocking)) == STATUS_SUCCESS);
    CHECK(wait_for(fence, 3, handle(blocking)) == STATUS_SUCCESS);
    CHECK(close(blocking) == 0);
    signal_fence(fence, 3);
    CHECK(take(copy) == 1 && take(copy) == 1 && !is_readable(copy));
    CHECK(close(copy) == 0);

    /* A number that is no open eventfd. */
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    int others[] = {pipes[0], pipes[1], 0x7ffc, -1, event + 0x10000};
    D3DKMT_HANDLE none, context = create_context();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK(wait_for(fence, 1, handle(others[i])) == STATUS_INVALID_HANDLE);
        CHECK(create_notification(handle(others[i]), &none) == STATUS_INVALID_HANDLE);
        CHECK(enqueue(context, 0, handle(others[i])) == STATUS_INVALID_HANDLE);
        CHECK(windtunnel_event_reset(handle(others[i])) == STATUS_INVALID_HANDLE);
        CHECK(windtunnel_event_wait(handle(others[i])) == STATUS_INVALID_HANDLE);
        CHECK(windtunnel_event_close(handle(others[i])) == STATUS_INVALID_HANDLE);
        CHECK(windtunnel_event_is_set(handle(others[i])) == 0);
    }
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    D3DKMT_DESTROYCONTEXT destroy = {.hContext = context};
    CHECK(D3DKMTDestroyContext(&destroy) == STATUS_SUCCESS);
    CHECK(close(event) == 0);
    destroy_sync(fence);
}

static void *wait_in_thread(void *event)
{
    CHECK(windtunnel_event_wait(event) == STATUS_SUCCESS);
    return event;
}

static void made_events(void)
{
    HANDLE event = windtunnel_event_create();
    CHECK(descriptor(event) > 2 && (fcntl(descriptor(event), F_GETFD) & FD_CLOEXEC) != 0);
    D3DKMT_HANDLE fence = create_fence();
    CHECK(wait_for(fence, 5, event) == STATUS_SUCCESS && !windtunnel_event_is_set(event));
    int waiting = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    CHECK(epoll_ctl(waiting, EPOLL_CTL_ADD, descriptor(event), &wanted) == 0);
    CHECK(epoll_wait(waiting, &wanted, 1, 0) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_in_thread, event) == 0);
    signal_fence(fence, 5);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(epoll_wait(waiting, &wanted, 1, 0) == 1 && windtunnel_event_is_set(event));
    CHECK(windtunnel_event_reset(event) == STATUS_SUCCESS && !windtunnel_event_is_set(event));
    CHECK(epoll_wait(waiting, &wanted, 1, 0) == 0 && close(waiting) == 0);
    CHECK(windtunnel_event_close(event) == STATUS_SUCCESS);
    CHECK(fcntl(descriptor(event), F_GETFD) < 0);
    destroy_sync(fence);
}

static void queued_events(void)
{
    D3DKMT_HANDLE context = create_context(), notification;
    int event = eventfd(0, EFD_CLOEXEC), notified = eventfd(0, EFD_CLOEXEC);
    CHECK(create_notification(handle(notified), &notification) == STATUS_SUCCESS);
    CHECK(enqueue(context, notification, NULL) == STATUS_SUCCESS);
    CHECK(enqueue(context, 0, handle(event)) == STATUS_SUCCESS);
    CHECK(windtunnel_event_wait(handle(event)) == STATUS_SUCCESS && take(event) == 1);
    CHECK(windtunnel_event_wait(handle(notified)) == STATUS_SUCCESS && take(notified) == 1);
    /* A copy may be closed; the event itself is closed after the object. */
    CHECK(windtunnel_event_close(handle(dup(notified))) == STATUS_SUCCESS);
    destroy_sync(notification);
    CHECK(windtunnel_event_close(handle(notified)) == STATUS_SUCCESS && close(event) == 0);
    D3DKMT_DESTROYCONTEXT destroy = {.hContext = context};
    CHECK(D3DKMTDestroyContext(&destroy) == STATUS_SUCCESS);
}

static void sync_files(void)
{
    D3DKMT_HANDLE fence = create_fence();
    D3DKMT_CREATESYNCFILE first = {.hDevice = device, .hMonitoredFence = fence, .FenceValue = 7};
    CHECK(D3DKMTCreateSyncFile(&first) == STATUS_SUCCESS);
    int file = (int)first.hSyncFile;
    CHECK(file > 2 && (fcntl(file, F_GETFD) & FD_CLOEXEC) != 0 && !is_readable(file));
    signal_fence(fence, 6);
    CHECK(!is_readable(file));
    signal_fence(fence, 8);
    CHECK(is_readable(file) && is_readable(file));
    D3DKMT_CREATESYNCFILE passed = first;
    CHECK(D3DKMTCreateSyncFile(&passed) == STATUS_SUCCESS && is_readable((int)passed.hSyncFile));
    CHECK(close((int)passed.hSyncFile) == 0 && close(file) == 0);

    int next = dup(0);
    CHECK(close(next) == 0);
    D3DKMT_CREATESYNCFILE bad[] = {first, first, first};
    bad[0].hDevice = 0;
    bad[1].hMonitoredFence = 0;
    bad[2].hMonitoredFence = device;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(D3DKMTCreateSyncFile(&bad[i]) == STATUS_INVALID_PARAMETER);
    }
    CHECK(D3DKMTCreateSyncFile(NULL) == STATUS_INVALID_PARAMETER);
    int free_again = dup(0);
    CHECK(free_again == next && close(free_again) == 0); /* No descriptor is left. */

    /* A fence that ends releases its waits. */
    first.FenceValue = 100;
    CHECK(D3DKMTCreateSyncFile(&first) == STATUS_SUCCESS);
    CHECK(!is_readable((int)first.hSyncFile));
    destroy_sync(fence);
    CHECK(is_readable((int)first.hSyncFile) && close((int)first.hSyncFile) == 0);
}

int main(int count, char **arguments)
{
    (void)arguments;
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    if (count > 1) {
        HANDLE event = windtunnel_event_create();
        D3DKMT_HANDLE notification;
        CHECK(create_notification(event, &notification) == STATUS_SUCCESS);
        CHECK(windtunnel_event_close(event) == STATUS_SUCCESS); /* too early */
        destroy_sync(notification);
    } else {
        own_events();
        made_events();
        queued_events();
        sync_files();
    }
    destroy_device(device);
    close_adapter(adapter);
    puts("events: all seen");
    return EXIT_SUCCESS;
}
