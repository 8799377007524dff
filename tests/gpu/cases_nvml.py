"""tests/gpu/cases_nvml.py - NVIDIA's management library: nvidia-ml-py and nvidia-smi itself."""
import re
import shutil
import subprocess

from harness import Missing, case


def nvml():
    import pynvml
    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


@case()
def pynvml_devices():
    n, h = nvml()
    pci = n.nvmlDeviceGetPciInfo(h)
    return [n.nvmlDeviceGetCount(), text(n.nvmlDeviceGetName(h)), text(n.nvmlDeviceGetUUID(h)), text(pci.busId),
            text(n.nvmlSystemGetDriverVersion()), n.nvmlSystemGetCudaDriverVersion(),
            list(n.nvmlDeviceGetCudaComputeCapability(h)), n.nvmlDeviceGetMemoryInfo(h).total,
            n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h)))]


@case()
def pynvml_measurements():
    """They vary; that they are there, and sensible, does not."""
    n, h = nvml()
    use = n.nvmlDeviceGetUtilizationRates(h)
    return [0 <= use.gpu <= 100, 0 < n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU) < 120,
            n.nvmlDeviceGetPowerUsage(h) > 0, n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM) > 0,
            n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM), n.nvmlDeviceGetEnforcedPowerLimit(h),
            n.nvmlDeviceGetMemoryInfo(h).used > 0]


@case()
def pynvml_wrong_calls():
    n, h = nvml()
    said = []
    for f in (lambda: n.nvmlDeviceGetHandleByIndex(99), lambda: n.nvmlDeviceGetHandleByUUID(b"GPU-none")):
        try:
            f()
        except n.NVMLError as e:
            said.append(str(e))
    n.nvmlShutdown()
    try:
        n.nvmlDeviceGetCount()
    except n.NVMLError as e:
        said.append(str(e))
    return said


def smi(*arguments):
    program = shutil.which("nvidia-smi")
    if not program:
        raise Missing("no nvidia-smi")
    out = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if out.returncode:
        raise RuntimeError(f"status {out.returncode}: {out.stdout.strip()} {out.stderr.strip()}")
    return out.stdout


@case()
def nvidia_smi_list():
    return smi("-L")


@case()
def nvidia_smi_query():
    return smi("--query-gpu=index,name,uuid,driver_version,memory.total,compute_cap,pci.bus_id,power.limit",
               "--format=csv")


@case()
def nvidia_smi_plain():
    """Its frame: versions, the GPU's name; what is measured is taken out."""
    head = smi().split("Processes:")[0].splitlines()[2:]
    return [re.sub(r"\s+", " ", re.sub(r"\d+(?=[CW%]|MiB)|\bP\d+\b", "#", line)) for line in head if "|" in line]


@case()
def nvidia_smi_measurements():
    values = smi("--query-gpu=temperature.gpu,utilization.gpu,memory.used,power.draw",
                 "--format=csv,noheader,nounits").splitlines()[0].split(",")
    return [re.sub(r"[\d.]+", "number", v.strip()) for v in values]
