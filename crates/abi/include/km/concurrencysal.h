/* Annotations: all of them are in sal.h. */
#ifndef WINDTUNNEL_CONCURRENCYSAL_H
#define WINDTUNNEL_CONCURRENCYSAL_H

#include <sal.h>

#endif
