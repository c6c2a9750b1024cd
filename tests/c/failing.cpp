// A client with an error, in a function of a class and below other functions. Its exit status is
// its first argument. Handlers and destructors at its exit print, through buffered streams.
#include <windtunnel/d3dkmt.h>

#include <cstdio>
#include <cstdlib>

namespace client {

struct Cache {
    __attribute__((noinline)) NTSTATUS destroy(unsigned handle)
    {
        D3DKMT_DESTROYDEVICE destroy{};
        destroy.hDevice = handle;
        NTSTATUS status = D3DKMTDestroyDevice(&destroy); // an error: the handle is zero
        return status;
    }
    ~Cache() { std::printf("the cache ends\n"); }
};

Cache cache;

__attribute__((noinline)) int trim(Cache &from)
{
    int status = from.destroy(0);
    return status;
}

} // namespace client

static void at_exit() { std::printf("the handler runs\n"); }

int main(int count, char **arguments)
{
    std::atexit(at_exit);
    if (count > 2 && client::trim(client::cache) == STATUS_SUCCESS) {
        return 3;
    }
    if (count <= 2) {
        D3DKMT_ENUMADAPTERS2 list{};
        if (D3DKMTEnumAdapters2(&list) != STATUS_SUCCESS) {
            return 3;
        }
    }
    std::printf("main ends"); // No newline, so that only a flush prints it.
    std::printf("\n");
    return std::atoi(arguments[1]);
}
