/*
 * A WDDM 1.3 driver: DxgkDdiRender, DxgkDdiPatch and DxgkDdiSubmitCommand with allocation lists.
 * It imports DxgkInitialize. Its GPU is software: see ../softgpu.
 */
#ifndef DRIVER_H
#define DRIVER_H

#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM1_3
#include <dispmprt.h>

#define DRIVER_TAG 'dneR'

/* Little memory, so that packets have to take turns. */
#define VISIBLE_SIZE (1u << 20)
#define LOCAL_SIZE (64u << 12)
#define APERTURE_SIZE (1u << 20)

#endif
