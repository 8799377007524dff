"""tests/gpu/cases_torch_process.py - PyTorch with processes, allocators and variables; each case alone."""
import os
import subprocess
import sys

import torch
from torch import nn
from torch.nn import functional as F

from harness import case


def some_training():
    """A little of everything that allocates: returns losses and how much memory is held."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 10)).cuda()
    opt, losses = torch.optim.SGD(model.parameters(), lr=0.01), []
    for i in range(6):
        x = torch.randn(8 * (i % 3 + 1), 3, 32, 32, device="cuda")
        loss = model(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        kept = [torch.empty(1 << (20 + i), device="cuda") for _ in range(3)]
        del kept
    torch.cuda.empty_cache()
    return losses


@case(tolerance=1e-4, env={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})
def allocator_cuda_malloc_async():
    return torch.cuda.get_allocator_backend(), some_training()


@case(tolerance=1e-4, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
def allocator_expandable_segments():
    losses = some_training()
    x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    return losses, any(s["is_expandable"] for s in torch.cuda.memory_snapshot()), x.numel()


@case(tolerance=1e-4, env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
def allocator_without_caching():
    return some_training()


@case(tolerance=1e-4, env={"CUDA_LAUNCH_BLOCKING": "1"})
def cuda_launch_blocking():
    return some_training()


@case(env={"CUDA_LAUNCH_BLOCKING": "1"})
def cuda_launch_blocking_tells_at_the_launch():
    try:
        torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")]
    except RuntimeError as e:
        return str(e).splitlines()[0]
    return "nothing said"


@case(tolerance=1e-4, env={"CUDA_MODULE_LOADING": "EAGER"}, seconds=240)
def cuda_module_loading_eager():
    return some_training()


@case(tolerance=1e-4, env={"CUDA_MODULE_LOADING": "LAZY"})
def cuda_module_loading_lazy():
    return some_training()


@case(env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
def cuda_device_order_pci():
    return torch.cuda.get_device_name(0), torch.cuda.device_count()


@case(env={"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
def cuda_device_order_fastest():
    return torch.cuda.get_device_name(0), torch.cuda.device_count()


def count_in_child(**env):
    """How many devices a new process sees, and the name of the first."""
    code = ("import torch; n = torch.cuda.device_count(); "
            "print(n, torch.ones(2, device='cuda').sum().item() if n else '')")
    out = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, **env), timeout=100,
                         capture_output=True, text=True, check=False)
    return out.stdout.strip() or out.stderr.strip()[-200:]


@case(alone=True, seconds=200)
def cuda_visible_devices():
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    lists = {"index": "0", "uuid": uuid, "short uuid": uuid[:14], "none": "", "minus": "-1",
             "unknown uuid": "GPU-00000000-dead-beef-0000-000000000000",
             "mig": "MIG-3eb87630-93d5-b2b6-b8ff-9b359caf4ee2", "mig old": f"MIG-{uuid}/1/0"}
    return {name: count_in_child(CUDA_VISIBLE_DEVICES=value) for name, value in lists.items()}


@case(alone=True, seconds=120)
def data_loader_with_fork_workers():
    from torch.utils.data import DataLoader, TensorDataset
    torch.ones(1, device="cuda")
    data = TensorDataset(torch.arange(512.0).reshape(256, 2))
    loader = DataLoader(data, batch_size=8, num_workers=3, pin_memory=True, persistent_workers=True)
    return [torch.stack([b[0].cuda(non_blocking=True).sum() for b in loader]) for _ in range(2)]


@case(alone=True, seconds=120)
def forked_child_is_told_of_it():
    """CUDA in the child of a fork is refused with PyTorch's own words."""
    torch.ones(1, device="cuda")
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            torch.ones(1, device="cuda")
            said = "worked"
        except RuntimeError as e:
            said = str(e).split(".")[0]
        os.write(write, said.encode())
        os._exit(0)
    os.wait()
    return os.read(read, 300).decode(), torch.ones(3, device="cuda").sum()


def in_spawned_child(rank, queue):
    queue.put((rank, (torch.ones(10, device="cuda") * rank).sum().item()))


@case(alone=True, seconds=150)
def spawned_children():
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    children = [context.Process(target=in_spawned_child, args=(i, queue)) for i in range(3)]
    for c in children:
        c.start()
    for c in children:
        c.join()
    return sorted(queue.get() for _ in children)


def add_to_shared(queue, done):
    queue.get().add_(5)
    torch.cuda.synchronize()
    done.set()


