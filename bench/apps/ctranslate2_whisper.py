"""bench/apps/ctranslate2_whisper.py - CTranslate2: a Whisper, as faster-whisper runs it, writes down random sounds."""
import tempfile

import ctranslate2
import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast, WhisperConfig, WhisperForConditionalGeneration

from common import DEVICE, report, version_of

WORDS = 1000
START, END = WORDS - 2, WORDS - 1


def write_model(folder):
    torch.manual_seed(1)
    config = WhisperConfig(vocab_size=WORDS, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4,
                           decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, pad_token_id=END, bos_token_id=START,
                           eos_token_id=END, decoder_start_token_id=START, init_std=0.1)
    model = WhisperForConditionalGeneration(config)
    model.generation_config.suppress_tokens = [END]
    model.generation_config.begin_suppress_tokens = [END]
    model.save_pretrained(f"{folder}/model")
    words = {f"w{i}": i for i in range(WORDS - 2)} | {"<|startoftranscript|>": START, "<|endoftext|>": END}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0", bos_token="<|startoftranscript|>",
                            eos_token="<|endoftext|>").save_pretrained(f"{folder}/model")
    ctranslate2.converters.TransformersConverter(f"{folder}/model").convert(f"{folder}/converted")


with tempfile.TemporaryDirectory() as FOLDER:
    write_model(FOLDER)
    MODEL = ctranslate2.models.Whisper(f"{FOLDER}/converted", device=DEVICE, compute_type="float32")
SOUNDS = np.random.default_rng(1).normal(size=(4, 80, 3000)).astype(np.float32)


def work():
    features = ctranslate2.StorageView.from_array(SOUNDS)
    answers = MODEL.generate(features, [[START]] * len(SOUNDS), beam_size=1, max_length=60)
    return [answer.sequences_ids[0] for answer in answers]


report(version_of("ctranslate2"), work)
