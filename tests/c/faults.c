/* Faults in the client's own code, chosen by the first argument. Before its fault the client has
 * broken a rule and has an object alive, so that there is something to report. */
#define _DEFAULT_SOURCE
#include "client.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;

static __attribute__((noinline)) void write_null(void)
{
    volatile int *volatile target = NULL;
    *target = 1; /* the write */
}

static __attribute__((noinline)) int recurse(volatile int *depth)
{
    volatile int frame[256];
    frame[0] = ++*depth;
    return *depth < 0 ? 0 : recurse(depth) + frame[0];
}

static __attribute__((noinline)) int divide(volatile int *by)
{
    return 100 / *by;
}

static void *fault_in_thread(void *unused)
{
    write_null();
    return unused;
}

static void *overflow_in_thread(void *unused)
{
    volatile int depth = 0;
    D3DKMT_HANDLE adapter = open_adapter(); /* the thread calls in, as main does */
    close_adapter(adapter);
    recurse(&depth);
    return unused;
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
    pthread_join(thread, NULL);
}

static void end(int signal)
{
    (void)signal;
    _exit(7);
}

static void jump(int signal, siginfo_t *info, void *context)
{
    (void)context;
    siglongjmp(back, signal == SIGSEGV && info->si_addr == NULL ? 1 : 2);
}

static void set_handler(void (*handler)(int), void (*action)(int, siginfo_t *, void *))
{
    struct sigaction set;
    memset(&set, 0, sizeof set);
    if (action != NULL) {
        set.sa_sigaction = action;
        set.sa_flags = SA_SIGINFO;
    } else {
        set.sa_handler = handler;
    }
    CHECK(sigaction(SIGSEGV, &set, NULL) == 0);
}

/* Writes to the memory of a lock that an unlock or a destroy has ended. */
static __attribute__((noinline)) void write_after_lock(D3DKMT_HANDLE device, int destroys)
{
    D3DKMT_HANDLE allocation = create_allocation(device);
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = allocation};
    CHECK(D3DKMTLock2(&lock) == STATUS_SUCCESS);
    volatile char *bytes = lock.pData;
    bytes[16] = 1;
    if (destroys) {
        destroy_allocation(device, allocation);
    } else {
        D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = allocation};
        CHECK(D3DKMTUnlock2(&unlock) == STATUS_SUCCESS);
    }
    bytes[16] = 2; /* the late write */
}

int main(int count, char **arguments)
{
    const char *fault = count > 1 ? arguments[1] : "";
    volatile int zero = 0;
    if (strcmp(fault, "handled") == 0) {
        set_handler(end, NULL);
    } else if (strcmp(fault, "recovers") == 0) {
        set_handler(NULL, jump);
    }
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_HANDLE made_up = 0x12345678;
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = &made_up, .AllocationCount = 1};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_INVALID_PARAMETER);
    if (strcmp(fault, "null") == 0 || strcmp(fault, "handled") == 0) {
        write_null();
    } else if (strcmp(fault, "recovers") == 0) {
        for (int turn = 0; turn < 3; turn++) {
            if (sigsetjmp(back, 1) == 0) {
                write_null();
            }
            destroy_allocation(device, create_allocation(device)); /* the client goes on */
        }
    } else if (strcmp(fault, "abort") == 0) {
        abort();
    } else if (strcmp(fault, "overflow") == 0) {
        recurse(&zero);
    } else if (strcmp(fault, "divide") == 0) {
        return divide(&zero);
    } else if (strcmp(fault, "thread") == 0) {
        in_thread(fault_in_thread);
    } else if (strcmp(fault, "thread-overflow") == 0) {
        in_thread(overflow_in_thread);
    } else if (strcmp(fault, "unlocked") == 0 || strcmp(fault, "destroyed") == 0) {
        write_after_lock(device, strcmp(fault, "destroyed") == 0);
    } else if (strcmp(fault, "forked") == 0) {
        pid_t child = fork();
        if (child == 0) {
            write_null();
        }
        int status; /* the child's fault writes no report of this process */
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    }
    destroy_device(device);
    close_adapter(adapter);
    return EXIT_SUCCESS;
}
