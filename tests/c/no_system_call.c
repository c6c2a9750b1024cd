/* Allocations created and destroyed in a thread that may make no system call: the system kills it
 * at the first one. */
#define _GNU_SOURCE
#include "client.h"

#include <pthread.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LIVE = 64, BEFORE = 4000, PAIRS = 1000 };

static D3DKMT_HANDLE adapter;
static volatile int done;

static void *run(void *unused)
{
    (void)unused;
    D3DKMT_HANDLE device = create_device(adapter), live[LIVE];
    for (int i = 0; i < LIVE; i++) {
        live[i] = create_allocation(device);
    }
    /* Tables grow to their size. */
    for (int i = 0; i < BEFORE + PAIRS; i++) {
        if (i == BEFORE) {
            CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        }
        D3DKMT_HANDLE created = create_allocation(device);
        destroy_allocation(device, live[i % LIVE]);
        live[i % LIVE] = created;
        done = i + 1 - BEFORE;
    }
    syscall(SYS_exit, 0);
    return NULL;
}

int main(void)
{
    adapter = open_adapter();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("no system call: %d pairs\n", done);
    return done == PAIRS ? EXIT_SUCCESS : EXIT_FAILURE;
}
