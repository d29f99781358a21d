// All variants of copies, and arrays: every byte lands where a driver puts it, and a copy that does not fit is refused.
#include "sim/driver/memory/copy.hpp"
#include "sim/driver/memory/array.hpp"
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

using driver::ArrayShape;
using driver::CopyEnd;
using driver::CopyParams;

constexpr unsigned kFloat = 0x20, kByte = 0x01;

template <typename T>
const T* as(const void* what) {
  return static_cast<const T*>(what);
}

// A box of bytes that encode their place: byte (x, y, z) of a width x height x depth field.
struct Field {
  std::size_t width, height, depth;
  std::vector<unsigned char> bytes = std::vector<unsigned char>(width * height * depth);
  [[nodiscard]] std::size_t at(std::size_t x, std::size_t y, std::size_t z) const {
    return (z * height + y) * width + x;
  }
  void number() {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
  }
  [[nodiscard]] CopyEnd end(std::size_t x, std::size_t y, std::size_t z) const {
    CopyEnd made = driver::host_end(bytes.data());
    made.x = x, made.y = y, made.z = z, made.pitch = width, made.height = height;
    return made;
  }
};

CopyEnd linear(CUdeviceptr at, const Field& shape, std::size_t x, std::size_t y, std::size_t z) {
  CopyEnd made = driver::device_end(at);
  made.x = x, made.y = y, made.z = z, made.pitch = shape.width, made.height = shape.height;
  return made;
}

CUarray array(Program& p, ArrayShape shape) {
  CUarray made = nullptr;
  OK(p.cu.cuArray3DCreate_v2(&made, as<CUDA_ARRAY3D_DESCRIPTOR>(&shape)));
  return made;
}

CUresult copy(Program& p, const CopyParams& what) { return p.cu.cuMemcpy3D_v2(as<CUDA_MEMCPY3D>(&what)); }

// Applies the copy to `to` with plain loops, as the reference.
void by_hand(Field& to, const Field& from, const CopyParams& c) {
  for (std::size_t z = 0; z < c.depth; ++z)
    for (std::size_t y = 0; y < c.height; ++y)
      for (std::size_t x = 0; x < c.width; ++x)
        to.bytes[to.at(c.to.x + x, c.to.y + y, c.to.z + z)] =
            from.bytes[from.at(c.from.x + x, c.from.y + y, c.from.z + z)];
}

TEST_F(Driver, ABoxIsCopiedByPitchesAndOffsetsOnAnyMemory) {
  EXPECT_EQ(run([] {
              Program p;
              Field from{64, 9, 7}, there{48, 11, 6}, back{80, 12, 8};
              from.number();
              CUdeviceptr device = 0;
              OK(p.cu.cuMemAlloc_v2(&device, there.bytes.size()));
              OK(p.cu.cuMemsetD8_v2(device, 0, there.bytes.size()));
              const CopyParams up{from.end(3, 1, 2), linear(device, there, 5, 2, 1), 40, 6, 4};
              OK(copy(p, up));
              by_hand(there, from, up);
              std::vector<unsigned char> seen(there.bytes.size());
              OK(p.cu.cuMemcpyDtoH_v2(seen.data(), device, seen.size()));
              must(seen == there.bytes, "host to device");
              // Through an array of 12 x 11 x 6 texels of 4 bytes, and back to the host.
              const CUarray solid = array(p, {12, 11, 6, kByte, 4, 0});
              const CopyParams in{linear(device, there, 0, 0, 0), driver::array_end(solid, 0), 48, 11, 6};
              OK(copy(p, in));
              CopyParams out{driver::array_end(solid, 8), back.end(1, 3, 2), 40, 8, 5};
              out.from.y = 2, out.from.z = 1;
              Field expected = back;
              by_hand(expected, there, out);
              OK(copy(p, out));
              must(back.bytes == expected.bytes, "array to host");
              OK(p.cu.cuArrayDestroy(solid));
              OK(p.cu.cuMemFree_v2(device));
            }),
            0);
  EXPECT_EQ(truth().used_bytes, 0u);
}

