//! The studio: a streaming class driver with one minidriver, and what a scenario needs to make
//! things happen.

use crate::fly::On;
use crate::footage::Footage;
use crate::tunnel::Stopped;
use drivers::stream::VideoMemory;
use flight::{Census, Crew, Log, Passive};
use kernel::{AdapterId, Kernel};
use std::sync::Arc;
use stream::{
    DeviceId, Format, FrameMemory, Graph, Picture, PinId, Plugged, Refused, State, Stream, Wish,
};
use verify::Oracle;

/// How many frames may carry nothing, one after the other.
const EMPTY: u32 = 8;

/// A streaming flight under way.
pub struct Studio<'a> {
    /// Who runs it.
    pub host: &'a Arc<dyn Crew>,
    /// The level of the thread that tells the story.
    pub at: &'a mut Passive,
    /// The class driver.
    pub stream: Arc<Stream>,
    pub(crate) log: Arc<Log>,
    pub(crate) on: On,
    /// The driver under test, and memory of the system's for its frames.
    pub(crate) plugged: Plugged,
    /// What it is asked to show.
    pub footage: Footage,
    pub(crate) device: Option<DeviceId>,
    pub(crate) graphics: Option<(Arc<Kernel>, AdapterId)>,
    /// The client of that, whose memory frames are in.
    pub(crate) video: Option<Arc<VideoMemory>>,
    pub(crate) pictures: Vec<Picture>,
    pub(crate) looks: Vec<(&'static str, Census)>,
}

