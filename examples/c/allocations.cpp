// The same from C++: destructors close what was opened, including destructors of globals, which
// run after main has returned; and several threads call at once.
#include <windtunnel/d3dkmt.h>
#include <windtunnel/softgpu.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t PAGE = 4096;

void must(const char *call, NTSTATUS status)
{
    if (!NT_SUCCESS(status)) {
        throw std::runtime_error(std::string(call) + " answered " + std::to_string(status));
    }
}

class Adapter {
public:
    Adapter()
    {
        std::array<D3DKMT_ADAPTERINFO, 8> adapters{};
        D3DKMT_ENUMADAPTERS2 list{};
        list.NumAdapters = adapters.size();
        list.pAdapters = adapters.data();
        must("D3DKMTEnumAdapters2", D3DKMTEnumAdapters2(&list));
        handle = adapters.at(0).hAdapter;
    }
    ~Adapter()
    {
        D3DKMT_CLOSEADAPTER close{handle};
        std::printf("the adapter closes: 0x%08x\n", static_cast<unsigned>(D3DKMTCloseAdapter(&close)));
    }
    Adapter(const Adapter &) = delete;
    Adapter &operator=(const Adapter &) = delete;

    D3DKMT_HANDLE handle = 0;
};

class Device {
public:
    explicit Device(const Adapter &adapter)
    {
        D3DKMT_CREATEDEVICE create{};
        create.hAdapter = adapter.handle;
        must("D3DKMTCreateDevice", D3DKMTCreateDevice(&create));
        handle = create.hDevice;
    }
    ~Device()
    {
        D3DKMT_DESTROYDEVICE destroy{handle};
        D3DKMTDestroyDevice(&destroy);
    }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    D3DKMT_HANDLE allocate() const
    {
        std::array<std::uint8_t, WINDTUNNEL_DESCRIPTION_SIZE> description{};
        windtunnel_describe(description.data(), PAGE);
        D3DDDI_ALLOCATIONINFO2 info{};
        info.pPrivateDriverData = description.data();
        info.PrivateDriverDataSize = description.size();
        D3DKMT_CREATEALLOCATION create{};
        create.hDevice = handle;
        create.NumAllocations = 1;
        create.pAllocationInfo2 = &info;
        must("D3DKMTCreateAllocation2", D3DKMTCreateAllocation2(&create));
        return info.hAllocation;
    }

    void free(D3DKMT_HANDLE allocation) const
    {
        D3DKMT_DESTROYALLOCATION2 destroy{};
        destroy.hDevice = handle;
        destroy.phAllocationList = &allocation;
        destroy.AllocationCount = 1;
        destroy.Flags.SynchronousDestroy = 1;
        must("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
    }

    D3DKMT_HANDLE handle = 0;
};

Adapter adapter;

} // namespace

int main()
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([] {
            Device device(adapter);
            for (int turn = 0; turn < 100; turn++) {
                device.free(device.allocate());
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    std::printf("four threads are done\n");
    return 0;
}
