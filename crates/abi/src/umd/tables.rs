//! The tables of functions: a user-mode driver's functions, and its callbacks.
//!
//! One source: docs. The order of the slots is certain; the version of a late one is not.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    D3D_UMD_INTERFACE_VERSION_WDDM1_3, D3D_UMD_INTERFACE_VERSION_WDDM2_0, D3DDDIARG_BLT,
    D3DDDIARG_COLORFILL, D3DDDIARG_CREATEDEVICE, D3DDDIARG_CREATERESOURCE,
    D3DDDIARG_CREATERESOURCE2, D3DDDIARG_GETCAPS, D3DDDIARG_LOCK, D3DDDIARG_LOCKASYNC,
    D3DDDIARG_OPENADAPTER, D3DDDIARG_OPENRESOURCE, D3DDDIARG_QUERYRESOURCERESIDENCY,
    D3DDDIARG_RENAME, D3DDDIARG_SETPRIORITY, D3DDDIARG_UNLOCK, D3DDDIARG_UNLOCKASYNC,
    D3DDDICB_ALLOCATE, D3DDDICB_CREATECONTEXT, D3DDDICB_CREATECONTEXTVIRTUAL,
    D3DDDICB_CREATEPAGINGQUEUE, D3DDDICB_CREATESYNCHRONIZATIONOBJECT,
    D3DDDICB_CREATESYNCHRONIZATIONOBJECT2, D3DDDICB_DEALLOCATE, D3DDDICB_DEALLOCATE2,
    D3DDDICB_DESTROYCONTEXT, D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT, D3DDDICB_ESCAPE,
    D3DDDICB_EVICT, D3DDDICB_FREEGPUVIRTUALADDRESS, D3DDDICB_LOCK, D3DDDICB_LOCK2,
    D3DDDICB_OFFERALLOCATIONS, D3DDDICB_QUERYADAPTERINFO, D3DDDICB_QUERYRESIDENCY,
    D3DDDICB_RECLAIMALLOCATIONS, D3DDDICB_RECLAIMALLOCATIONS2, D3DDDICB_RENDER,
    D3DDDICB_SETPRIORITY, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT,
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU, D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
    D3DDDICB_SUBMITCOMMAND, D3DDDICB_UNLOCK, D3DDDICB_UNLOCK2, D3DDDICB_UPDATEGPUVIRTUALADDRESS,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT, D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2,
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU, D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
};
use crate::ukm::{
    D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_MAKERESIDENT, D3DDDI_MAPGPUVIRTUALADDRESS,
    D3DDDI_RESERVEGPUVIRTUALADDRESS,
};
use crate::{HANDLE, HRESULT, UNCROSSED};

