#!/usr/bin/env python3
"""The Python side of train_vs_peers.py and startup.py: the debug model in transformers, trained on
random tokens, or with --corpus and --tokenizer on the first tokens of a JSONL text. One measurement
per process; run by the peers' Python. Prints "step 1" when the first step is done, and at the end one
JSON line: seconds of each step after the warm-up, peak bytes.

Modes: fp32, amp (fp32 weights under bf16 autocast), bf16 (weights, gradients and moments in bf16).
"""
import argparse
import json
import time

import torch
import transformers


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def read_tokens(corpus, folder, count):
    """The first `count` tokens of the documents, encoded one by one until there are enough."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    ids = []
    with open(corpus, encoding="utf-8") as f:
        for line in f:
            ids += [tokenizer.bos_token_id, *tokenizer.encode(json.loads(line)["text"]), tokenizer.eos_token_id]
            if len(ids) >= count:
                return torch.tensor(ids[:count])
    raise SystemExit(f"{corpus} has {len(ids)} tokens, {count} are wanted")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["fp32", "amp", "bf16"])
    for name in ("rows", "length", "warmup", "steps", "threads"):
        parser.add_argument(name, type=int)
    parser.add_argument("--corpus")
    parser.add_argument("--tokenizer")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=6,
        num_attention_heads=16, num_key_value_heads=16, max_position_embeddings=131072,
        rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
        attn_implementation="sdpa", use_cache=False)
    model = transformers.LlamaForCausalLM(config)
    if args.mode == "bf16":
        model = model.to(torch.bfloat16)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    if args.corpus:
        tokens = read_tokens(args.corpus, args.tokenizer, args.rows * args.length).view(args.rows, args.length)
    else:
        tokens = torch.randint(0, config.vocab_size, (args.rows, args.length))

    seconds = []
    for i in range(args.warmup + args.steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.mode == "amp"):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
        if i >= args.warmup:
            seconds.append(time.perf_counter() - begin)
        if i == 0:
            print("step 1", flush=True)
    print(json.dumps({"seconds": seconds, "loss": value, "peak_bytes": peak_bytes(),
                      "parameters": sum(p.numel() for p in model.parameters()),
                      "version": f"transformers {transformers.__version__}, "
                                 f"torch {torch.__version__}"}))


if __name__ == "__main__":
    main()
