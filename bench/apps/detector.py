"""bench/apps/detector.py - torchvision: a Faster R-CNN with random weights finds boxes: its own kernels of CUDA (nms, roi_align)."""
import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

from common import DEVICE, report, version_of

torch.manual_seed(1)
MODEL = fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None, box_score_thresh=0.0).to(DEVICE).eval()
PICTURES = torch.rand(2, 3, 240, 320)


@torch.no_grad()
def work():
    found = MODEL(list(PICTURES.to(DEVICE)))
    return [[len(f["boxes"]), f["boxes"].sum().item(), f["scores"].sum().item()] for f in found]


report(version_of("torchvision"), work)
