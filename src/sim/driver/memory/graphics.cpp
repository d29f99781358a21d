// Graphics interoperation on a machine without a display. No OpenGL, EGL or VDPAU context exists, so no resource handle
// can be valid. The arguments are not read.
#include "sim/driver/library.hpp"

#define SIM_WITHOUT_DISPLAY(name, answer) \
  SIM_API CUresult name() {               \
    SIM_ENTER(name);                      \
    return answer;                        \
  }

namespace headgate::sim::driver {

constexpr auto kNoGraphicsContext = static_cast<CUresult>(219);  // cuda.h: CUDA_ERROR_INVALID_GRAPHICS_CONTEXT

SIM_WITHOUT_DISPLAY(cuGLCtxCreate, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGLCtxCreate_v2, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGLGetDevices, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGLGetDevices_v2, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGLRegisterBufferObject, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGraphicsGLRegisterBuffer, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGraphicsGLRegisterImage, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGraphicsEGLRegisterImage, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuVDPAUCtxCreate, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuVDPAUCtxCreate_v2, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuVDPAUGetDevice, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGraphicsVDPAURegisterOutputSurface, kNoGraphicsContext)
SIM_WITHOUT_DISPLAY(cuGraphicsVDPAURegisterVideoSurface, kNoGraphicsContext)

SIM_WITHOUT_DISPLAY(cuGraphicsMapResources, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsMapResources_ptsz, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsUnmapResources, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsUnmapResources_ptsz, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsUnregisterResource, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsResourceGetMappedMipmappedArray, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsResourceGetMappedPointer, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsResourceGetMappedPointer_v2, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsResourceSetMapFlags, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsResourceSetMapFlags_v2, CUDA_ERROR_INVALID_HANDLE)
SIM_WITHOUT_DISPLAY(cuGraphicsSubResourceGetMappedArray, CUDA_ERROR_INVALID_HANDLE)

}  // namespace headgate::sim::driver
