//! Adapters and their displays: who owns a display source, and clients that ask wrongly.

use crate::needs::Needs;
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::scenarios::bad::bad;
use crate::testbed::{ScenarioStopped, Testbed, expect_error, expect_ok};
use abi::kmt::{
    D3DKMT_MEMORY_SEGMENT_GROUP_LOCAL as LOCAL, D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL as NON_LOCAL,
    D3DKMT_VIDPNSOURCEOWNER_EMULATED as EMULATED, D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE as EXCLUSIVE,
    D3DKMT_VIDPNSOURCEOWNER_SHARED as SHARED, D3DKMT_VIDPNSOURCEOWNER_UNOWNED as UNOWNED,
    KMTQAITYPE_DRIVERVERSION,
};
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_GRAPHICS_PRESENT_OCCLUDED as OCCLUDED,
    STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE as IN_USE, STATUS_INVALID_PARAMETER, STATUS_UNSUCCESSFUL,
};
use flight::RuleId;

/// The good scenarios of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "adapter-queries",
        about: "queries the version and the video memory of an adapter",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(adapter_queries),
    },
    Scenario {
        name: "vidpn-source-ownership",
        about: "two devices own a display source in turn",
        breaks: &[],
        needs: Needs::NONE,
        body: DisplayBody(vidpn_source_ownership),
    },
];

/// The bad clients of this file.
pub(crate) const BAD: &[Scenario] = &[
    bad(
        "vidpn-exclusive-to-shared",
        "shares a display source that it owns exclusively",
        &[RuleId::VIDPN_OWN_001],
        vidpn_exclusive_to_shared,
    ),
    bad(
        "adapter-open-without-context",
        "opens the adapter of a device context that is NULL",
        &[RuleId::ADAPTER_OPEN_002],
        adapter_open_without_context,
    ),
    bad(
        "adapter-open-without-name",
        "opens the adapter of a display whose name is empty",
        &[RuleId::ADAPTER_OPEN_001],
        adapter_open_without_name,
    ),
    bad(
        "adapter-open-wrong-class",
        "opens an adapter by a path of the interface class of display adapters",
        &[RuleId::ADAPTER_OPEN_003],
        adapter_open_wrong_class,
    ),
    bad(
        "adapter-enum-short-array",
        "lists the adapters with an array that is too short for them",
        &[RuleId::ADAPTER_ENUM_002],
        adapter_enum_short_array,
    ),
    bad(
        "adapter-query-short-buffer",
        "queries an adapter with a buffer that is a byte too short",
        &[RuleId::ADAPTER_INFO_001],
        adapter_query_short_buffer,
    ),
    bad(
        "adapter-query-unknown-group",
        "queries the video memory of a segment group that does not exist",
        &[RuleId::ADAPTER_MEM_001],
        adapter_query_unknown_group,
    ),
];

const QUERY: &str = "D3DKMTQueryAdapterInfo";
const QUERY_MEMORY: &str = "D3DKMTQueryVideoMemoryInfo";
const OPEN_CONTEXT: &str = "D3DKMTOpenAdapterFromHdc";
const OPEN_DISPLAY: &str = "D3DKMTOpenAdapterFromGdiDisplayName";
const OPEN_DEVICE: &str = "D3DKMTOpenAdapterFromDeviceName";
const OWN: &str = "D3DKMTSetVidPnSourceOwner";
const CHECK: &str = "D3DKMTCheckVidPnExclusiveOwnership";
const OCCLUSION: &str = "D3DKMTCheckOcclusion";

/// A window: any number.
const WINDOW: usize = 0x1_0001;

/// The pseudo handle of the current process.
const CURRENT_PROCESS: usize = usize::MAX;

fn adapter_queries(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (client, adapter, at) = (&test_client.client, test_client.adapter, &mut *testbed.at);
    let mut version = [0; 4];
    expect_ok(QUERY, client.query_adapter(at, adapter, KMTQAITYPE_DRIVERVERSION, &mut version))?;
    for group in [LOCAL, NON_LOCAL] {
        expect_ok(QUERY_MEMORY, client.memory_info(at, adapter, group, 0))?;
        expect_ok(QUERY_MEMORY, client.memory_info(at, adapter, group, CURRENT_PROCESS))?;
    }
    // A driver that only computes has no display.
    if let Ok((opened, _)) = client.open_display(at, r"\\.\DISPLAY1") {
        expect_ok("D3DKMTCloseAdapter", client.close_adapter(at, opened))?;
    }
    let path = r"\\?\ROOT#DISPLAY#0000#{1ca05180-a699-450a-9a0c-de4fbe3ddd89}";
    let opened = expect_ok(OPEN_DEVICE, client.open_device_name(at, path))?;
    expect_ok("D3DKMTCloseAdapter", client.close_adapter(at, opened))?;
    // No number is a device context here, and the client cannot know that.
    let opened = client.open_device_context(at, WINDOW);
    expect_error(OPEN_CONTEXT, &opened, STATUS_INVALID_PARAMETER)?;
    test_client.close(at, &[])
}

