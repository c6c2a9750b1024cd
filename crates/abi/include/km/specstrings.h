/* Annotations: all of them are in sal.h. */
#ifndef WINDTUNNEL_SPECSTRINGS_H
#define WINDTUNNEL_SPECSTRINGS_H

#include <sal.h>

#endif
