//! The testbed of streaming minidrivers: a class driver with one minidriver, and helpers for
//! scenarios.

use crate::expected_video::{ExpectedVideo, FramePosition};
use crate::fly::HostKind;
use crate::testbed::ScenarioStopped;
use drivers::stream::VideoMemory;
use flight::{LiveObjects, Log, Passive, Spawner};
use kernel::{AdapterId, Kernel};
use std::sync::Arc;
use stream::{
    DeviceId, DriverSetup, Format, FrameMemory, FramingRequest, Graph, PinId, PinState,
    ReceivedFrame, StreamError, StreamOwner,
};
use verify::Oracle;

/// The number of consecutive frames that may be empty.
const MAX_EMPTY_FRAMES: u32 = 8;

/// A running flight of a streaming minidriver.
pub struct StreamTestbed<'a> {
    /// The host that runs the flight.
    pub host: &'a Arc<dyn Spawner>,
    /// The IRQL proof of the scenario's thread.
    pub at: &'a mut Passive,
    /// The class driver.
    pub stream: Arc<StreamOwner>,
    pub(crate) log: Arc<Log>,
    pub(crate) host_kind: HostKind,
    /// The driver under test, and system memory for its frames.
    pub(crate) setup: DriverSetup,
    /// The requested video.
    pub expected_video: ExpectedVideo,
    pub(crate) device: Option<DeviceId>,
    pub(crate) graphics: Option<(Arc<Kernel>, AdapterId)>,
    /// The client of the graphics kernel that owns the frames' memory.
    pub(crate) video: Option<Arc<VideoMemory>>,
    pub(crate) frames: Vec<ReceivedFrame>,
    pub(crate) live_snapshots: Vec<(&'static str, LiveObjects)>,
}

