"""bench/apps/onnx_runtime.py - ONNX Runtime: a convolutional network and a transformer, as PyTorch exports them."""
import io

import numpy as np
import onnxruntime
import torch

from common import DEVICE, report, version_of

PROVIDERS = [("CUDAExecutionProvider", {"use_tf32": 0})] if DEVICE == "cuda" else ["CPUExecutionProvider"]
STEPS = 20


def session_of(model, example):
    """A session for MODEL, of PyTorch, which runs on the device alone."""
    file = io.BytesIO()
    torch.onnx.export(model.eval(), (example,), file, input_names=["x"], output_names=["y"], dynamo=False)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1" if DEVICE == "cuda" else "0")
    return onnxruntime.InferenceSession(file.getvalue(), options, providers=PROVIDERS)


torch.manual_seed(1)
PICTURE, WORDS = torch.randn(4, 3, 64, 64), torch.randn(2, 64, 128)
NETWORK = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, stride=2), torch.nn.ReLU(),
                              torch.nn.Flatten(), torch.nn.Linear(64 * 31 * 31, 10))
LAYERS = torch.nn.Sequential(torch.nn.LayerNorm(128), torch.nn.Linear(128, 512), torch.nn.GELU(), torch.nn.Linear(512, 128), torch.nn.Softmax(-1))
SESSIONS = [(session_of(NETWORK, PICTURE), PICTURE.numpy()), (session_of(LAYERS, WORDS), WORDS.numpy())]


def work():
    sums = []
    for session, example in SESSIONS:
        for step in range(STEPS):
            answer, = session.run(None, {"x": example * np.float32(1 + step / STEPS)})
        sums += [float(np.abs(answer).sum(dtype=np.float64)), float(answer.max())]
    return sums


report(version_of("onnxruntime-gpu"), work)
