//! Good clients of allocation lists (WDDM 1.x): the allocations that a packet lists are resident.

use crate::needs::ALLOCATION_LISTS;
use crate::private_data::{Command, DataUse, anywhere, list_handle as in_list, only_in};
use crate::scenario::Scenario;
use crate::scenario::ScenarioBody::DisplayBody;
use crate::testbed::{ScenarioStopped, TestClient, Testbed, expect_error, expect_ok};
use abi::D3DKMT_HANDLE;
use abi::kmt::D3DKMT_RENDERFLAGS as Flags;
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_GRAPHICS_ALLOCATION_BUSY, STATUS_ILLEGAL_INSTRUCTION,
    STATUS_PRIVILEGED_INSTRUCTION,
};
use abi::ukm::D3DDDICB_LOCKFLAGS as LockFlags;
use flight::Passive;
use kernel::Handle;
use kernel::segment::PlacementRequirements;
use softgpu::{APERTURE, LOCAL, VISIBLE};
use thunk::{RenderCommand, RenderContext, SyncObject};

const PAGE: u64 = 4096;
const SIZE: u64 = 24 * PAGE;

/// Every scenario of this file.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "render-fill-and-copy",
        about: "renders fills and copies with allocation lists in memory and apertures, in one or more DMA buffers",
        breaks: &[],
        needs: ALLOCATION_LISTS.private_data(DataUse::Commands),
        body: DisplayBody(render_fill_and_copy),
    },
    Scenario {
        name: "render-memory-pressure",
        about: "renders packets that together use more memory than the segment holds",
        breaks: &[],
        needs: ALLOCATION_LISTS,
        body: DisplayBody(render_memory_pressure),
    },
    Scenario {
        name: "render-moved-before-patch",
        about: "moves allocations between DxgkDdiRender and DxgkDdiPatch",
        breaks: &[],
        needs: ALLOCATION_LISTS,
        body: DisplayBody(render_moved_before_patch),
    },
    Scenario {
        name: "render-locked-allocation",
        about: "renders with locked allocations that can and cannot be mapped into an aperture",
        breaks: &[],
        needs: ALLOCATION_LISTS.private_data(DataUse::Placement),
        body: DisplayBody(render_locked_allocation),
    },
    Scenario {
        name: "render-privileged-command",
        about: "renders privileged commands, which the driver rejects; the context continues",
        breaks: &[],
        needs: ALLOCATION_LISTS.private_data(DataUse::Rejected),
        body: DisplayBody(render_privileged_command),
    },
    Scenario {
        name: "render-exceeds-memory",
        about: "renders a packet that uses more memory than exists; its device is lost",
        breaks: &[],
        needs: ALLOCATION_LISTS.private_data(DataUse::Placement),
        body: DisplayBody(render_exceeds_memory),
    },
    Scenario {
        name: "lock-discard-instances",
        about: "locks with Discard and fills the instances of an allocation in turn without waiting for packets",
        breaks: &[],
        needs: ALLOCATION_LISTS.private_data(DataUse::Placement),
        body: DisplayBody(lock_discard_instances),
    },
];

/// Local memory that is not visible to the CPU.
fn cpu_invisible() -> PlacementRequirements {
    let mut requirements = only_in(&[LOCAL]);
    requirements.flags.cpu_visible = false;
    requirements
}

/// Memory that the CPU writes and the GPU reads, with at most this many instances.
pub(crate) fn dynamic(instances: u32) -> PlacementRequirements {
    PlacementRequirements { instances, ..only_in(&[VISIBLE, APERTURE]) }
}

/// A client with a context whose packets have allocation lists.
pub(crate) struct RenderClient {
    pub(crate) client: TestClient,
    pub(crate) context: RenderContext,
}

impl RenderClient {
    pub(crate) fn open(testbed: &mut Testbed<'_>) -> Result<Self, ScenarioStopped> {
        let test_client = testbed.test_client()?;
        let context =
            test_client.client.create_context_with_lists(testbed.at, test_client.device, 0);
        Ok(Self { context: expect_ok("D3DKMTCreateContext", context)?, client: test_client })
    }

    pub(crate) fn create(
        &self,
        at: &mut Passive,
        requirements: &[PlacementRequirements],
    ) -> Result<Vec<D3DKMT_HANDLE>, ScenarioStopped> {
        let list = self.create_not_resident(at, requirements)?;
        // From WDDM 2 on, the kernel does not make listed allocations resident.
        if !self.is_paged_in_by_kernel() {
            self.client.make_resident(at, &list)?;
        }
        Ok(list)
    }