pub type PFND3DDDI_ALLOCATECB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_ALLOCATE) -> HRESULT;
pub type PFND3DDDI_BLT = unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_BLT) -> HRESULT;
pub type PFND3DDDI_CLOSEADAPTER = unsafe extern "win64-unwind" fn(HANDLE) -> HRESULT;
pub type PFND3DDDI_COLORFILL =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_COLORFILL) -> HRESULT;
pub type PFND3DDDI_CREATECONTEXTCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_CREATECONTEXT) -> HRESULT;
pub type PFND3DDDI_CREATECONTEXTVIRTUALCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_CREATECONTEXTVIRTUAL) -> HRESULT;
pub type PFND3DDDI_CREATEDEVICE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDIARG_CREATEDEVICE) -> HRESULT;
pub type PFND3DDDI_CREATEPAGINGQUEUECB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_CREATEPAGINGQUEUE) -> HRESULT;
pub type PFND3DDDI_CREATERESOURCE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDIARG_CREATERESOURCE) -> HRESULT;
pub type PFND3DDDI_CREATERESOURCE2 =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDIARG_CREATERESOURCE2) -> HRESULT;
pub type PFND3DDDI_CREATESYNCHRONIZATIONOBJECT2CB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_CREATESYNCHRONIZATIONOBJECT2) -> HRESULT;
pub type PFND3DDDI_CREATESYNCHRONIZATIONOBJECTCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_CREATESYNCHRONIZATIONOBJECT) -> HRESULT;
pub type PFND3DDDI_DEALLOCATE2CB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_DEALLOCATE2) -> HRESULT;
pub type PFND3DDDI_DEALLOCATECB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_DEALLOCATE) -> HRESULT;
pub type PFND3DDDI_DESTROYCONTEXTCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_DESTROYCONTEXT) -> HRESULT;
pub type PFND3DDDI_DESTROYDEVICE = unsafe extern "win64-unwind" fn(HANDLE) -> HRESULT;
pub type PFND3DDDI_DESTROYPAGINGQUEUECB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDI_DESTROYPAGINGQUEUE) -> HRESULT;
pub type PFND3DDDI_DESTROYRESOURCE = unsafe extern "win64-unwind" fn(HANDLE, HANDLE) -> HRESULT;
pub type PFND3DDDI_DESTROYSYNCHRONIZATIONOBJECTCB = unsafe extern "win64-unwind" fn(
    HANDLE,
    *const D3DDDICB_DESTROYSYNCHRONIZATIONOBJECT,
) -> HRESULT;
pub type PFND3DDDI_ESCAPECB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_ESCAPE) -> HRESULT;
pub type PFND3DDDI_EVICTCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_EVICT) -> HRESULT;
pub type PFND3DDDI_FLUSH = unsafe extern "win64-unwind" fn(HANDLE) -> HRESULT;
pub type PFND3DDDI_FLUSH1 = unsafe extern "win64-unwind" fn(HANDLE, u32) -> HRESULT;
pub type PFND3DDDI_FREEGPUVIRTUALADDRESSCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_FREEGPUVIRTUALADDRESS) -> HRESULT;
pub type PFND3DDDI_GETCAPS =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_GETCAPS) -> HRESULT;
pub type PFND3DDDI_LOCK = unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDIARG_LOCK) -> HRESULT;
pub type PFND3DDDI_LOCK2CB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_LOCK2) -> HRESULT;
pub type PFND3DDDI_LOCKASYNC =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDIARG_LOCKASYNC) -> HRESULT;
pub type PFND3DDDI_LOCKCB = unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_LOCK) -> HRESULT;
pub type PFND3DDDI_MAKERESIDENTCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDI_MAKERESIDENT) -> HRESULT;
pub type PFND3DDDI_MAPGPUVIRTUALADDRESSCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDI_MAPGPUVIRTUALADDRESS) -> HRESULT;
pub type PFND3DDDI_OFFERALLOCATIONSCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_OFFERALLOCATIONS) -> HRESULT;
pub type PFND3DDDI_OPENADAPTER =
    unsafe extern "win64-unwind" fn(*mut D3DDDIARG_OPENADAPTER) -> HRESULT;
pub type PFND3DDDI_OPENRESOURCE =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDIARG_OPENRESOURCE) -> HRESULT;
pub type PFND3DDDI_QUERYADAPTERINFOCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_QUERYADAPTERINFO) -> HRESULT;
pub type PFND3DDDI_QUERYRESIDENCYCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_QUERYRESIDENCY) -> HRESULT;
pub type PFND3DDDI_QUERYRESOURCERESIDENCY =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_QUERYRESOURCERESIDENCY) -> HRESULT;
pub type PFND3DDDI_RECLAIMALLOCATIONS2CB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_RECLAIMALLOCATIONS2) -> HRESULT;
pub type PFND3DDDI_RECLAIMALLOCATIONSCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_RECLAIMALLOCATIONS) -> HRESULT;
pub type PFND3DDDI_RENAME =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_RENAME) -> HRESULT;
pub type PFND3DDDI_RENDERCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_RENDER) -> HRESULT;
pub type PFND3DDDI_RESERVEGPUVIRTUALADDRESSCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDI_RESERVEGPUVIRTUALADDRESS) -> HRESULT;
pub type PFND3DDDI_SETPRIORITY =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_SETPRIORITY) -> HRESULT;
pub type PFND3DDDI_SETPRIORITYCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_SETPRIORITY) -> HRESULT;
pub type PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECT2CB = unsafe extern "win64-unwind" fn(
    HANDLE,
    *const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT2,
) -> HRESULT;
pub type PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECT) -> HRESULT;
pub type PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMCPUCB =
    unsafe extern "win64-unwind" fn(
        HANDLE,
        *mut D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMCPU,
    ) -> HRESULT;
