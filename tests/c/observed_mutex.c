/* Keyed mutexes, as observed on Windows. The number in a comment is the row of the observation. */
#define _DEFAULT_SOURCE
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAD STATUS_INVALID_PARAMETER
#define GARBAGE 0x1eadbeedu

/* A field that has not been written. */
#define CANARY 0xdeadbeefull

/* Relative times, in units of 100 ns. */
enum { MILLISECOND = -10000, SECOND = -10000000 };

/* A thread that acquires. */
typedef struct {
    D3DKMT_HANDLE mutex;
    uint64_t key;
    NTSTATUS status;
    uint64_t fence;
    atomic_int is_done;
    pthread_t thread;
} Waiter;

static D3DKMT_HANDLE create(uint64_t key, D3DKMT_HANDLE *global)
{
    D3DKMT_CREATEKEYEDMUTEX create = {.InitialValue = key};
    CHECK(D3DKMTCreateKeyedMutex(&create) == STATUS_SUCCESS);
    CHECK(create.hKeyedMutex != 0 && (create.hKeyedMutex & 0x3f) == 0);
    CHECK((create.hSharedHandle & 0x3f) == 2);
    *global = create.hSharedHandle;
    return create.hKeyedMutex;
}

static D3DKMT_HANDLE open_mutex(D3DKMT_HANDLE global)
{
    D3DKMT_OPENKEYEDMUTEX open = {.hSharedHandle = global};
    CHECK(D3DKMTOpenKeyedMutex(&open) == STATUS_SUCCESS);
    return open.hKeyedMutex;
}

static NTSTATUS destroy(D3DKMT_HANDLE mutex)
{
    D3DKMT_DESTROYKEYEDMUTEX destroy = {.hKeyedMutex = mutex};
    return D3DKMTDestroyKeyedMutex(&destroy);
}

static NTSTATUS acquire(D3DKMT_HANDLE mutex, uint64_t key, int64_t time, uint64_t *fence)
{
    LARGE_INTEGER timeout;
    memcpy(&timeout, &time, sizeof time);
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {
        .hKeyedMutex = mutex, .Key = key, .pTimeout = &timeout, .FenceValue = CANARY};
    NTSTATUS status = D3DKMTAcquireKeyedMutex(&acquire);
    CHECK(acquire.Key == key); /* 117, 118 */
    *fence = acquire.FenceValue;
    return status;
}

static NTSTATUS release(D3DKMT_HANDLE mutex, uint64_t key, uint64_t fence)
{
    D3DKMT_RELEASEKEYEDMUTEX release = {.hKeyedMutex = mutex, .Key = key, .FenceValue = fence};
    NTSTATUS status = D3DKMTReleaseKeyedMutex(&release);
    CHECK(release.Key == key && release.FenceValue == fence); /* 120 */
    return status;
}

static void *wait_on_thread(void *given)
{
    Waiter *waiter = given;
    waiter->status = acquire(waiter->mutex, waiter->key, 5 * SECOND, &waiter->fence);
    waiter->is_done = 1;
    return NULL;
}

/* Begins to wait on another thread. */
static void begin(Waiter *waiter, D3DKMT_HANDLE mutex)
{
    *waiter = (Waiter){.mutex = mutex};
    CHECK(pthread_create(&waiter->thread, NULL, wait_on_thread, waiter) == 0);
    usleep(200000);
    CHECK(!waiter->is_done); /* 126 */
}

static void handles(void)
{
    D3DKMT_HANDLE global, mutex = create(0, &global), second;
    CHECK(D3DKMTCreateKeyedMutex(NULL) == BAD); /* 100 */
    D3DKMT_OPENKEYEDMUTEX zero = {.hSharedHandle = 0}, preset = {.hKeyedMutex = mutex};
    CHECK(D3DKMTOpenKeyedMutex(&zero) == BAD && zero.hKeyedMutex == 0); /* 102 */
    CHECK(D3DKMTOpenKeyedMutex(&preset) == BAD && preset.hKeyedMutex == mutex); /* 102 */
    second = open_mutex(global); /* 103 */
    CHECK(second != mutex && (second & 0x3f) == 0);
    CHECK(destroy(global) == BAD); /* 105 */
    CHECK(destroy(second) == STATUS_SUCCESS && destroy(second) == BAD); /* 106 */

    second = open_mutex(global);
    CHECK(destroy(mutex) == STATUS_SUCCESS); /* 109: the creator's handle goes first */
    D3DKMT_HANDLE third = open_mutex(global);
    uint64_t fence;
    CHECK(acquire(third, 0, 0, &fence) == STATUS_SUCCESS && release(third, 0, 0) == STATUS_SUCCESS);
    CHECK(destroy(second) == STATUS_SUCCESS && destroy(third) == STATUS_SUCCESS); /* 109 */
}

