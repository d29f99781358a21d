// Graphics interoperation on a machine without a display. No OpenGL, EGL or VDPAU context exists, so no resource handle
// can be valid. The arguments are not read.
#include "sim/driver/library.hpp"

namespace headgate::sim::driver {

SIM_CALL(cuGLCtxCreate, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGLCtxCreate_v2, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGLGetDevices, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGLGetDevices_v2, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGLRegisterBufferObject, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGraphicsGLRegisterBuffer, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGraphicsGLRegisterImage, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGraphicsEGLRegisterImage, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuVDPAUCtxCreate, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuVDPAUCtxCreate_v2, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuVDPAUGetDevice, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGraphicsVDPAURegisterOutputSurface, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)
SIM_CALL(cuGraphicsVDPAURegisterVideoSurface, (), CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)

SIM_CALL_PTSZ(cuGraphicsMapResources, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL_PTSZ(cuGraphicsUnmapResources, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsUnregisterResource, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsResourceGetMappedMipmappedArray, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsResourceGetMappedPointer, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsResourceGetMappedPointer_v2, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsResourceSetMapFlags, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsResourceSetMapFlags_v2, (), CUDA_ERROR_INVALID_HANDLE)
SIM_CALL(cuGraphicsSubResourceGetMappedArray, (), CUDA_ERROR_INVALID_HANDLE)

}  // namespace headgate::sim::driver
