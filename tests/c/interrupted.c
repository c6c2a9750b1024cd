/* A thread that is interrupted inside a wait: by a signal whose handler calls in, and by an
 * asynchronous cancellation. With an argument, the handler ends the process. */
#define _GNU_SOURCE
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { FREE = 0, WANTED = 5 };

static D3DKMT_HANDLE mutex;
static volatile NTSTATUS answered = 1;
static volatile int is_past;
static volatile pid_t waiting;

/* Returns when the thread that waits for its key sleeps: it does so in turns, and its state is read
 * many times, because a thread may also sleep for a moment on its way. */
static void await_sleep(void)
{
    while (waiting == 0) {
        usleep(1000);
    }
    char name[64], state = 0;
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)waiting);
    for (int asleep = 0; asleep < 50; asleep = state == 'S' ? asleep + 1 : 0) {
        usleep(1000);
        FILE *file = fopen(name, "r");
        CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
    }
}

static void call_in(int signal)
{
    (void)signal;
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 0};
    answered = D3DKMTEnumAdapters2(&list);
    CHECK(windtunnel_event_create() == NULL);
}

static void end(int signal)
{
    (void)signal;
    exit(3);
}

static void *wait_for_key(void *is_cancelled)
{
    if (is_cancelled != NULL) {
        CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    }
    D3DKMT_ACQUIREKEYEDMUTEX take = {.hKeyedMutex = mutex, .Key = WANTED};
    waiting = gettid();
    NTSTATUS status = D3DKMTAcquireKeyedMutex(&take);
    is_past = 1;
    CHECK(status == STATUS_SUCCESS);
    return NULL;
}

static void release(uint64_t key)
{
    D3DKMT_RELEASEKEYEDMUTEX give = {.hKeyedMutex = mutex, .Key = key};
    CHECK(D3DKMTReleaseKeyedMutex(&give) == STATUS_SUCCESS);
}

static void acquire(uint64_t key)
{
    D3DKMT_ACQUIREKEYEDMUTEX take = {.hKeyedMutex = mutex, .Key = key};
    CHECK(D3DKMTAcquireKeyedMutex(&take) == STATUS_SUCCESS);
}

int main(int count, char **arguments)
{
    (void)arguments;
    struct sigaction set;
    memset(&set, 0, sizeof set);
    set.sa_handler = count > 1 ? end : call_in;
    CHECK(sigaction(SIGUSR1, &set, NULL) == 0);

    D3DKMT_CREATEKEYEDMUTEX make = {.InitialValue = FREE};
    CHECK(D3DKMTCreateKeyedMutex(&make) == STATUS_SUCCESS);
    mutex = make.hKeyedMutex;
    acquire(FREE);

    /* A handler that calls in while its thread is inside is answered at once. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wait_for_key, NULL) == 0);
    await_sleep();
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (answered == 1) {
        usleep(1000);
    }
    printf("the handler: 0x%08x\n", (unsigned)answered);
    CHECK(!is_past);
    release(WANTED);
    CHECK(pthread_join(thread, NULL) == 0 && is_past);
    release(FREE); /* the thread of the same process has acquired it */

    /* A cancellation waits until the call returns. */
    acquire(FREE);
    waiting = is_past = 0;
    CHECK(pthread_create(&thread, NULL, wait_for_key, &set) == 0);
    await_sleep();
    CHECK(pthread_cancel(thread) == 0);
    usleep(200 * 1000);
    CHECK(pthread_tryjoin_np(thread, NULL) != 0); /* it waits */
    release(WANTED);
    void *result = NULL;
    CHECK(pthread_join(thread, &result) == 0);
    printf("the thread was cancelled: %d, after its call: %d\n", result == PTHREAD_CANCELED, is_past);

    /* The library goes on: the thread that ended has acquired the mutex. */
    release(FREE);
    acquire(FREE);
    release(FREE);
    D3DKMT_DESTROYKEYEDMUTEX destroy = {.hKeyedMutex = mutex};
    CHECK(D3DKMTDestroyKeyedMutex(&destroy) == STATUS_SUCCESS);
    puts("interrupted: all answered");
    return EXIT_SUCCESS;
}
