#!/usr/bin/env python3
"""Writes the fixtures llama3_tiny.safetensors and qwen3_tiny.safetensors beside this file.

Reference: transformers 5.24.0 on torch 2.13.0, fp32, one thread. Each fixture holds a tiny model with
random weights (Hugging Face names, "weight/NAME"), two sequences of tokens, the logits, the mean loss,
the gradient of every parameter ("grad/NAME") and the losses of ten AdamW steps. Run it again only to
change the fixtures; the tests read the committed files.
"""
import json
import pathlib

import safetensors.torch
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

HERE = pathlib.Path(__file__).parent
VERSIONS = {"transformers": "5.24.0", "torch": "2.13.0"}
SHARED = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
              attn_implementation="eager", use_cache=False)


def llama():
    config = LlamaConfig(
        **SHARED, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})
    plain = dict(architecture="llama3", heads=4, kv_heads=2, head_dim=8, rope_theta=10000.0, tied=False)
    return LlamaForCausalLM(config), plain


def qwen():
    config = Qwen3Config(
        **SHARED, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=64, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
    plain = dict(architecture="qwen3", heads=4, kv_heads=2, head_dim=16, rope_theta=1000000.0, tied=True)
    return Qwen3ForCausalLM(config), plain


def write(name, model, plain):
    generator = torch.Generator().manual_seed(7)
    model = model.float().train()
    with torch.no_grad():
        for parameter_name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(1 + 0.1 * noise if "norm" in parameter_name else 0.15 * noise)
    tokens = torch.randint(0, SHARED["vocab_size"], (2, 19), generator=generator)
    tensors = {"tokens": tokens.int()}
    for parameter_name, p in model.named_parameters():
        tensors["weight/" + parameter_name] = p.detach().clone()
    output = model(input_ids=tokens, labels=tokens)
    output.loss.backward()
    tensors["logits"] = output.logits.detach()
    tensors["loss"] = output.loss.detach()
    for parameter_name, p in model.named_parameters():
        tensors["grad/" + parameter_name] = p.grad.clone()
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses = []
    for _ in range(10):
        loss = model(input_ids=tokens, labels=tokens).loss
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tensors["adamw_losses"] = torch.tensor(losses)
    plain.update(dim=SHARED["hidden_size"], ffn=SHARED["intermediate_size"],
                 layers=SHARED["num_hidden_layers"], vocab=SHARED["vocab_size"])
    safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / name,
                                metadata={"config": json.dumps(plain)})
    print(name, (HERE / name).stat().st_size, "bytes; losses", losses[0], losses[-1])


if __name__ == "__main__":
    found = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    if found != VERSIONS:
        raise SystemExit(f"these fixtures are made with {VERSIONS}, found {found}")
    torch.set_num_threads(1)
    write("llama3_tiny.safetensors", *llama())
    write("qwen3_tiny.safetensors", *qwen())