static void second_version(void)
{
    CHECK(D3DKMTCreateKeyedMutex2(NULL) == BAD); /* 108 */
    D3DKMT_CREATEKEYEDMUTEX2 zero = {.InitialValue = 0};
    CHECK(D3DKMTCreateKeyedMutex2(&zero) == STATUS_SUCCESS); /* 108 */
    CHECK((zero.hKeyedMutex & 0x3f) == 0 && (zero.hSharedHandle & 0x3f) == 2);

    uint8_t buffer[64], untouched[64];
    memset(buffer, 0xcd, sizeof buffer);
    memset(untouched, 0xcd, sizeof untouched);
    D3DKMT_OPENKEYEDMUTEX2 open = {.hSharedHandle = zero.hSharedHandle,
        .pPrivateRuntimeData = buffer, .PrivateRuntimeDataSize = sizeof buffer};
    CHECK(D3DKMTOpenKeyedMutex2(&open) == STATUS_SUCCESS); /* 111 */
    CHECK(open.PrivateRuntimeDataSize == 64 && memcmp(buffer, untouched, sizeof buffer) == 0);
    CHECK(destroy(open.hKeyedMutex) == STATUS_SUCCESS);
    CHECK(destroy(zero.hKeyedMutex) == STATUS_SUCCESS);

    D3DKMT_CREATEKEYEDMUTEX2 data = {
        .pPrivateRuntimeData = "sample", .PrivateRuntimeDataSize = 6};
    CHECK(D3DKMTCreateKeyedMutex2(&data) == STATUS_SUCCESS);
    open = (D3DKMT_OPENKEYEDMUTEX2){.hSharedHandle = data.hSharedHandle};
    CHECK(D3DKMTOpenKeyedMutex2(&open) == STATUS_SUCCESS); /* 112 */
    CHECK(open.PrivateRuntimeDataSize == 0 && destroy(open.hKeyedMutex) == STATUS_SUCCESS);
    open = (D3DKMT_OPENKEYEDMUTEX2){.hSharedHandle = data.hSharedHandle,
        .pPrivateRuntimeData = buffer, .PrivateRuntimeDataSize = 6};
    CHECK(D3DKMTOpenKeyedMutex2(&open) == STATUS_SUCCESS); /* 114 */
    CHECK(open.PrivateRuntimeDataSize == 6 && memcmp(buffer, untouched, sizeof buffer) == 0);
    CHECK(destroy(open.hKeyedMutex) == STATUS_SUCCESS);
    CHECK(destroy(data.hKeyedMutex) == STATUS_SUCCESS);

    D3DKMT_CREATEKEYEDMUTEX2 nt = {.hSharedHandle = GARBAGE};
    nt.Flags.NtSecuritySharing = 1;
    CHECK(D3DKMTCreateKeyedMutex2(&nt) == STATUS_SUCCESS && nt.hSharedHandle == 0); /* 115 */
    CHECK(destroy(nt.hKeyedMutex) == STATUS_SUCCESS);
}

static void owners(void)
{
    D3DKMT_HANDLE global, mutex = create(0, &global), second = open_mutex(global);
    uint64_t fence;
    CHECK(acquire(GARBAGE, 7, MILLISECOND, &fence) == BAD && fence == CANARY); /* 117 */
    CHECK(D3DKMTReleaseKeyedMutex(NULL) == BAD); /* 120 */
    CHECK(release(GARBAGE, 7, CANARY) == BAD); /* 120 */
    CHECK(acquire(mutex, 1, 10 * MILLISECOND, &fence) == STATUS_TIMEOUT && fence == 0); /* 118 */
    CHECK(acquire(mutex, 0, MILLISECOND, &fence) == STATUS_SUCCESS);
    CHECK(release(mutex, 1, 1234) == STATUS_SUCCESS); /* 121 */
    CHECK(acquire(mutex, 0, 10 * MILLISECOND, &fence) == STATUS_TIMEOUT && fence == 0); /* 123 */
    CHECK(acquire(mutex, 1, 10 * MILLISECOND, &fence) == STATUS_SUCCESS && fence == 1234); /* 124 */

    Waiter waiter;
    begin(&waiter, second); /* 126 */
    CHECK(release(mutex, 0, 5) == STATUS_SUCCESS && pthread_join(waiter.thread, NULL) == 0);
    CHECK(waiter.status == STATUS_SUCCESS && waiter.fence == 5); /* 126: until the release */
    CHECK(release(second, 0, 0) == STATUS_SUCCESS);

    CHECK(acquire(mutex, 0, MILLISECOND, &fence) == STATUS_SUCCESS);
    begin(&waiter, second);
    struct timespec before, after;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
    CHECK(destroy(mutex) == STATUS_SUCCESS && pthread_join(waiter.thread, NULL) == 0); /* 127 */
    CHECK(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    CHECK(waiter.status == STATUS_ABANDONED && waiter.fence == 0); /* 127 */
    CHECK(after.tv_sec - before.tv_sec < 4);
    CHECK(destroy(second) == STATUS_SUCCESS);
}

int main(void)
{
    handles();
    second_version();
    owners();
    puts("keyed mutexes: all as on Windows");
    return EXIT_SUCCESS;
}
