/* For clients in C and in C++. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* Ends the client with the line number if the condition is false. */
#define CHECK(that)                                                                               \
    do {                                                                                          \
        if (!(that)) {                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #that);                    \
            _Exit(EXIT_FAILURE);                                                                  \
        }                                                                                         \
    } while (0)

#endif