TEST_F(Driver, ABoxOutsideItsMemoryIsRefusedAndNotWritten) {
  EXPECT_EQ(run([] {
              Program p;
              Field host{64, 8, 4};
              CUdeviceptr device = 0;
              OK(p.cu.cuMemAlloc_v2(&device, host.bytes.size()));
              const CUarray flat = array(p, {16, 8, 0, kFloat, 1, 0});
              const CopyParams good{host.end(0, 0, 0), linear(device, host, 0, 0, 0), 64, 8, 4};
              OK(copy(p, good));
              const auto refused = [&](const char* what, auto change) {
                CopyParams bad = good;
                change(bad);
                must(copy(p, bad) == CUDA_ERROR_INVALID_VALUE, what);
              };
              refused("past the end", [](CopyParams& c) { c.to.z = 1; });
              refused("a pitch below the width", [](CopyParams& c) { c.to.pitch = 63; });
              refused("a pitch below offset and width", [](CopyParams& c) { c.from.x = 1; });
              refused("a height below the rows", [](CopyParams& c) { c.to.height = 7; });
              refused("a huge pitch", [](CopyParams& c) { c.from.pitch = 1ull << 40; });
              refused("a product beyond 64 bits", [](CopyParams& c) { c.to.z = ~0ull / 2; });
              refused("a level of detail", [](CopyParams& c) { c.to.lod = 1; });
              refused("a reserved pointer", [&](CopyParams& c) { c.to.extra = &c; });
              refused("no address", [](CopyParams& c) { c.from.host = nullptr; });
              refused("no type", [](CopyParams& c) { c.from.type = 0; });
              refused("an unknown type", [](CopyParams& c) { c.to.type = 5; });
              refused("an array too deep", [&](CopyParams& c) { c.to = driver::array_end(flat, 0); });
              const CopyParams texels{host.end(0, 0, 0), driver::array_end(flat, 2), 4, 1, 1};
              must(copy(p, texels) == CUDA_ERROR_INVALID_VALUE, "half a texel");
              const CopyParams nobody{host.end(0, 0, 0), driver::array_end(nullptr, 0), 4, 1, 1};
              must(copy(p, nobody) == CUDA_ERROR_INVALID_HANDLE, "no array");
              must(p.cu.cuMemcpy3D_v2(nullptr) == CUDA_ERROR_INVALID_VALUE, "no description");
              const CopyParams nothing{host.end(0, 0, 0), linear(1, host, 0, 0, 0), 0, 8, 4};
              OK(copy(p, nothing));
            }),
            0);
}

TEST_F(Driver, RowsReachAnArrayAndComeBack) {
  EXPECT_EQ(run([] {
              Program p;
              std::vector<float> in(256), out(256);
              std::iota(in.begin(), in.end(), 1.0f);
              const CUarray a = array(p, {256, 0, 0, kFloat, 1, 0}), b = array(p, {256, 0, 0, kFloat, 1, 0});
              CUdeviceptr device = 0;
              OK(p.cu.cuMemAlloc_v2(&device, 1024));
              const CUstream stream = p.stream();
              OK(p.cu.cuMemcpyHtoA_v2(a, 0, in.data(), 512));
              OK(p.cu.cuMemcpyHtoAAsync_v2(a, 512, in.data() + 128, 512, stream));
              OK(p.cu.cuStreamSynchronize(stream));
              OK(p.cu.cuMemcpyAtoA_v2(b, 0, a, 0, 1024));
              OK(p.cu.cuMemcpyAtoD_v2(device, b, 0, 1024));
              OK(p.cu.cuMemsetD32_v2(device, 0, 1));
              OK(p.cu.cuMemcpyDtoA_v2(b, 0, device, 1024));
              OK(p.cu.cuMemcpyAtoH_v2(out.data(), b, 0, 1024));
              in[0] = 0;
              must(in == out, "the floats differ");
              must(p.cu.cuMemcpyHtoA_v2(a, 4, in.data(), 1024) == CUDA_ERROR_INVALID_VALUE, "past the array's end");
              const CUarray flat = array(p, {16, 16, 0, kFloat, 1, 0});
              must(p.cu.cuMemcpyHtoA_v2(flat, 0, in.data(), 64) == CUDA_ERROR_INVALID_VALUE, "two dimensions");
            }),
            0);
}

