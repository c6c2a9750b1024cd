/* The client of two_processes.h in C. */
#define _GNU_SOURCE
#include "two_processes.h"
