//! Allocations, resources and views: created, described and ended with their pool blocks.

use super::SoftGpu;
use crate::allocation::Allocation;
use crate::blocks::build;
use crate::description::read_shape;
use crate::format;
use crate::plan::PAGE;
use crate::records::View;
use flight::Passive;
use kernel::miniport::{
    Answer, Births, Born, Doomed, DriverAllocation, DriverDevice, DriverResource, DriverView, Fate,
    Home, Opening, Refusal, Shape, Surface, ViewBirth,
};
use std::sync::Arc;
use std::vec::Drain;

/// `D3DDDIFMT_A8`: a byte is a pixel.
const A8: i32 = 28;

impl SoftGpu {
    /// What an allocation is, from its private data.
    fn shape(&self, private: &[u8]) -> Answer<Shape> {
        if self.plan.is_some() {
            let mut shape = read_shape(private)?;
            // A driver of WDDM 1.x is told in each packet where things are.
            let told = self.lists.is_none();
            (shape.wants.flags.physical, shape.wants.flags.notify) = (told, told);
            return Ok(shape);
        }
        let size = format::read_description(private)?.next_multiple_of(PAGE);
        Ok(Shape { size, alignment: PAGE, ..Shape::default() })
    }

    pub(super) fn make_allocations(&self, births: Births<'_>) -> Answer<Born> {
        build(&**self.services()?.pool(), |blocks| {
            let resource = match births.resource {
                Some(Home::New(blank)) => Some((blocks.take()?, blank)),
                Some(Home::Known(it, _)) if !self.state().records.knows_resource(it.word()) => {
                    return Err(Refusal::Invalid);
                }
                Some(Home::Known(..)) | None => None,
            };
            let mut described = Vec::new();
            for birth in births.allocations {
                let shape = self.shape(birth.private)?;
                described.push((blocks.take()?, shape, birth.word));
            }

            let records = &mut self.state().records;
            let resource = resource.map(|(word, blank)| {
                records.add_resource(word);
                blank.fill(word)
            });
            let make = if self.plan.is_some() { Allocation::absent } else { Allocation::own };
            let allocations = described.into_iter().map(|(word, shape, blank)| {
                records.add_allocation(word, make(word, shape.size));
                (blank.fill(word), shape)
            });
            Ok(Born { allocations: allocations.collect(), resource })
        })
    }

    pub(super) fn end_allocations(&self, doomed: Doomed<'_>) -> Answer<Option<DriverResource>> {
        self.end(|records, ended| {
            for allocation in doomed.allocations {
                records.end_allocation(allocation.word(), ended);
            }
            match doomed.resource {
                Some(Fate::Goes(it)) => records.end_resource(it.word(), ended),
                Some(Fate::Stays(it, _)) => ended.unknown |= !records.knows_resource(it.word()),
                None => (),
            }
        })?;
        Ok(None)
    }

    /// A row of bytes, as its private data says.
    pub(super) fn surface_of(&self, allocation: &DriverAllocation) -> Answer<Surface> {
        let bytes = self.state().records.allocation(allocation.word()).map(|it| it.size());
        let bytes = bytes.ok_or(Refusal::Invalid)?;
        let width = u32::try_from(bytes).map_err(|_| Refusal::Invalid)?;
        Ok(Surface { width, height: 1, format: A8 })
    }

    pub(super) fn make_views(
        &self,
        at: &mut Passive,
        opening: Opening<'_>,
    ) -> Answer<Vec<DriverView>> {
        let services = self.services()?;
        let device = opening.device.word();
        if !self.state().records.knows_device(device) {
            return Err(Refusal::Invalid);
        }
        build(&**services.pool(), |blocks| {
            let mut found = Vec::new();
            for ViewBirth { handle, word, .. } in opening.views {
                let allocation = services.handle_data(at, handle, false);
                let allocation = allocation.ok_or(Refusal::NoHandle)?;
                let allocation = self.state().records.allocation(allocation).map(Arc::downgrade);
                let allocation = allocation.ok_or(Refusal::Invalid)?;
                found.push((blocks.take()?, View { device, handle, allocation }, word));
            }

            let records = &mut self.state().records;
            let views = found.into_iter().map(|(word, view, blank)| {
                records.add_view(word, view);
                blank.fill(word)
            });
            Ok(views.collect())
        })
    }

    pub(super) fn end_views(
        &self,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.end(|records, ended| {
            ended.unknown = !records.knows_device(device.word());
            for view in views {
                records.end_view(view.word(), device.word(), ended);
            }
        })
    }
}
