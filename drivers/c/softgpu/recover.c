/* Preemption, and what happens after a timeout. */
#include "driver.h"
#include "miniport.h"

NTSTATUS NTAPI SgPreemptCommand(HANDLE context, const DXGKARG_PREEMPTCOMMAND *args)
{
    PADAPTER adapter = context;

    GpuPreempt(&adapter->Gpu, args->NodeOrdinal, args->PreemptionFenceId);
    return STATUS_SUCCESS;
}

/* The driver keeps nothing for a packet before it is submitted. */
PAGED NTSTATUS NTAPI SgCancelCommand(HANDLE context, const DXGKARG_CANCELCOMMAND *args)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

NTSTATUS NTAPI SgQueryCurrentFence(HANDLE context, DXGKARG_QUERYCURRENTFENCE *args)
{
    PADAPTER adapter = context;

#ifdef FLAW_OMITS_CURRENT_FENCE
    UNREFERENCED_PARAMETER(adapter);
    UNREFERENCED_PARAMETER(args);
#else
    args->CurrentFence = adapter->Gpu.Nodes[args->NodeOrdinal].LastCompleted;
#endif
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgQueryEngineStatus(HANDLE context, DXGKARG_QUERYENGINESTATUS *args)
{
    PADAPTER adapter = context;

    args->EngineStatus.Responsive = GpuIsResponsive(&adapter->Gpu, args->NodeOrdinal);
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgQueryDependentEngineGroup(HANDLE context,
                                                 DXGKARG_QUERYDEPENDENTENGINEGROUP *args)
{
    UNREFERENCED_PARAMETER(context);
    args->DependentNodeOrdinalMask = 1ull << args->NodeOrdinal;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgResetEngine(HANDLE context, DXGKARG_RESETENGINE *args)
{
    PADAPTER adapter = context;
    ULONG aborted;

#ifdef FLAW_RESETS_NOTHING
#if FLAW_RESETS_NOTHING == 2
    args->LastAbortedFenceId = adapter->Gpu.Nodes[args->NodeOrdinal].LastCompleted;
#endif
    return STATUS_SUCCESS;
#endif
    aborted = GpuResetNode(&adapter->Gpu, args->NodeOrdinal);
#ifdef FLAW_OMITS_ABORTED_FENCE
    UNREFERENCED_PARAMETER(aborted);
#else
    args->LastAbortedFenceId = aborted;
#endif
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgResetFromTimeout(HANDLE context)
{
    PADAPTER adapter = context;

    GpuReset(&adapter->Gpu);
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgRestartFromTimeout(HANDLE context)
{
    UNREFERENCED_PARAMETER(context);
    return STATUS_SUCCESS;
}

NTSTATUS NTAPI SgCollectDbgInfo(HANDLE context, const DXGKARG_COLLECTDBGINFO *args)
{
    PADAPTER adapter = context;
    PULONG to = args->pBuffer;

    for (ULONG node = 0; node < NODE_COUNT; node++) {
        if ((node + 1) * sizeof(ULONG) <= args->BufferSize)
            to[node] = adapter->Gpu.Nodes[node].LastCompleted;
    }
    return STATUS_SUCCESS;
}
