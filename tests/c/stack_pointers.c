/* Pointers into the stack: below the client's own frame, where the library's frames are, and to a
 * page that was made inaccessible after a call had used it. Each call is answered. */
#define _GNU_SOURCE
#include "client.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, DEPTH = 64 * 1024 };

static __attribute__((noinline)) void below_the_frame(void)
{
    uintptr_t frame;
    unsigned refused = 0;
    __asm__ volatile("mov %%rsp, %0" : "=r"(frame)); /* this frame is above */
    for (uintptr_t offset = 8; offset < DEPTH; offset += offset < 4096 ? 8 : 64) {
        void *below = (void *)(frame - offset);
        /* Structures without a pointer in them: what is there is left from earlier calls. */
        refused += D3DKMTCreateDevice(below) != STATUS_SUCCESS;
        refused += D3DKMTGetDeviceState(below) != STATUS_SUCCESS;
    }
    CHECK(refused > 100);
}

static __attribute__((noinline)) void an_inaccessible_page(D3DKMT_HANDLE adapter)
{
    uint8_t pages[3 * PAGE];
    uint8_t *page = (uint8_t *)(((uintptr_t)pages + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    D3DKMT_CREATEDEVICE *create = (D3DKMT_CREATEDEVICE *)page;
    memset(create, 0, sizeof *create);
    create->hAdapter = adapter;
    CHECK(D3DKMTCreateDevice(create) == STATUS_SUCCESS);
    D3DKMT_HANDLE device = create->hDevice;
    CHECK(mprotect(page, PAGE, PROT_NONE) == 0);
    CHECK(D3DKMTCreateDevice(create) == STATUS_INVALID_PARAMETER);
    CHECK(mprotect(page, PAGE, PROT_READ) == 0);
    CHECK(D3DKMTCreateDevice(create) == STATUS_INVALID_PARAMETER);
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    destroy_device(device);
    create->hAdapter = adapter;
    CHECK(D3DKMTCreateDevice(create) == STATUS_SUCCESS);
    destroy_device(create->hDevice);
}

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter();
    below_the_frame();
    an_inaccessible_page(adapter);
    close_adapter(adapter);
    puts("stack pointers: all answered");
    return EXIT_SUCCESS;
}
