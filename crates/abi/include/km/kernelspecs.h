/* Annotations: all of them are in sal.h. */
#ifndef WINDTUNNEL_KERNELSPECS_H
#define WINDTUNNEL_KERNELSPECS_H

#include <sal.h>

#endif
