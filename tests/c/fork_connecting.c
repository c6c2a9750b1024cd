/* Forks while other threads make their first call, which connects to the server: the child has a copy
   of every lock, and none of the threads that held one. With the argument "here" the kernel is in each
   process, and a child of one that has begun is told that the device is removed. */
#define _DEFAULT_SOURCE
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int begun;
static int is_here;

static NTSTATUS call(void)
{
    D3DKMT_ADAPTERINFO adapters[4] = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 4, .pAdapters = adapters};
    NTSTATUS status = D3DKMTEnumAdapters2(&list);
    if (status == STATUS_SUCCESS)
        close_adapter(adapters[0].hAdapter);
    return status;
}

static void *first_call(void *unused)
{
    begun++;
    CHECK(call() == STATUS_SUCCESS);
    return unused;
}

static void wait_for(pid_t process)
{
    int status = -1;
    CHECK(waitpid(process, &status, 0) == process);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A process that has made no call: its threads make the first one, and it forks meanwhile. */
static void run(unsigned round)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, first_call, NULL) == 0);
    while (begun < 1)
        continue;
    for (volatile unsigned pause = 0; pause < round * 997 % 200000; pause++)
        continue;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(20); /* A child that waits for ever is ended, and its parent notices. */
        HANDLE own = windtunnel_process_open(getpid(), 0x400);
        CHECK(own != NULL);
        NTSTATUS status = call();
        CHECK(status == STATUS_SUCCESS || (is_here && status == STATUS_DEVICE_REMOVED));
        exit(EXIT_SUCCESS);
    }
    wait_for(child);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    exit(EXIT_SUCCESS);
}

int main(int count, char **arguments)
{
    CHECK(count > 1);
    is_here = count > 2 && strcmp(arguments[2], "here") == 0;
    unsigned rounds = (unsigned)atoi(arguments[1]);
    for (unsigned round = 0; round < rounds; round++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0)
            run(round);
        wait_for(process);
    }
    puts("fork while connecting: every child has called");
    return 0;
}
