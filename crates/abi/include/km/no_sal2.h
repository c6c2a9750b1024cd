/* Annotations: all of them are in sal.h. */
#ifndef WINDTUNNEL_NO_SAL2_H
#define WINDTUNNEL_NO_SAL2_H

#include <sal.h>

#endif
