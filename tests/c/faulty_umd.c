/*
 * The minimal user-mode driver, with a fault: FAULT=KIND@PLACE in the environment, or CHOSEN_FAULT
 * when it is built, chooses what it does, and in which of its functions.
 */
#define _GNU_SOURCE
#define OpenAdapter MinimalOpenAdapter
#include "../../examples/c/minimal_umd.c"
#undef OpenAdapter
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_chosen(const char *kind, const char *place)
{
#ifdef CHOSEN_FAULT
    const char *chosen = CHOSEN_FAULT;
#else
    const char *chosen = getenv("FAULT");
#endif
    char text[128];
    snprintf(text, sizeof text, "%s@%s", kind, place);
    return chosen != NULL && strcmp(chosen, text) == 0;
}

static void write_null(void)
{
    *(volatile int *)NULL = 1; /* the write */
}

static int overflow(volatile int depth)
{
    volatile char frame[256];
    frame[0] = (char)depth;
    return depth < 0 ? 0 : overflow(depth + 1) + frame[0];
}

static void *thread_main(void *argument)
{
    (void)argument;
    write_null();
    return NULL;
}

static void print_limit(const char *name, int resource)
{
    struct rlimit limit;
    getrlimit(resource, &limit);
    fprintf(stderr, "%s: %llu\n", name, (unsigned long long)limit.rlim_max);
}

static void print_limits(void)
{
    int count = 0;
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        char path[64], file[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(path, file, sizeof file);
        count += length == 9 && memcmp(file, "/dev/null", 9) == 0;
    }
    fprintf(stderr, "inherited: %d\n", count);
    fprintf(stderr, "no new privileges: %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    print_limit("core", RLIMIT_CORE);
    print_limit("descriptors", RLIMIT_NOFILE);
    print_limit("file size", RLIMIT_FSIZE);
    print_limit("addresses", RLIMIT_AS);
    print_limit("data", RLIMIT_DATA);
}

static void start_process(void)
{
    pid_t child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    fprintf(stderr, "started process %d\n", child);
}

/* A process in a session of its own, whose parent ends. */
static void start_daemon(void)
{
    pid_t child = fork();
    if (child == 0) {
        setsid();
        pid_t daemon = fork();
        if (daemon == 0) {
            for (;;)
                pause();
        }
        fprintf(stderr, "started process %d\n", daemon);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

/* The memory that the process of the flight shares with the command. */
static char *shared_memory(void)
{
    char line[512];
    unsigned long long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, "windtunnel-flight") != NULL)
            sscanf(line, "%llx", &start);
    }
    fclose(maps);
    return (char *)(uintptr_t)start;
}

static void truncate_shared_memory(void)
{
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        char path[64], file[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        if (readlink(path, file, sizeof file - 1) > 0 && strstr(file, "windtunnel-flight"))
            fprintf(stderr, "truncated: %d\n", ftruncate(descriptor, 4096));
    }
}

/* Behind the crash record and the mappings are the length of the text, and the text. */
static void write_text(const char *line, size_t times)
{
    char *length = shared_memory() + (64 << 10) + (1 << 20);
    char *text = length + 4096;
    size_t bytes = strlen(line);
    for (size_t turn = 0; turn < times; turn++)
        memcpy(text + turn * bytes, line, bytes);
    *(volatile uint64_t *)length = bytes * times;
}

static const char forged_end[] =
    "=end {\"needs\":[],\"live\":[],\"live_snapshots\":[],\"calls_without_context\":[],"
    "\"rule_counts\":[],\"implemented\":[],\"registration\":null,\"registers_nothing\":false,"
    "\"began\":true,\"internal_error\":null,\"load_error\":null,\"stack\":null}\n";

static const char forged_error[] =
    "=end {\"needs\":[],\"live\":[],\"live_snapshots\":[],\"calls_without_context\":[],"
    "\"rule_counts\":[],\"implemented\":[],\"registration\":null,\"registers_nothing\":false,"
    "\"began\":true,\"internal_error\":\"a forged error\",\"load_error\":null,\"stack\":null}\n";

