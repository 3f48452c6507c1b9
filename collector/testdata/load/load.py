# Loads a GPU for some seconds, as `load.py STATE SECONDS`: copy and half copy memory, half with as long a pause after each copy,
# matmul multiplies matrices, and held keeps a part of the memory. It prints "running" when it has begun and "moved N" at the end: the
# bytes per second that the copies read and wrote.
import sys
import time

import torch

state, seconds = sys.argv[1], float(sys.argv[2])
gibibyte = 1 << 30
free, _ = torch.cuda.mem_get_info()
size = min(4 * gibibyte, free // 4)
moved, kept = 0, []
if state == "held":
    kept.append(torch.empty(free // 2, dtype=torch.uint8, device="cuda"))
elif state == "matmul":
    a = torch.randn(8192, 8192, dtype=torch.float16, device="cuda")
else:
    a = torch.empty(size, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    b.copy_(a)
torch.cuda.synchronize()
print("running", flush=True)
began = time.monotonic()
while time.monotonic() - began < seconds:
    if state == "held":
        time.sleep(0.1)
        continue
    turn = time.monotonic()
    for _ in range(8):
        if state == "matmul":
            a @ a
        else:
            b.copy_(a)
            moved += 2 * size
    torch.cuda.synchronize()
    if state == "half":
        time.sleep(time.monotonic() - turn)
print("moved", moved / (time.monotonic() - began), flush=True)
