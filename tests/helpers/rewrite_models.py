"""Models that say in many bytes what can be said in few; small, with random weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from models import REAL_MODELS, Model, Pick


def siglip() -> Model:
    """A vision tower whose masks are filled in full."""
    from transformers import SiglipVisionConfig, SiglipVisionModel

    config = SiglipVisionConfig(**_VISION)
    return Pick(SiglipVisionModel(config), ("pixel_values",), ("last_hidden_state",)).eval(), _image()


def clip() -> Model:
    """A vision tower."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(**_VISION)
    return Pick(CLIPVisionModel(config), ("pixel_values",), ("last_hidden_state",)).eval(), _image()


_VISION = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 8,
}
_DECODER = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def _image() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 64, 64),)


def _decoder(model: nn.Module) -> Model:
    picked = Pick(model, ("input_ids", "attention_mask"), ("logits",), use_cache=False)
    return picked.eval(), (torch.randint(0, 512, (1, 24)), torch.ones(1, 24, dtype=torch.long))


def opt() -> Model:
    """A decoder whose embedding is also its last layer."""
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(**_DECODER, ffn_dim=128, max_position_embeddings=64, word_embed_proj_dim=64)
    return _decoder(OPTForCausalLM(config))


def gemma() -> Model:
    """A decoder whose embedding is also its last layer, and whose heads share keys."""
    from transformers import GemmaConfig, GemmaForCausalLM

    config = GemmaConfig(**_DECODER, intermediate_size=128, num_key_value_heads=1, head_dim=16)
    return _decoder(GemmaForCausalLM(config))


class _Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(32, 64, num_layers=2, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x)[0][:, -1])


def lstm() -> Model:
    """A recurrent net, step by step."""
    return _Last().eval(), (torch.randn(1, 12, 32),)


class _Same(nn.Module):
    """A convolution that pads as TensorFlow does: what is left over, at the back."""

    def __init__(self, wide: int, out: int, kernel: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(wide, out, kernel, stride, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (kernel, _), (stride, _) = self.convolution.kernel_size, self.convolution.stride
        size = x.shape[-1]
        pad = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        x = functional.pad(x, (pad // 2, pad - pad // 2) * 2) if kernel > 1 else x
        return functional.relu6(self.convolution(x))


class _Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean([2, 3])


def tensorflow_pads() -> Model:
    """A MobileNet of depthwise-separable convolutions with TensorFlow's pads."""
    wide, layers = 32, [_Same(3, 32, 3, 2)]
    for stride, out in ((1, 64), (2, 128), (1, 128), (2, 256), (1, 256)):
        layers += [_Same(wide, wide, 3, stride, wide), _Same(wide, out, 1, 1)]
        wide = out
    return nn.Sequential(*layers, _Mean(), nn.Linear(wide, 10)).eval(), (torch.randn(1, 3, 96, 96),)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()

        def block(wide: int, out: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(wide, out, 3, 1, 1), nn.GroupNorm(4, out), nn.SiLU())

        self.a, self.b, self.c = block(3, 16), block(16, 32), block(32, 64)
        self.d, self.e = block(96, 32), block(48, 16)
        self.out, self.time = nn.Conv2d(16, 3, 1), nn.Linear(16, 64)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(functional.max_pool2d(a, 2))
        c = self.c(functional.max_pool2d(b, 2)) + self.time(time)[:, :, None, None]
        d = self.d(torch.cat([functional.interpolate(c, scale_factor=2), b], 1))
        return self.out(self.e(torch.cat([functional.interpolate(d, scale_factor=2), a], 1)))


def unet() -> Model:
    """A net with skips, as diffusion has them."""
    return _UNet().eval(), (torch.randn(1, 3, 64, 64), torch.randn(1, 16))


def vgg() -> Model:
    """Convolutions and poolings, then wide dense layers."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    layers += [nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(64 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers).eval(), _image()


REWRITE_MODELS: dict[str, Callable[[], Model]] = {
    **{f.__name__: f for f in (siglip, lstm, opt, gemma)},
    **{name: REAL_MODELS[name] for name in ("gpt2",)},
    "clip": clip,
    **{name: REAL_MODELS[name] for name in ("wav2vec2", "mobilenet_v2")},
    **{f.__name__: f for f in (tensorflow_pads, unet, vgg)},
    "resnet": REAL_MODELS["resnet"],
}
"""Models by name, in the order of the table in the documentation."""
