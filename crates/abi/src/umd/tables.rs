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
use crate::{HANDLE, HRESULT, UNTYPED_FN};

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
    0x008 pfnGetMultisampleMethodListCb: UNTYPED_FN,
    0x010 pfnQueryAdapterInfoCb2: UNTYPED_FN,
} }

table! { D3DDDI_DEVICEFUNCS: 0x478 {} {
    0x000 pfnSetRenderState: UNTYPED_FN,
    0x008 pfnUpdateWInfo: UNTYPED_FN,
    0x010 pfnValidateDevice: UNTYPED_FN,
    0x018 pfnSetTextureStageState: UNTYPED_FN,
    0x020 pfnSetTexture: UNTYPED_FN,
    0x028 pfnSetPixelShader: UNTYPED_FN,
    0x030 pfnSetPixelShaderConst: UNTYPED_FN,
    0x038 pfnSetStreamSourceUm: UNTYPED_FN,
    0x040 pfnSetIndices: UNTYPED_FN,
    0x048 pfnSetIndicesUm: UNTYPED_FN,
    0x050 pfnDrawPrimitive: UNTYPED_FN,
    0x058 pfnDrawIndexedPrimitive: UNTYPED_FN,
    0x060 pfnDrawRectPatch: UNTYPED_FN,
    0x068 pfnDrawTriPatch: UNTYPED_FN,
    0x070 pfnDrawPrimitive2: UNTYPED_FN,
    0x078 pfnDrawIndexedPrimitive2: UNTYPED_FN,
    0x080 pfnVolBlt: UNTYPED_FN,
    0x088 pfnBufBlt: UNTYPED_FN,
    0x090 pfnTexBlt: UNTYPED_FN,
    0x098 pfnStateSet: UNTYPED_FN,
    0x0a0 pfnSetPriority: PFND3DDDI_SETPRIORITY,
    0x0a8 pfnClear: UNTYPED_FN,
    0x0b0 pfnUpdatePalette: UNTYPED_FN,
    0x0b8 pfnSetPalette: UNTYPED_FN,
    0x0c0 pfnSetVertexShaderConst: UNTYPED_FN,
    0x0c8 pfnMultiplyTransform: UNTYPED_FN,
    0x0d0 pfnSetTransform: UNTYPED_FN,
    0x0d8 pfnSetViewport: UNTYPED_FN,
    0x0e0 pfnSetZRange: UNTYPED_FN,
    0x0e8 pfnSetMaterial: UNTYPED_FN,
    0x0f0 pfnSetLight: UNTYPED_FN,
    0x0f8 pfnCreateLight: UNTYPED_FN,
    0x100 pfnDestroyLight: UNTYPED_FN,
    0x108 pfnSetClipPlane: UNTYPED_FN,
    0x110 pfnGetInfo: UNTYPED_FN,
    0x118 pfnLock: PFND3DDDI_LOCK,
    0x120 pfnUnlock: PFND3DDDI_UNLOCK,
    0x128 pfnCreateResource: PFND3DDDI_CREATERESOURCE,
    0x130 pfnDestroyResource: PFND3DDDI_DESTROYRESOURCE,
    0x138 pfnSetDisplayMode: UNTYPED_FN,
    0x140 pfnPresent: UNTYPED_FN,
    0x148 pfnFlush: PFND3DDDI_FLUSH,
    0x150 pfnCreateVertexShaderFunc: UNTYPED_FN,
    0x158 pfnDeleteVertexShaderFunc: UNTYPED_FN,
    0x160 pfnSetVertexShaderFunc: UNTYPED_FN,
    0x168 pfnCreateVertexShaderDecl: UNTYPED_FN,
    0x170 pfnDeleteVertexShaderDecl: UNTYPED_FN,
    0x178 pfnSetVertexShaderDecl: UNTYPED_FN,
    0x180 pfnSetVertexShaderConstI: UNTYPED_FN,
    0x188 pfnSetVertexShaderConstB: UNTYPED_FN,
    0x190 pfnSetScissorRect: UNTYPED_FN,
    0x198 pfnSetStreamSource: UNTYPED_FN,
    0x1a0 pfnSetStreamSourceFreq: UNTYPED_FN,
    0x1a8 pfnSetConvolutionKernelMono: UNTYPED_FN,
    0x1b0 pfnComposeRects: UNTYPED_FN,
    0x1b8 pfnBlt: PFND3DDDI_BLT,
    0x1c0 pfnColorFill: PFND3DDDI_COLORFILL,
    0x1c8 pfnDepthFill: UNTYPED_FN,
    0x1d0 pfnCreateQuery: UNTYPED_FN,
    0x1d8 pfnDestroyQuery: UNTYPED_FN,
    0x1e0 pfnIssueQuery: UNTYPED_FN,
    0x1e8 pfnGetQueryData: UNTYPED_FN,
    0x1f0 pfnSetRenderTarget: UNTYPED_FN,
    0x1f8 pfnSetDepthStencil: UNTYPED_FN,
    0x200 pfnGenerateMipSubLevels: UNTYPED_FN,
    0x208 pfnSetPixelShaderConstI: UNTYPED_FN,
    0x210 pfnSetPixelShaderConstB: UNTYPED_FN,
    0x218 pfnCreatePixelShader: UNTYPED_FN,
    0x220 pfnDeletePixelShader: UNTYPED_FN,
    0x228 pfnCreateDecodeDevice: UNTYPED_FN,
    0x230 pfnDestroyDecodeDevice: UNTYPED_FN,
    0x238 pfnSetDecodeRenderTarget: UNTYPED_FN,
    0x240 pfnDecodeBeginFrame: UNTYPED_FN,
    0x248 pfnDecodeEndFrame: UNTYPED_FN,
    0x250 pfnDecodeExecute: UNTYPED_FN,
    0x258 pfnDecodeExtensionExecute: UNTYPED_FN,
    0x260 pfnCreateVideoProcessDevice: UNTYPED_FN,
    0x268 pfnDestroyVideoProcessDevice: UNTYPED_FN,
    0x270 pfnVideoProcessBeginFrame: UNTYPED_FN,
    0x278 pfnVideoProcessEndFrame: UNTYPED_FN,
    0x280 pfnSetVideoProcessRenderTarget: UNTYPED_FN,
    0x288 pfnVideoProcessBlt: UNTYPED_FN,
    0x290 pfnCreateExtensionDevice: UNTYPED_FN,
    0x298 pfnDestroyExtensionDevice: UNTYPED_FN,
    0x2a0 pfnExtensionExecute: UNTYPED_FN,
    0x2a8 pfnCreateOverlay: UNTYPED_FN,
    0x2b0 pfnUpdateOverlay: UNTYPED_FN,
    0x2b8 pfnFlipOverlay: UNTYPED_FN,
    0x2c0 pfnGetOverlayColorControls: UNTYPED_FN,
    0x2c8 pfnSetOverlayColorControls: UNTYPED_FN,
    0x2d0 pfnDestroyOverlay: UNTYPED_FN,
    0x2d8 pfnDestroyDevice: PFND3DDDI_DESTROYDEVICE,
    0x2e0 pfnQueryResourceResidency: PFND3DDDI_QUERYRESOURCERESIDENCY,
    0x2e8 pfnOpenResource: PFND3DDDI_OPENRESOURCE,
    0x2f0 pfnGetCaptureAllocationHandle: UNTYPED_FN,
    0x2f8 pfnCaptureToSysMem: UNTYPED_FN,
    0x300 pfnLockAsync: PFND3DDDI_LOCKASYNC,
    0x308 pfnUnlockAsync: PFND3DDDI_UNLOCKASYNC,
    0x310 pfnRename: PFND3DDDI_RENAME,
    0x318 pfnCreateVideoProcessor: UNTYPED_FN,
    0x320 pfnSetVideoProcessBltState: UNTYPED_FN,
    0x328 pfnGetVideoProcessBltStatePrivate: UNTYPED_FN,
    0x330 pfnSetVideoProcessStreamState: UNTYPED_FN,
    0x338 pfnGetVideoProcessStreamStatePrivate: UNTYPED_FN,
    0x340 pfnVideoProcessBltHD: UNTYPED_FN,
    0x348 pfnDestroyVideoProcessor: UNTYPED_FN,
    0x350 pfnCreateAuthenticatedChannel: UNTYPED_FN,
    0x358 pfnAuthenticatedChannelKeyExchange: UNTYPED_FN,
    0x360 pfnQueryAuthenticatedChannel: UNTYPED_FN,
    0x368 pfnConfigureAuthenticatedChannel: UNTYPED_FN,
    0x370 pfnDestroyAuthenticatedChannel: UNTYPED_FN,
    0x378 pfnCreateCryptoSession: UNTYPED_FN,
    0x380 pfnCryptoSessionKeyExchange: UNTYPED_FN,
    0x388 pfnDestroyCryptoSession: UNTYPED_FN,
    0x390 pfnEncryptionBlt: UNTYPED_FN,
    0x398 pfnGetPitch: UNTYPED_FN,
    0x3a0 pfnStartSessionKeyRefresh: UNTYPED_FN,
    0x3a8 pfnFinishSessionKeyRefresh: UNTYPED_FN,
    0x3b0 pfnGetEncryptionBltKey: UNTYPED_FN,
    0x3b8 pfnDecryptionBlt: UNTYPED_FN,
    0x3c0 pfnResolveSharedResource: UNTYPED_FN,
    0x3c8 pfnVolBlt1: UNTYPED_FN,
    0x3d0 pfnBufBlt1: UNTYPED_FN,
    0x3d8 pfnTexBlt1: UNTYPED_FN,
    0x3e0 pfnDiscard: UNTYPED_FN,
    0x3e8 pfnOfferResources: UNTYPED_FN,
    0x3f0 pfnReclaimResources: UNTYPED_FN,
    0x3f8 pfnCheckDirectFlipSupport: UNTYPED_FN,
    0x400 pfnCreateResource2: PFND3DDDI_CREATERESOURCE2,
    0x408 pfnCheckMultiPlaneOverlaySupport: UNTYPED_FN,
    0x410 pfnPresentMultiPlaneOverlay: UNTYPED_FN,
    0x418 pfnReserved1: UNTYPED_FN,
    0x420 pfnFlush1: PFND3DDDI_FLUSH1,
    0x428 pfnCheckCounterInfo: UNTYPED_FN,
    0x430 pfnCheckCounter: UNTYPED_FN,
    0x438 pfnUpdateSubresourceUP: UNTYPED_FN,
    0x440 pfnPresent1: UNTYPED_FN,
    0x448 pfnCheckPresentDurationSupport: UNTYPED_FN,
    0x450 pfnSetMarker: UNTYPED_FN,
    0x458 pfnSetMarkerMode: UNTYPED_FN,
    0x460 pfnTrimResidencySet: UNTYPED_FN,
    0x468 pfnAcquireResource: UNTYPED_FN,
    0x470 pfnReleaseResource: UNTYPED_FN,
} }

