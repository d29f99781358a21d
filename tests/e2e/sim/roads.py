"""Reaches the driver by each road that a program without a compiler has, and asks it for memory by each: prints the answers.

Usage: roads.py BYTES
"""
import ctypes
import sys

SIZE = int(sys.argv[1])
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
ALLOC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t)


def try_road(name, function):
    answer = function(ctypes.byref(pointer), ctypes.c_size_t(SIZE))
    print(name, answer)
    if answer == 0:
        assert cuda.cuMemFree_v2(pointer) == 0


def proc_address(version):
    found, status = ctypes.c_void_p(), ctypes.c_int(-1)
    ask = cuda.cuGetProcAddress if version == 1 else cuda.cuGetProcAddress_v2
    arguments = [b"cuMemAlloc", ctypes.byref(found), 12000, ctypes.c_uint64(0)]
    assert ask(*arguments, *([ctypes.byref(status)] if version == 2 else [])) == 0
    return ALLOC(found.value)


copied = ALLOC(ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value)  # before the driver is initialised
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0

try_road("attribute", cuda.cuMemAlloc_v2)
libc = ctypes.CDLL(None)
libc.dlsym.restype = libc.dlvsym.restype = ctypes.c_void_p
handle = ctypes.c_void_p(cuda._handle)
try_road("dlsym", ALLOC(libc.dlsym(handle, b"cuMemAlloc_v2")))
try_road("cuGetProcAddress", proc_address(1))
try_road("cuGetProcAddress_v2", proc_address(2))
try_road("copied", copied)

free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print("total", total.value)
