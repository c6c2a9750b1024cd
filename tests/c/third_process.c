/* An NT handle that a third process keeps while both clients die: the object and its name live as long
 * as the handle. Processes are forked before the first call, so each is a client of its own. */
#define _GNU_SOURCE
#include "client.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int talk[2];

static void tell(int descriptor)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    struct iovec content = {"x", 1};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    CHECK(sendmsg(talk[0], &message, 0) == 1);
}

static int hear(void)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec content = {&byte, 1};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    CHECK(recvmsg(talk[1], &message, 0) == 1);
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static uint16_t units[] = {'k', 'e', 'p', 't'};
static UNICODE_STRING text = {sizeof units, sizeof units, units};
static OBJECT_ATTRIBUTES named = {.Length = sizeof named, .ObjectName = &text};

static NTSTATUS open_by_name(HANDLE *handle)
{
    D3DKMT_OPENNTHANDLEFROMNAME open = {.dwDesiredAccess = GENERIC_ALL, .pObjAttrib = &named};
    NTSTATUS status = D3DKMTOpenNtHandleFromName(&open);
    *handle = open.hNtHandle;
    return status;
}

static D3DKMT_HANDLE open_resource(D3DKMT_HANDLE device, HANDLE handle)
{
    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    char total[WINDTUNNEL_DESCRIPTION_SIZE];
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = {
        .hDevice = device, .hNtHandle = handle, .NumAllocations = 1, .pOpenAllocationInfo2 = &info,
        .pTotalPrivateDriverDataBuffer = total, .TotalPrivateDriverDataBufferSize = sizeof total};
    CHECK(D3DKMTOpenResourceFromNtHandle(&open) == STATUS_SUCCESS);
    return open.hResource;
}

/* Creates and shares, gives the handle away and dies without any cleanup. */
static void creator(void)
{
    D3DKMT_HANDLE device = create_device(open_adapter());
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    CHECK(D3DKMTCreateAllocation2(&create) == STATUS_SUCCESS);
    HANDLE handle = NULL;
    CHECK(D3DKMTShareObjects(1, &create.hResource, &named, GENERIC_ALL, &handle) == STATUS_SUCCESS);
    tell((int)(intptr_t)handle);
    _exit(0);
}

/* Opens what the creator has left, by the handle that this process has inherited, and dies. */
static void opener(int kept)
{
    D3DKMT_HANDLE device = create_device(open_adapter());
    CHECK(open_resource(device, (HANDLE)(intptr_t)kept) != 0);
    _exit(0);
}

/* The handle still works, here and by its name; then the last one is closed. */
static void last(int kept)
{
    D3DKMT_HANDLE adapter = open_adapter(), device = create_device(adapter);
    HANDLE handle = NULL;
    CHECK(open_by_name(&handle) == STATUS_SUCCESS);
    char buffer[32];
    CHECK(windtunnel_nt_handle_type((HANDLE)(intptr_t)kept, buffer, sizeof buffer) == 0);
    CHECK(strcmp(buffer, "DxgkSharedResource") == 0);
    D3DKMT_HANDLE resource = open_resource(device, (HANDLE)(intptr_t)kept);
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .hResource = resource};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_SUCCESS);
    CHECK(close((int)(intptr_t)handle) == 0);
    CHECK(open_by_name(&handle) == STATUS_SUCCESS);
    CHECK(close((int)(intptr_t)handle) == 0 && close(kept) == 0);
    tell(0); /* The keeper closes its own. */
    char byte;
    CHECK(read(talk[0], &byte, 1) == 1);
    CHECK(open_by_name(&handle) == STATUS_OBJECT_NAME_NOT_FOUND);
    destroy_device(device);
    close_adapter(adapter);
    exit(0);
}

static void run(void (*body)(int), int kept, int closes)
{
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        body(kept);
    }
    if (closes) {
        close(hear());
        CHECK(close(kept) == 0);
        CHECK(write(talk[1], "c", 1) == 1);
    }
    int status;
    CHECK(waitpid(process, &status, 0) == process && status == 0);
}

static void create(int kept)
{
    (void)kept;
    creator();
}

int main(void)
{
    /* This process makes no call: it only keeps a descriptor. */
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, talk) == 0);
    run(create, -1, 0);
    int kept = hear();
    run(opener, kept, 0);
    run(last, kept, 1);
    puts("third process: the handle kept its object");
    return 0;
}