impl StreamTestbed<'_> {
    /// Adds the device of the driver under test, with frames in system memory.
    pub fn add_device(&mut self) -> Result<DeviceId, ScenarioStopped> {
        self.add_device_with_memory(self.setup.memory.clone())
    }

    /// Adds the device with other memory for frames.
    pub fn add_device_with_memory(
        &mut self,
        memory: Arc<dyn FrameMemory>,
    ) -> Result<DeviceId, ScenarioStopped> {
        let setup = DriverSetup { memory, ..self.setup.clone() };
        let added = self.stream.add_device(self.at, setup);
        let device = expect_ok("a driver that starts", added)?;
        self.device = Some(device);
        Ok(device)
    }

    /// Opens the first filter and connects its first pin.
    pub fn open(&mut self, device: DeviceId) -> Result<Graph, ScenarioStopped> {
        self.open_with(device, &self.expected_video.format.clone(), &FramingRequest::default())
    }

    /// Like [`open`](Self::open), with a format and framing requests.
    pub fn open_with(
        &mut self,
        device: DeviceId,
        format: &Format,
        request: &FramingRequest,
    ) -> Result<Graph, ScenarioStopped> {
        let opened = Graph::open(&self.stream, self.at, device, format, request);
        expect_ok("a pin that is connected", opened)
    }

    /// Sets the state of a pin.
    pub fn set_state(&mut self, pin: PinId, to: PinState) -> Result<(), ScenarioStopped> {
        let what = format!("a pin in state {}", to.name());
        expect_ok(&what, self.stream.set_state(self.at, pin, to))
    }

    /// Receives up to `frames` frames of a running pin and checks content and time of each.
    /// Returns how many arrived; fewer if the stream ended, or if the minidriver fills no frames that
    /// are shorter than a sample.
    pub fn receive_frames(&mut self, pin: PinId, frames: usize) -> Result<usize, ScenarioStopped> {
        let mut before: Option<FramePosition> = None;
        for taken in 0..frames {
            let Some(frame_bytes) = self.next_frame(pin)? else { return Ok(taken) };
            let stand =
                self.expected_video.check_frame(before, &frame_bytes.header, &frame_bytes.bytes);
            let timeless = before.is_some_and(|it| it.has_time_of(&frame_bytes.header));
            let wrong = stand.as_ref().err().filter(|_| !timeless);
            let wrong = wrong.map(|wrong| format!("{pin} has to deliver {wrong}"));
            self.stream.judge_frame(pin, wrong);
            before = Some(stand.map_err(ScenarioStopped::failed)?);
            let end = frame_bytes.header.end_of_stream;
            self.frames.push(frame_bytes);
            if end {
                return Ok(taken + 1);
            }
        }
        Ok(frames)
    }

    /// Receives the next frame that is not empty. Frames in flight at a reset arrive empty. `None` if
    /// all are empty, and too short for a sample: a minidriver need not fill these.
    fn next_frame(&mut self, pin: PinId) -> Result<Option<ReceivedFrame>, ScenarioStopped> {
        let mut room = 0;
        for _ in 0..MAX_EMPTY_FRAMES {
            let frame_bytes =
                expect_ok("a frame", ReceivedFrame::receive(&self.stream, self.at, pin))?;
            if frame_bytes.header.data_used > 0 {
                return Ok(Some(frame_bytes));
            }
            room = frame_bytes.room;
        }
        if room < self.expected_video.format.sample_size {
            return Ok(None);
        }
        let wrong = format!("frames with data; {MAX_EMPTY_FRAMES} were empty");
        self.stream.judge_frame(pin, Some(format!("{pin} has to deliver {wrong}")));
        Err(ScenarioStopped::failed(wrong))
    }

    /// Closes a pin and its filter.
    pub fn close(&mut self, graph: Graph) -> Result<(), ScenarioStopped> {
        expect_ok("a graph that is closed", graph.close(self.at))
    }

    /// Removes the device.
    pub fn remove_device(&mut self, device: DeviceId) -> Result<(), ScenarioStopped> {
        let removed = self.stream.remove_device(self.at, device);
        expect_ok("a device that is removed", removed)?;
        self.device = None;
        self.check_removed()
    }

    /// Surprise-removes the device.
    pub fn surprise_remove(&mut self, device: DeviceId) -> Result<(), ScenarioStopped> {
        let pulled = self.stream.surprise_remove_device(self.at, device);
        expect_ok("a device that is surprise-removed", pulled)?;
        self.device = None;
        self.check_removed()
    }

    /// Checks that no object and no memory of the device is left.
    pub fn check_removed(&mut self) -> Result<(), ScenarioStopped> {
        self.host.run_until_idle(self.at);
        let (live_objects, pieces) =
            (self.stream.live_objects(), self.setup.memory.allocation_count());
        if live_objects.count() > 0 {
            return Err(ScenarioStopped::failed(format!(
                "no live objects after the device was removed:\n{live_objects}"
            )));
        }
        if pieces > 0 {
            return Err(ScenarioStopped::failed(format!(
                "no memory after the device was removed; {pieces} blocks are left"
            )));
        }
        Ok(())
    }

    /// Takes a snapshot of the live objects for `--live`; `when` names the moment.
    pub fn snapshot_live_objects(&mut self, when: &'static str) {
        let live_objects = self.live_objects();
        self.live_snapshots.push((when, live_objects));
    }

    /// The live objects of both kernels.
    pub(crate) fn live_objects(&self) -> LiveObjects {
        let mut live_objects = self.stream.live_objects();
        if let Some((kernel, _)) = &self.graphics {
            live_objects.objects.extend(kernel.live_objects().objects);
        }
        live_objects
    }

    /// Video memory for frames: starts a graphics kernel with a built-in driver that has memory, on
    /// the same host and with the same log.
    pub fn video_memory(&mut self) -> Result<Arc<VideoMemory>, ScenarioStopped> {
        let listed = drivers::find("softgpu-memory");
        let listed =
            listed.ok_or_else(|| ScenarioStopped::missing("a display driver with memory"))?;
        let setup = (listed.make)(&self.log);
        let kernel = Kernel::new(self.host.clone(), self.log.clone());
        kernel.set_observer(Oracle::new(self.log.clone()));
        if let HostKind::Deterministic { seed, pressure: true } = self.host_kind {
            kernel.set_pressure(seed);
        }
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        self.host.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let adapter = kernel.add_adapter(self.at, setup).map_err(|why| {
            ScenarioStopped::failed(format!(
                "a display driver that starts: {} returned {}",
                why.entry,
                why.why.name()
            ))
        })?;
        kernel.start_workers(self.host, adapter);
        self.graphics = Some((kernel.clone(), adapter));
        let opened = VideoMemory::open(&kernel, self.at, &self.setup.memory);
        let memory = crate::testbed::expect_ok("a client of the graphics kernel", opened)?;
        self.video = Some(memory.clone());
        Ok(memory)
    }

    /// Removes the device and ends both kernels.
    pub(crate) fn end(&mut self) {
        if let Some(device) = self.device.take()
            && self.stream.remove_device(self.at, device).is_err()
        {
            // If the driver fails the removal, it is surprise-removed; or it is already removed.
            let _ = self.stream.surprise_remove_device(self.at, device);
        }
        // Objects left by a stopped scenario are not the client's fault.
        if let Some(memory) = self.video.take() {
            memory.kill(self.at);
        }
        if let Some((kernel, adapter)) = &self.graphics {
            kernel.remove_adapter(self.at, *adapter);
        }
        self.host.run_until_idle(self.at);
    }
}

/// Returns the value of a successful call; stops the scenario otherwise.
pub(crate) fn expect_ok<T>(
    what: &str,
    answer: Result<T, StreamError>,
) -> Result<T, ScenarioStopped> {
    answer.map_err(|why| {
        let need = format!("{what}; {why}");
        match why {
            StreamError::NotFound(_)
            | StreamError::NotStarted(_)
            | StreamError::Stopped
            | StreamError::Stuck
            | StreamError::TimedOut => ScenarioStopped::failed(need),
            // What the driver describes, or its refusal.
            _ => ScenarioStopped::missing(need),
        }
    })
}
