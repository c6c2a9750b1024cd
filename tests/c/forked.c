/* Children of fork: one from before the first call has its own kernel; one from after it gets
 * "device removed", also while other threads of the parent are inside calls. */
#define _DEFAULT_SOURCE
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop;

/* Whether this is a child. Its copy of the parent's memory belongs to threads that it does not
 * have, so a leak sanitizer would report all of it. */
static int child;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return child;
}

static void *work(void *given)
{
    D3DKMT_HANDLE device = create_device(*(D3DKMT_HANDLE *)given);
    while (!stop) {
        destroy_allocation(device, create_allocation(device));
    }
    destroy_device(device);
    return NULL;
}

static void wait_for(pid_t forked)
{
    int status = -1;
    CHECK(waitpid(forked, &status, 0) == forked);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* In a child with its parent's kernel. */
static void told(D3DKMT_HANDLE adapter)
{
    child = 1;
    alarm(30);
    D3DKMT_ADAPTERINFO info = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 1, .pAdapters = &info};
    D3DKMT_CREATEDEVICE device = {.hAdapter = adapter};
    D3DKMT_DESTROYALLOCATION2 destroy = {0};
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_DEVICE_REMOVED);
    CHECK(D3DKMTCreateDevice(&device) == STATUS_DEVICE_REMOVED);
    CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_DEVICE_REMOVED);
    CHECK(D3DKMTDestroyAllocation2(NULL) == STATUS_DEVICE_REMOVED);
    exit(EXIT_SUCCESS);
}

int main(void)
{
    pid_t early = fork();
    CHECK(early >= 0);
    if (early == 0) {
        alarm(30);
        close_adapter(open_adapter());
        _exit(EXIT_SUCCESS);
    }
    wait_for(early);

    D3DKMT_HANDLE adapter = open_adapter();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, &adapter) == 0);
    }
    for (int i = 0; i < 200; i++) {
        pid_t late = fork();
        CHECK(late >= 0);
        if (late == 0) {
            told(adapter);
        }
        wait_for(late);
    }
    stop = 1;
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    close_adapter(adapter);
    printf("forked: all told\n");
    return EXIT_SUCCESS;
}
