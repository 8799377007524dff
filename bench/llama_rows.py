"""bench/llama_rows.py - a Llama-shaped decoder that makes one token at a time, with and without a CUDA graph.

The shape is that of Llama 3.2 1B; the weights are random, made on the device. Keys and values are in a cache of
fixed size, so that a step is the same kernels each time, which a graph can hold.
"""
import torch

HIDDEN, LAYERS, HEADS, GROUPS, WIDTH, INNER, WORDS, ROOM = 2048, 16, 32, 8, 64, 8192, 32000, 256
TOKENS = 32


class Llama:
    """Weights, cache, and the token and place of the next step, all on the device."""

    def __init__(self):
        torch.manual_seed(5)

        def weight(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * shape[-1] ** -0.5
        self.words = weight(WORDS, HIDDEN)
        self.layers = [{"q": weight(HEADS * WIDTH, HIDDEN), "k": weight(GROUPS * WIDTH, HIDDEN),
                        "v": weight(GROUPS * WIDTH, HIDDEN), "o": weight(HIDDEN, HEADS * WIDTH),
                        "gate": weight(INNER, HIDDEN), "up": weight(INNER, HIDDEN),
                        "down": weight(HIDDEN, INNER),
                        "keys": torch.zeros(GROUPS, ROOM, WIDTH, device="cuda", dtype=torch.bfloat16),
                        "values": torch.zeros(GROUPS, ROOM, WIDTH, device="cuda", dtype=torch.bfloat16)}
                       for _ in range(LAYERS)]
        angle = torch.outer(torch.arange(ROOM, device="cuda"),
                            500000.0 ** -(torch.arange(0, WIDTH, 2, device="cuda") / WIDTH))
        self.cos, self.sin = angle.cos().bfloat16(), angle.sin().bfloat16()
        self.places = torch.arange(ROOM, device="cuda")
        self.token = torch.zeros(1, device="cuda", dtype=torch.long)
        self.place = torch.zeros(1, device="cuda", dtype=torch.long)

    def restart(self):
        self.token.fill_(1)
        self.place.zero_()

    def turn(self, x):
        """Rotary embedding of heads at the current place."""
        cos, sin = self.cos[self.place], self.sin[self.place]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attention(self, layer, x):
        q = self.turn((layer["q"] @ x).view(HEADS, WIDTH))
        layer["keys"].index_copy_(1, self.place, self.turn((layer["k"] @ x).view(GROUPS, WIDTH)).unsqueeze(1))
        layer["values"].index_copy_(1, self.place, (layer["v"] @ x).view(GROUPS, 1, WIDTH))
        q = q.view(GROUPS, HEADS // GROUPS, WIDTH)
        scores = (q @ layer["keys"].transpose(1, 2)) * WIDTH ** -0.5
        scores = scores.masked_fill(self.places > self.place, float("-inf")).softmax(-1)
        return layer["o"] @ (scores @ layer["values"]).reshape(-1)

    def step(self):
        """One token: its successor becomes the next one."""
        x = self.words[self.token][0]
        for layer in self.layers:
            x = x + self.attention(layer, torch.nn.functional.rms_norm(x, (HIDDEN,)))
            y = torch.nn.functional.rms_norm(x, (HIDDEN,))
            x = x + layer["down"] @ (torch.nn.functional.silu(layer["gate"] @ y) * (layer["up"] @ y))
        scores = self.words @ torch.nn.functional.rms_norm(x, (HIDDEN,))
        self.token.copy_(scores.argmax().view(1))
        self.place.add_(1)


def capture(model):
    """The step as a graph, after the runs that libraries need to set themselves up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step()
    return graph.replay


def decode(median_ms, graphs):
    """Milliseconds of TOKENS tokens, each fetched as it is made, as who streams an answer does."""
    tokens = []
    with torch.no_grad():
        model = Llama()
        step = capture(model) if graphs else model.step

        def answer():
            model.restart()
            tokens.clear()
            for _ in range(TOKENS):
                step()
                tokens.append(model.token.item())
        return {"ms": median_ms(answer, 5, warm=1), "check": tokens[:]}
