/* Sharing by NT handles, as observed on Windows: rows 174 to 214 of the table of behaviour. An NT
 * handle is a file descriptor. */
#define _GNU_SOURCE
#include "client.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD STATUS_INVALID_PARAMETER

static D3DKMT_HANDLE adapter, device;

/* A name in the characters of Windows. */
typedef struct {
    uint16_t units[64];
    UNICODE_STRING text;
    OBJECT_ATTRIBUTES attributes;
} Name;

static OBJECT_ATTRIBUTES *name(Name *it, const char *text, UINT flags)
{
    size_t length = strlen(text);
    CHECK(length < 64);
    for (size_t i = 0; i < length; i++) {
        it->units[i] = (uint8_t)text[i];
    }
    it->text = (UNICODE_STRING){(uint16_t)(2 * length), (uint16_t)(2 * length), it->units};
    it->attributes = (OBJECT_ATTRIBUTES){
        .Length = sizeof it->attributes, .ObjectName = &it->text, .Attributes = flags};
    return &it->attributes;
}

static int descriptor(HANDLE handle)
{
    return (int)(intptr_t)handle;
}

static NTSTATUS share(const D3DKMT_HANDLE *objects, UINT count, const char *text, UINT access,
                      HANDLE *handle)
{
    Name it;
    return D3DKMTShareObjects(count, objects, name(&it, text, 0), access, handle);
}

static HANDLE share_one(D3DKMT_HANDLE object, const char *text)
{
    HANDLE handle = NULL;
    CHECK(share(&object, 1, text, GENERIC_ALL, &handle) == STATUS_SUCCESS);
    CHECK(handle != NULL && ((uintptr_t)handle & 0xc0000000) == 0);
    CHECK((fcntl(descriptor(handle), F_GETFD) & FD_CLOEXEC) != 0);
    return handle;
}

static void close_handle(HANDLE handle)
{
    CHECK(close(descriptor(handle)) == 0);
}

static D3DKMT_HANDLE create_fence(UINT shared, UINT nt)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device};
    create.Info.Type = nt || !shared ? D3DDDI_MONITORED_FENCE : D3DDDI_FENCE;
    create.Info.Flags.Shared = shared;
    create.Info.Flags.NtSecuritySharing = nt;
    CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS);
    return create.hSyncObject;
}

static NTSTATUS destroy_fence(D3DKMT_HANDLE fence)
{
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = fence};
    return D3DKMTDestroySynchronizationObject(&destroy);
}

static D3DKMT_HANDLE create_resource(UINT shared, UINT nt, D3DKMT_HANDLE *allocation)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info,
        .pPrivateRuntimeData = "runtime", .PrivateRuntimeDataSize = 7};
    create.Flags.CreateResource = 1;
    create.Flags.CreateShared = shared;
    create.Flags.NtSecuritySharing = nt;
    CHECK(D3DKMTCreateAllocation2(&create) == STATUS_SUCCESS);
    CHECK((create.hGlobalShare != 0) == (shared && !nt)); /* 171 */
    if (allocation != NULL) {
        *allocation = info.hAllocation;
    }
    return create.hResource;
}

static NTSTATUS destroy_resource(D3DKMT_HANDLE resource)
{
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .hResource = resource};
    return D3DKMTDestroyAllocation2(&destroy);
}

static NTSTATUS open_name(const char *text, UINT access, HANDLE *handle)
{
    Name it;
    D3DKMT_OPENNTHANDLEFROMNAME open = {
        .dwDesiredAccess = access, .pObjAttrib = text ? name(&it, text, 0) : NULL};
    NTSTATUS status = D3DKMTOpenNtHandleFromName(&open);
    *handle = open.hNtHandle;
    return status;
}

static NTSTATUS open_sync_name(const char *text, UINT access, HANDLE *handle)
{
    Name it;
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME open = {
        .dwDesiredAccess = access, .pObjAttrib = text ? name(&it, text, 0) : NULL};
    NTSTATUS status = D3DKMTOpenSyncObjectNtHandleFromName(&open);
    *handle = open.hNtHandle;
    return status;
}