table! { D3DDDI_DEVICECALLBACKS: 0x208 {} {
    0x000 pfnAllocateCb: PFND3DDDI_ALLOCATECB,
    0x008 pfnDeallocateCb: PFND3DDDI_DEALLOCATECB,
    0x010 pfnSetPriorityCb: PFND3DDDI_SETPRIORITYCB,
    0x018 pfnQueryResidencyCb: PFND3DDDI_QUERYRESIDENCYCB,
    0x020 pfnSetDisplayModeCb: UNTYPED_FN,
    0x028 pfnPresentCb: UNTYPED_FN,
    0x030 pfnRenderCb: PFND3DDDI_RENDERCB,
    0x038 pfnLockCb: PFND3DDDI_LOCKCB,
    0x040 pfnUnlockCb: PFND3DDDI_UNLOCKCB,
    0x048 pfnEscapeCb: PFND3DDDI_ESCAPECB,
    0x050 pfnCreateOverlayCb: UNTYPED_FN,
    0x058 pfnUpdateOverlayCb: UNTYPED_FN,
    0x060 pfnFlipOverlayCb: UNTYPED_FN,
    0x068 pfnDestroyOverlayCb: UNTYPED_FN,
    0x070 pfnCreateContextCb: PFND3DDDI_CREATECONTEXTCB,
    0x078 pfnDestroyContextCb: PFND3DDDI_DESTROYCONTEXTCB,
    0x080 pfnCreateSynchronizationObjectCb: PFND3DDDI_CREATESYNCHRONIZATIONOBJECTCB,
    0x088 pfnDestroySynchronizationObjectCb: PFND3DDDI_DESTROYSYNCHRONIZATIONOBJECTCB,
    0x090 pfnWaitForSynchronizationObjectCb: PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECTCB,
    0x098 pfnSignalSynchronizationObjectCb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTCB,
    0x0a0 pfnSetAsyncCallbacksCb: UNTYPED_FN,
    0x0a8 pfnSetDisplayPrivateDriverFormatCb: UNTYPED_FN,
    0x0b0 pfnOfferAllocationsCb: PFND3DDDI_OFFERALLOCATIONSCB,
    0x0b8 pfnReclaimAllocationsCb: PFND3DDDI_RECLAIMALLOCATIONSCB,
    0x0c0 pfnCreateSynchronizationObject2Cb: PFND3DDDI_CREATESYNCHRONIZATIONOBJECT2CB,
    0x0c8 pfnWaitForSynchronizationObject2Cb: PFND3DDDI_WAITFORSYNCHRONIZATIONOBJECT2CB,
    0x0d0 pfnSignalSynchronizationObject2Cb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECT2CB,
    0x0d8 pfnPresentMultiPlaneOverlayCb: UNTYPED_FN,
    0x0e0 pfnLogUMDMarkerCb: UNTYPED_FN,
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
    0x138 pfnInvalidateCacheCb: UNTYPED_FN,
    0x140 pfnReserveGpuVirtualAddressCb: PFND3DDDI_RESERVEGPUVIRTUALADDRESSCB,
    0x148 pfnMapGpuVirtualAddressCb: PFND3DDDI_MAPGPUVIRTUALADDRESSCB,
    0x150 pfnFreeGpuVirtualAddressCb: PFND3DDDI_FREEGPUVIRTUALADDRESSCB,
    0x158 pfnUpdateGpuVirtualAddressCb: PFND3DDDI_UPDATEGPUVIRTUALADDRESSCB,
    0x160 pfnCreateContextVirtualCb: PFND3DDDI_CREATECONTEXTVIRTUALCB,
    0x168 pfnSubmitCommandCb: PFND3DDDI_SUBMITCOMMANDCB,
    0x170 pfnDeallocate2Cb: PFND3DDDI_DEALLOCATE2CB,
    0x178 pfnSignalSynchronizationObjectFromGpu2Cb: PFND3DDDI_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2CB,
    0x180 pfnReclaimAllocations2Cb: PFND3DDDI_RECLAIMALLOCATIONS2CB,
    0x188 pfnGetResourcePresentPrivateDriverDataCb: UNTYPED_FN,
    0x190 pfnUpdateAllocationPropertyCb: UNTYPED_FN,
    0x198 pfnOfferAllocations2Cb: UNTYPED_FN,
    0x1a0 pfnReclaimAllocations3Cb: UNTYPED_FN,
    0x1a8 pfnAcquireResourceCb: UNTYPED_FN,
    0x1b0 pfnReleaseResourceCb: UNTYPED_FN,
    0x1b8 pfnCreateHwContextCb: UNTYPED_FN,
    0x1c0 pfnDestroyHwContextCb: UNTYPED_FN,
    0x1c8 pfnCreateHwQueueCb: UNTYPED_FN,
    0x1d0 pfnDestroyHwQueueCb: UNTYPED_FN,
    0x1d8 pfnSubmitCommandToHwQueueCb: UNTYPED_FN,
    0x1e0 pfnSubmitWaitForSyncObjectsToHwQueueCb: UNTYPED_FN,
    0x1e8 pfnSubmitSignalSyncObjectsToHwQueueCb: UNTYPED_FN,
    0x1f0 pfnSubmitPresentBltToHwQueueCb: UNTYPED_FN,
    0x1f8 pfnSubmitPresentToHwQueueCb: UNTYPED_FN,
    0x200 pfnSubmitHistorySequenceCb: UNTYPED_FN,
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
