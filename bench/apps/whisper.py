"""bench/apps/whisper.py - transformers: a small Whisper hears a tone: its encoder in half precision, then greedy words."""
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from common import DEVICE, report, version_of

torch.manual_seed(1)
CONFIG = WhisperConfig(vocab_size=512, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4,
                       decoder_attention_heads=4, encoder_ffn_dim=512, decoder_ffn_dim=512, init_std=0.1, pad_token_id=0,
                       bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=[], begin_suppress_tokens=[])
MODEL = WhisperForConditionalGeneration(CONFIG).to(DEVICE, torch.float16 if DEVICE == "cuda" else torch.float32).eval()
SOUND = torch.sin(torch.arange(2 * 80 * 3000).reshape(2, 80, 3000) * 0.01)
STEPS = 24


@torch.no_grad()
def work():
    features = SOUND.to(DEVICE, MODEL.dtype)
    heard = MODEL.get_encoder()(features)
    words = torch.full((2, 1), 3, device=DEVICE)
    for _ in range(STEPS):
        scores = MODEL(encoder_outputs=heard, decoder_input_ids=words).logits[:, -1]
        words = torch.cat([words, scores.argmax(-1, keepdim=True)], 1)
    return [heard.last_hidden_state.float().abs().sum(), heard.last_hidden_state.float().abs().max(), words.tolist()]


report(version_of("transformers"), work)
