/* The table of functions that a driver registers. */
#include "driver.h"
#include "miniport.h"

DXGKDDI_ADD_DEVICE SgAddDevice;
DXGKDDI_START_DEVICE SgStartDevice;
DXGKDDI_STOP_DEVICE SgStopDevice;
DXGKDDI_REMOVE_DEVICE SgRemoveDevice;
DXGKDDI_RESET_DEVICE SgResetDevice;
DXGKDDI_SET_POWER_STATE SgSetPowerState;
DXGKDDI_NOTIFY_SURPRISE_REMOVAL SgNotifySurpriseRemoval;
DXGKDDI_QUERYADAPTERINFO SgQueryAdapterInfo;
DXGKDDI_ESCAPE SgEscape;
DXGKDDI_CREATEDEVICE SgCreateDevice;
DXGKDDI_DESTROYDEVICE SgDestroyDevice;
DXGKDDI_CREATECONTEXT SgCreateContext;
DXGKDDI_DESTROYCONTEXT SgDestroyContext;
DXGKDDI_CREATEALLOCATION SgCreateAllocation;
DXGKDDI_DESTROYALLOCATION SgDestroyAllocation;
DXGKDDI_DESCRIBEALLOCATION SgDescribeAllocation;
DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA SgGetStandardAllocationDriverData;
DXGKDDI_OPENALLOCATIONINFO SgOpenAllocation;
DXGKDDI_CLOSEALLOCATION SgCloseAllocation;
DXGKDDI_RENDER SgRender;
DXGKDDI_PATCH SgPatch;
DXGKDDI_SUBMITCOMMAND SgSubmitCommand;
DXGKDDI_BUILDPAGINGBUFFER SgBuildPagingBuffer;
DXGKDDI_PREEMPTCOMMAND SgPreemptCommand;
DXGKDDI_CANCELCOMMAND SgCancelCommand;
DXGKDDI_QUERYCURRENTFENCE SgQueryCurrentFence;
DXGKDDI_QUERYENGINESTATUS SgQueryEngineStatus;
DXGKDDI_QUERYDEPENDENTENGINEGROUP SgQueryDependentEngineGroup;
DXGKDDI_RESETENGINE SgResetEngine;
DXGKDDI_RESETFROMTIMEOUT SgResetFromTimeout;
DXGKDDI_RESTARTFROMTIMEOUT SgRestartFromTimeout;
DXGKDDI_COLLECTDBGINFO SgCollectDbgInfo;

INIT_CODE void FillMiniportTable(PDRIVER_INITIALIZATION_DATA data)
{
    data->DxgkDdiAddDevice = SgAddDevice;
    data->DxgkDdiStartDevice = SgStartDevice;
    data->DxgkDdiStopDevice = SgStopDevice;
    data->DxgkDdiRemoveDevice = SgRemoveDevice;
    data->DxgkDdiResetDevice = SgResetDevice;
    data->DxgkDdiSetPowerState = SgSetPowerState;
    data->DxgkDdiNotifySurpriseRemoval = SgNotifySurpriseRemoval;
    data->DxgkDdiQueryAdapterInfo = SgQueryAdapterInfo;
    data->DxgkDdiEscape = SgEscape;
    data->DxgkDdiInterruptRoutine = SgInterruptRoutine;
    data->DxgkDdiDpcRoutine = SgDpcRoutine;
    data->DxgkDdiCreateDevice = SgCreateDevice;
    data->DxgkDdiDestroyDevice = SgDestroyDevice;
    data->DxgkDdiCreateContext = SgCreateContext;
    data->DxgkDdiDestroyContext = SgDestroyContext;
    data->DxgkDdiCreateAllocation = SgCreateAllocation;
    data->DxgkDdiDestroyAllocation = SgDestroyAllocation;
    data->DxgkDdiDescribeAllocation = SgDescribeAllocation;
    data->DxgkDdiGetStandardAllocationDriverData = SgGetStandardAllocationDriverData;
    data->DxgkDdiOpenAllocation = SgOpenAllocation;
    data->DxgkDdiCloseAllocation = SgCloseAllocation;
    data->DxgkDdiRender = SgRender;
    data->DxgkDdiPatch = SgPatch;
#ifndef PAGES_BY_CPU
    data->DxgkDdiSubmitCommand = SgSubmitCommand;
#endif
    data->DxgkDdiBuildPagingBuffer = SgBuildPagingBuffer;
    data->DxgkDdiPreemptCommand = SgPreemptCommand;
    data->DxgkDdiCancelCommand = SgCancelCommand;
    data->DxgkDdiQueryCurrentFence = SgQueryCurrentFence;
    data->DxgkDdiQueryEngineStatus = SgQueryEngineStatus;
    data->DxgkDdiQueryDependentEngineGroup = SgQueryDependentEngineGroup;
    data->DxgkDdiResetEngine = SgResetEngine;
    data->DxgkDdiResetFromTimeout = SgResetFromTimeout;
    data->DxgkDdiRestartFromTimeout = SgRestartFromTimeout;
    data->DxgkDdiCollectDbgInfo = SgCollectDbgInfo;
}
