/* What was seen of two processes on Windows: rows 10 and 91 of the table of behaviour. Run without
 * arguments it is the first process; it starts itself again with the number of a global handle. */
#define _GNU_SOURCE
#include "client.h"

#include <sys/wait.h>
#include <unistd.h>

static NTSTATUS open_global(D3DKMT_HANDLE global, D3DKMT_HANDLE *local)
{
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open = {.hSharedHandle = global};
    NTSTATUS status = D3DKMTOpenSynchronizationObject(&open);
    *local = open.hSyncObject;
    return status;
}

int main(int count, char **arguments)
{
    D3DKMT_HANDLE opened;
    if (count == 2) {
        D3DKMT_HANDLE global = (D3DKMT_HANDLE)strtoul(arguments[1], NULL, 10);
        CHECK(open_global(global, &opened) == STATUS_SUCCESS); /* 10 */
        CHECK(opened != 0);
        _exit(0); /* Nothing is destroyed. */
    }
    D3DKMT_HANDLE adapter = open_adapter(), device = create_device(adapter);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device};
    create.Info.Type = D3DDDI_SEMAPHORE;
    create.Info.Semaphore.MaxCount = 1;
    create.Info.Flags.Shared = 1;
    CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS);
    char number[16];
    snprintf(number, sizeof number, "%u", create.Info.SharedHandle);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        execl("/proc/self/exe", arguments[0], number, (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(process, &status, 0) == process && status == 0);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = create.hSyncObject};
    CHECK(D3DKMTDestroySynchronizationObject(&destroy) == STATUS_SUCCESS); /* 91 */
    /* The server notices the end of the other process a moment after the operating system. */
    NTSTATUS found = STATUS_SUCCESS;
    while (found == STATUS_SUCCESS) {
        found = open_global(create.Info.SharedHandle, &opened);
        if (found == STATUS_SUCCESS) {
            destroy.hSyncObject = opened;
            CHECK(D3DKMTDestroySynchronizationObject(&destroy) == STATUS_SUCCESS);
            usleep(1000);
        }
    }
    CHECK(found == STATUS_INVALID_PARAMETER); /* 91 */
    destroy_device(device);
    close_adapter(adapter);
    puts("two processes: as observed");
    return 0;
}
