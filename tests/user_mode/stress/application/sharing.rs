//! Sharing between the two threads: shared resources are offered and returned.

use super::super::resource::{
    CLAIMED, Kind, OFFERED, OPENED, Offer, RETURNED, TestResource, TestResult, WITHDRAWN,
    expect_ok, lock,
};
use super::ApplicationThread;
use flight::Passive;
use harness::Picture;
use runtime::{Rect, Surface};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

impl ApplicationThread {
    /// Whether the other thread is not about to open this resource.
    pub(super) fn no_open_pending(&mut self) -> bool {
        for it in &self.resources {
            self.withdraw(it);
        }
        let opening = |offer: &Arc<Offer>| offer.state.load(SeqCst) == CLAIMED;
        !self.resources.iter().filter_map(|resource| resource.offer.as_ref()).any(opening)
    }

    /// Takes back offers that were not claimed.
    pub(super) fn withdraw(&self, it: &TestResource) {
        let Some(offer) = &it.offer else { return };
        offer.moves(OFFERED, WITHDRAWN);
        lock(&self.shared.offered[self.thread]).retain(|offer| offer.state.load(SeqCst) == OFFERED);
    }

    /// Offers a shared resource to the other thread.
    pub(super) fn offer_one(&mut self, at: &mut Passive) -> TestResult<()> {
        let shared = |resource: &TestResource| {
            resource.kind == Kind::Shared && resource.offer.as_ref().is_none_or(returned)
        };
        let Some(which) = self.resources.iter().position(shared) else { return Ok(()) };
        // It was returned, with the other thread's drawing.
        if let Some(offer) = self.resources[which].offer.take() {
            let bytes = lock(&offer.bytes).clone();
            for (picture, bytes) in self.resources[which].pictures.iter_mut().zip(bytes) {
                picture.bytes = bytes;
                picture.idle();
            }
        }
        self.compare_resource(at, which)?;
        if self.next_random(2) == 0 {
            return Ok(());
        }
        let it = &mut self.resources[which];
        let global = expect_ok("a shared handle", self.app.device.share(it.resource))?;
        let bytes = it.pictures.iter().map(|picture| picture.bytes.clone()).collect();
        let offer = Arc::new(Offer {
            global,
            surfaces: it.pictures.iter().map(|picture| picture.surface).collect(),
            bytes: Mutex::new(bytes),
            state: AtomicUsize::new(OFFERED),
        });
        it.offer = Some(offer.clone());
        lock(&self.shared.offered[self.thread]).push(offer);
        Ok(())
    }

    /// Opens an offered resource.
    pub(super) fn open_offered(&mut self, at: &mut Passive) -> TestResult<usize> {
        let offered = lock(&self.shared.offered[1 - self.thread]).pop();
        let Some(offer) = offered.filter(|offer| offer.moves(OFFERED, CLAIMED)) else {
            return Ok(0);
        };
        let opened = self.app.device.open_resource(at, offer.global);
        offer.moves(CLAIMED, OPENED);
        let resource = expect_ok("OpenResource", opened)?;
        self.shared.counts.opened.fetch_add(1, SeqCst);
        let bytes = lock(&offer.bytes).clone();
        let picture = |(it, bytes): (&Surface, Vec<Option<u8>>)| {
            let mut picture = Picture::new(*it, None);
            picture.bytes = bytes;
            picture
        };
        let pictures = offer.surfaces.iter().zip(bytes).map(picture).collect();
        self.resources.push(TestResource { resource, kind: Kind::Opened, pictures, offer: None });
        let new = self.resources.len() - 1;
        self.compare_resource(at, new)?;
        // Some are drawn at once and returned; others are kept and belong only to this thread.
        if self.next_random(2) == 0 {
            self.fill_area(at, (new, 0), Rect::whole(offer.surfaces[0]))?;
            self.compare_resource(at, new)?;
            let Some(it) = self.resources.pop() else { return Ok(1) };
            *lock(&offer.bytes) = it.pictures.into_iter().map(|picture| picture.bytes).collect();
            offer.moves(OPENED, RETURNED);
            expect_ok("DestroyResource", self.app.device.destroy_resource(at, it.resource))?;
        }
        Ok(1)
    }

    /// Destroys an opened resource that is in use.
    pub(super) fn destroy_opened(&mut self, at: &mut Passive) -> TestResult<()> {
        let opened = self.resources.iter().position(|resource| resource.kind == Kind::Opened);
        let Some(which) = opened else { return Ok(()) };
        let surface = self.resources[which].pictures[0].surface;
        self.fill_area(at, (which, 0), Rect::whole(surface))?;
        let it = self.resources.swap_remove(which);
        expect_ok("DestroyResource", self.app.device.destroy_resource(at, it.resource))
    }
}

fn returned(offer: &Arc<Offer>) -> bool {
    offer.state.load(SeqCst) == RETURNED
}