pub type PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2CB =
    unsafe extern "win64-unwind" fn(
        HANDLE,
        *const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2,
    ) -> HRESULT;
pub type PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMGPUCB =
    unsafe extern "win64-unwind" fn(
        HANDLE,
        *const D3DDDICB_SIGNALSYNCHRONIZATIONOBJECTFROMGPU,
    ) -> HRESULT;
pub type PFND3DDDI_SUBMITCOMMANDCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_SUBMITCOMMAND) -> HRESULT;
pub type PFND3DDDI_UNLOCK =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_UNLOCK) -> HRESULT;
pub type PFND3DDDI_UNLOCK2CB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_UNLOCK2) -> HRESULT;
pub type PFND3DDDI_UNLOCKASYNC =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDIARG_UNLOCKASYNC) -> HRESULT;
pub type PFND3DDDI_UNLOCKCB =
    unsafe extern "win64-unwind" fn(HANDLE, *const D3DDDICB_UNLOCK) -> HRESULT;
pub type PFND3DDDI_UPDATEGPUVIRTUALADDRESSCB =
    unsafe extern "win64-unwind" fn(HANDLE, *mut D3DDDICB_UPDATEGPUVIRTUALADDRESS) -> HRESULT;
pub type PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECT2CB = unsafe extern "win64-unwind" fn(
    HANDLE,
    *const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT2,
) -> HRESULT;
pub type PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTCB = unsafe extern "win64-unwind" fn(
    HANDLE,
    *const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECT,
) -> HRESULT;
pub type PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPUCB =
    unsafe extern "win64-unwind" fn(
        HANDLE,
        *const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU,
    ) -> HRESULT;
pub type PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMGPUCB =
    unsafe extern "win64-unwind" fn(
        HANDLE,
        *const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMGPU,
    ) -> HRESULT;

table! { D3DDDI_ADAPTERFUNCS: 0x018 {} {
    0x000 pfnGetCaps: PFND3DDDI_GETCAPS,
    0x008 pfnCreateDevice: PFND3DDDI_CREATEDEVICE,
    0x010 pfnCloseAdapter: PFND3DDDI_CLOSEADAPTER,
} }

table! { D3DDDI_ADAPTERCALLBACKS: 0x018 {} {
    0x000 pfnQueryAdapterInfoCb: PFND3DDDI_QUERYADAPTERINFOCB,
    0x008 pfnGetMultisampleMethodListCb: UNCROSSED,
    0x010 pfnQueryAdapterInfoCb2: UNCROSSED,
} }

