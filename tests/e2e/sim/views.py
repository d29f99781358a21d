"""What a program is told of the GPU, by CUDA and by NVML, printed so that runs can be compared.

Usage: views.py nulls | devices | lists
"""
import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
nvml = ctypes.CDLL("libnvidia-ml.so.1")


def context(ordinal=0):
    made = ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(made), ordinal) == 0
    assert cuda.cuCtxSetCurrent(made) == 0


def nulls():
    """NULL wherever a caller may leave an answer out: the driver's own answer, never a crash."""
    one = ctypes.c_size_t()
    print("before init", cuda.cuMemGetInfo_v2(None, None))
    assert cuda.cuInit(0) == 0
    print("no context", cuda.cuMemGetInfo_v2(ctypes.byref(one), ctypes.byref(one)))
    context()
    print("both", cuda.cuMemGetInfo_v2(None, None))
    print("free", cuda.cuMemGetInfo_v2(None, ctypes.byref(one)))
    print("total", cuda.cuMemGetInfo_v2(ctypes.byref(one), None))
    print("device", cuda.cuDeviceTotalMem_v2(None, 0))
    print("no such device", cuda.cuDeviceTotalMem_v2(ctypes.byref(one), 99))
    assert nvml.nvmlInit_v2() == 0
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUtilizationRates",
                 "nvmlDeviceGetRunningProcessDetailList", "nvmlDeviceGetProcessesUtilizationInfo"):
        called = getattr(nvml, name, None)  # the last is driver 550's
        print(name, called and called(device, None), called and called(None, None))
    for name in ("Compute", "Graphics", "MPSCompute"):
        for version in ("", "_v2", "_v3"):
            called = "nvmlDeviceGet%sRunningProcesses%s" % (name, version)
            print(called, nvml[called](device, None, None))
    print("table", nvml.nvmlInternalGetExportTable(None, None))


def devices():
    """Each visible device: the total that CUDA tells of it and the one that NVML tells of the same card."""
    assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
    count, uuid, total = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    for ordinal in range(count.value):
        assert cuda.cuDeviceGetUuid(uuid, ordinal) == 0
        assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), ordinal) == 0
        digits = bytes(uuid).hex()
        text = "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        device, index, memory = ctypes.c_void_p(), ctypes.c_uint(), (ctypes.c_ulonglong * 3)()
        assert nvml.nvmlDeviceGetHandleByUUID(text.encode(), ctypes.byref(device)) == 0
        assert nvml.nvmlDeviceGetIndex(device, ctypes.byref(index)) == 0
        assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
        print("ordinal", ordinal, "card", index.value, "cuda", total.value >> 20, "nvml", memory[0] >> 20)


class Process1(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong)]


class Process2(ctypes.Structure):
    _fields_ = Process1._fields_ + [("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


def lists():
    """This process in every version of the list, with 64 MiB: the same figure in each layout."""
    assert cuda.cuInit(0) == 0 and nvml.nvmlInit_v2() == 0
    context()
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(64 << 20)) == 0
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    for version, layout in (("", Process1), ("_v2", Process2), ("_v3", Process2)):
        rows, count = (layout * 8)(), ctypes.c_uint(8)
        result = nvml["nvmlDeviceGetComputeRunningProcesses" + version](device, ctypes.byref(count), rows)
        told = [(row.pid == os.getpid(), row.bytes >> 20) for row in rows[: count.value]]
        print("v" + (version[2:] or "1"), result, told)


{"nulls": nulls, "devices": devices, "lists": lists}[sys.argv[1]]()
