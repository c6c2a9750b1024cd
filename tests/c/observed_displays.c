/* The owner of a display source, as observed on Windows. The number in a comment is the row of the
 * observation. */
#include "client.h"

#include <string.h>

#define BAD STATUS_INVALID_PARAMETER
#define IN_USE STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE
#define OCCLUDED STATUS_GRAPHICS_PRESENT_OCCLUDED
#define UNOWNED D3DKMT_VIDPNSOURCEOWNER_UNOWNED
#define SHARED D3DKMT_VIDPNSOURCEOWNER_SHARED
#define EXCLUSIVE D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE
#define EXCLUSIVEGDI D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI
#define EMULATED D3DKMT_VIDPNSOURCEOWNER_EMULATED

static D3DKMT_HANDLE adapter;

static NTSTATUS own(D3DKMT_HANDLE device, D3DKMT_VIDPNSOURCEOWNER_TYPE type)
{
    D3DDDI_VIDEO_PRESENT_SOURCE_ID source = 0;
    D3DKMT_SETVIDPNSOURCEOWNER set = {
        .hDevice = device, .pType = &type, .pVidPnSourceId = &source, .VidPnSourceCount = 1};
    return D3DKMTSetVidPnSourceOwner(&set);
}

/* A call without sources. */
static NTSTATUS release(D3DKMT_HANDLE device)
{
    D3DKMT_SETVIDPNSOURCEOWNER set = {.hDevice = device};
    return D3DKMTSetVidPnSourceOwner(&set);
}

static NTSTATUS check(void)
{
    D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP check = {.hAdapter = adapter};
    NTSTATUS status = D3DKMTCheckVidPnExclusiveOwnership(&check);
    D3DKMT_CHECKOCCLUSION window = {.hWindow = (HANDLE)(intptr_t)0x10001};
    CHECK(D3DKMTCheckOcclusion(&window) == status); /* 71: there is one monitor */
    return status;
}

static void one_device(void)
{
    D3DKMT_HANDLE device = create_device(adapter);
    CHECK(own(device, UNOWNED) == STATUS_SUCCESS && check() == STATUS_SUCCESS); /* 51 */
    CHECK(own(device, EXCLUSIVE) == STATUS_SUCCESS && check() == OCCLUDED); /* 53 */
    CHECK(own(device, SHARED) == BAD && check() == OCCLUDED); /* 57 */
    CHECK(own(device, EXCLUSIVE) == STATUS_SUCCESS && check() == OCCLUDED); /* 59 */
    CHECK(own(device, UNOWNED) == STATUS_SUCCESS && check() == STATUS_SUCCESS);
    CHECK(own(device, EMULATED) == STATUS_SUCCESS && check() == STATUS_SUCCESS); /* 55 */
    CHECK(own(device, EXCLUSIVE) == BAD && check() == STATUS_SUCCESS); /* 61 */
    CHECK(own(device, SHARED) == IN_USE && check() == STATUS_SUCCESS); /* 303 */
    CHECK(own(device, EMULATED) == STATUS_SUCCESS && check() == STATUS_SUCCESS);
    CHECK(release(device) == STATUS_SUCCESS && check() == STATUS_SUCCESS); /* 305 */
    CHECK(own(device, SHARED) == IN_USE && check() == STATUS_SUCCESS); /* 301 */
    CHECK(own(device, EXCLUSIVEGDI) == BAD && check() == STATUS_SUCCESS); /* 302 */
    CHECK(own(device, EXCLUSIVE) == STATUS_SUCCESS && check() == OCCLUDED);
    CHECK(own(device, EMULATED) == BAD && check() == OCCLUDED); /* 304 */
    CHECK(own(device, EXCLUSIVEGDI) == BAD && check() == OCCLUDED); /* 302 */
    CHECK(release(device) == STATUS_SUCCESS && check() == STATUS_SUCCESS); /* 305 */
    destroy_device(device);
}

static void two_devices(D3DKMT_VIDPNSOURCEOWNER_TYPE first, NTSTATUS checked)
{
    D3DKMT_HANDLE a = create_device(adapter), b = create_device(adapter);
    CHECK(own(a, first) == STATUS_SUCCESS && check() == checked);
    CHECK(own(b, EXCLUSIVE) == IN_USE && own(b, EMULATED) == IN_USE); /* 63, 65 */
    CHECK(own(b, SHARED) == IN_USE); /* 301 */
    CHECK(check() == checked); /* 63, 65 */
    CHECK(own(b, UNOWNED) == STATUS_SUCCESS && check() == checked); /* 67 */
    destroy_device(b);
    destroy_device(a);
    CHECK(check() == STATUS_SUCCESS);
}

int main(void)
{
    adapter = open_adapter();
    D3DKMT_SETVIDPNSOURCEOWNER zero = {.hDevice = 0};
    CHECK(D3DKMTSetVidPnSourceOwner(&zero) == BAD); /* 49 */
    D3DKMT_CHECKOCCLUSION no_window = {.hWindow = NULL};
    CHECK(D3DKMTCheckOcclusion(NULL) == BAD && D3DKMTCheckOcclusion(&no_window) == BAD); /* 69 */
    one_device();
    two_devices(EXCLUSIVE, OCCLUDED);
    two_devices(EMULATED, STATUS_SUCCESS);
    close_adapter(adapter);
    puts("displays: all as on Windows");
    return EXIT_SUCCESS;
}
