"""PyTorch on the same device: trains one workload in one type, in several modes, when it is told to.

Answers each line that it reads with a JSON line: {"prepare": true} with how the modes came up, {"mode": ..., "steps":
...} with a time. Until the first it leaves the device alone, since cuDNN then measures what is fastest and wants quiet.
With --warm it compiles once, for the cache, and ends. The batch comes from pinned host memory in every step, as it
does in `sardonyx bench`; nothing waits for a loss inside the timed steps.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

# (input, learning rate, momentum, weight decay)
WORKLOADS = {
    "W1": ((1, 28, 28), 0.05, 0.0, 0.0),
    "W2": ((1, 28, 28), 0.05, 0.0, 0.0),
    "W3": ((3, 32, 32), 0.05, 0.9, 5e-4),
    "W4": ((3, 224, 224), 0.05, 0.9, 5e-4),
}
CLASSES = 10


class Block(nn.Module):
    """Of a ResNet; `small`: every convolution has a bias, the shortcut has no normalisation."""

    def __init__(self, inputs, outputs, stride, small):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=small)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=small)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=small)
            if not small:
                self.shortcut = nn.Sequential(self.shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


def network(workload):
    if workload == "W1":
        return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                             nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    small = workload == "W2"
    channels = WORKLOADS[workload][0][0]
    layers = [nn.Conv2d(channels, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU(True)]
    if not small:
        layers = [nn.Conv2d(channels, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for block in range(2):
            layers.append(Block(inputs, outputs, 2 if block == 0 and stage > 0 else 1, small))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class Trainer:
    def __init__(self, options, mode):
        sample, rate, momentum, decay = WORKLOADS[options.workload]
        torch.manual_seed(0)
        self.device = torch.device(options.device)
        self.cuda = self.device.type == "cuda"
        self.bf16 = options.dtype == "bf16"
        net = network(options.workload).to(self.device, memory_format=torch.channels_last)
        x = torch.randn(options.batch, *sample).contiguous(memory_format=torch.channels_last)
        y = torch.randint(0, CLASSES, (options.batch,))
        self.x, self.y = (x.pin_memory(), y.pin_memory()) if self.cuda else (x, y)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum, weight_decay=decay,
                                         fused=self.cuda or None)
        self.net = torch.compile(net) if mode == "compile" else net

    def step(self):
        x = self.x.to(self.device, non_blocking=True)
        y = self.y.to(self.device, non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            output = self.net(x)
        loss = F.cross_entropy(output.float(), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, steps):
        """Milliseconds per step, the last loss, the most memory that tensors took."""
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        for _ in range(steps):
            loss = self.step()
        loss = float(loss.detach())  # waits
        ms = 1e3 * (time.perf_counter() - start) / steps
        return {"ms": ms, "loss": loss, "memory_bytes": torch.cuda.max_memory_allocated() if self.cuda else 0}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--dtype", choices=["f32", "tf32", "bf16"], required=True)
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    tf32 = options.dtype == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = not options.warm
    if options.warm:
        Trainer(options, "compile").run(1)
        return
    trainers = {}
    for line in sys.stdin:
        order = json.loads(line)
        answer = prepare(options, trainers) if "prepare" in order else trainers[order["mode"]].run(order["steps"])
        print(json.dumps(answer), flush=True)


def prepare(options, trainers):
    modes = {}
    for mode in options.modes.split(","):
        try:
            start = time.perf_counter()
            trainers[mode] = Trainer(options, mode)
            trainers[mode].run(5)
            modes[mode] = {"prepared_s": time.perf_counter() - start, **trainers[mode].run(5)}
        except Exception as error:  # the other mode may do
            trainers.pop(mode, None)
            modes[mode] = {"reason": f"{type(error).__name__}: {error}"[-600:]}
    return {"torch": torch.__version__, "modes": modes}


if __name__ == "__main__":
    main()
