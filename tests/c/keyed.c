/* Two threads take turns with a keyed mutex; then one waits for a key that is never released. */
#define _DEFAULT_SOURCE
#include "client.h"

#include <pthread.h>
#include <unistd.h>

enum { TURNS = 50 };

static D3DKMT_HANDLE mutexes[2];
static unsigned in_turn;

/* Each thread has its key and releases with the other's. */
static void *turns(void *which)
{
    uint64_t key = (uint64_t)(uintptr_t)which;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        D3DKMT_ACQUIREKEYEDMUTEX take = {.hKeyedMutex = mutexes[key], .Key = key};
        CHECK(D3DKMTAcquireKeyedMutex(&take) == STATUS_SUCCESS);
        CHECK(in_turn % 2 == key && take.FenceValue == in_turn);
        in_turn++;
        if (turn % 10 == 0) {
            usleep(1000); /* The other thread waits, and no thread owns the mutex. */
        }
        D3DKMT_RELEASEKEYEDMUTEX give = {
            .hKeyedMutex = mutexes[key], .Key = 1 - key, .FenceValue = in_turn};
        CHECK(D3DKMTReleaseKeyedMutex(&give) == STATUS_SUCCESS);
    }
    return NULL;
}

int main(void)
{
    D3DKMT_CREATEKEYEDMUTEX make = {.InitialValue = 0};
    CHECK(D3DKMTCreateKeyedMutex(&make) == STATUS_SUCCESS);
    D3DKMT_OPENKEYEDMUTEX open = {.hSharedHandle = make.hSharedHandle};
    CHECK(D3DKMTOpenKeyedMutex(&open) == STATUS_SUCCESS);
    mutexes[0] = make.hKeyedMutex;
    mutexes[1] = open.hKeyedMutex;

    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, turns, (void *)i) == 0);
    }
    for (size_t i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(in_turn == 2 * TURNS);

    /* No other thread is left that could release it. */
    D3DKMT_ACQUIREKEYEDMUTEX wait = {.hKeyedMutex = mutexes[0], .Key = 77};
    CHECK(D3DKMTAcquireKeyedMutex(&wait) == STATUS_UNSUCCESSFUL);

    for (size_t i = 0; i < 2; i++) {
        D3DKMT_DESTROYKEYEDMUTEX destroy = {.hKeyedMutex = mutexes[i]};
        CHECK(D3DKMTDestroyKeyedMutex(&destroy) == STATUS_SUCCESS);
    }
    puts("keyed: all had their turns");
    return 0;
}
