/* A client that has used up its memory: calls are answered, and go on when there is memory again. */
#define _GNU_SOURCE
#include "client.h"

#include <string.h>
#include <sys/resource.h>

struct block {
    struct block *next;
};

/* Takes all memory that the process may have. */
static struct block *take_all(void)
{
    struct block *blocks = NULL;
    for (size_t size = 1 << 20; size >= sizeof *blocks; size /= 2) {
        for (struct block *block; (block = malloc(size)) != NULL; blocks = block) {
            block->next = blocks;
        }
    }
    return blocks;
}

static void give_back(struct block *blocks)
{
    while (blocks != NULL) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static void limit(rlim_t more)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_AS, &now) == 0);
    now.rlim_cur = (rlim_t)pages * 4096 + more;
    CHECK(setrlimit(RLIMIT_AS, &now) == 0);
}

int main(int count, char **arguments)
{
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 0};
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 1 && strcmp(arguments[1], "start") == 0) {
        /* The library cannot reserve its memory. */
        limit(64 << 20);
        D3DKMT_ADAPTERINFO adapters[8];
        list.NumAdapters = 8;
        list.pAdapters = adapters;
        NTSTATUS status = D3DKMTEnumAdapters2(&list);
        printf("the start: 0x%08x, %u adapters\n", (unsigned)status, (unsigned)list.NumAdapters);
        CHECK(status == STATUS_NO_MEMORY || (status == STATUS_SUCCESS && list.NumAdapters == 0));
        puts("no memory: the start was answered");
        return EXIT_SUCCESS;
    }
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    destroy_allocation(device, create_allocation(device));
    limit(8 << 20);
    struct block *blocks = take_all();
    /* The first calls use the reserve of the library, until it is gone. */
    static D3DKMT_HANDLE devices[10000];
    unsigned created = 0;
    NTSTATUS status, second;
    for (;;) {
        D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
        status = D3DKMTCreateDevice(&create);
        if (status != STATUS_SUCCESS || created == 10000) {
            break;
        }
        devices[created++] = create.hDevice;
    }
    second = D3DKMTEnumAdapters2(&list);
    give_back(blocks);
    printf("%u devices\n", created);
    printf("without memory: 0x%08x 0x%08x\n", (unsigned)status, (unsigned)second);
    for (unsigned i = 0; i < created; i++) {
        destroy_device(devices[i]);
    }
    destroy_allocation(device, create_allocation(device));
    destroy_device(device);
    close_adapter(adapter);
    puts("no memory: all answered");
    return EXIT_SUCCESS;
}
