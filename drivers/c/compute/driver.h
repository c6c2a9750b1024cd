/*
 * A compute-only WDDM 2.6 driver with physical addresses. Its GPU is software: see ../softgpu.
 */
#ifndef DRIVER_H
#define DRIVER_H

#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_6
#include <dispmprt.h>

#define DRIVER_TAG 'pmoC'

#endif
