//! Sharing between the two threads: shared resources are offered and returned.

use super::super::thing::{
    CLAIMED, Gift, Kind, OFFERED, OPENED, RETURNED, Thing, Tried, WITHDRAWN, good, held,
};
use super::Artist;
use flight::Passive;
use harness::Picture;
use runtime::{Rect, Surface};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

impl Artist {
    /// Whether the other thread is not about to open this resource.
    pub(super) fn nobody_opens(&mut self) -> bool {
        for it in &self.things {
            self.withdraw(it);
        }
        let opening = |gift: &Arc<Gift>| gift.state.load(SeqCst) == CLAIMED;
        !self.things.iter().filter_map(|thing| thing.gift.as_ref()).any(opening)
    }

    /// Takes back offers that were not claimed.
    pub(super) fn withdraw(&self, it: &Thing) {
        let Some(gift) = &it.gift else { return };
        gift.moves(OFFERED, WITHDRAWN);
        held(&self.table.offered[self.me]).retain(|gift| gift.state.load(SeqCst) == OFFERED);
    }

    /// Offers a shared resource to the other thread.
    pub(super) fn give(&mut self, at: &mut Passive) -> Tried<()> {
        let shared =
            |thing: &Thing| thing.kind == Kind::Shared && thing.gift.as_ref().is_none_or(returned);
        let Some(which) = self.things.iter().position(shared) else { return Ok(()) };
        // It was returned, with the other thread's drawing.
        if let Some(gift) = self.things[which].gift.take() {
            let bytes = held(&gift.bytes).clone();
            for (picture, bytes) in self.things[which].pictures.iter_mut().zip(bytes) {
                picture.bytes = bytes;
                picture.idle();
            }
        }
        self.look_at(at, which)?;
        if self.next_random(2) == 0 {
            return Ok(());
        }
        let it = &mut self.things[which];
        let global = good("a shared handle", self.app.device.share(it.resource))?;
        let bytes = it.pictures.iter().map(|picture| picture.bytes.clone()).collect();
        let gift = Arc::new(Gift {
            global,
            surfaces: it.pictures.iter().map(|picture| picture.surface).collect(),
            bytes: Mutex::new(bytes),
            state: AtomicUsize::new(OFFERED),
        });
        it.gift = Some(gift.clone());
        held(&self.table.offered[self.me]).push(gift);
        Ok(())
    }

    /// Opens an offered resource.
    pub(super) fn receive(&mut self, at: &mut Passive) -> Tried<usize> {
        let offered = held(&self.table.offered[1 - self.me]).pop();
        let Some(gift) = offered.filter(|gift| gift.moves(OFFERED, CLAIMED)) else { return Ok(0) };
        let opened = self.app.device.open_resource(at, gift.global);
        gift.moves(CLAIMED, OPENED);
        let resource = good("OpenResource", opened)?;
        self.table.counts.opened.fetch_add(1, SeqCst);
        let bytes = held(&gift.bytes).clone();
        let picture = |(it, bytes): (&Surface, Vec<Option<u8>>)| {
            let mut picture = Picture::new(*it, None);
            picture.bytes = bytes;
            picture
        };
        let pictures = gift.surfaces.iter().zip(bytes).map(picture).collect();
        self.things.push(Thing { resource, kind: Kind::Opened, pictures, gift: None });
        let new = self.things.len() - 1;
        self.look_at(at, new)?;
        // Some are drawn at once and returned; others are kept and belong only to this thread.
        if self.next_random(2) == 0 {
            self.fill_area(at, (new, 0), Rect::whole(gift.surfaces[0]))?;
            self.look_at(at, new)?;
            let Some(it) = self.things.pop() else { return Ok(1) };
            *held(&gift.bytes) = it.pictures.into_iter().map(|picture| picture.bytes).collect();
            gift.moves(OPENED, RETURNED);
            good("DestroyResource", self.app.device.destroy_resource(at, it.resource))?;
        }
        Ok(1)
    }

    /// Destroys an opened resource that is in use.
    pub(super) fn give_back(&mut self, at: &mut Passive) -> Tried<()> {
        let opened = self.things.iter().position(|thing| thing.kind == Kind::Opened);
        let Some(which) = opened else { return Ok(()) };
        let surface = self.things[which].pictures[0].surface;
        self.fill_area(at, (which, 0), Rect::whole(surface))?;
        let it = self.things.swap_remove(which);
        good("DestroyResource", self.app.device.destroy_resource(at, it.resource))
    }
}

fn returned(gift: &Arc<Gift>) -> bool {
    gift.state.load(SeqCst) == RETURNED
}
