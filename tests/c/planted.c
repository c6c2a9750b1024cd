/* Planted bugs that the sanitizers must find in a client of the library: a read past an output,
 * or a memory leak. `cargo xtask test --long` expects it to fail. */
#include "client.h"

#include <string.h>

static void *volatile forgotten;

int main(int count, char **arguments)
{
    D3DKMT_HANDLE *adapter = malloc(sizeof *adapter);
    *adapter = open_adapter();
    close_adapter(*adapter);
    if (count > 1 && strcmp(arguments[1], "overflow") == 0) {
        volatile D3DKMT_HANDLE *behind = adapter + 1;
        printf("%u\n", *behind);
    }
    if (count > 1 && strcmp(arguments[1], "leak") == 0) {
        forgotten = malloc(64);
        forgotten = NULL;
    }
    free(adapter);
    return EXIT_SUCCESS;
}
