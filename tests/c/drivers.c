/* A client that prints the number of adapters, and whether the first has GPU virtual addresses. */
#include "client.h"

int main(void)
{
    D3DKMT_ADAPTERINFO adapters[8] = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 8, .pAdapters = adapters};
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_SUCCESS);
    printf("adapters: %u\n", list.NumAdapters);
    if (list.NumAdapters > 0) {
        D3DKMT_HANDLE device = create_device(adapters[0].hAdapter);
        destroy_allocation(device, create_allocation(device));
        D3DKMT_CREATEPAGINGQUEUE queue = {.hDevice = device};
        D3DDDI_RESERVEGPUVIRTUALADDRESS reserve = {.Size = 65536};
        /* An adapter without memory has no paging queue. */
        if (D3DKMTCreatePagingQueue(&queue) == STATUS_SUCCESS) {
            reserve.hPagingQueue = queue.hPagingQueue;
        }
        printf("virtual addresses: %d\n", D3DKMTReserveGpuVirtualAddress(&reserve) == STATUS_SUCCESS);
        destroy_device(device);
        close_adapter(adapters[0].hAdapter);
    }
    return EXIT_SUCCESS;
}