TEST_F(Driver, PeerAndBatchCopiesNameTheFailedOne) {
  EXPECT_EQ(
      run([] {
        Program p;
        CUcontext second = nullptr;
        OK(p.cu.cuCtxCreate_v2(&second, 0, 0));
        Field host{32, 4, 3}, seen{32, 4, 3};
        host.number();
        CUdeviceptr a = 0, b = 0;
        OK(p.cu.cuMemAlloc_v2(&a, host.bytes.size()));
        OK(p.cu.cuMemAlloc_v2(&b, host.bytes.size()));
        OK(p.cu.cuMemcpyHtoD_v2(a, host.bytes.data(), host.bytes.size()));
        CopyParams peer{linear(a, host, 0, 0, 0), linear(b, host, 0, 0, 0), 32, 4, 3};
        must(p.cu.cuMemcpy3DPeer(as<CUDA_MEMCPY3D_PEER>(&peer)) == CUDA_ERROR_INVALID_CONTEXT, "no contexts");
        peer.from.extra = p.context, peer.to.extra = second;
        OK(p.cu.cuMemcpy3DPeer(as<CUDA_MEMCPY3D_PEER>(&peer)));
        CUdeviceptr to[2] = {reinterpret_cast<CUdeviceptr>(seen.bytes.data()),
                             reinterpret_cast<CUdeviceptr>(seen.bytes.data()) + 200};
        CUdeviceptr from[2] = {b, b + 200};
        std::size_t sizes[2] = {200, 184}, first[1] = {0}, failed = 7;
        unsigned attributes[6] = {1, 0, 0, 0, 0, 0};  // in stream order
        auto* said = reinterpret_cast<CUmemcpyAttributes*>(attributes);
        const CUstream stream = p.stream();
        OK(p.cu.cuMemcpyBatchAsync(to, from, sizes, 2, said, first, 1, &failed, stream));
        OK(p.cu.cuStreamSynchronize(stream));
        must(seen.bytes == host.bytes, "the batch's bytes differ");
        sizes[1] = 185;
        must(p.cu.cuMemcpyBatchAsync(to, from, sizes, 2, said, first, 1, &failed, stream) == CUDA_ERROR_INVALID_VALUE &&
                 failed == 1,
             "the second is too long");
        must(p.cu.cuMemcpyBatchAsync(to, from, sizes, 2, said, first, 1, &failed, nullptr) == CUDA_ERROR_INVALID_VALUE,
             "the legacy stream");
        attributes[0] = 0;
        must(p.cu.cuMemcpyBatchAsync_v2(to, from, sizes, 2, said, first, 1, stream) == CUDA_ERROR_INVALID_VALUE,
             "no order said");
      }),
      0);
}

// Returns the KiB that a device's links sent and received, from the simulated NVML next to the driver.
std::array<unsigned long long, 2> link_kib(unsigned index) {
  const std::string path = HEADGATE_SIM_CUDA;
  void* const nvml = ::dlopen((path.substr(0, path.rfind('/')) + "/libnvidia-ml.so.1").c_str(), RTLD_NOW);
  must(nvml != nullptr, "no NVML");
  struct FieldValue {
    unsigned id, scope;
    long long when, latency;
    unsigned type, result;
    unsigned long long value;
  } fields[2] = {{138, ~0U, 0, 0, 0, 9, 0}, {139, ~0U, 0, 0, 0, 9, 0}};
  void* device = nullptr;
  const auto call = [&]<typename... Arguments>(const char* name, Arguments... arguments) {
    must(reinterpret_cast<int (*)(Arguments...)>(::dlsym(nvml, name))(arguments...) == 0, name);
  };
  call("nvmlInit_v2");
  call("nvmlDeviceGetHandleByIndex_v2", index, &device);
  call("nvmlDeviceGetFieldValues", device, 2, &fields[0]);
  must(fields[0].result == 0 && fields[1].result == 0, "no figures of the links");
  return {fields[0].value, fields[1].value};
}

