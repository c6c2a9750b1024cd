//! The built-in driver with something about it changed.

use flight::{Crew, Host, Log, Passive};
use kernel::Plugged;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    Answer, Birth, Births, Blank, Born, ContextOrder, Doomed, DriverContext, DriverDevice,
    DriverResource, DriverView, Generation, Miniport, Opening, Refusal,
};
use softgpu::{Gpu, MemoryPlan, SoftGpu};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::vec::Drain;

/// The built-in driver: of another generation, slow, stubborn, or with a pen. Everything else is
/// its own.
pub struct Variant {
    driver: Arc<SoftGpu>,
    hardware: Arc<Gpu>,
    generation: Generation,
    signs: bool,
    host: OnceLock<Arc<dyn Host>>,
    stubborn: AtomicBool,
}

impl Variant {
    /// The built-in driver, as one of that generation.
    pub fn of(generation: Generation) -> Arc<Self> {
        Self::new(generation, false)
    }

    /// One that signs the private data of every allocation: `c` over the first byte when it is
    /// created, `o` over the second when it is opened.
    pub fn signing() -> Arc<Self> {
        Self::new(Generation::Two, true)
    }

    /// The built-in driver with memory, as one of that generation.
    pub fn with_memory(generation: Generation) -> Arc<Self> {
        let ram = nt::Ram::new(1 << 30).unwrap_or_else(|why| panic!("{why}"));
        Self::around(SoftGpu::with_memory(ram, MemoryPlan::default()), generation, false)
    }

    fn new(generation: Generation, signs: bool) -> Arc<Self> {
        Self::around(SoftGpu::new(), generation, signs)
    }

    fn around(built: (Arc<SoftGpu>, Arc<Gpu>), generation: Generation, signs: bool) -> Arc<Self> {
        let (driver, hardware) = built;
        let (host, stubborn) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { driver, hardware, generation, signs, host, stubborn })
    }

    /// It, in a slot.
    pub fn plug(self: &Arc<Self>, log: &Arc<Log>) -> Plugged {
        let (miniport, machine) = (self.clone(), self.hardware.clone());
        Plugged { miniport, machine, pool: nt::Pool::new(log.clone()) }
    }

    /// From now on other threads may run while one is inside it, as if it took its time.
    pub fn linger_on(&self, host: &Arc<dyn Crew>) {
        self.host.get_or_init(|| host.clone());
    }

    /// From now on it opens nothing, or does again.
    pub fn refuse_to_open(&self, stubborn: bool) {
        self.stubborn.store(stubborn, SeqCst);
    }

    fn linger(&self, at: &mut Passive) {
        if let Some(host) = self.host.get() {
            host.breathe(at);
        }
    }

    /// Writes a letter into private data.
    fn sign(&self, private: &mut [u8], place: usize, letter: u8) {
        if let Some(byte) = private.get_mut(place).filter(|_| self.signs) {
            *byte = letter;
        }
    }
}

impl Miniport for Variant {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.driver)
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn create_device(&self, at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        self.linger(at);
        self.driver.create_device(at, word)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.linger(at);
        self.driver.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, u32)> {
        self.linger(at);
        self.driver.create_context(at, device, order, word)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> Answer<()> {
        self.linger(at);
        self.driver.destroy_context(at, context)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        self.linger(at);
        let Births { allocations, resource, private } = births;
        let (mut privates, words): (Vec<_>, Vec<_>) =
            allocations.into_iter().map(|it| (it.private, (it.primary, it.word))).unzip();
        let lent = privates.iter_mut().zip(words).map(|(private, (primary, word))| Birth {
            private,
            primary,
            word,
        });
        let births = Births { allocations: lent.collect(), resource, private };
        let born = self.driver.create_allocations(at, births)?;
        for private in privates {
            self.sign(private, 0, b'c');
        }
        Ok(born)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.linger(at);
        self.driver.destroy_allocations(at, doomed)
    }

    fn open_allocations(&self, at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        self.linger(at);
        if self.stubborn.load(SeqCst) {
            return Err(Refusal::NoMemory);
        }
        let Opening { device, mut views, create, private } = opening;
        for view in &mut views {
            self.sign(view.private, 1, b'o');
        }
        self.driver.open_allocations(at, Opening { device, views, create, private })
    }

    fn close_allocations(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.linger(at);
        self.driver.close_allocations(at, device, views)
    }
}
