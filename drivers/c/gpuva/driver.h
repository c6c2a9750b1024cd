/*
 * A WDDM 2.0 driver with virtual addresses of the GPU: page tables of three levels. Its GPU is
 * software: see ../softgpu.
 */
#ifndef DRIVER_H
#define DRIVER_H

#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#include <dispmprt.h>

#define DRIVER_TAG 'avpG'
#define GPU_HAS_MMU 1

DXGKDDI_CREATEPROCESS GvCreateProcess;
DXGKDDI_DESTROYPROCESS GvDestroyProcess;
DXGKDDI_SETROOTPAGETABLE GvSetRootPageTable;
DXGKDDI_GETROOTPAGETABLESIZE GvGetRootPageTableSize;

#endif