    /// Creates allocations without making them resident.
    pub(crate) fn create_not_resident(
        &self,
        at: &mut Passive,
        requirements: &[PlacementRequirements],
    ) -> Result<Vec<D3DKMT_HANDLE>, ScenarioStopped> {
        let data = self.client.private_data;
        let private =
            requirements.iter().map(|requirements| data.placed(SIZE, PAGE, requirements)).collect();
        Ok(self.client.create_list(at, private)?.allocations)
    }

    /// Whether the kernel makes listed allocations resident: with a WDDM 1.x driver.
    pub(crate) fn is_paged_in_by_kernel(&self) -> bool {
        let session = self.client.client.session();
        session.kernel().pages_in_listed(session.process(), Handle(self.client.device))
    }

    /// A packet with these commands and the allocations that they use.
    pub(crate) fn packet(
        &self,
        commands: &[Command],
        list: &[D3DKMT_HANDLE],
    ) -> Result<RenderCommand, ScenarioStopped> {
        let list = list.iter().map(|number| (*number, true)).collect();
        let commands = self.client.private_data.packet(commands)?;
        Ok(RenderCommand { commands, list, ..RenderCommand::default() })
    }

    fn render(
        &mut self,
        at: &mut Passive,
        commands: &[Command],
        list: &[D3DKMT_HANDLE],
    ) -> Result<(), ScenarioStopped> {
        let packet = self.packet(commands, list)?;
        let rendered = self.client.client.render(at, &mut self.context, &packet);
        expect_ok("D3DKMTRender", rendered).map(drop)
    }