table! { D3DDDI_DEVICEFUNCS: 0x478 {} {
    0x000 pfnSetRenderState: UNCROSSED,
    0x008 pfnUpdateWInfo: UNCROSSED,
    0x010 pfnValidateDevice: UNCROSSED,
    0x018 pfnSetTextureStageState: UNCROSSED,
    0x020 pfnSetTexture: UNCROSSED,
    0x028 pfnSetPixelShader: UNCROSSED,
    0x030 pfnSetPixelShaderConst: UNCROSSED,
    0x038 pfnSetStreamSourceUm: UNCROSSED,
    0x040 pfnSetIndices: UNCROSSED,
    0x048 pfnSetIndicesUm: UNCROSSED,
    0x050 pfnDrawPrimitive: UNCROSSED,
    0x058 pfnDrawIndexedPrimitive: UNCROSSED,
    0x060 pfnDrawRectPatch: UNCROSSED,
    0x068 pfnDrawTriPatch: UNCROSSED,
    0x070 pfnDrawPrimitive2: UNCROSSED,
    0x078 pfnDrawIndexedPrimitive2: UNCROSSED,
    0x080 pfnVolBlt: UNCROSSED,
    0x088 pfnBufBlt: UNCROSSED,
    0x090 pfnTexBlt: UNCROSSED,
    0x098 pfnStateSet: UNCROSSED,
    0x0a0 pfnSetPriority: PFND3DDDI_SETPRIORITY,
    0x0a8 pfnClear: UNCROSSED,
    0x0b0 pfnUpdatePalette: UNCROSSED,
    0x0b8 pfnSetPalette: UNCROSSED,
    0x0c0 pfnSetVertexShaderConst: UNCROSSED,
    0x0c8 pfnMultiplyTransform: UNCROSSED,
    0x0d0 pfnSetTransform: UNCROSSED,
    0x0d8 pfnSetViewport: UNCROSSED,
    0x0e0 pfnSetZRange: UNCROSSED,
    0x0e8 pfnSetMaterial: UNCROSSED,
    0x0f0 pfnSetLight: UNCROSSED,
    0x0f8 pfnCreateLight: UNCROSSED,
    0x100 pfnDestroyLight: UNCROSSED,
    0x108 pfnSetClipPlane: UNCROSSED,
    0x110 pfnGetInfo: UNCROSSED,
    0x118 pfnLock: PFND3DDDI_LOCK,
    0x120 pfnUnlock: PFND3DDDI_UNLOCK,
    0x128 pfnCreateResource: PFND3DDDI_CREATERESOURCE,
    0x130 pfnDestroyResource: PFND3DDDI_DESTROYRESOURCE,
    0x138 pfnSetDisplayMode: UNCROSSED,
    0x140 pfnPresent: UNCROSSED,
    0x148 pfnFlush: PFND3DDDI_FLUSH,
    0x150 pfnCreateVertexShaderFunc: UNCROSSED,
    0x158 pfnDeleteVertexShaderFunc: UNCROSSED,
    0x160 pfnSetVertexShaderFunc: UNCROSSED,
    0x168 pfnCreateVertexShaderDecl: UNCROSSED,
    0x170 pfnDeleteVertexShaderDecl: UNCROSSED,
    0x178 pfnSetVertexShaderDecl: UNCROSSED,
    0x180 pfnSetVertexShaderConstI: UNCROSSED,
    0x188 pfnSetVertexShaderConstB: UNCROSSED,
    0x190 pfnSetScissorRect: UNCROSSED,
    0x198 pfnSetStreamSource: UNCROSSED,
    0x1a0 pfnSetStreamSourceFreq: UNCROSSED,
    0x1a8 pfnSetConvolutionKernelMono: UNCROSSED,
    0x1b0 pfnComposeRects: UNCROSSED,
    0x1b8 pfnBlt: PFND3DDDI_BLT,
    0x1c0 pfnColorFill: PFND3DDDI_COLORFILL,
    0x1c8 pfnDepthFill: UNCROSSED,
    0x1d0 pfnCreateQuery: UNCROSSED,
    0x1d8 pfnDestroyQuery: UNCROSSED,
    0x1e0 pfnIssueQuery: UNCROSSED,
    0x1e8 pfnGetQueryData: UNCROSSED,
    0x1f0 pfnSetRenderTarget: UNCROSSED,
    0x1f8 pfnSetDepthStencil: UNCROSSED,
    0x200 pfnGenerateMipSubLevels: UNCROSSED,
    0x208 pfnSetPixelShaderConstI: UNCROSSED,
    0x210 pfnSetPixelShaderConstB: UNCROSSED,
    0x218 pfnCreatePixelShader: UNCROSSED,
    0x220 pfnDeletePixelShader: UNCROSSED,
    0x228 pfnCreateDecodeDevice: UNCROSSED,
    0x230 pfnDestroyDecodeDevice: UNCROSSED,
    0x238 pfnSetDecodeRenderTarget: UNCROSSED,
    0x240 pfnDecodeBeginFrame: UNCROSSED,
    0x248 pfnDecodeEndFrame: UNCROSSED,
    0x250 pfnDecodeExecute: UNCROSSED,
    0x258 pfnDecodeExtensionExecute: UNCROSSED,
    0x260 pfnCreateVideoProcessDevice: UNCROSSED,
    0x268 pfnDestroyVideoProcessDevice: UNCROSSED,
    0x270 pfnVideoProcessBeginFrame: UNCROSSED,
    0x278 pfnVideoProcessEndFrame: UNCROSSED,
    0x280 pfnSetVideoProcessRenderTarget: UNCROSSED,
    0x288 pfnVideoProcessBlt: UNCROSSED,
    0x290 pfnCreateExtensionDevice: UNCROSSED,
    0x298 pfnDestroyExtensionDevice: UNCROSSED,
    0x2a0 pfnExtensionExecute: UNCROSSED,
    0x2a8 pfnCreateOverlay: UNCROSSED,
    0x2b0 pfnUpdateOverlay: UNCROSSED,
    0x2b8 pfnFlipOverlay: UNCROSSED,
    0x2c0 pfnGetOverlayColorControls: UNCROSSED,
    0x2c8 pfnSetOverlayColorControls: UNCROSSED,
    0x2d0 pfnDestroyOverlay: UNCROSSED,
    0x2d8 pfnDestroyDevice: PFND3DDDI_DESTROYDEVICE,
    0x2e0 pfnQueryResourceResidency: PFND3DDDI_QUERYRESOURCERESIDENCY,
    0x2e8 pfnOpenResource: PFND3DDDI_OPENRESOURCE,
    0x2f0 pfnGetCaptureAllocationHandle: UNCROSSED,
    0x2f8 pfnCaptureToSysMem: UNCROSSED,
    0x300 pfnLockAsync: PFND3DDDI_LOCKASYNC,
    0x308 pfnUnlockAsync: PFND3DDDI_UNLOCKASYNC,
    0x310 pfnRename: PFND3DDDI_RENAME,
    0x318 pfnCreateVideoProcessor: UNCROSSED,
    0x320 pfnSetVideoProcessBltState: UNCROSSED,
    0x328 pfnGetVideoProcessBltStatePrivate: UNCROSSED,
    0x330 pfnSetVideoProcessStreamState: UNCROSSED,
    0x338 pfnGetVideoProcessStreamStatePrivate: UNCROSSED,
    0x340 pfnVideoProcessBltHD: UNCROSSED,
    0x348 pfnDestroyVideoProcessor: UNCROSSED,
    0x350 pfnCreateAuthenticatedChannel: UNCROSSED,
    0x358 pfnAuthenticatedChannelKeyExchange: UNCROSSED,
    0x360 pfnQueryAuthenticatedChannel: UNCROSSED,
    0x368 pfnConfigureAuthenticatedChannel: UNCROSSED,
    0x370 pfnDestroyAuthenticatedChannel: UNCROSSED,
    0x378 pfnCreateCryptoSession: UNCROSSED,
    0x380 pfnCryptoSessionKeyExchange: UNCROSSED,
    0x388 pfnDestroyCryptoSession: UNCROSSED,
    0x390 pfnEncryptionBlt: UNCROSSED,
    0x398 pfnGetPitch: UNCROSSED,
    0x3a0 pfnStartSessionKeyRefresh: UNCROSSED,
    0x3a8 pfnFinishSessionKeyRefresh: UNCROSSED,
    0x3b0 pfnGetEncryptionBltKey: UNCROSSED,
    0x3b8 pfnDecryptionBlt: UNCROSSED,
    0x3c0 pfnResolveSharedResource: UNCROSSED,
    0x3c8 pfnVolBlt1: UNCROSSED,
    0x3d0 pfnBufBlt1: UNCROSSED,
    0x3d8 pfnTexBlt1: UNCROSSED,
    0x3e0 pfnDiscard: UNCROSSED,
    0x3e8 pfnOfferResources: UNCROSSED,
    0x3f0 pfnReclaimResources: UNCROSSED,
    0x3f8 pfnCheckDirectFlipSupport: UNCROSSED,
    0x400 pfnCreateResource2: PFND3DDDI_CREATERESOURCE2,
    0x408 pfnCheckMultiPlaneOverlaySupport: UNCROSSED,
    0x410 pfnPresentMultiPlaneOverlay: UNCROSSED,
    0x418 pfnReserved1: UNCROSSED,
    0x420 pfnFlush1: PFND3DDDI_FLUSH1,
    0x428 pfnCheckCounterInfo: UNCROSSED,
    0x430 pfnCheckCounter: UNCROSSED,
    0x438 pfnUpdateSubresourceUP: UNCROSSED,
    0x440 pfnPresent1: UNCROSSED,
    0x448 pfnCheckPresentDurationSupport: UNCROSSED,
    0x450 pfnSetMarker: UNCROSSED,
    0x458 pfnSetMarkerMode: UNCROSSED,
    0x460 pfnTrimResidencySet: UNCROSSED,
    0x468 pfnAcquireResource: UNCROSSED,
    0x470 pfnReleaseResource: UNCROSSED,
} }

