//! Drawing: commands of the current packet, or work of the CPU.
//!
//! The hardware fills and copies bytes: only the lowest byte of a colour counts, and nothing is
//! stretched.
#![forbid(unsafe_code)]

use super::driver::SoftDevice;
use super::flaw::Flaw;
use super::hardware::Addressing;
use super::resource::{Instance, Surface};
use abi::hresult::{E_FAIL, E_INVALIDARG, E_NOTIMPL};
use kernel::Handle;
use softgpu::format::Command;
use umd::{BltArgs, ColorFillArgs, Memory, Resource, UmdResult};

impl SoftDevice {
    pub(super) fn fill(&mut self, args: &ColorFillArgs) -> UmdResult<()> {
        let index = self.index(args.resource, args.index)?;
        let surface = self.surface(args.resource, index)?;
        let rows = surface.layout.rows(args.area).ok_or(E_INVALIDARG)?;
        if self.flaw == Flaw::DrawsNothing {
            return Ok(());
        }
        let [value, ..] = args.color.to_le_bytes();
        if let Some(memory) = surface.system {
            for (start, length) in rows {
                write(&memory, start, &vec![value; usize::try_from(length).unwrap_or(0)])?;
            }
            return Ok(());
        }
        let target = surface.drawn_with().ok_or(E_FAIL)?;
        for (offset, length) in rows {
            let command = match self.hardware.addressing {
                Addressing::VirtualAddresses => {
                    Command::FillAt { address: target.address + offset, length, value }
                }
                _ => Command::Fill { target: Handle(target.allocation), offset, length, value },
            };
            self.add(command, &[(target.allocation, true)], &[args.resource.number])?;
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, args: &BltArgs) -> UmdResult<()> {
        let from_index = self.index(args.from, args.from_index)?;
        let to_index = self.index(args.to, args.to_index)?;
        let (from, to) = (self.surface(args.from, from_index)?, self.surface(args.to, to_index)?);
        let size = |rect: umd::Rect| {
            (rect.right.wrapping_sub(rect.left), rect.bottom.wrapping_sub(rect.top))
        };
        if size(args.from_area) != size(args.to_area) {
            return Err(E_NOTIMPL);
        }
        let from_rows =
            from.layout.compatible_with(to.layout).rows(args.from_area).ok_or(E_INVALIDARG)?;
        let to_rows =
            to.layout.compatible_with(from.layout).rows(args.to_area).ok_or(E_INVALIDARG)?;
        // Whole rows of one are split into the rows of the other.
        let line = from_rows.iter().chain(&to_rows).map(|pair| pair.1).min().unwrap_or(0);
        let mut rows: Vec<(u64, u64)> =
            split_rows(&from_rows, line).into_iter().zip(split_rows(&to_rows, line)).collect();
        // Within one surface, source bytes are not overwritten before they are read.
        let same = (args.from.number, from_index) == (args.to.number, to_index);
        if same && args.to_area.top > args.from_area.top {
            rows.reverse();
        }
        if from.system.is_some() || to.system.is_some() {
            return self.copy_by_cpu(args, (from_index, to_index), &rows, line);
        }
        let (from, to) = (from.drawn_with().ok_or(E_FAIL)?, to.drawn_with().ok_or(E_FAIL)?);
        let groups = [args.from.number, args.to.number];
        for (from_offset, to_offset) in rows {
            let command = self.copy_command((from, from_offset), (to, to_offset), line);
            self.add(command, &[(from.allocation, false), (to.allocation, true)], &groups)?;
        }
        Ok(())
    }

    fn copy_command(&self, from: (Instance, u64), to: (Instance, u64), length: u64) -> Command {
        let ((from, from_offset), (to, to_offset)) = (from, to);
        match self.hardware.addressing {
            Addressing::VirtualAddresses => Command::CopyAt {
                from: from.address + from_offset,
                to: to.address + to_offset,
                length,
            },
            _ => Command::Copy {
                from: Handle(from.allocation),
                from_offset,
                to: Handle(to.allocation),
                to_offset,
                length,
            },
        }
    }

    /// Draws if one surface is in the runtime's memory, which the GPU does not see.
    fn copy_by_cpu(
        &mut self,
        args: &BltArgs,
        (from_index, to_index): (usize, usize),
        rows: &[(u64, u64)],
        line: u64,
    ) -> UmdResult<()> {
        let (from, from_locked) = self.look(args.from, from_index)?;
        let copied = match self.look(args.to, to_index) {
            Ok((to, to_locked)) => {
                let copied = copy_rows(&from, &to, rows, line);
                let unlocked = to_locked.map_or(Ok(()), |number| {
                    self.unlock_allocation(number)?;
                    self.unstage(args.to, to_index)
                });
                copied.and(unlocked)
            }
            Err(failure) => Err(failure),
        };
        let unlocked = from_locked.map_or(Ok(()), |number| self.unlock_allocation(number));
        copied.and(unlocked)
    }

    /// Returns a surface mapped for the CPU once the GPU does not use it, and what to unlock
    /// afterwards.
    fn look(&mut self, resource: Resource, index: usize) -> UmdResult<(Memory, Option<u32>)> {
        let surface = self.surface(resource, index)?;
        if let Some(memory) = surface.system.or(surface.at) {
            return Ok((memory, None));
        }
        let (instance, bytes) = (surface.current().ok_or(E_FAIL)?, surface.layout.bytes);
        if self.group(resource)?.opened {
            let (allocation, memory) = self.stage(resource, index, true)?;
            return Ok((memory, Some(allocation)));
        }
        if self.batch.has(instance.allocation) {
            self.submit()?;
        }
        self.wait_for(instance.allocation)?;
        let memory = self.lock_allocation(instance.allocation, 0, bytes)?.1;
        Ok((memory, Some(instance.allocation)))
    }

    /// Locks an allocation in place of one that only another device may lock, with the same bytes
    /// if they are needed.
    ///
    /// WINDOWS: a shared allocation is locked by the device that created it (documented).
    pub(super) fn stage(
        &mut self,
        resource: Resource,
        index: usize,
        frame_limit: bool,
    ) -> UmdResult<(u32, Memory)> {
        let surface = self.surface(resource, index)?;
        let (own, bytes) = (surface.current().ok_or(E_FAIL)?, surface.layout.bytes);
        let known = surface.stage.and_then(|index| surface.instances.get(index)).copied();
        let stage = if let Some(stage) = known {
            stage
        } else {
            let created = self.allocate_extra(bytes)?;
            let surface = self.surface_mut(resource, index)?;
            surface.stage = Some(surface.instances.len());
            surface.instances.push(created);
            created
        };
        if frame_limit {
            let command = self.copy_command((own, 0), (stage, 0), bytes);
            let uses = [(own.allocation, false), (stage.allocation, true)];
            self.add(command, &uses, &[resource.number])?;
        }
        if self.batch.has(stage.allocation) {
            self.submit()?;
        }
        self.wait_for(stage.allocation)?;
        self.lock_allocation(stage.allocation, 0, bytes)
    }

    /// Copies the written bytes back from that allocation, if there is one.
    pub(super) fn unstage(&mut self, resource: Resource, index: usize) -> UmdResult<()> {
        let surface = self.surface(resource, index)?;
        let (own, bytes) = (surface.current().ok_or(E_FAIL)?, surface.layout.bytes);
        let stage = surface.stage.and_then(|index| surface.instances.get(index)).copied();
        let Some(stage) = stage else { return Ok(()) };
        let command = self.copy_command((stage, 0), (own, 0), bytes);
        let uses = [(stage.allocation, false), (own.allocation, true)];
        self.add(command, &uses, &[resource.number])
    }

    pub(super) fn surface(&self, resource: Resource, index: usize) -> UmdResult<&Surface> {
        self.group(resource)?.surfaces.get(index).ok_or(E_INVALIDARG)
    }
}

/// Splits rows into rows of one length, which divides their length.
fn split_rows(rows: &[(u64, u64)], line: u64) -> Vec<u64> {
    let step = usize::try_from(line.max(1)).unwrap_or(usize::MAX);
    rows.iter().flat_map(|(start, length)| (*start..start + length).step_by(step)).collect()
}

fn copy_rows(from: &Memory, to: &Memory, rows: &[(u64, u64)], line: u64) -> UmdResult<()> {
    let mut bytes = vec![0; usize::try_from(line).unwrap_or(0)];
    for (from_offset, to_offset) in rows {
        let offset = usize::try_from(*from_offset).map_err(|_| E_FAIL)?;
        if !from.read(offset, &mut bytes) {
            return Err(E_FAIL);
        }
        write(to, *to_offset, &bytes)?;
    }
    Ok(())
}

fn write(memory: &Memory, offset: u64, bytes: &[u8]) -> UmdResult<()> {
    let offset = usize::try_from(offset).map_err(|_| E_FAIL)?;
    if memory.write(offset, bytes) { Ok(()) } else { Err(E_FAIL) }
}
