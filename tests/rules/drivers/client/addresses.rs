//! The client's work at virtual addresses.

use super::Client;
use flight::Passive;
use kernel::{
    Access, CreateAllocationRequest, EvictRequest, Handle, MapAddressRequest, MapSource,
    ReserveAddressRequest, Residency,
};
use softgpu::LOCAL;
use softgpu::format::{Command, describe_in, only_in};

const SIZE: u64 = 24 * 4096;

impl Client<'_> {
    /// Allocations at virtual addresses that packets use: they are evicted, return elsewhere, are
    /// compacted, and are destroyed. On an adapter that translates.
    pub(super) fn addresses(&self, at: &mut Passive) {
        let Ok(made) = self.kernel.create_paging_queue(self.process, self.device, 0) else {
            return;
        };
        let zero = ReserveAddressRequest {
            queue: made.queue,
            base: 0,
            minimum: 0,
            maximum: 0,
            bytes: 64 << 10,
            zero: true,
        };
        if let Ok(zeroes) = self.kernel.reserve_addresses(at, self.process, &zero) {
            self.wait(at, made.fence, zeroes.residency);
            self.at_addresses(at, (made.queue, made.fence));
            // These are left to the end of the process.
            self.fill_at(at, &[zeroes.address], 1, 4096);
        }
        self.kernel.destroy_paging_queue(at, self.process, made.queue).unwrap();
    }

    fn at_addresses(&self, at: &mut Passive, queue: (Handle, Handle)) {
        let mut hidden = only_in(&[LOCAL]);
        hidden.flags.cpu_visible = false;
        let allocations = (0..5).map(|_| describe_in(SIZE, 4096, &hidden).into()).collect();
        let Some(made) =
            self.create(at, CreateAllocationRequest { allocations, ..self.create_request(&[]) })
        else {
            return;
        };
        let list = &made.allocations;
        self.resident(at, list);
        let addresses: Vec<u64> =
            list.iter().filter_map(|handle| self.map(at, queue, *handle)).collect();
        self.fill_at(at, &addresses, 1, SIZE);
        self.evict(at, list, false);
        for it in list.iter().rev() {
            self.resident(at, &[*it]);
        }
        self.fill_at(at, &addresses, 101, SIZE);
        // Every second allocation is destroyed, and the others are compacted.
        let (even, odd): (Vec<Handle>, Vec<Handle>) = list
            .chunks(2)
            .map(|handles| (handles[0], handles.get(1).copied().unwrap_or_default()))
            .unzip();
        self.list(at, odd.iter().filter(|handle| handle.0 != 0), false, true);
        self.host.run_until_idle(at);
        self.evict(at, &even, true);
        self.kernel.compact(at, self.on);
        self.resident(at, &even);
        self.list(at, &even, false, true);
        self.host.run_until_idle(at);
    }

    fn map(&self, at: &mut Passive, queue: (Handle, Handle), view: Handle) -> Option<u64> {
        let access = Access { write: true, ..Access::default() };
        let behind = MapSource::Allocation { view, offset: 0, access };
        let request = MapAddressRequest {
            queue: queue.0,
            base: 0,
            minimum: 0,
            maximum: 0,
            bytes: SIZE,
            source: behind,
        };
        let mapped = self.kernel.map_addresses(at, self.process, &request).ok()?;
        self.wait(at, queue.1, mapped.residency);
        Some(mapped.address)
    }

    fn wait(&self, at: &mut Passive, fence: Handle, when: Residency) {
        if let Residency::Pending(value) = when {
            let _ = self.kernel.wait_queue(at, self.process, fence, value);
        }
    }

    fn evict(&self, at: &mut Passive, list: &[Handle], lazily: bool) {
        let device = self.device;
        let request = EvictRequest {
            device,
            list: list.to_vec(),
            only_if_necessary: lazily,
            ..EvictRequest::default()
        };
        let _ = self.kernel.evict(self.process, &request);
        self.host.run_until_idle(at);
    }

    fn fill_at(&self, at: &mut Passive, addresses: &[u64], first: u8, length: u64) {
        for (value, address) in (first..).zip(addresses) {
            self.submit(at, &[Command::FillAt { address: *address, length, value }]);
        }
        self.host.run_until_idle(at);
    }
}
