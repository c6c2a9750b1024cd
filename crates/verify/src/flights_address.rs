//! A flight of an adapter with virtual addresses: a process reserves, maps, updates and frees
//! ranges, without a breach.

pub(crate) const ADDRESSES: &str = "
    segment:90 segment.found adapter=adapter:90 number=1 base=0 size=1048576 aperture=false target=true
    address-space:90 address-space.created adapter=adapter:90 process=- bits=39 invalidates_tables=true
    page-table:90 page-table.created space=address-space:90 level=1 address=0 entries=4
    page-table:90 page-table.written space=address-space:90 level=1 by=cpu first=0 count=4 address=0 entry_kind=invalid of=- offset=0 sequential=true segment=0 page=0 initial=true evicts=false
    address-space:91 address-space.created adapter=adapter:90 process=process:90 bits=39 invalidates_tables=true
    t90 driver-pointer:90 pool.allocated bytes=64 tag=Test
    driver-pointer:90 driver-handle.set of=address-space:91
    page-table:91 page-table.created space=address-space:91 level=1 address=0 entries=4
    page-table:91 page-table.written space=address-space:91 level=1 by=gpu first=0 count=4 address=0 entry_kind=invalid of=- offset=0 sequential=true segment=0 page=0 initial=true evicts=false
    device:90 device.created process=process:90 adapter=adapter:90
    address-space:91 root.set context=context:90 table=page-table:91 entries=4 idle=true
    context:90 context.created device=device:90 node=node:90
    context:90 packet.queued packet=1
    context:90 packet.submitted packet=1 node=node:90 fence=1
    address-space:91 range.reserved start=65536 end=196608 reservation=1 backing=reserved base=0 minimum=0 maximum=0 queue=- value=0
    address-space:91 range.failed start=65536 end=131072 reserve=true why=taken
    address-space:91 range.mapped start=262144 end=270336 view=view:90 of=allocation:90 backing=mapped offset=4096 base=0 minimum=0 maximum=1048576 index=0
    address-space:91 range.map-returned start=262144 end=270336 queue=- value=0
    page-table:92 page-table.created space=address-space:91 level=0 address=0 entries=512
    page-table:92 page-table.written space=address-space:91 level=0 by=gpu first=0 count=512 address=0 entry_kind=invalid of=- offset=0 sequential=true segment=0 page=0 initial=true evicts=false
    page-table:92 page-table.written space=address-space:91 level=0 by=gpu first=64 count=2 address=262144 entry_kind=page of=allocation:90 offset=4096 sequential=true segment=1 page=5 initial=false evicts=false
    address-space:91 range.mapped start=65536 end=69632 view=view:90 of=allocation:90 backing=mapped offset=0 base=65536 minimum=0 maximum=0 index=0
    address-space:91 range.mapped start=69632 end=73728 view=- of=- backing=zero offset=0 base=69632 minimum=0 maximum=0 index=1
    address-space:91 update.applied update=1 ignored=0 of=- fence_value=0
    sync:90 sync.created device=device:90 kind=monitored value=0 sharing=none no_signal=false no_wait=false no_tdr_signal=true
    address-space:91 update.queued update=2 of=sync:90 fence_value=1
    sync:90 sync.signalled by=cpu value=1 shown=1
    address-space:91 update.applied update=2 ignored=0 of=sync:90 fence_value=1
    sync:90 sync.signalled by=update value=2 shown=2
    address-space:91 update.done update=2 of=sync:90 fence_value=1
    sync:90 sync.destroyed
    address-space:91 range.freed start=65536 end=196608 object_destroyed=false still_reserved=false
    page-table:92 page-table.written space=address-space:91 level=0 by=gpu first=0 count=512 address=0 entry_kind=invalid of=- offset=0 sequential=true segment=0 page=0 initial=false evicts=false
    address-space:91 tlb.flushed start=0 end=0
    page-table:92 page-table.destroyed
    context:90 packet.done packet=1 node=node:90 fence=1
    context:90 context.destroyed
    device:90 device.destroyed
    page-table:91 page-table.destroyed
    t90 driver-pointer:90 pool.freed
    driver-pointer:90 driver-handle.ended of=address-space:91 only_object=false
    address-space:91 address-space.destroyed
    page-table:90 page-table.destroyed
    address-space:90 address-space.destroyed
";