table! { D3DDDI_DEVICECALLBACKS: 0x208 {} {
    0x000 pfnAllocateCb: PFND3DDDI_ALLOCATECB,
    0x008 pfnDeallocateCb: PFND3DDDI_DEALLOCATECB,
    0x010 pfnSetPriorityCb: PFND3DDDI_SETPRIORITYCB,
    0x018 pfnQueryResidencyCb: PFND3DDDI_QUERYRESIDENCYCB,
    0x020 pfnSetDisplayModeCb: UNCROSSED,
    0x028 pfnPresentCb: UNCROSSED,
    0x030 pfnRenderCb: PFND3DDDI_RENDERCB,
    0x038 pfnLockCb: PFND3DDDI_LOCKCB,
    0x040 pfnUnlockCb: PFND3DDDI_UNLOCKCB,
    0x048 pfnEscapeCb: PFND3DDDI_ESCAPECB,
    0x050 pfnCreateOverlayCb: UNCROSSED,
    0x058 pfnUpdateOverlayCb: UNCROSSED,
    0x060 pfnFlipOverlayCb: UNCROSSED,
    0x068 pfnDestroyOverlayCb: UNCROSSED,
    0x070 pfnCreateContextCb: PFND3DDDI_CREATECONTEXTCB,
    0x078 pfnDestroyContextCb: PFND3DDDI_DESTROYCONTEXTCB,
    0x080 pfnCreateSynchronizationObjectCb: PFND3DDDI_CREATESYNCHRONIZATIONOBJECTCB,
    0x088 pfnDestroySynchronizationObjectCb: PFND3DDDI_DESTROYSYNCHRONIZATIONOBJECTCB,
    0x090 pfnWaitForSynchronizationObjectCb: PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTCB,
    0x098 pfnSignalSynchronizationObjectCb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTCB,
    0x0a0 pfnSetAsyncCallbacksCb: UNCROSSED,
    0x0a8 pfnSetDisplayPrivateDriverFormatCb: UNCROSSED,
    0x0b0 pfnOfferAllocationsCb: PFND3DDDI_OFFERALLOCATIONSCB,
    0x0b8 pfnReclaimAllocationsCb: PFND3DDDI_RECLAIMALLOCATIONSCB,
    0x0c0 pfnCreateSynchronizationObject2Cb: PFND3DDDI_CREATESYNCHRONIZATIONOBJECT2CB,
    0x0c8 pfnWaitForSynchronizationObject2Cb: PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECT2CB,
    0x0d0 pfnSignalSynchronizationObject2Cb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECT2CB,
    0x0d8 pfnPresentMultiPlaneOverlayCb: UNCROSSED,
    0x0e0 pfnLogUMDMarkerCb: UNCROSSED,
    0x0e8 pfnMakeResidentCb: PFND3DDDI_MAKERESIDENTCB,
    0x0f0 pfnEvictCb: PFND3DDDI_EVICTCB,
    0x0f8 pfnWaitForSynchronizationObjectFromCpuCb: PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPUCB,
    0x100 pfnSignalSynchronizationObjectFromCpuCb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMCPUCB,
    0x108 pfnWaitForSynchronizationObjectFromGpuCb: PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMGPUCB,
    0x110 pfnSignalSynchronizationObjectFromGpuCb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMGPUCB,
    0x118 pfnCreatePagingQueueCb: PFND3DDDI_CREATEPAGINGQUEUECB,
    0x120 pfnDestroyPagingQueueCb: PFND3DDDI_DESTROYPAGINGQUEUECB,
    0x128 pfnLock2Cb: PFND3DDDI_LOCK2CB,
    0x130 pfnUnlock2Cb: PFND3DDDI_UNLOCK2CB,
    0x138 pfnInvalidateCacheCb: UNCROSSED,
    0x140 pfnReserveGpuVirtualAddressCb: PFND3DDDI_RESERVEGPUVIRTUALADDRESSCB,
    0x148 pfnMapGpuVirtualAddressCb: PFND3DDDI_MAPGPUVIRTUALADDRESSCB,
    0x150 pfnFreeGpuVirtualAddressCb: PFND3DDDI_FREEGPUVIRTUALADDRESSCB,
    0x158 pfnUpdateGpuVirtualAddressCb: PFND3DDDI_UPDATEGPUVIRTUALADDRESSCB,
    0x160 pfnCreateContextVirtualCb: PFND3DDDI_CREATECONTEXTVIRTUALCB,
    0x168 pfnSubmitCommandCb: PFND3DDDI_SUBMITCOMMANDCB,
    0x170 pfnDeallocate2Cb: PFND3DDDI_DEALLOCATE2CB,
    0x178 pfnSignalSynchronizationObjectFromGpu2Cb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2CB,
    0x180 pfnReclaimAllocations2Cb: PFND3DDDI_RECLAIMALLOCATIONS2CB,
    0x188 pfnGetResourcePresentPrivateDriverDataCb: UNCROSSED,
    0x190 pfnUpdateAllocationPropertyCb: UNCROSSED,
    0x198 pfnOfferAllocations2Cb: UNCROSSED,
    0x1a0 pfnReclaimAllocations3Cb: UNCROSSED,
    0x1a8 pfnAcquireResourceCb: UNCROSSED,
    0x1b0 pfnReleaseResourceCb: UNCROSSED,
    0x1b8 pfnCreateHwContextCb: UNCROSSED,
    0x1c0 pfnDestroyHwContextCb: UNCROSSED,
    0x1c8 pfnCreateHwQueueCb: UNCROSSED,
    0x1d0 pfnDestroyHwQueueCb: UNCROSSED,
    0x1d8 pfnSubmitCommandToHwQueueCb: UNCROSSED,
    0x1e0 pfnSubmitWaitForSyncObjectsToHwQueueCb: UNCROSSED,
    0x1e8 pfnSubmitSignalSyncObjectsToHwQueueCb: UNCROSSED,
    0x1f0 pfnSubmitPresentBltToHwQueueCb: UNCROSSED,
    0x1f8 pfnSubmitPresentToHwQueueCb: UNCROSSED,
    0x200 pfnSubmitHistorySequenceCb: UNCROSSED,
} }

