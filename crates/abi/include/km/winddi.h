/* The types of GDI's driver interface that display drivers of this model use. */
#ifndef WINDTUNNEL_WINDDI_H
#define WINDTUNNEL_WINDDI_H

#include <wingdi.h>

#endif