static void check_type(HANDLE handle, const char *type, const char *text)
{
    char buffer[64];
    CHECK(windtunnel_nt_handle_type(handle, buffer, sizeof buffer) == STATUS_SUCCESS);
    CHECK(strcmp(buffer, type) == 0);
    CHECK(windtunnel_nt_handle_name(handle, buffer, sizeof buffer) == STATUS_SUCCESS);
    CHECK(strcmp(buffer, text) == 0);
    CHECK(windtunnel_nt_handle_type(handle, buffer, 4) == STATUS_BUFFER_TOO_SMALL);
}

static void fences(void)
{
    HANDLE handle = NULL, second, named;
    D3DKMT_HANDLE local = create_fence(0, 0);
    CHECK(share(&local, 1, "fence", GENERIC_ALL, &handle) == BAD); /* 174 */
    CHECK(destroy_fence(local) == STATUS_SUCCESS);
    local = create_fence(1, 0);
    CHECK(share(&local, 1, "fence", GENERIC_ALL, &handle) == BAD); /* 175 */
    CHECK(destroy_fence(local) == STATUS_SUCCESS);

    local = create_fence(1, 1);
    handle = share_one(local, "Fence");
    check_type(handle, "DxgkSharedSyncObject", "Fence");
    CHECK(destroy_fence(local) == STATUS_SUCCESS); /* 177 */
    CHECK(share(&local, 1, "Fence", GENERIC_ALL, &second) == BAD); /* 180 */

    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE open = {0};
    CHECK(D3DKMTOpenSyncObjectFromNtHandle(&open) == STATUS_INVALID_HANDLE); /* 178 */
    open.hNtHandle = handle;
    CHECK(D3DKMTOpenSyncObjectFromNtHandle(&open) == STATUS_SUCCESS && open.hSyncObject != 0);

    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open2 = {0};
    CHECK(D3DKMTOpenSyncObjectFromNtHandle2(&open2) == BAD); /* 181 */
    open2.hNtHandle = handle;
    CHECK(D3DKMTOpenSyncObjectFromNtHandle2(&open2) == BAD);
    open2.hDevice = device;
    open2.hNtHandle = NULL;
    CHECK(D3DKMTOpenSyncObjectFromNtHandle2(&open2) == STATUS_INVALID_HANDLE);
    open2.hNtHandle = handle;
    CHECK(D3DKMTOpenSyncObjectFromNtHandle2(&open2) == STATUS_SUCCESS);
    const volatile uint64_t *value = open2.MonitoredFence.FenceValueCPUVirtualAddress;
    uint64_t two = 2;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &open.hSyncObject,
        .FenceValueArray = &two};
    CHECK(D3DKMTSignalSynchronizationObjectFromCpu(&signal) == STATUS_SUCCESS && *value == 2);

    second = share_one(open2.hSyncObject, "Second"); /* 183 */
    check_type(second, "DxgkSharedSyncObject", "Second");
    CHECK(share(&open2.hSyncObject, 1, "SECOND", GENERIC_ALL, &named)
          == STATUS_OBJECT_NAME_COLLISION);

    CHECK(open_sync_name(NULL, GENERIC_ALL, &named) == BAD); /* 184 */
    CHECK(open_sync_name("other", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND);
    CHECK(open_sync_name("FENCE", 0, &named) == STATUS_ACCESS_DENIED); /* 186 */
    CHECK(open_name("Fence", GENERIC_ALL, &named) == STATUS_OBJECT_TYPE_MISMATCH);
    CHECK(open_sync_name("Fence", STANDARD_RIGHTS_WRITE, &named) == STATUS_SUCCESS); /* 187 */

    /* The name lives with the NT handles, and ends with the last one. */
    close_handle(handle);
    HANDLE again;
    CHECK(open_sync_name("fence", STANDARD_RIGHTS_READ, &again) == STATUS_SUCCESS);
    close_handle(again);
    close_handle(named);
    CHECK(open_sync_name("Fence", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND); /* 189 */
    handle = share_one(open.hSyncObject, "Fence"); /* 190 */
    CHECK(open_sync_name("Fence", STANDARD_RIGHTS_READ, &named) == STATUS_SUCCESS);
    close_handle(named);
    close_handle(handle);
    open.hNtHandle = handle;
    CHECK(D3DKMTOpenSyncObjectFromNtHandle(&open) == STATUS_INVALID_HANDLE);
    close_handle(second);
    CHECK(*value == 2);
    CHECK(destroy_fence(open.hSyncObject) == STATUS_SUCCESS);
    CHECK(destroy_fence(open2.hSyncObject) == STATUS_SUCCESS);
}

static NTSTATUS open_resource(D3DKMT_OPENRESOURCEFROMNTHANDLE *open)
{
    open->hResource = open->hKeyedMutex = open->hSyncObject = 0;
    return D3DKMTOpenResourceFromNtHandle(open);
}

static void resources(void)
{
    HANDLE handle = NULL, named;
    D3DKMT_HANDLE allocation, local = create_resource(0, 0, &allocation);
    CHECK(share(&local, 1, "resource", GENERIC_ALL, &handle) == BAD); /* 192 */
    CHECK(share(&allocation, 1, "resource", GENERIC_ALL, &handle) == BAD);
    CHECK(destroy_resource(local) == STATUS_SUCCESS);
    local = create_resource(1, 0, NULL);
    CHECK(share(&local, 1, "resource", GENERIC_ALL, &handle) == BAD); /* 193 */
    CHECK(destroy_resource(local) == STATUS_SUCCESS);

    local = create_resource(1, 1, NULL);
    handle = share_one(local, "Resource"); /* 195 */
    check_type(handle, "DxgkSharedResource", "Resource");
    CHECK(destroy_resource(local) == STATUS_SUCCESS);

    CHECK(open_name(NULL, GENERIC_ALL, &named) == BAD); /* 196 */
    CHECK(open_name("other", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND);
    CHECK(open_name("RESOURCE", 0, &named) == STATUS_ACCESS_DENIED);
    CHECK(open_name("resource", GENERIC_ALL, &named) == STATUS_SUCCESS);
    close_handle(named);

    D3DKMT_GETSHAREDRESOURCEADAPTERLUID luid = {.hNtHandle = handle};
    CHECK(D3DKMTGetSharedResourceAdapterLuid(&luid) == STATUS_SUCCESS);
    CHECK(luid.AdapterLuid.LowPart != 0 || luid.AdapterLuid.HighPart != 0);
    luid = (D3DKMT_GETSHAREDRESOURCEADAPTERLUID){.hGlobalShare = 0x40000002};
    CHECK(D3DKMTGetSharedResourceAdapterLuid(&luid) == BAD);
    luid.hNtHandle = (HANDLE)(intptr_t)999;
    CHECK(D3DKMTGetSharedResourceAdapterLuid(&luid) == STATUS_INVALID_HANDLE);

    char untouched[16] = "untouched";
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = {
        .hDevice = device, .hNtHandle = handle, .pPrivateRuntimeData = untouched};
    CHECK(D3DKMTQueryResourceInfoFromNtHandle(&query) == STATUS_SUCCESS);
    CHECK(query.TotalPrivateDriverDataSize > 0 && query.TotalPrivateDriverDataSize < 0x1000); /* 198 */
    CHECK(query.PrivateRuntimeDataSize == 7 && strcmp(untouched, "untouched") == 0); /* 199 */
    CHECK(query.NumAllocations == 1);
    char large[0x100] = "untouched";
    query.pPrivateRuntimeData = large;
    query.PrivateRuntimeDataSize = sizeof large;
    CHECK(D3DKMTQueryResourceInfoFromNtHandle(&query) == STATUS_SUCCESS); /* 199 */
    CHECK(query.PrivateRuntimeDataSize == 7 && strcmp(large, "untouched") == 0);

    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    char runtime[8] = {0}, total[0x1000] = {0};
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {
        .hDevice = device, .hNtHandle = handle, .NumAllocations = 1, .pOpenAllocationInfo2 = &info,
        .pPrivateRuntimeData = runtime, .PrivateRuntimeDataSize = 7,
        .pTotalPrivateDriverDataBuffer = total, .TotalPrivateDriverDataBufferSize = sizeof total};
    D3DKMT_OPENRESOURCEFROMNTHANDLE changed = open;
    changed.pOpenAllocationInfo2 = NULL;
    CHECK(open_resource(&changed) == BAD); /* 202 */
    changed = open;
    changed.pPrivateRuntimeData = NULL;
    CHECK(open_resource(&changed) == BAD); /* 204 */
    changed = open;
    changed.PrivateRuntimeDataSize = 8;
    CHECK(open_resource(&changed) == BAD); /* 205 */
    changed = open;
    changed.TotalPrivateDriverDataBufferSize = query.TotalPrivateDriverDataSize - 1;
    CHECK(open_resource(&changed) == STATUS_NO_MEMORY); /* 207 */
    changed = open;
    changed.pTotalPrivateDriverDataBuffer = NULL;
    CHECK(open_resource(&changed) == BAD); /* 306 */
    changed.TotalPrivateDriverDataBufferSize = 0;
    CHECK(open_resource(&changed) == BAD); /* 306 */
    changed = open;
    changed.KeyedMutexPrivateRuntimeDataSize = 4;
    CHECK(open_resource(&changed) == BAD);
    changed = open;
    changed.hNtHandle = (HANDLE)(intptr_t)999;
    CHECK(open_resource(&changed) == STATUS_INVALID_HANDLE);
    CHECK(open_resource(&open) == STATUS_SUCCESS); /* 201 */
    CHECK(open.hResource != 0 && info.hAllocation != 0 && info.PrivateDriverDataSize > 0);
    CHECK(open.TotalPrivateDriverDataBufferSize == query.TotalPrivateDriverDataSize);
    CHECK(total[0] != 0 && memcmp(runtime, "runtime", 7) == 0);
    CHECK(open.hKeyedMutex == 0 && open.hSyncObject == 0);

    /* A copy is the same handle, known by its inode and not by its number. */
    int copy = dup(descriptor(handle));
    close_handle(handle);
    CHECK(destroy_resource(open.hResource) == STATUS_SUCCESS);
    open.hNtHandle = handle;
    CHECK(open_resource(&open) == STATUS_INVALID_HANDLE);
    open.hNtHandle = (HANDLE)(intptr_t)copy;
    open.TotalPrivateDriverDataBufferSize = sizeof total;
    CHECK(open_resource(&open) == STATUS_SUCCESS);
    CHECK(destroy_resource(open.hResource) == STATUS_SUCCESS);
    CHECK(close(copy) == 0);
    CHECK(open_name("Resource", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND);
}

static void bundles(void)
{
    HANDLE handle = NULL, named;
    D3DKMT_HANDLE resource = create_resource(1, 1, NULL), fence = create_fence(1, 1);
    D3DKMT_CREATEKEYEDMUTEX2 mutex = {.InitialValue = 7};
    mutex.Flags.NtSecuritySharing = 1;
    CHECK(D3DKMTCreateKeyedMutex2(&mutex) == STATUS_SUCCESS && mutex.hSharedHandle == 0); /* 115 */
    D3DKMT_HANDLE m = mutex.hKeyedMutex, r = resource, s = fence;
    const D3DKMT_HANDLE wrong[][4] = {
        {r, r, r, 0}, {r, m, 0, 0}, {r, s, 0, 0}, {m, s, 0, 0}, {r, m, s, r}, {r, s, m, 0}, {m, 0, 0, 0}};
    const UINT counts[] = {3, 2, 2, 2, 4, 3, 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        CHECK(share(wrong[i], counts[i], "bundle", GENERIC_ALL, &handle) == BAD); /* 208 */
    }
    const D3DKMT_HANDLE all[] = {r, m, s};
    CHECK(share(all, 3, "Bundle", GENERIC_ALL, &handle) == STATUS_SUCCESS);
    check_type(handle, "DxgkSharedResource", "Bundle");
    D3DKMT_DESTROYKEYEDMUTEX destroy = {.hKeyedMutex = m};
    CHECK(destroy_resource(r) == STATUS_SUCCESS); /* 210 */
    CHECK(D3DKMTDestroyKeyedMutex(&destroy) == STATUS_SUCCESS);
    CHECK(destroy_fence(s) == STATUS_SUCCESS);

    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = {.hDevice = device, .hNtHandle = handle};
    CHECK(D3DKMTQueryResourceInfoFromNtHandle(&query) == STATUS_SUCCESS); /* 211 */
    CHECK(query.NumAllocations == 1);
    D3DKMT_OPENKEYEDMUTEXFROMNTHANDLE open_mutex = {.hNtHandle = handle};
    CHECK(D3DKMTOpenKeyedMutexFromNtHandle(&open_mutex) == STATUS_OBJECT_TYPE_MISMATCH); /* 214 */
    open_mutex.hNtHandle = NULL;
    CHECK(D3DKMTOpenKeyedMutexFromNtHandle(&open_mutex) == STATUS_INVALID_HANDLE);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE open_sync = {.hNtHandle = handle};
    CHECK(D3DKMTOpenSyncObjectFromNtHandle(&open_sync) == STATUS_OBJECT_TYPE_MISMATCH);

    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    char runtime[8], total[0x1000];
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {
        .hDevice = device, .hNtHandle = handle, .NumAllocations = 1, .pOpenAllocationInfo2 = &info,
        .pPrivateRuntimeData = runtime, .PrivateRuntimeDataSize = 7,
        .pTotalPrivateDriverDataBuffer = total, .TotalPrivateDriverDataBufferSize = sizeof total};
    CHECK(open_resource(&open) == STATUS_SUCCESS);
    close_handle(handle);
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {.hKeyedMutex = open.hKeyedMutex, .Key = 7};
    CHECK(D3DKMTAcquireKeyedMutex(&acquire) == STATUS_SUCCESS);
    CHECK(destroy_resource(open.hResource) == STATUS_SUCCESS); /* 213 */
    destroy.hKeyedMutex = open.hKeyedMutex;
    CHECK(D3DKMTDestroyKeyedMutex(&destroy) == STATUS_SUCCESS);
    CHECK(destroy_fence(open.hSyncObject) == STATUS_SUCCESS);
    CHECK(open_name("Bundle", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND);
}

/* A handle without read access opens nothing. */
static void rights(void)
{
    D3DKMT_HANDLE resource = create_resource(1, 1, NULL);
    HANDLE handle = NULL;
    CHECK(share(&resource, 1, "", 0x10, &handle) == STATUS_SUCCESS);
    check_type(handle, "DxgkSharedResource", "");
    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    char runtime[8], total[0x1000];
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {
        .hDevice = device, .hNtHandle = handle, .NumAllocations = 1, .pOpenAllocationInfo2 = &info,
        .pPrivateRuntimeData = runtime, .PrivateRuntimeDataSize = 7,
        .pTotalPrivateDriverDataBuffer = total, .TotalPrivateDriverDataBufferSize = sizeof total};
    CHECK(open_resource(&open) == STATUS_ACCESS_DENIED);
    close_handle(handle);
    CHECK(share(&resource, 1, "", STANDARD_RIGHTS_READ, &handle) == STATUS_SUCCESS);
    open.hNtHandle = handle;
    CHECK(open_resource(&open) == STATUS_SUCCESS);
    CHECK(destroy_resource(open.hResource) == STATUS_SUCCESS);
    close_handle(handle);

    /* OBJ_INHERIT keeps the descriptor open in a program that the client starts. */
    Name it;
    CHECK(D3DKMTShareObjects(1, &resource, name(&it, "", OBJ_INHERIT), GENERIC_ALL, &handle)
          == STATUS_SUCCESS);
    CHECK((fcntl(descriptor(handle), F_GETFD) & FD_CLOEXEC) == 0);
    close_handle(handle);
    it.attributes.Attributes = 1;
    CHECK(D3DKMTShareObjects(1, &resource, &it.attributes, GENERIC_ALL, &handle) == BAD);
    CHECK(D3DKMTShareObjects(1, &resource, NULL, GENERIC_ALL, &handle) == STATUS_SUCCESS);
    close_handle(handle);
    CHECK(D3DKMTShareObjects(1, &resource, NULL, GENERIC_ALL, NULL) == BAD);
    CHECK(D3DKMTShareObjects(1, NULL, NULL, GENERIC_ALL, &handle) == BAD);
    CHECK(D3DKMTShareObjects(0, &resource, NULL, GENERIC_ALL, &handle) == BAD);
    CHECK(destroy_resource(resource) == STATUS_SUCCESS);
}

/* A descriptor that comes back over a socket is the same handle. */
static HANDLE through_a_socket(HANDLE handle)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    char byte = 0;
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    int sent = descriptor(handle), received = -1;
    memcpy(CMSG_DATA(header), &sent, sizeof sent);
    CHECK(sendmsg(ends[0], &message, 0) == 1);
    close_handle(handle); /* It is in the socket, and lives. */
    message.msg_controllen = sizeof control;
    CHECK(recvmsg(ends[1], &message, 0) == 1);
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    return (HANDLE)(intptr_t)received;
}

static void descriptors(void)
{
    D3DKMT_HANDLE fence = create_fence(1, 1);
    HANDLE handle = share_one(fence, "Passed"), named;
    CHECK(destroy_fence(fence) == STATUS_SUCCESS);
    handle = through_a_socket(handle);
    check_type(handle, "DxgkSharedSyncObject", "Passed");
    CHECK(open_sync_name("Passed", GENERIC_ALL, &named) == STATUS_SUCCESS);
    close_handle(named);

    /* A child keeps it: the last close counts, in any process. */
    int pipe_to_child[2];
    CHECK(pipe(pipe_to_child) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        close(pipe_to_child[1]);
        _exit(read(pipe_to_child[0], &byte, 1) == 0 ? 0 : 1);
    }
    CHECK(close(pipe_to_child[0]) == 0);
    close_handle(handle);
    CHECK(open_sync_name("Passed", GENERIC_ALL, &named) == STATUS_SUCCESS);
    close_handle(named);
    CHECK(close(pipe_to_child[1]) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(open_sync_name("Passed", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND);

    /* Numbers are used again, and descriptors of the client are no NT handles. */
    fence = create_fence(1, 1);
    handle = share_one(fence, "");
    CHECK(dup2(0, descriptor(handle)) == descriptor(handle));
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE open = {.hNtHandle = handle};
    CHECK(D3DKMTOpenSyncObjectFromNtHandle(&open) == STATUS_INVALID_HANDLE);
    close_handle(handle);

    /* Without standard input no NT handle is zero. */
    int input = dup(0);
    CHECK(close(0) == 0);
    handle = share_one(fence, "");
    CHECK(descriptor(handle) > 0);
    close_handle(handle);
    CHECK(dup2(input, 0) == 0 && close(input) == 0);

    /* Many handles come and go, and no descriptor is left. */
    int before = dup(1);
    CHECK(close(before) == 0);
    for (int i = 0; i < 2000; i++) {
        close_handle(share_one(fence, "Many"));
    }
    CHECK(open_sync_name("Many", GENERIC_ALL, &named) == STATUS_OBJECT_NAME_NOT_FOUND);
    int after = dup(1);
    CHECK(after == before && close(after) == 0);
    CHECK(destroy_fence(fence) == STATUS_SUCCESS);
}

int main(void)
{
    adapter = open_adapter();
    device = create_device(adapter);
    fences();
    resources();
    bundles();
    rights();
    descriptors();
    destroy_device(device);
    close_adapter(adapter);
    puts("nt_handles: all as observed");
    return 0;
}
