//! Hardware that can be paused.

use flight::{HardwareModel, InterruptLine, Passive, Ram};
use softgpu::Gpu;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The built-in GPU. While it is paused it does no work unless it is reset.
#[derive(Debug)]
pub struct PausableGpu {
    gpu: Arc<Gpu>,
    paused: AtomicBool,
}

impl PausableGpu {
    /// Wraps a running GPU.
    pub fn new(gpu: Arc<Gpu>) -> Arc<Self> {
        Arc::new(Self { gpu, paused: AtomicBool::new(false) })
    }

    /// Pauses the GPU until [`Self::resume`].
    pub fn pause(&self) {
        self.paused.store(true, SeqCst);
    }

    /// Resumes the GPU. The caller wakes the thread that steps it.
    pub fn resume(&self) {
        self.paused.store(false, SeqCst);
    }
}

impl HardwareModel for PausableGpu {
    fn idle(&self) -> bool {
        self.paused.load(SeqCst) || self.gpu.idle()
    }

    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        self.gpu.step(at, line);
    }

    fn holds_work(&self, node: Option<u32>) -> Option<bool> {
        self.gpu.holds_work(node)
    }

    fn ram(&self) -> Option<Arc<dyn Ram>> {
        self.gpu.ram()
    }
}