    /// Locks an allocation with `Discard` and unlocks it. Returns the handle of the new instance.
    pub(crate) fn discard(
        &self,
        at: &mut Passive,
        it: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_HANDLE, ScenarioStopped> {
        let TestClient { client, device, .. } = &self.client;
        let mut locked = client.lock_discard(at, *device, it, 0);
        if locked == Err(STATUS_GRAPHICS_ALLOCATION_BUSY) {
            // Everything is submitted, so the lock may wait now.
            locked = client.lock_discard(at, *device, it, LockFlags::NoExistingReference);
        }
        let (newest, _) = expect_ok("D3DKMTLock with Discard", locked)?;
        expect_ok("D3DKMTUnlock", client.unlock(at, *device, &[newest]))?;
        Ok(newest)
    }

    pub(crate) fn close(self, at: &mut Passive) -> Result<(), ScenarioStopped> {
        self.client.close(at, &[self.context.context])
    }
}

pub(crate) fn fill(target: D3DKMT_HANDLE, value: u8) -> Command {
    Command::Fill { target: Handle(target), offset: 16, length: 512, value }
}

/// A command that fills the allocation at an index of the packet's list.
fn fill_list_entry(place: u32, value: u8) -> Command {
    Command::Fill { target: in_list(place), offset: 16, length: 512, value }
}

fn copy(from: D3DKMT_HANDLE, to: D3DKMT_HANDLE) -> Command {
    let (from, to) = (Handle(from), Handle(to));
    Command::Copy { from, from_offset: 16, to, to_offset: 2 * PAGE, length: PAGE }
}

fn render_fill_and_copy(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let requirements =
        [cpu_invisible(), only_in(&[VISIBLE, APERTURE]), only_in(&[APERTURE]), anywhere()];
    let list = render_client.create(testbed.at, &requirements)?;
    for (value, it) in (1..).zip(&list) {
        render_client.render(
            testbed.at,
            &[fill(*it, value), copy(list[0], *it)],
            &[list[0], *it],
        )?;
    }
    testbed.run_until_idle();
    // A list with one allocation twice.
    let some: Vec<Command> = (0..30).map(|byte| fill(list[1], byte)).collect();
    render_client.render(testbed.at, &some, &[list[1], list[1]])?;
    testbed.run_until_idle();
    // Larger buffers, partly granted; and commands at a nonzero offset.
    let flags = Flags::ResizeCommandBuffer | Flags::ResizeAllocationList;
    let more = RenderCommand {
        flags: flags | Flags::ResizePatchLocationList,
        resize: (1 << 20, 1 << 10, 1 << 10),
        ..render_client.packet(&[fill(list[2], 9)], &[list[2]])?
    };
    let rendered =
        render_client.client.client.render(testbed.at, &mut render_client.context, &more);
    expect_ok("D3DKMTRender with larger buffers", rendered)?;
    // More commands than the driver's DMA buffer holds.
    let many: Vec<Command> = (0..60).map(|byte| fill(list[1], byte)).collect();
    render_client.render(testbed.at, &many, &[list[1]])?;
    let later = RenderCommand {
        offset: 64,
        patches: vec![(0, 8), (1, 8)],
        ..render_client.packet(&[copy(list[2], list[3])], &[list[2], list[3]])?
    };
    let rendered =
        render_client.client.client.render(testbed.at, &mut render_client.context, &later);
    expect_ok("D3DKMTRender with an offset", rendered)?;
    let null =
        RenderCommand { flags: Flags::NullRendering, ..render_client.packet(&some, &[list[1]])? };
    let rendered =
        render_client.client.client.render(testbed.at, &mut render_client.context, &null);
    expect_ok("D3DKMTRender of nothing", rendered)?;
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

fn render_memory_pressure(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let second = render_client.client.client.create_context_with_lists(
        testbed.at,
        render_client.client.device,
        render_client.client.second_node(),
    );
    let mut second = expect_ok("D3DKMTCreateContext for a second context", second)?;
    let list = render_client.create(testbed.at, &[cpu_invisible(); 6])?;
    for turn in 0..12 {
        let (one, two) = (list[turn % 6], list[(turn * 5 + 1) % 6]);
        let value = u8::try_from(turn).unwrap_or(0);
        let commands = [fill(one, value), copy(one, two)];
        render_client.render(testbed.at, &commands, &[one, two])?;
        let other = list[(turn + 3) % 6];
        let packet = render_client.packet(&[fill(other, !value)], &[other])?;
        let rendered = render_client.client.client.render(testbed.at, &mut second, &packet);
        expect_ok("D3DKMTRender on the second context", rendered)?;
    }
    testbed.run_until_idle();
    // Packets in flight keep their allocations; the destruction follows their completion.
    render_client.render(testbed.at, &[copy(list[0], list[1])], &[list[0], list[1]])?;
    render_client.render(testbed.at, &[copy(list[2], list[3])], &[list[2], list[3]])?;
    render_client.client.destroy_list(testbed.at, &list)?;
    let ended = render_client.client.client.destroy_context(testbed.at, second.context);
    expect_ok("D3DKMTDestroyContext", ended)?;
    render_client.close(testbed.at)
}

fn render_moved_before_patch(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let list = render_client.create(testbed.at, &[cpu_invisible(), cpu_invisible(), anywhere()])?;
    for turn in 0..12 {
        let (one, two) = (list[0], list[1 + turn % 2]);
        let value = u8::try_from(turn).unwrap_or(0);
        render_client.render(testbed.at, &[fill(one, value), copy(one, two)], &[one, two])?;
        if turn % 2 == 0 {
            testbed.run_until_idle();
        }
        if turn % 4 == 3 {
            testbed.run_until_idle();
            testbed.compact();
        }
    }
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

fn render_locked_allocation(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let list =
        render_client.create(testbed.at, &[only_in(&[VISIBLE, APERTURE]), only_in(&[VISIBLE])])?;
    let [mapped, away] = list[..] else { return Ok(()) };
    let (client, device) = (render_client.client.client.clone(), render_client.client.device);
    for it in &list {
        let taken = client.lock(testbed.at, device, *it, LockFlags::LockEntire, &[]);
        expect_ok("D3DKMTLock", taken)?;
    }
    render_client.render(testbed.at, &[fill(mapped, 3)], &[mapped])?;
    let packet = render_client.packet(&[fill(away, 3)], &[away])?;
    let rendered = client.render(testbed.at, &mut render_client.context, &packet);
    expect_error("D3DKMTRender of what is locked", &rendered, STATUS_GRAPHICS_ALLOCATION_BUSY)?;
    testbed.run_until_idle();
    expect_ok("D3DKMTUnlock", client.unlock(testbed.at, device, &list))?;
    render_client.render(testbed.at, &[fill(away, 3)], &[away])?;
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

fn render_privileged_command(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let other = testbed.test_client()?;
    let list = render_client.create(testbed.at, &[cpu_invisible()])?;
    render_client.render(testbed.at, &[fill(list[0], 1)], &list)?;
    testbed.run_until_idle();
    let (session, client) =
        (render_client.client.client.session().clone(), render_client.client.client.clone());
    let address = testbed.kernel.address_of(session.process(), Handle(list[0]));
    // At an address of an allocation that this packet does not list.
    let data = render_client.client.private_data;
    let commands = data.privileged_packet(address.unwrap_or(0))?;
    let raw = RenderCommand { commands, ..RenderCommand::default() };
    let rendered = client.render(testbed.at, &mut render_client.context, &raw);
    expect_error("D3DKMTRender of privileged commands", &rendered, STATUS_PRIVILEGED_INSTRUCTION)?;
    let unknown = RenderCommand { commands: data.unknown_packet()?, ..RenderCommand::default() };
    let rendered = client.render(testbed.at, &mut render_client.context, &unknown);
    expect_error("D3DKMTRender of unknown commands", &rendered, STATUS_ILLEGAL_INSTRUCTION)?;
    render_client.render(testbed.at, &[fill(list[0], 2)], &list)?;
    testbed.run_until_idle();
    render_client.client.destroy_list(testbed.at, &list)?;
    other.close(testbed.at, &[])?;
    render_client.close(testbed.at)
}

fn render_exceeds_memory(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    if !render_client.is_paged_in_by_kernel() {
        // From WDDM 2 on, a client cannot list more than fits into memory.
        return render_client.close(testbed.at);
    }
    let list = render_client.create(testbed.at, &[cpu_invisible(); 6])?;
    render_client.render(testbed.at, &[fill(list[0], 1)], &list[..1])?;
    let client = render_client.client.client.clone();
    let packet = render_client.packet(&[fill(list[0], 2)], &list)?;
    // The packet is accepted, or the call fails at once.
    let _ = client.render(testbed.at, &mut render_client.context, &packet);
    testbed.run_until_idle();
    let packet = render_client.packet(&[fill(list[0], 3)], &list[..1])?;
    let rendered = client.render(testbed.at, &mut render_client.context, &packet);
    expect_error("D3DKMTRender on a lost device", &rendered, STATUS_DEVICE_REMOVED)?;
    render_client.client.destroy_list(testbed.at, &list)?;
    render_client.close(testbed.at)
}

fn lock_discard_instances(testbed: &mut Testbed<'_>) -> Result<(), ScenarioStopped> {
    let mut render_client = RenderClient::open(testbed)?;
    let mut pinned = only_in(&[VISIBLE]);
    pinned.flags.pinned = true;
    let list = render_client.create(testbed.at, &[dynamic(3), pinned, anywhere()])?;
    let [first, pinned, target] = list[..] else { return Ok(()) };
    let (mut newest, mut names) = (first, vec![first]);
    let client = render_client.client.client.clone();
    // The GPU is stopped until three packets are queued.
    let fence =
        client.create_sync(testbed.at, render_client.client.device, SyncObject::Monitored(0), 0);
    let fence = expect_ok("D3DKMTCreateSynchronizationObject2", fence)?.object;
    let waits = client.wait_gpu(testbed.at, render_client.context.context, &[(fence, 1)]);
    expect_ok("D3DKMTWaitForSynchronizationObjectFromGpu", waits)?;
    for turn in 0..8 {
        if turn == 3 || !render_client.is_paged_in_by_kernel() {
            let goes = client.signal_cpu(testbed.at, render_client.client.device, &[(fence, 1)], 0);
            expect_ok("D3DKMTSignalSynchronizationObjectFromCpu", goes)?;
        }
        newest = render_client.discard(testbed.at, newest)?;
        names.push(newest);
        // The driver gets the handle from DxgkDdiOpenAllocation, whichever instance is listed.
        render_client.render(testbed.at, &[copy(first, target)], &[newest, target])?;
        if turn % 3 == 2 {
            testbed.run_until_idle();
        }
    }
    // One packet with two instances: it uses the older one first.
    let older = newest;
    newest = render_client.discard(testbed.at, older)?;
    let both = RenderCommand {
        patches: vec![(0, 8), (1, 8)],
        ..render_client
            .packet(&[fill_list_entry(0, 1), fill_list_entry(1, 2)], &[older, newest, target])?
    };
    let rendered =
        render_client.client.client.render(testbed.at, &mut render_client.context, &both);
    expect_ok("D3DKMTRender with two instances", rendered)?;
    names.push(newest);
    names.sort_unstable();
    names.dedup();
    // From WDDM 2 on, allocations are not renamed; pinned allocations never are.
    let expected = if render_client.is_paged_in_by_kernel() { 3 } else { 1 };
    if names.len() != expected || render_client.discard(testbed.at, pinned)? != pinned {
        return Err(ScenarioStopped::failed(format!(
            "{} instances, but {expected} were expected",
            names.len()
        )));
    }
    render_client.client.destroy_list(testbed.at, &[newest, pinned, target])?;
    expect_ok("D3DKMTDestroySynchronizationObject", client.destroy_sync(testbed.at, fence))?;
    render_client.close(testbed.at)
}
