/* A client that changes its signals, with pointers to memory that is not there: each call is
 * answered, whether the library's handler of faults can run or not. */
#define _GNU_SOURCE
#include "client.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static D3DKMT_CREATEDEVICE *gone; /* a page that cannot be accessed */
static D3DKMT_CREATEDEVICE *half; /* a structure whose second half is on that page */
static volatile sig_atomic_t handled;
static volatile sig_atomic_t answered;
static sigjmp_buf back;

static void check_answers(void)
{
    CHECK(D3DKMTCreateDevice(gone) == STATUS_INVALID_PARAMETER);
    CHECK(D3DKMTCreateDevice(half) == STATUS_INVALID_PARAMETER);
    CHECK(D3DKMTCreateDevice((void *)0xdead0000) == STATUS_INVALID_PARAMETER);
    CHECK(D3DKMTCreateDevice((void *)0xffffffffff600000) == STATUS_INVALID_PARAMETER);
    CHECK(D3DKMTCreateDevice((void *)0x8000000000000) == STATUS_INVALID_PARAMETER);
}

static void on_fault(int signal)
{
    (void)signal;
    handled++;
    check_answers(); /* the signal is blocked here */
    siglongjmp(back, 1);
}

static void on_signal(int signal)
{
    (void)signal;
    check_answers();
    answered++;
}

/* A fault of the client itself. */
static void touch(void)
{
    if (sigsetjmp(back, 1) == 0) {
        *(volatile char *)gone = 1;
        CHECK(0);
    }
}

static void block(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigaddset(&set, SIGBUS);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

static void *with_blocked_signals(void *unused)
{
    (void)unused;
    check_answers(); /* the mask is that of the thread that started this one */
    block(SIG_UNBLOCK);
    check_answers();
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    check_answers();
    return NULL;
}

int main(void)
{
    struct sigaction first = {.sa_handler = on_fault}, before, again;
    CHECK(sigaction(SIGSEGV, &first, NULL) == 0);
    D3DKMT_HANDLE adapter = open_adapter();
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    half = (D3DKMT_CREATEDEVICE *)(pages + PAGE - sizeof *half / 2);
    half->hAdapter = adapter;
    gone = (D3DKMT_CREATEDEVICE *)(pages + PAGE);
    CHECK(mprotect(gone, PAGE, PROT_NONE) == 0);
    check_answers();
    CHECK(handled == 0);

    /* The client's earlier handler has the client's faults. */
    touch();
    touch();
    CHECK(handled == 2);
    check_answers();

    /* One that is installed later replaces the library's. */
    CHECK(sigaction(SIGSEGV, &first, &before) == 0);
    check_answers();
    touch();
    CHECK(handled == 3);
    check_answers();
    CHECK(signal(SIGSEGV, SIG_DFL) == on_fault);
    check_answers();
    CHECK(sigaction(SIGSEGV, &before, &again) == 0 && again.sa_handler == SIG_DFL);
    check_answers();

    /* Blocked signals, also of a new thread and in a handler. */
    block(SIG_BLOCK);
    check_answers();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, with_blocked_signals, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    block(SIG_UNBLOCK);
    check_answers();
    struct sigaction other = {.sa_handler = on_signal};
    sigfillset(&other.sa_mask);
    CHECK(sigaction(SIGUSR1, &other, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0 && answered == 1);
    check_answers();

    CHECK(handled == 3);
    touch();
    CHECK(handled == 4);
    close_adapter(adapter);
    puts("signals: all answered");
    return EXIT_SUCCESS;
}
