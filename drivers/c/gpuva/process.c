/* Processes, and the root page tables of contexts. */
#include "driver.h"
#include "miniport.h"

typedef struct _PROCESS {
    HANDLE DxgkProcess;
} PROCESS, *PPROCESS;

PAGED NTSTATUS NTAPI GvCreateProcess(HANDLE context, DXGKARG_CREATEPROCESS *args)
{
    PPROCESS process = AllocateMemory(sizeof(*process));

    UNREFERENCED_PARAMETER(context);
    if (process == NULL)
        return STATUS_NO_MEMORY;
    process->DxgkProcess = args->hDxgkProcess;
    args->hKmdProcess = process;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI GvDestroyProcess(HANDLE context, HANDLE process)
{
    UNREFERENCED_PARAMETER(context);
    FreeMemory(process);
    return STATUS_SUCCESS;
}

/* The system context has the address space of paging. */
void NTAPI GvSetRootPageTable(HANDLE handle, const DXGKARG_SETROOTPAGETABLE *args)
{
    PADAPTER adapter = handle;
    PCONTEXT context = args->hContext;
    TABLE_ROOT root = {args->Address.SegmentId, args->Address.SegmentOffset};

    context->Root = root;
    if (context->IsSystem)
        adapter->Gpu.SystemRoot = root;
}

PAGED SIZE_T NTAPI GvGetRootPageTableSize(HANDLE context, DXGKARG_GETROOTPAGETABLESIZE *args)
{
    UNREFERENCED_PARAMETER(context);
    args->NumberOfPte = 1 << TABLE_BITS;
    return PAGE_SIZE;
}
