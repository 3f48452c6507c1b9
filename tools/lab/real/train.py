"""Trains the language model of model.py for some minutes of one CPU, so that its
log-probabilities mean something: train.py DIRECTORY MINUTES TEXT... makes
DIRECTORY/trained.gguf. Needs torch and transformers beside what model.py needs."""

import pathlib
import sys
import time

import model
import torch
from transformers import LlamaConfig, LlamaForCausalLM

LENGTH, BATCH = 64, 8


def windows(tokenizer, texts):
    ids = []
    for text in texts:
        ids += tokenizer.encode(pathlib.Path(text).read_text(errors="replace")).ids + [2]
    return torch.tensor(ids[: len(ids) // LENGTH * LENGTH]).view(-1, LENGTH)


def train(net, data, seconds):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    end, step = time.process_time() + seconds, 0
    while time.process_time() < end:
        batch = data[torch.randint(len(data), (BATCH,))]
        loss = net(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        step += 1
    print(f"{step} steps of {BATCH * LENGTH} tokens, loss {loss.item():.3f}", flush=True)


def rotated(name, tensor):
    """GGUF has the halves of each head of q and k interleaved."""
    heads = {"attn_q": model.HEADS, "attn_k": model.KV_HEADS}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    return tensor.reshape(heads, 2, model.HEAD // 2, -1).swapaxes(1, 2).reshape(tensor.shape)


directory, minutes, texts = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
torch.manual_seed(1)
torch.set_num_threads(1)
tokenizer = model.trained(texts, directory / "hf")
names = model.llama()
model.write_hf(directory / "hf", names)
net = LlamaForCausalLM(LlamaConfig.from_pretrained(directory / "hf"))
train(net, windows(tokenizer, texts), 60 * minutes)
state = net.state_dict()
tensors = {(hf, ours): rotated(ours, state[hf].numpy()).copy() for hf, ours in names}
model.write_gguf(directory / "trained.gguf", tensors, tokenizer)
