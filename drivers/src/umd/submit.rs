//! Submission, waiting, and residency.
#![forbid(unsafe_code)]

use super::driver::SoftDevice;
use super::flaw::Flaw;
use super::hardware::Addressing;
use super::resource::PAGE;
use abi::D3DKMT_HANDLE;
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_FAIL, E_OUTOFMEMORY};
use abi::ukm::D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection;
use softgpu::format::Command;
use std::mem;
use std::panic::resume_unwind;
use std::thread;
use umd::{MapRequest, PagingResponse, RenderRequest, UmdResult};

/// The addresses of allocations, and the fence and value that say when they are resident.
type ResidentAllocations = (Vec<u64>, Option<(D3DKMT_HANDLE, u64)>);

impl SoftDevice {
    /// Adds a command to the packet. If it does not fit, the packet is submitted first.
    pub(super) fn add(
        &mut self,
        command: Command,
        uses: &[(D3DKMT_HANDLE, bool)],
        groups: &[u64],
    ) -> UmdResult<()> {
        if self.batch.add(command, uses, groups, self.buffers.as_ref()) {
            return Ok(());
        }
        self.submit()?;
        let fits = self.batch.add(command, uses, groups, self.buffers.as_ref());
        if fits { Ok(()) } else { Err(E_OUTOFMEMORY) }
    }

    /// Submits all collected commands. On a failure they are lost.
    pub(super) fn submit(&mut self) -> UmdResult<()> {
        let answer = self.try_submit();
        self.removed |= answer == Err(D3DDDIERR_DEVICEREMOVED);
        answer
    }

    fn try_submit(&mut self) -> UmdResult<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = mem::take(&mut self.batch);
        let uses = batch.allocations();
        let bytes = batch.encoded();
        if self.flaw == Flaw::SubmitsOnOwnThread {
            let signalled_value = thread::scope(|scope| {
                scope
                    .spawn(|| self.send(&bytes, uses))
                    .join()
                    .unwrap_or_else(|it| resume_unwind(it))
            });
            if signalled_value.is_err() {
                // The commands are still to be submitted.
                self.send(&bytes, uses)?;
            }
        } else {
            self.send(&bytes, uses)?;
        }
        if let Some(fence) = self.fence {
            self.signalled_value += 1;
            self.callbacks
                .signal_from_gpu(self.context, &[(fence.object, self.signalled_value)])?;
            self.used.extend(uses.iter().map(|pair| (pair.0, self.signalled_value)));
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8], uses: &[(D3DKMT_HANDLE, bool)]) -> UmdResult<()> {
        let count = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(buffers) = &mut self.buffers {
            let request = RenderRequest {
                length: count(bytes.len()) - u32::from(self.flaw == Flaw::SubmitsTruncatedCommands),
                allocation_count: count(uses.len()),
                ..RenderRequest::default()
            };
            let before = buffers.clone();
            let rendered = self.callbacks.render(self.context, buffers, &request);
            if self.flaw == Flaw::WritesStaleCommandBuffer {
                *buffers = before;
            }
            return rendered.map(drop);
        }
        let lists_written = self.flaw != Flaw::OmitsWrittenPrimaries;
        let written =
            uses.iter().filter(|pair| pair.1 && self.shown.contains(&pair.0) && lists_written);
        let written: Vec<D3DKMT_HANDLE> = written.map(|pair| pair.0).collect();
        let half = bytes.split_last().filter(|_| self.flaw == Flaw::SubmitsTruncatedCommands);
        let bytes = half.map_or(bytes, |pair| pair.1);
        self.callbacks.submit(&[self.context], bytes, &written)
    }

    /// Whether the GPU uses an allocation. Unknown where the runtime waits.
    pub(super) fn is_busy(&self, allocation: D3DKMT_HANDLE) -> bool {
        // A removed device executes nothing any more, and its fence is invalid.
        let Some(fence) = self.fence.filter(|_| !self.removed) else { return false };
        let passed = fence.value.value().unwrap_or(0);
        self.used.get(&allocation).is_some_and(|value| *value > passed)
    }

    /// Waits until the GPU does not use an allocation any more.
    pub(super) fn wait_for(&self, allocation: D3DKMT_HANDLE) -> UmdResult<()> {
        match (self.fence, self.used.get(&allocation)) {
            (Some(fence), Some(value)) if self.is_busy(allocation) => {
                self.callbacks.wait_from_cpu(&[(fence.object, *value)], 0)
            }
            _ => Ok(()),
        }
    }

    /// Makes allocations resident so that packets can use them. Returns their addresses.
    pub(super) fn make_resident(&mut self, list: &[(D3DKMT_HANDLE, u64)]) -> UmdResult<Vec<u64>> {
        let (addresses, pending) = self.begin_make_resident(list)?;
        if let Some(pending) = pending {
            self.callbacks.wait_from_cpu(&[pending], 0)?;
        }
        Ok(addresses)
    }

    /// As above for memory that only the GPU uses: the GPU waits, after the commands collected
    /// before. Where packets have allocation lists, listed allocations must be resident at
    /// submission.
    pub(super) fn make_resident_for_gpu(
        &mut self,
        list: &[(D3DKMT_HANDLE, u64)],
    ) -> UmdResult<Vec<u64>> {
        if self.hardware.addressing == Addressing::Listed {
            return self.make_resident(list);
        }
        let (addresses, pending) = self.begin_make_resident(list)?;
        if let Some(pending) = pending {
            if self.flaw != Flaw::QueuesWaitBeforeCommands {
                self.submit()?;
            } else if let Some(fence) = self.fence {
                // The flaw: the GPU waits before the unsubmitted commands, too.
                self.callbacks
                    .wait_from_gpu(self.context, &[(fence.object, self.signalled_value)])?;
            }
            self.callbacks.wait_from_gpu(self.context, &[pending])?;
        }
        Ok(addresses)
    }

    /// Requests residency. Returns the addresses and the fence to wait for.
    fn begin_make_resident(&self, list: &[(D3DKMT_HANDLE, u64)]) -> UmdResult<ResidentAllocations> {
        let Some(queue) = self.queue else { return Ok((vec![0; list.len()], None)) };
        let mut value = None;
        let mut addresses = Vec::new();
        let mut note = |it: PagingResponse| {
            if it.pending {
                value = value.max(Some(it.value));
            }
        };
        for (allocation, bytes) in list {
            if self.hardware.addressing != Addressing::VirtualAddresses {
                addresses.push(0);
                continue;
            }
            let mapping = MapRequest {
                queue: queue.queue,
                allocation: *allocation,
                pages: bytes / PAGE,
                protection: Protection::Write,
                ..MapRequest::default()
            };
            let (address, paged) = self.callbacks.map(&mapping)?;
            addresses.push(address);
            note(paged);
        }
        let allocations: Vec<D3DKMT_HANDLE> = list.iter().map(|pair| pair.0).collect();
        note(self.callbacks.make_resident(queue.queue, &allocations, 0)?);
        let pending = value.map(|value| (queue.fence, value));
        if addresses.len() == list.len() { Ok((addresses, pending)) } else { Err(E_FAIL) }
    }
}
