// Texture and surface objects, sparse tiles, planes.
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

class Textures : public Driver {};

struct Resource {  // cuda.h: CUDA_RESOURCE_DESC of an array or of linear memory
  std::uint32_t type = 0, padding = 0;
  std::uint64_t handle = 0;
  std::uint32_t format = 0x20, channels = 1;
  std::uint64_t bytes = 0;
  std::uint64_t rest[13] = {};
  std::uint64_t flags = 0;
};
static_assert(sizeof(Resource) == 144);
struct Sampling {  // CUDA_TEXTURE_DESC
  std::uint32_t words[26] = {};
};
struct Shape {  // CUDA_ARRAY3D_DESCRIPTOR
  std::size_t width = 64, height = 64, depth = 0;
  unsigned format = 0x08, channels = 1, flags = 0;
};

template <typename... Parameters>
CUresult call(const char* name, Parameters... parameters) {
  static void* const library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
  return reinterpret_cast<CUresult (*)(Parameters...)>(::dlsym(library, name))(parameters...);
}
void is(CUresult result, unsigned wanted, const std::string& what) {
  must(static_cast<unsigned>(result) == wanted, message(what, " answered ", static_cast<unsigned>(result)));
}

TEST_F(Textures, ObjectsReturnTheirDescriptionUntilDestroyed) {
  EXPECT_EQ(run([] {
              Program p;
              Shape shape;
              shape.flags = 2;
              CUarray array = nullptr, plain = nullptr;
              OK(p.cu.cuArray3DCreate_v2(&array, reinterpret_cast<CUDA_ARRAY3D_DESCRIPTOR*>(&shape)));
              shape.flags = 0;
              OK(p.cu.cuArray3DCreate_v2(&plain, reinterpret_cast<CUDA_ARRAY3D_DESCRIPTOR*>(&shape)));
              Resource resource, told;
              Sampling sampling, sampled;
              sampling.words[3] = 1;
              resource.handle = reinterpret_cast<std::uint64_t>(array);
              std::uint64_t texture = 0, surface = 0, linear = 0;
              const auto make = [&](std::uint64_t* out) {
                return call("cuTexObjectCreate", out, &resource, &sampling, static_cast<void*>(nullptr));
              };
              OK(make(&texture));
              OK(call("cuSurfObjectCreate", &surface, &resource));
              OK(call("cuTexObjectGetResourceDesc", &told, texture));
              OK(call("cuTexObjectGetTextureDesc", &sampled, texture));
              must(told.handle == resource.handle && sampled.words[3] == 1, "the same");
              is(call("cuTexObjectGetResourceViewDesc", &sampled, texture), 1, "it has no view");
              is(call("cuSurfObjectGetResourceDesc", &told, texture), 1, "it is no surface");
              is(call("cuSurfObjectDestroy", texture), 1, "it is no surface");
              OK(call("cuTexObjectDestroy", texture));
              is(call("cuTexObjectDestroy", texture), 1, "twice");
              OK(call("cuSurfObjectDestroy", surface));
              resource.handle = reinterpret_cast<std::uint64_t>(plain);
              is(call("cuSurfObjectCreate", &surface, &resource), 1, "an array that surfaces may not use");
              resource.handle = 0;
              is(make(&texture), 1, "no array");
              CUdeviceptr memory = 0;
              OK(p.cu.cuMemAlloc_v2(&memory, 4096));
              resource.type = 2;
              resource.handle = memory;
              resource.bytes = 4096;
              OK(make(&linear));
              resource.bytes = 4097;
              is(make(&linear), 1, "more than is allocated");
              resource.bytes = 16;
              resource.handle = memory + 4;
              is(make(&linear), 1, "a crooked address");
              is(make(nullptr), 1, "nowhere");
            }),
            0);
}

TEST_F(Textures, OnlySparseArraysHaveTiles) {
  EXPECT_EQ(run([] {
              Program p;
              Shape shape;
              struct {
                unsigned width, height, depth, tail_level;
                unsigned long long tail_bytes;
                unsigned flags, reserved[4];
              } tiles{};
              CUarray sparse = nullptr, plain = nullptr, plane = nullptr;
              OK(p.cu.cuArray3DCreate_v2(&plain, reinterpret_cast<CUDA_ARRAY3D_DESCRIPTOR*>(&shape)));
              shape = {.width = 1024, .height = 1024, .depth = 0, .format = 0x20, .channels = 1, .flags = 0x40};
              OK(p.cu.cuArray3DCreate_v2(&sparse, reinterpret_cast<CUDA_ARRAY3D_DESCRIPTOR*>(&shape)));
              OK(call("cuArrayGetSparseProperties", &tiles, sparse));
              must(tiles.width == 128 && tiles.height == 128 && tiles.depth == 1, "64 KiB of 4-byte texels");
              is(call("cuArrayGetSparseProperties", &tiles, plain), 1, "an array that is not sparse");
              is(call("cuArrayGetPlane", &plane, plain, 0u), 1, "a format without planes");
              is(call("cuArrayGetPlane", &plane, static_cast<CUarray>(nullptr), 0u), 400, "no array");
            }),
            0);
}

TEST_F(Textures, GraphicsCallsReportThatThereIsNoDisplay) {
  EXPECT_EQ(run([] {
              void* out[8] = {};
              const auto nothing = [] { return static_cast<void*>(nullptr); };
              is(call("cuGraphicsMapResources", 1u, static_cast<void*>(out), nothing()), 3, "before cuInit");
              const Program p;
              is(call("cuGraphicsGLRegisterBuffer", static_cast<void*>(out), 1u, 0u), 219, "a buffer of OpenGL");
              is(call("cuGLCtxCreate_v2", static_cast<void*>(out), 0u, 0), 219, "a context of OpenGL");
              is(call("cuVDPAUGetDevice", static_cast<void*>(out), 0u, nothing()), 219, "a device of VDPAU");
              is(call("cuGraphicsMapResources", 1u, static_cast<void*>(out), nothing()), 400,
                 "a resource that is none");
              is(call("cuGraphicsUnregisterResource", nothing()), 400, "no resource");
            }),
            0);
}

}  // namespace
}  // namespace headgate::sim
