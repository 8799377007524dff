"""bench/apps/diffusion.py - diffusers: Stable Diffusion's pipeline with a small UNet and VAE, guided by given embeddings of a
text, and an unconditional one; the sums of their pictures."""
import torch
from diffusers import AutoencoderKL, DDIMPipeline, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel, UNet2DModel

from common import DEVICE, report, version_of


def text_pipeline():
    torch.manual_seed(1)
    unet = UNet2DConditionModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32,
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=8, norm_num_groups=8)
    vae = AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2,
                        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=8)
    return StableDiffusionPipeline(vae=vae, text_encoder=None, tokenizer=None, unet=unet, scheduler=DDIMScheduler(clip_sample=False),
                                   safety_checker=None, feature_extractor=None, requires_safety_checker=False)


def plain_pipeline():
    torch.manual_seed(2)
    unet = UNet2DModel(sample_size=32, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
                       down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    return DDIMPipeline(unet=unet, scheduler=DDIMScheduler(clip_sample=False))


TEXT, PLAIN = text_pipeline().to(DEVICE), plain_pipeline().to(DEVICE)
for each in (TEXT, PLAIN):
    each.set_progress_bar_config(disable=True)
torch.manual_seed(3)
WORDS = torch.randn(2, 1, 8, 32).to(DEVICE)


def work():
    seed = torch.Generator("cpu").manual_seed(4)
    first = TEXT(prompt_embeds=WORDS[0], negative_prompt_embeds=WORDS[1], num_inference_steps=20, generator=seed,
                 height=32, width=32, output_type="np").images
    second = PLAIN(batch_size=2, num_inference_steps=20, generator=seed, output_type="np").images
    return [float(p.astype("float64").sum()) for p in (first, second)] + [float(first.max()), float(second.min())]


report(version_of("diffusers"), work)
