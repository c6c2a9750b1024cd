/* Synchronization objects and monitored fences, as observed on Windows. The number in a comment is the
 * row of the observation. */
#include "client.h"

#include <string.h>

#define BAD STATUS_INVALID_PARAMETER
#define GARBAGE 0x1eadbeedu

static D3DKMT_HANDLE adapter, device;

static int is_local(D3DKMT_HANDLE handle)
{
    return handle != 0 && (handle & 0x3f) == 0;
}

static NTSTATUS create_first(D3DKMT_HANDLE on, int type, D3DKMT_HANDLE *object)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT create = {.hDevice = on};
    create.Info.Type = (D3DDDI_SYNCHRONIZATIONOBJECT_TYPE)type;
    NTSTATUS status = D3DKMTCreateSynchronizationObject(&create);
    *object = create.hSyncObject;
    return status;
}

static D3DKMT_CREATESYNCHRONIZATIONOBJECT2 request(D3DKMT_HANDLE on, int type)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = on};
    create.Info.Type = (D3DDDI_SYNCHRONIZATIONOBJECT_TYPE)type;
    return create;
}

static D3DKMT_HANDLE create_fence(uint64_t value)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = request(device, D3DDDI_MONITORED_FENCE);
    create.Info.MonitoredFence.InitialFenceValue = value;
    CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS);
    return create.hSyncObject;
}

static NTSTATUS destroy_sync(D3DKMT_HANDLE object)
{
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = object};
    return D3DKMTDestroySynchronizationObject(&destroy);
}

static NTSTATUS open_sync(D3DKMT_HANDLE global, D3DKMT_HANDLE preset, D3DKMT_HANDLE *local)
{
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open = {.hSharedHandle = global, .hSyncObject = preset};
    NTSTATUS status = D3DKMTOpenSynchronizationObject(&open);
    *local = open.hSyncObject;
    return status;
}

static NTSTATUS signal_sync(D3DKMT_HANDLE object, uint64_t value, int rewind)
{
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &object, .FenceValueArray = &value};
    signal.Flags.AllowFenceRewind = rewind != 0;
    return D3DKMTSignalSynchronizationObjectFromCpu(&signal);
}

static HANDLE wait_for(D3DKMT_HANDLE fence, uint64_t value)
{
    HANDLE event = windtunnel_event_create();
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &fence, .FenceValueArray = &value, .hAsyncEvent = event};
    CHECK(event != NULL && D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
    return event;
}

static int ends_set(HANDLE event)
{
    int is_set = windtunnel_event_is_set(event);
    CHECK(windtunnel_event_close(event) == STATUS_SUCCESS);
    return is_set;
}

static void creates(void)
{
    D3DKMT_HANDLE object;
    CHECK(D3DKMTCreateSynchronizationObject(NULL) == BAD); /* 72 */
    CHECK(create_first(0, 0, &object) == BAD); /* 73 */
    CHECK(create_first(device, 0, &object) == BAD); /* 73 */
    CHECK(create_first(0, D3DDDI_SEMAPHORE, &object) == BAD); /* 73 */
    CHECK(create_first(device, D3DDDI_SEMAPHORE, &object) == STATUS_SUCCESS); /* 75 */
    CHECK(is_local(object) && destroy_sync(object) == STATUS_SUCCESS);
    CHECK(create_first(device, D3DDDI_FENCE, &object) == BAD); /* 76 */

    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 zero = request(0, 0);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 no_type = request(device, 0);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 no_device = request(0, D3DDDI_FENCE);
    CHECK(D3DKMTCreateSynchronizationObject2(NULL) == BAD); /* 78 */
    CHECK(D3DKMTCreateSynchronizationObject2(&zero) == BAD); /* 78 */
    CHECK(D3DKMTCreateSynchronizationObject2(&no_type) == BAD); /* 78 */
    CHECK(D3DKMTCreateSynchronizationObject2(&no_device) == BAD); /* 78 */
    int types[] = {D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE,
        D3DDDI_MONITORED_FENCE};
    for (int i = 0; i < 4; i++) {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = request(device, types[i]);
        CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS); /* 79 */
        CHECK(is_local(create.hSyncObject) && destroy_sync(create.hSyncObject) == STATUS_SUCCESS);
    }
    HANDLE event = windtunnel_event_create();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = request(device, D3DDDI_CPU_NOTIFICATION);
    create.Info.CPUNotification.Event = event;
    CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS); /* 81 */
    CHECK(destroy_sync(create.hSyncObject) == STATUS_SUCCESS);
    CHECK(windtunnel_event_close(event) == STATUS_SUCCESS);
}

