"""bench/apps/linalg_fft.py - torch.linalg and torch.fft: cuSOLVER, cuBLAS, cuFFT and MAGMA's tasks."""
import torch

from common import DEVICE, report, version_of


def work():
    torch.manual_seed(1)
    a = torch.randn(200, 200, dtype=torch.float64).to(DEVICE)
    b = torch.randn(200, 5, dtype=torch.float64).to(DEVICE)
    spd = a @ a.T + 200 * torch.eye(200, dtype=torch.float64, device=DEVICE)
    signal = torch.randn(16, 4096).to(DEVICE)
    spectrum = torch.fft.rfft(signal)
    plane = torch.fft.fft2(torch.randn(8, 128, 96).to(DEVICE))
    return [torch.linalg.svdvals(a)[:5].tolist(), torch.linalg.eigvalsh(spd)[-3:].tolist(), torch.linalg.solve(a, b).abs().sum(),
            torch.linalg.cholesky(spd).diagonal().sum(), torch.linalg.qr(a)[1].diagonal().abs().sum(),
            torch.linalg.lstsq(a, b).solution.abs().max(), torch.linalg.inv(spd).trace(), torch.linalg.slogdet(spd)[1],
            torch.matrix_exp(a * 0.01).sum(), spectrum.abs().sum(), plane.abs().max(),
            torch.fft.irfft(spectrum, 4096).sub(signal).abs().max() < 1e-4]


report(version_of("torch"), lambda: [n if isinstance(n, list) else n.item() for n in work()])