fn vidpn_source_ownership(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (client, adapter) = (&test_client.client, test_client.adapter);
    if client.check_source(testbed.at, adapter) == Err(STATUS_INVALID_PARAMETER) {
        // A driver that only computes has no display source.
        return test_client.close(testbed.at, &[]);
    }
    let (first, second) = (test_client.device, test_client.create_device(testbed.at)?);
    let at = &mut *testbed.at;
    expect_ok(OWN, client.own_source(at, first, EXCLUSIVE))?;
    expect_error(OCCLUSION, &client.check_occlusion(at, WINDOW), OCCLUDED)?;
    expect_error(OWN, &client.own_source(at, second, EMULATED), IN_USE)?;
    // A device that does not own the source releases nothing.
    expect_ok(OWN, client.own_source(at, second, UNOWNED))?;
    expect_error(CHECK, &client.check_source(at, adapter), OCCLUDED)?;
    expect_ok(OWN, client.own_source(at, first, UNOWNED))?;
    expect_ok(OWN, client.own_source(at, second, EMULATED))?;
    expect_ok(CHECK, client.check_source(at, adapter))?;
    expect_ok(OCCLUSION, client.check_occlusion(at, WINDOW))?;
    // A device that ends owns nothing.
    expect_ok("D3DKMTDestroyDevice", client.destroy_device(at, second))?;
    expect_ok(OWN, client.own_source(at, first, EXCLUSIVE))?;
    test_client.close(at, &[])
}

fn vidpn_exclusive_to_shared(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (client, device, at) = (&test_client.client, test_client.device, &mut *testbed.at);
    expect_ok(OWN, client.own_source(at, device, EXCLUSIVE))?;
    expect_error(OWN, &client.own_source(at, device, SHARED), STATUS_INVALID_PARAMETER)?;
    test_client.close(at, &[])
}

fn adapter_open_without_context(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.client();
    let opened = client.open_device_context(testbed.at, 0);
    expect_error(OPEN_CONTEXT, &opened, STATUS_INVALID_PARAMETER)?;
    client.end(testbed.at);
    Ok(())
}

fn adapter_open_without_name(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.client();
    expect_error(OPEN_DISPLAY, &client.open_display(testbed.at, ""), STATUS_UNSUCCESSFUL)?;
    client.end(testbed.at);
    Ok(())
}

fn adapter_open_wrong_class(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.client();
    let path = r"\\?\ROOT#DISPLAY#0000#{5b45201d-f2f2-4f3b-85bb-30ff1f953599}";
    let opened = client.open_device_name(testbed.at, path);
    expect_error(OPEN_DEVICE, &opened, STATUS_INVALID_PARAMETER)?;
    client.end(testbed.at);
    Ok(())
}

fn adapter_enum_short_array(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let client = testbed.client();
    let listed = client.enumerate_into_nothing(testbed.at);
    expect_error("D3DKMTEnumAdapters2", &listed, STATUS_BUFFER_TOO_SMALL)?;
    client.end(testbed.at);
    Ok(())
}

fn adapter_query_short_buffer(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let (client, adapter, at) = (&test_client.client, test_client.adapter, &mut *testbed.at);
    let failed = client.query_adapter(at, adapter, KMTQAITYPE_DRIVERVERSION, &mut [0; 3]);
    expect_error(QUERY, &failed, STATUS_INVALID_PARAMETER)?;
    test_client.close(at, &[])
}

fn adapter_query_unknown_group(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let test_client = testbed.test_client()?;
    let failed = test_client.client.memory_info(testbed.at, test_client.adapter, 2, 0);
    expect_error(QUERY_MEMORY, &failed, STATUS_INVALID_PARAMETER)?;
    test_client.close(testbed.at, &[])
}
