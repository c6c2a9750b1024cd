/* A client of a server whose driver faults in a call: of this client, or of another one. Both learn
   that the device is removed. */
#define _POSIX_C_SOURCE 200809L
#include "client.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int count, char **arguments)
{
    D3DKMT_ADAPTERINFO adapters[4] = {0};
    D3DKMT_ENUMADAPTERS3 list = {.NumAdapters = 4, .pAdapters = adapters};
    list.Filter.IncludeComputeOnly = 1;
    CHECK(D3DKMTEnumAdapters3(&list) == STATUS_SUCCESS);
    if (count > 1 && strcmp(arguments[1], "watch") == 0) {
        puts("watching");
        fflush(stdout);
        struct timespec moment = {.tv_nsec = 1000000};
        NTSTATUS status;
        do {
            nanosleep(&moment, NULL);
            status = D3DKMTEnumAdapters3(&list);
        } while (status == STATUS_SUCCESS);
        CHECK(status == STATUS_DEVICE_REMOVED);
    } else {
        D3DKMT_CREATEDEVICE device = {.hAdapter = adapters[0].hAdapter};
        CHECK(D3DKMTCreateDevice(&device) == STATUS_DEVICE_REMOVED);
    }
    CHECK(D3DKMTEnumAdapters3(&list) == STATUS_DEVICE_REMOVED);
    puts("removed");
    return 0;
}
