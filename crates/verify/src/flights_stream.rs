//! A good flight of a streaming minidriver, as a recorded script.

/// A source with its own allocator delivers three frames, stops and is removed.
pub(crate) const STREAM: &str = "
    t0 ks-device:1 ks.added factories=1
    t0 ks-device:1 ks.locked lock=device by=class
    t0 c201 call:201 ks.call name=AVStrMiniDeviceAdd level=passive locks=device device=ks-device:1 about=ks-device:1
    t0 c201 call:201 ks.return name=AVStrMiniDeviceAdd result=ok legal=true
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 ks-device:1 ks.locked lock=device by=class
    t0 c202 call:202 ks.call name=AVStrMiniDeviceStart level=passive locks=device device=ks-device:1 about=ks-device:1
    t0 c202 call:202 ks.return name=AVStrMiniDeviceStart result=ok legal=true
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 c203 call:203 ks.call name=AVStrMiniDevicePostStart level=passive locks=none device=ks-device:1 about=ks-device:1
    t0 c203 call:203 ks.return name=AVStrMiniDevicePostStart result=ok legal=true
    t0 ks-device:1 ks.started
    t0 ks-device:1 ks.locked lock=device by=class
    t0 filter:1 ks.locked lock=control by=class
    t0 c204 call:204 ks.call name=AVStrMiniFilterCreate level=passive locks=\"device+control\" device=ks-device:1 about=filter:1
    t0 c204 call:204 ks.return name=AVStrMiniFilterCreate result=ok legal=true
    t0 filter:1 filter.created device=ks-device:1 factory=0 has_context=true dispatch=false needs=0
    t0 filter:1 ks.unlocked lock=control by=class
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 filter:1 ks.locked lock=control by=class
    t0 pin:1 pin.format filter=filter:1 sample=64 first=true
    t0 c205 call:205 ks.call name=AVStrMiniPinSetDataFormat level=passive locks=control device=ks-device:1 about=pin:1
    t0 c205 call:205 ks.return name=AVStrMiniPinSetDataFormat result=ok legal=true
    t0 c206 call:206 ks.call name=AVStrMiniPinCreate level=passive locks=control device=ks-device:1 about=pin:1
    t0 c206 pin:1 ks.bagged item=driver-pointer:201
    t0 c206 call:206 ks.return name=AVStrMiniPinCreate result=ok legal=true
    t0 pin:1 pin.created filter=filter:1 factory=0 out=true has_context=true possible=1 standard=true dispatch=false min_state=pause
    t0 filter:1 ks.unlocked lock=control by=class
    t0 filter:1 ks.locked lock=control by=class
    t0 c207 call:207 ks.call name=AVStrMiniPinConnect level=passive locks=control device=ks-device:1 about=pin:1
    t0 c207 call:207 ks.return name=AVStrMiniPinConnect result=ok legal=true
    t0 allocator:1 allocator.chosen pin=pin:1 by=driver user=false
    t0 c208 call:208 ks.call name=AVStrMiniInitializeAllocator level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c208 call:208 ks.return name=AVStrMiniInitializeAllocator result=ok legal=true
    t0 allocator:1 allocator.ready pin=pin:1 driver_handle=driver-pointer:202 frames=3 bytes=64 alignment=15 by=driver
    t0 pin:1 pin.connected frames=3 bytes=64 alignment=15 by=driver
    t0 filter:1 ks.unlocked lock=control by=class
    t0 pin:1 pin.framing set=false available=true succeeded=true
    t0 pin:1 pin.framing set=true available=true succeeded=false
    t0 filter:1 ks.locked lock=control by=class
    t0 pin:1 pin.state-requested from=stop to=acquire
    t0 c209 call:209 ks.call name=AVStrMiniAllocate level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c209 allocator:1 allocator.used entry=AVStrMiniAllocate driver_handle=driver-pointer:202
    t0 c209 call:209 ks.return name=AVStrMiniAllocate result=ok legal=true
    t0 frame:1 frame.created allocator=allocator:1 pin=pin:1 pointer=driver-pointer:203 bytes=64
    t0 c210 call:210 ks.call name=AVStrMiniAllocate level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c210 allocator:1 allocator.used entry=AVStrMiniAllocate driver_handle=driver-pointer:202
    t0 c210 call:210 ks.return name=AVStrMiniAllocate result=ok legal=true
    t0 frame:2 frame.created allocator=allocator:1 pin=pin:1 pointer=driver-pointer:204 bytes=64
    t0 c211 call:211 ks.call name=AVStrMiniAllocate level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c211 allocator:1 allocator.used entry=AVStrMiniAllocate driver_handle=driver-pointer:202
    t0 c211 call:211 ks.return name=AVStrMiniAllocate result=ok legal=true
    t0 frame:3 frame.created allocator=allocator:1 pin=pin:1 pointer=driver-pointer:205 bytes=64
    t0 c212 call:212 ks.call name=AVStrMiniPinSetDeviceState level=passive locks=control device=ks-device:1 about=pin:1
    t0 c212 call:212 ks.return name=AVStrMiniPinSetDeviceState result=ok legal=true
    t0 pin:1 pin.state-changed from=stop to=acquire forced=false
    t0 pin:1 pin.state-requested from=acquire to=pause
    t0 c213 call:213 ks.call name=AVStrMiniPinSetDeviceState level=passive locks=control device=ks-device:1 about=pin:1
    t0 c213 call:213 ks.return name=AVStrMiniPinSetDeviceState result=ok legal=true
    t0 pin:1 pin.state-changed from=acquire to=pause forced=false
    t0 frame:1 frame.queued pin=pin:1
    t0 stream-pointer:1 pointer.moved frame=frame:1
    t0 frame:2 frame.queued pin=pin:1
    t0 frame:3 frame.queued pin=pin:1
    t0 pin:1 pin.state-requested from=pause to=run
    t0 c214 call:214 ks.call name=AVStrMiniPinSetDeviceState level=passive locks=control device=ks-device:1 about=pin:1
    t0 c214 call:214 ks.return name=AVStrMiniPinSetDeviceState result=ok legal=true
    t0 pin:1 pin.state-changed from=pause to=run forced=false
    t0 filter:1 ks.unlocked lock=control by=class
    pin:1 ks.locked lock=processing by=class
    c215 call:215 ks.call name=AVStrMiniPinProcess level=passive locks=processing device=ks-device:1 about=pin:1
    c215 stream-pointer:1 pointer.locked frame=frame:1
    c215 stream-pointer:2 pointer.cloned pin=pin:1 frame=frame:1 locked=true
    c215 stream-pointer:1 pointer.moved frame=frame:2
    c215 frame:1 frame.passed edge=leading
    c215 stream-pointer:3 pointer.cloned pin=pin:1 frame=frame:2 locked=true
    c215 stream-pointer:1 pointer.moved frame=frame:3
    c215 frame:2 frame.passed edge=leading
    c215 stream-pointer:4 pointer.cloned pin=pin:1 frame=frame:3 locked=true
    c215 stream-pointer:1 pointer.moved frame=-
    c215 frame:3 frame.passed edge=leading
    c215 call:215 ks.return name=AVStrMiniPinProcess result=ok legal=true
    pin:1 ks.unlocked lock=processing by=class
    c216 call:216 ks.call name=AVStrMiniTimeoutCallback level=dispatch locks=none device=ks-device:1 about=stream-pointer:2
    c216 stream-pointer:2 pointer.deleted forced=false
    c216 frame:1 frame.done used=64 time=333333 duration=333333 end=false discontinuity=true now=333333
    c216 call:216 ks.return name=AVStrMiniTimeoutCallback result=ok legal=true
    t0 frame:1 frame.taken
    t0 frame:1 frame.returned
    t0 frame:1 frame.queued pin=pin:1
    t0 stream-pointer:1 pointer.moved frame=frame:1
    pin:1 ks.locked lock=processing by=class
    c217 call:217 ks.call name=AVStrMiniPinProcess level=passive locks=processing device=ks-device:1 about=pin:1
    c217 stream-pointer:1 pointer.locked frame=frame:1
    c217 stream-pointer:5 pointer.cloned pin=pin:1 frame=frame:1 locked=true
    c217 stream-pointer:1 pointer.moved frame=-
    c217 frame:1 frame.passed edge=leading
    c217 call:217 ks.return name=AVStrMiniPinProcess result=ok legal=true
    pin:1 ks.unlocked lock=processing by=class
    c218 call:218 ks.call name=AVStrMiniTimeoutCallback level=dispatch locks=none device=ks-device:1 about=stream-pointer:3
    c218 stream-pointer:3 pointer.deleted forced=false
    c218 frame:2 frame.done used=64 time=666666 duration=333333 end=false discontinuity=false now=666666
    c218 call:218 ks.return name=AVStrMiniTimeoutCallback result=ok legal=true
    t0 frame:2 frame.taken
    t0 frame:2 frame.returned
    t0 frame:2 frame.queued pin=pin:1
    t0 stream-pointer:1 pointer.moved frame=frame:2
    pin:1 ks.locked lock=processing by=class
    c219 call:219 ks.call name=AVStrMiniPinProcess level=passive locks=processing device=ks-device:1 about=pin:1
    c219 stream-pointer:1 pointer.locked frame=frame:2
    c219 stream-pointer:6 pointer.cloned pin=pin:1 frame=frame:2 locked=true
    c219 stream-pointer:1 pointer.moved frame=-
    c219 frame:2 frame.passed edge=leading
    c219 call:219 ks.return name=AVStrMiniPinProcess result=ok legal=true
    pin:1 ks.unlocked lock=processing by=class
    c220 call:220 ks.call name=AVStrMiniTimeoutCallback level=dispatch locks=none device=ks-device:1 about=stream-pointer:4
    c220 stream-pointer:4 pointer.deleted forced=false
    c220 frame:3 frame.done used=64 time=999999 duration=333333 end=false discontinuity=false now=999999
    c220 call:220 ks.return name=AVStrMiniTimeoutCallback result=ok legal=true
    t0 frame:3 frame.taken
    t0 frame:3 frame.returned
    t0 frame:3 frame.queued pin=pin:1
    t0 stream-pointer:1 pointer.moved frame=frame:3
    t0 filter:1 ks.locked lock=control by=class
    t0 pin:1 pin.state-requested from=run to=pause
    pin:1 ks.locked lock=processing by=class
    t0 c221 call:221 ks.call name=AVStrMiniPinSetDeviceState level=passive locks=control device=ks-device:1 about=pin:1
    t0 c221 call:221 ks.return name=AVStrMiniPinSetDeviceState result=ok legal=true
    t0 pin:1 pin.state-changed from=run to=pause forced=false
    t0 pin:1 pin.state-requested from=pause to=acquire
    c222 call:222 ks.call name=AVStrMiniPinProcess level=passive locks=processing device=ks-device:1 about=pin:1
    c222 stream-pointer:1 pointer.locked frame=frame:3
    c222 stream-pointer:7 pointer.cloned pin=pin:1 frame=frame:3 locked=true
    c222 stream-pointer:1 pointer.moved frame=-
    c222 frame:3 frame.passed edge=leading
    c222 call:222 ks.return name=AVStrMiniPinProcess result=ok legal=true
    pin:1 ks.unlocked lock=processing by=class
    pin:1 ks.locked lock=processing by=class
    pin:1 ks.unlocked lock=processing by=class
    t0 pin:1 ks.locked lock=processing by=class
    t0 pin:1 ks.unlocked lock=processing by=class
    t0 c223 call:223 ks.call name=AVStrMiniPinSetDeviceState level=passive locks=control device=ks-device:1 about=pin:1
    t0 c223 call:223 ks.return name=AVStrMiniPinSetDeviceState result=ok legal=true
    t0 pin:1 pin.state-changed from=pause to=acquire forced=false
    t0 pin:1 pin.state-requested from=acquire to=stop
    t0 c224 call:224 ks.call name=AVStrMiniPinSetDeviceState level=passive locks=control device=ks-device:1 about=pin:1
    t0 c224 stream-pointer:5 pointer.deleted forced=false
    t0 c224 frame:1 frame.cancelled
    t0 c224 stream-pointer:6 pointer.deleted forced=false
    t0 c224 frame:2 frame.cancelled
    t0 c224 stream-pointer:7 pointer.deleted forced=false
    t0 c224 frame:3 frame.cancelled
    t0 c224 call:224 ks.return name=AVStrMiniPinSetDeviceState result=ok legal=true
    t0 pin:1 pin.state-changed from=acquire to=stop forced=false
    t0 pin:1 ks.locked lock=processing by=class
    t0 stream-pointer:1 pointer.moved frame=-
    t0 pin:1 pin.flushed frames=0
    t0 pin:1 ks.unlocked lock=processing by=class
    t0 c225 call:225 ks.call name=AVStrMiniAllocatorFreeFrame level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c225 allocator:1 allocator.used entry=AVStrMiniAllocatorFreeFrame driver_handle=driver-pointer:202
    t0 c225 frame:1 frame.freeing allocator=allocator:1 pointer=driver-pointer:203
    t0 c225 call:225 ks.return name=AVStrMiniAllocatorFreeFrame result=ok legal=true
    t0 frame:1 frame.freed
    t0 c226 call:226 ks.call name=AVStrMiniAllocatorFreeFrame level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c226 allocator:1 allocator.used entry=AVStrMiniAllocatorFreeFrame driver_handle=driver-pointer:202
    t0 c226 frame:2 frame.freeing allocator=allocator:1 pointer=driver-pointer:204
    t0 c226 call:226 ks.return name=AVStrMiniAllocatorFreeFrame result=ok legal=true
    t0 frame:2 frame.freed
    t0 c227 call:227 ks.call name=AVStrMiniAllocatorFreeFrame level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c227 allocator:1 allocator.used entry=AVStrMiniAllocatorFreeFrame driver_handle=driver-pointer:202
    t0 c227 frame:3 frame.freeing allocator=allocator:1 pointer=driver-pointer:205
    t0 c227 call:227 ks.return name=AVStrMiniAllocatorFreeFrame result=ok legal=true
    t0 frame:3 frame.freed
    t0 filter:1 ks.unlocked lock=control by=class
    t0 filter:1 ks.locked lock=control by=class
    t0 allocator:1 allocator.ending frames_returned=true
    t0 c228 call:228 ks.call name=AVStrMiniDeleteAllocator level=passive locks=control device=ks-device:1 about=allocator:1
    t0 c228 allocator:1 allocator.used entry=AVStrMiniDeleteAllocator driver_handle=driver-pointer:202
    t0 c228 call:228 ks.return name=AVStrMiniDeleteAllocator result=ok legal=true
    t0 allocator:1 allocator.deleted driver_handle=driver-pointer:202
    t0 c229 call:229 ks.call name=AVStrMiniPinDisconnect level=passive locks=control device=ks-device:1 about=pin:1
    t0 c229 call:229 ks.return name=AVStrMiniPinDisconnect result=ok legal=true
    t0 pin:1 pin.disconnected
    t0 c230 call:230 ks.call name=AVStrMiniPinClose level=passive locks=control device=ks-device:1 about=pin:1
    t0 c230 call:230 ks.return name=AVStrMiniPinClose result=ok legal=true
    t0 pin:1 ks.unbagged item=driver-pointer:201 freed=true
    t0 pin:1 pin.closed
    t0 filter:1 ks.unlocked lock=control by=class
    t0 ks-device:1 ks.locked lock=device by=class
    t0 filter:1 ks.locked lock=control by=class
    t0 c231 call:231 ks.call name=AVStrMiniFilterClose level=passive locks=\"device+control\" device=ks-device:1 about=filter:1
    t0 c231 call:231 ks.return name=AVStrMiniFilterClose result=ok legal=true
    t0 filter:1 filter.closed
    t0 filter:1 ks.unlocked lock=control by=class
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 ks-device:1 ks.locked lock=device by=class
    t0 c232 call:232 ks.call name=AVStrMiniDeviceQueryRemove level=passive locks=device device=ks-device:1 about=ks-device:1
    t0 c232 call:232 ks.return name=AVStrMiniDeviceQueryRemove result=ok legal=true
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 ks-device:1 ks.locked lock=device by=class
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 ks-device:1 ks.locked lock=device by=class
    t0 c233 call:233 ks.call name=AVStrMiniDeviceRemove level=passive locks=device device=ks-device:1 about=ks-device:1
    t0 c233 call:233 ks.return name=AVStrMiniDeviceRemove result=ok legal=true
    t0 ks-device:1 ks.unlocked lock=device by=class
    t0 ks-device:1 ks.removed
";