static void block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void *exiting_main(void *argument)
{
    pthread_exit(argument);
}

static void *waiting_main(void *argument)
{
    for (;;)
        pause();
    return argument;
}

/* It ends its own threads as it likes. */
static void end_own_threads(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, exiting_main, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, waiting_main, NULL);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

static void fault(const char *place)
{
    static void (*volatile missing)(void);
    pthread_t thread;
    if (is_chosen("null", place)) {
        write_null();
    } else if (is_chosen("abort", place)) {
        abort();
    } else if (is_chosen("overflow", place)) {
        overflow(0);
    } else if (is_chosen("loop", place)) {
        for (volatile int turn = 0;; turn++) {
        }
    } else if (is_chosen("wait", place)) {
        pause();
    } else if (is_chosen("blocked-loop", place)) {
        block_signals();
        for (volatile int turn = 0;; turn++) {
        }
    } else if (is_chosen("kill", place)) {
        kill(getpid(), SIGKILL);
    } else if (is_chosen("stop", place)) {
        kill(getpid(), SIGSTOP);
    } else if (is_chosen("fork", place)) {
        start_process();
        write_null();
    } else if (is_chosen("mxcsr", place)) {
        unsigned control = 0x7f80;
        __asm__ volatile("ldmxcsr %0" : : "m"(control));
    } else if (is_chosen("daemon", place)) {
        start_daemon();
    } else if (is_chosen("truncate", place)) {
        truncate_shared_memory();
    } else if (is_chosen("flood", place)) {
        write_text("7 t0 - driver-pointer:4 driver-handle.set of=allocation:1\n", 1 << 20);
    } else if (is_chosen("overwrite", place)) {
        memset(shared_memory() + (64 << 10) + (1 << 20), 0x5a, 64 << 10);
    } else if (is_chosen("forge-record", place)) {
        memset(shared_memory(), 1, 8 << 10);
        *(volatile uint32_t *)shared_memory() = 1;
    } else if (is_chosen("forge-pass", place)) {
        write_text(forged_end, 1);
        _exit(0);
    } else if (is_chosen("forge-error", place)) {
        write_text(forged_error, 1);
        _exit(0);
    } else if (is_chosen("overwrite-and-null", place)) {
        memset(shared_memory(), 0x5a, 2 << 20);
        write_null();
    } else if (is_chosen("limits", place)) {
        print_limits();
    } else if (is_chosen("exit", place)) {
        exit(0);
    } else if (is_chosen("quick-exit", place)) {
        _exit(0);
    } else if (is_chosen("call-null", place)) {
        missing();
    } else if (is_chosen("thread", place)) {
        pthread_create(&thread, NULL, thread_main, NULL);
        pthread_join(thread, NULL);
    } else if (is_chosen("thread-exit", place)) {
        pthread_exit(NULL);
    } else if (is_chosen("thread-cancel", place)) {
        pthread_cancel(pthread_self());
        pause();
    } else if (is_chosen("own-threads", place)) {
        end_own_threads();
    } else if (is_chosen("print", place)) {
        printf("printed by the driver\n");
        fflush(stdout);
    }
}

static D3DDDI_DEVICECALLBACKS callbacks;
static D3DKMT_HANDLE last_allocation;

static HRESULT APIENTRY remembering_allocate(HANDLE runtime, D3DDDICB_ALLOCATE *args)
{
    HRESULT result = callbacks.pfnAllocateCb(runtime, args);
    if (SUCCEEDED(result)) {
        last_allocation = args->pAllocationInfo[0].hAllocation;
    }
    return result;
}