TEST_F(Driver, OnlyCopiesBetweenDevicesAreLinkTraffic) {
  Profile profile = *find_profile("h200");
  profile.count = 2;
  ASSERT_TRUE(create_node(directory_, profile));
  EXPECT_EQ(run([] {
              constexpr std::size_t kBytes = 1 << 20;
              using Kib = std::array<unsigned long long, 2>;
              Program p(1);
              const CUcontext second = p.context;
              CUdeviceptr there = 0, here = 0, beside = 0;
              OK(p.cu.cuMemAlloc_v2(&there, kBytes));
              OK(p.cu.cuCtxCreate_v2(&p.context, 0, 0));
              OK(p.cu.cuMemAlloc_v2(&here, kBytes));
              const CUstream stream = p.stream();
              OK(p.cu.cuMemAllocAsync(&beside, kBytes, stream));
              OK(p.cu.cuMemcpyAsync(beside, here, kBytes, stream));
              OK(p.cu.cuStreamSynchronize(stream));
              must(link_kib(0) == Kib{0, 0}, "within a device");
              OK(p.cu.cuMemcpyPeer(there, second, here, p.context, kBytes / 2));
              OK(p.cu.cuMemcpyAsync(here, there, kBytes, stream));
              OK(p.cu.cuMemcpyAsync(there, beside, 4096, stream));
              OK(p.cu.cuStreamSynchronize(stream));
              must(link_kib(0) == Kib{516, 1024} && link_kib(1) == Kib{1024, 516}, "both ways");
            }),
            0);
}

TEST_F(Driver, ArraysAndMipmapsTakeAndReleaseTheirBytes) {
  EXPECT_EQ(run([this] {
              Program p;
              const auto held = [this] { return truth().processes.at(0).bytes; };
              const CUarray solid = array(p, {64, 32, 16, kFloat, 2, 0});
              must(held() == 64 * 32 * 16 * 8, message("an array takes ", held()));
              ArrayShape shape{64, 64, 0, kByte, 4, 0}, told{};
              CUmipmappedArray mipmap = nullptr;
              OK(p.cu.cuMipmappedArrayCreate(&mipmap, as<CUDA_ARRAY3D_DESCRIPTOR>(&shape), 99));
              std::uint64_t levels = 0;
              for (std::uint64_t side = 64; side > 0; side /= 2) levels += side * side * 4;
              must(held() == 64 * 32 * 16 * 8 + levels, message("with the mipmap ", held()));
              void* library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
              const auto level_of = reinterpret_cast<CUresult (*)(CUarray*, CUmipmappedArray, unsigned)>(
                  ::dlsym(library, "cuMipmappedArrayGetLevel"));
              const auto shape_of =
                  reinterpret_cast<CUresult (*)(ArrayShape*, CUarray)>(::dlsym(library, "cuArray3DGetDescriptor_v2"));
              CUarray level = nullptr;
              OK(level_of(&level, mipmap, 6));
              OK(shape_of(&told, level));
              must(told.width == 1 && told.height == 1 && told.channels == 4, "the smallest level");
              must(level_of(&level, mipmap, 7) == CUDA_ERROR_INVALID_VALUE, "a level too far");
              must(p.cu.cuArrayDestroy(level) == CUDA_ERROR_INVALID_HANDLE, "a level is its mipmap's");
              OK(p.cu.cuMipmappedArrayDestroy(mipmap));
              must(p.cu.cuMipmappedArrayDestroy(mipmap) == CUDA_ERROR_INVALID_HANDLE, "a second time");
              OK(p.cu.cuArrayDestroy(solid));
              must(p.cu.cuArrayDestroy(solid) == CUDA_ERROR_INVALID_HANDLE, "a second time");
              must(held() == 0, message("still ", held()));
              const ArrayShape bad[] = {{0, 4, 0, kFloat, 1, 0},        {4, 0, 4, kFloat, 1, 0},
                                        {4, 4, 0, kFloat, 3, 0},        {4, 4, 0, 0x77, 1, 0},
                                        {4, 4, 0, kFloat, 1, 1},        {4, 5, 6, kFloat, 1, 4},
                                        {1u << 20, 1, 0, kFloat, 1, 0}, {4, 4, 0, kFloat, 1, 0x8000}};
              for (const ArrayShape& each : bad) {
                CUarray made = nullptr;
                must(p.cu.cuArray3DCreate_v2(&made, as<CUDA_ARRAY3D_DESCRIPTOR>(&each)) == CUDA_ERROR_INVALID_VALUE,
                     message("a shape of ", each.width, " x ", each.height, " x ", each.depth));
              }
              must(p.cu.cuArrayCreate_v2(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE, "nothing at all");
              array(p, {64, 64, 0, kFloat, 1, 0});  // destroyed with its context
              OK(p.cu.cuCtxDestroy_v2(p.context));
              must(held() == 0, "the context's array stays");
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