@case(alone=True, seconds=100)
def tensors_shared_between_processes():
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    child = context.Process(target=add_to_shared, args=(queue, done))
    child.start()
    try:
        x = torch.arange(10.0, device="cuda")
        x.share_memory_()
        from torch.multiprocessing.reductions import reduce_tensor
        reduce_tensor(x)                        # refused here, and not in a thread of the queue
        queue.put(x)
        if not done.wait(60):
            raise RuntimeError("the child did not see the tensor")
        return x
    finally:
        child.terminate()
        child.join()


@case(alone=True, tolerance=1e-5, seconds=150)
def ddp_with_one_rank():
    import torch.distributed as dist
    dist.init_process_group("nccl", init_method=f"file://{os.environ['TMPDIR']}/ddp-{os.getpid()}",
                            rank=0, world_size=1)
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 10).cuda(), device_ids=[0])
    opt, x, losses = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(32, 64).cuda(), []
    for _ in range(3):
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    total = torch.arange(5.0, device="cuda")
    dist.all_reduce(total)
    dist.barrier()
    dist.destroy_process_group()
    return losses, total


def one_of_two(rank, path, queue):
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=2)
    x = torch.arange(1000.0, device="cuda") * (rank + 1)
    dist.all_reduce(x)
    queue.put((rank, x.sum().item()))
    dist.destroy_process_group()


@case(alone=True, gpus=2, seconds=180)
def nccl_of_two_processes():
    import torch.multiprocessing as mp
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    path = f"{os.environ['TMPDIR']}/nccl-{os.getpid()}"
    children = [context.Process(target=one_of_two, args=(i, path, queue)) for i in range(2)]
    for c in children:
        c.start()
    for c in children:
        c.join(120)
    if any(c.exitcode != 0 for c in children):
        for c in children:
            c.kill()
        raise RuntimeError(f"status {[c.exitcode for c in children]}")
    return sorted(queue.get() for _ in children)


@case(alone=True, gpus=2, tolerance=1e-5, seconds=120)
def data_parallel_over_two_gpus():
    torch.manual_seed(1)
    model = nn.DataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).cuda(), [0, 1])
    out = model(torch.randn(32, 64).cuda())
    out.square().sum().backward()
    return out, model.module[0].weight.grad


@case(alone=True, gpus=2, seconds=120)
def copies_between_two_gpus():
    x = torch.arange(1 << 20, device="cuda:0")
    y = x.to("cuda:1")
    z = torch.empty_like(x).copy_(y * 2)
    return z, str(y.device), torch.cuda.can_device_access_peer(0, 1)


@case(alone=True, tolerance=1e-5, seconds=120)
def model_over_all_devices_by_hand():
    """A layer a device, as pipelines do; with one GPU both on that."""
    last = torch.cuda.device_count() - 1
    torch.manual_seed(1)
    first, second = nn.Linear(50, 50).cuda(0), nn.Linear(50, 5).cuda(last)
    x = torch.randn(8, 50).cuda(0).requires_grad_()
    F.relu(second(first(x).to(f"cuda:{last}"))).sum().backward()
    return x.grad


@case(alone=True, seconds=100)
def a_kernel_that_asserts():
    """An index out of bounds is the device's assertion: told, and sticky."""
    x, said = torch.zeros(4, device="cuda"), []
    for f in (lambda: x[torch.tensor([9], device="cuda")].cpu(), lambda: torch.ones(1, device="cuda").cpu()):
        try:
            f()
            said.append("nothing")
        except RuntimeError as e:
            said.append(str(e).splitlines()[0])
    return said


@case(alone=True, seconds=100)
def torch_cuda_nvml():
    """What torch.cuda asks of NVML. Uses vary from moment to moment; limits and kinds do not."""
    use, memory = torch.cuda.utilization(), torch.cuda.memory_usage()
    held = torch.cuda.device_memory_used() if hasattr(torch.cuda, "device_memory_used") else 1
    return (0 <= use <= 100, 0 <= memory <= 100, held > 0, 0 < torch.cuda.temperature() < 120,
            torch.cuda.power_draw() > 0, torch.cuda.clock_rate() > 0, len(torch.cuda.list_gpu_processes()) > 0)


@case(env={"PYTORCH_NVML_BASED_CUDA_CHECK": "1"})
def is_available_by_nvml():
    return torch.cuda.is_available(), torch.cuda.device_count()