static void shares(void)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 shared = request(device, D3DDDI_SEMAPHORE);
    shared.Info.Flags.Shared = 1;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 nt = shared;
    CHECK(D3DKMTCreateSynchronizationObject2(&shared) == STATUS_SUCCESS); /* 82 */
    D3DKMT_HANDLE global = shared.Info.SharedHandle, opened, again;
    CHECK(is_local(shared.hSyncObject) && (global & 0x3f) == 2 && (global & 0xc0000000) != 0);
    nt.Info.Flags.NtSecuritySharing = 1;
    nt.Info.SharedHandle = GARBAGE;
    CHECK(D3DKMTCreateSynchronizationObject2(&nt) == STATUS_SUCCESS); /* 84 */
    CHECK(nt.Info.SharedHandle == 0 || nt.Info.SharedHandle == GARBAGE);
    CHECK(destroy_sync(global) == BAD); /* 85 */
    CHECK(open_sync(GARBAGE, 0, &opened) == BAD); /* 87 */
    CHECK(open_sync(0, 0, &opened) == BAD); /* 87 */
    CHECK(open_sync(0, shared.hSyncObject, &opened) == BAD); /* 87 */
    CHECK(open_sync(global, 0, &opened) == STATUS_SUCCESS); /* 88 */
    CHECK(is_local(opened) && opened != shared.hSyncObject);
    CHECK(destroy_sync(shared.hSyncObject) == STATUS_SUCCESS);
    CHECK(open_sync(global, 0, &again) == STATUS_SUCCESS); /* 88: the opened one is a reference */
    CHECK(destroy_sync(opened) == STATUS_SUCCESS && destroy_sync(again) == STATUS_SUCCESS);
    CHECK(open_sync(global, 0, &opened) == BAD); /* 90 */
    CHECK(destroy_sync(nt.hSyncObject) == STATUS_SUCCESS);
}

static void fences(void)
{
    int types[] = {D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE};
    for (int i = 0; i < 3; i++) {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 other = request(device, types[i]);
        CHECK(D3DKMTCreateSynchronizationObject2(&other) == STATUS_SUCCESS);
        CHECK(signal_sync(other.hSyncObject, 1, 0) == BAD); /* 93 */
        CHECK(destroy_sync(other.hSyncObject) == STATUS_SUCCESS);
    }
    D3DKMT_HANDLE fence = create_fence(1);
    CHECK(ends_set(wait_for(fence, 0)) && ends_set(wait_for(fence, 1))); /* 94 */
    HANDLE pending = wait_for(fence, 2);
    CHECK(!windtunnel_event_is_set(pending));
    CHECK(signal_sync(fence, 2, 0) == STATUS_SUCCESS && ends_set(pending)); /* 96 */
    CHECK(signal_sync(fence, 1, 0) == BAD); /* 97 */
    CHECK(ends_set(wait_for(fence, 2)));
    CHECK(signal_sync(fence, 1, 1) == STATUS_SUCCESS);
    pending = wait_for(fence, 2);
    CHECK(!windtunnel_event_is_set(pending));
    CHECK(signal_sync(fence, 2, 0) == STATUS_SUCCESS && ends_set(pending)); /* 99 */
    CHECK(destroy_sync(fence) == STATUS_SUCCESS);
}

int main(void)
{
    adapter = open_adapter();
    device = create_device(adapter);
    creates();
    shares();
    fences();
    destroy_device(device);
    close_adapter(adapter);
    puts("synchronization: all as on Windows");
    return EXIT_SUCCESS;
}
