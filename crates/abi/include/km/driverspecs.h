/* Annotations: all of them are in sal.h. */
#ifndef WINDTUNNEL_DRIVERSPECS_H
#define WINDTUNNEL_DRIVERSPECS_H

#include <sal.h>

#endif