/* Locks the last allocation, ends the lock, and writes to its memory. */
static void write_after_lock(Device *device, Resource *resource, int destroys)
{
    D3DDDICB_LOCK lock = {.hAllocation = last_allocation, .Flags = {.LockEntire = 1}};
    HRESULT result = callbacks.pfnLockCb(device->runtime, &lock);
    if (FAILED(result)) {
        return;
    }
    if (destroys) {
        D3DDDICB_DEALLOCATE request = {.hResource = resource->runtime};
        callbacks.pfnDeallocateCb(device->runtime, &request);
    } else {
        D3DDDICB_UNLOCK unlock = {.NumAllocations = 1, .phAllocations = &lock.hAllocation};
        callbacks.pfnUnlockCb(device->runtime, &unlock);
    }
    ((volatile char *)lock.pData)[16] = 1;
}

static HRESULT APIENTRY faulty_create_resource(HANDLE handle, D3DDDIARG_CREATERESOURCE *args)
{
    fault("create_resource");
    if (is_chosen("late-null", "create_resource")) {
        ((Device *)handle)->allocate((HANDLE)(uintptr_t)8, NULL); /* not a device: a finding */
        write_null();
    }
    HRESULT result = create_resource(handle, args);
    if (is_chosen("unlocked", "create_resource")) {
        write_after_lock((Device *)handle, (Resource *)args->hResource, 0);
    } else if (is_chosen("destroyed", "create_resource")) {
        write_after_lock((Device *)handle, (Resource *)args->hResource, 1);
    } else if (is_chosen("direction-flag", "create_resource")) {
        __asm__ volatile("std");
    }
    return result;
}

/* Gets what the driver never gives back. */
static void leak(HANDLE runtime)
{
    if (is_chosen("leak-context", "create_device")) {
        D3DDDICB_CREATECONTEXT context = {.EngineAffinity = 1};
        callbacks.pfnCreateContextCb(runtime, &context);
    } else if (is_chosen("leak-queue", "create_device")) {
        D3DDDICB_CREATEPAGINGQUEUE queue = {0};
        callbacks.pfnCreatePagingQueueCb(runtime, &queue);
    } else if (is_chosen("leak-object", "create_device")) {
        D3DDDICB_CREATESYNCHRONIZATIONOBJECT2 object = {.Info = {.Type = D3DDDI_MONITORED_FENCE}};
        callbacks.pfnCreateSynchronizationObject2Cb(runtime, &object);
    } else if (is_chosen("leak-allocation", "create_device")) {
        uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
        windtunnel_describe(description, PAGE);
        D3DDDI_ALLOCATIONINFO info = {.pPrivateDriverData = description,
                                      .PrivateDriverDataSize = sizeof description};
        D3DDDICB_ALLOCATE request = {.NumAllocations = 1, .pAllocationInfo = &info};
        callbacks.pfnAllocateCb(runtime, &request);
    }
}

static HRESULT APIENTRY faulty_destroy_device(HANDLE handle)
{
    fault("destroy_device");
    return destroy_device(handle);
}

static HRESULT APIENTRY faulty_create_device(HANDLE handle, D3DDDIARG_CREATEDEVICE *args)
{
    fault("create_device");
    callbacks = *args->pCallbacks;
    HANDLE runtime = args->hDevice;
    HRESULT result = create_device(handle, args);
    leak(runtime);
    ((Device *)args->hDevice)->allocate = remembering_allocate;
    args->pDeviceFuncs->pfnCreateResource = faulty_create_resource;
    args->pDeviceFuncs->pfnDestroyDevice = faulty_destroy_device;
    return result;
}

HRESULT APIENTRY OpenAdapter(D3DDDIARG_OPENADAPTER *args)
{
    fault("open_adapter");
    HRESULT result = MinimalOpenAdapter(args);
    args->pAdapterFuncs->pfnCreateDevice = faulty_create_device;
    return result;
}

__attribute__((constructor)) static void at_load(void)
{
    fault("load");
}

__attribute__((destructor)) static void at_unload(void)
{
    fault("unload");
}