impl D3DDDI_ADAPTERFUNCS {
    /// Interface versions, and how many bytes each one has.
    pub const LENGTHS: &[(u32, usize)] =
        &[(D3D_UMD_INTERFACE_VERSION_WDDM1_3, 0x018), (D3D_UMD_INTERFACE_VERSION_WDDM2_0, 0x018)];
}

impl D3DDDI_ADAPTERCALLBACKS {
    /// Interface versions, and how many bytes each one has.
    pub const LENGTHS: &[(u32, usize)] =
        &[(D3D_UMD_INTERFACE_VERSION_WDDM1_3, 0x010), (D3D_UMD_INTERFACE_VERSION_WDDM2_0, 0x010)];
}

impl D3DDDI_DEVICEFUNCS {
    /// Interface versions, and how many bytes each one has.
    pub const LENGTHS: &[(u32, usize)] =
        &[(D3D_UMD_INTERFACE_VERSION_WDDM1_3, 0x460), (D3D_UMD_INTERFACE_VERSION_WDDM2_0, 0x460)];
}

impl D3DDDI_DEVICECALLBACKS {
    /// Interface versions, and how many bytes each one has.
    pub const LENGTHS: &[(u32, usize)] =
        &[(D3D_UMD_INTERFACE_VERSION_WDDM1_3, 0x0f8), (D3D_UMD_INTERFACE_VERSION_WDDM2_0, 0x1a0)];
}