impl Studio<'_> {
    /// Adds the device of the driver under test, whose frames are in the system's memory.
    pub fn add(&mut self) -> Result<DeviceId, Stopped> {
        self.add_with(self.plugged.memory.clone())
    }

    /// The same with other memory.
    pub fn add_with(&mut self, memory: Arc<dyn FrameMemory>) -> Result<DeviceId, Stopped> {
        let plugged = Plugged { memory, ..self.plugged.clone() };
        let added = self.stream.add_device(self.at, plugged);
        let device = wanted("a driver that starts", added)?;
        self.device = Some(device);
        Ok(device)
    }

    /// Opens its first filter and connects its first pin.
    pub fn open(&mut self, device: DeviceId) -> Result<Graph, Stopped> {
        self.open_as(device, &self.footage.format.clone(), &Wish::default())
    }

    /// The same with a format and with wishes about frames.
    pub fn open_as(
        &mut self,
        device: DeviceId,
        format: &Format,
        wish: &Wish,
    ) -> Result<Graph, Stopped> {
        let opened = Graph::open(&self.stream, self.at, device, format, wish);
        wanted("a pin that is connected", opened)
    }

    /// Brings a pin to a state.
    pub fn go(&mut self, pin: PinId, to: State) -> Result<(), Stopped> {
        let what = format!("a pin in state {}", to.name());
        wanted(&what, self.stream.set_state(self.at, pin, to))
    }

    /// Takes so many frames of a pin that runs, or up to its last one: their pictures are right,
    /// as far as that is known, and none is earlier than the one before.
    pub fn film(&mut self, pin: PinId, frames: usize) -> Result<usize, Stopped> {
        let mut before = None;
        for taken in 0..frames {
            let picture = self.frame(pin)?;
            let stand = self.footage.follows(before, &picture.header, &picture.bytes);
            before = Some(stand.map_err(Stopped)?);
            let end = picture.header.end;
            self.pictures.push(picture);
            if end {
                return Ok(taken + 1);
            }
        }
        Ok(frames)
    }

    /// The next frame of a pin that carries something: those that were in flight at a reset do not.
    fn frame(&mut self, pin: PinId) -> Result<Picture, Stopped> {
        for _ in 0..EMPTY {
            let picture = wanted("a frame", Picture::take(&self.stream, self.at, pin))?;
            if picture.header.used > 0 {
                return Ok(picture);
            }
        }
        Err(Stopped(format!("frames with something in them; {EMPTY} had nothing")))
    }

    /// Closes a pin, and its filter.
    pub fn close(&mut self, graph: Graph) -> Result<(), Stopped> {
        wanted("a graph that is closed", graph.close(self.at))
    }

    /// Removes the device.
    pub fn remove(&mut self, device: DeviceId) -> Result<(), Stopped> {
        let removed = self.stream.remove_device(self.at, device);
        wanted("a device that is removed", removed)?;
        self.device = None;
        self.gone()
    }

    /// Pulls the device out.
    pub fn pull(&mut self, device: DeviceId) -> Result<(), Stopped> {
        let pulled = self.stream.pull_device(self.at, device);
        wanted("a device that is pulled out", pulled)?;
        self.device = None;
        self.gone()
    }

    /// Nothing of the device is left.
    pub fn gone(&mut self) -> Result<(), Stopped> {
        self.host.quiet(self.at);
        let (census, pieces) = (self.stream.census(), self.plugged.memory.pieces());
        if census.count() > 0 {
            return Err(Stopped(format!("nothing alive without a device:\n{census}")));
        }
        if pieces > 0 {
            return Err(Stopped(format!("no memory without a device; {pieces} pieces are left")));
        }
        Ok(())
    }

    /// Takes a look at who is alive, for whoever asked to see it.
    pub fn look(&mut self, when: &'static str) {
        let census = self.census();
        self.looks.push((when, census));
    }

    /// Who is alive, in both kernels.
    pub(crate) fn census(&self) -> Census {
        let mut census = self.stream.census();
        if let Some((kernel, _)) = &self.graphics {
            census.live.extend(kernel.census().live);
        }
        census
    }

    /// Memory for frames in video memory: a graphics kernel with the built-in driver on hardware
    /// with memory, on the same host and with the same log.
    pub fn video_memory(&mut self) -> Result<Arc<VideoMemory>, Stopped> {
        let listed = drivers::find("softgpu-memory");
        let listed = listed.ok_or_else(|| Stopped("a display driver with memory".to_owned()))?;
        let plugged = (listed.make)(&self.log);
        let kernel = Kernel::new(self.host.clone(), self.log.clone());
        kernel.watch_bytes(Oracle::new(self.log.clone()));
        if let On::Pressed(seed) = self.on {
            kernel.press(seed);
        }
        let (worker, bell) = (kernel.clone(), kernel.bell());
        self.host.serve("system", bell, move |at| worker.work(at));
        let adapter = kernel.add_adapter(self.at, plugged).map_err(|why| {
            Stopped(format!(
                "a display driver that starts: {} answered {}",
                why.entry,
                why.why.name()
            ))
        })?;
        kernel.attend(self.host, adapter);
        self.graphics = Some((kernel.clone(), adapter));
        let opened = VideoMemory::open(&kernel, self.at, &self.plugged.memory);
        let memory = crate::tunnel::wanted("a client of the graphics kernel", opened)?;
        self.video = Some(memory.clone());
        Ok(memory)
    }

    /// Ends everything.
    pub(crate) fn end(&mut self) {
        if let Some(device) = self.device.take()
            && self.stream.remove_device(self.at, device).is_err()
        {
            // One whose driver refuses to be removed is pulled out; or it is gone already.
            let _ = self.stream.pull_device(self.at, device);
        }
        // What a story that stopped has left is not its client's fault.
        if let Some(memory) = self.video.take() {
            memory.kill(self.at);
        }
        if let Some((kernel, adapter)) = &self.graphics {
            kernel.remove_adapter(self.at, *adapter);
        }
        self.host.quiet(self.at);
    }
}

/// The answer the story needs, or the story stops.
pub(crate) fn wanted<T>(what: &str, answer: Result<T, Refused>) -> Result<T, Stopped> {
    answer.map_err(|why| Stopped(format!("{what}; {why}")))
}
