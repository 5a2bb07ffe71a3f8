"""Models to plan: real ones by ``transformers`` configuration, and ones that are all control flow.

Weights are random and nothing is downloaded. Sizes are such that each exports in a few seconds; the
shape of the memory problem (residuals, attention, pyramids, concatenations) is the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]
Model = tuple[nn.Module, Inputs]


class Pick(nn.Module):
    """A ``transformers`` model reduced to tensors in, tensors out.

    Args:
        model: called by keyword.
        names: names of its arguments, in order.
        fields: names of the output fields to return.
        fixed: further arguments.
    """

    def __init__(
        self, model: nn.Module, names: tuple[str, ...], fields: tuple[str, ...], **fixed: Any
    ) -> None:
        super().__init__()
        self.model = model
        self.names, self.fields, self.fixed = names, fields, fixed

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**dict(zip(self.names, inputs, strict=True)), **self.fixed)
        return tuple(getattr(result, name) for name in self.fields)


def _image(model: nn.Module, size: int, *fields: str, **fixed: Any) -> Model:
    picked = Pick(model, ("pixel_values",), fields or ("logits",), **fixed)
    return picked.eval(), (torch.randn(1, 3, size, size),)


def _text(model: nn.Module, vocabulary: int, length: int, *fields: str, **fixed: Any) -> Model:
    picked = Pick(model, ("input_ids", "attention_mask"), fields, **fixed)
    ids = torch.randint(0, vocabulary, (1, length))
    mask = torch.ones(1, length, dtype=torch.long)
    mask[:, -length // 4 :] = 0
    return picked.eval(), (ids, mask)


def mobilenet_v2() -> Model:
    """Inverted residuals: wide in the middle of a block, narrow between blocks."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=96, num_labels=10, depth_multiplier=0.5)
    return _image(MobileNetV2ForImageClassification(config), 96)


def resnet() -> Model:
    """Bottleneck residuals."""
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[32, 64, 96, 128], depths=[2, 2, 3, 2], num_labels=10
    )
    return _image(ResNetForImageClassification(config), 96)


def efficientnet() -> Model:
    """Squeeze and excitation: a side path that scales what it came from."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(
        image_size=96,
        width_coefficient=0.5,
        depth_coefficient=0.5,
        num_labels=10,
        hidden_dim=640,
    )
    return _image(EfficientNetForImageClassification(config), 96)


def vit() -> Model:
    """A plain vision transformer."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=64,
        patch_size=8,
        num_labels=10,
    )
    return _image(ViTForImageClassification(config), 64)


def deit() -> Model:
    """A vision transformer with two heads and a distillation token."""
    from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher

    config = DeiTConfig(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=96,
        image_size=64,
        patch_size=16,
        num_labels=10,
    )
    model = DeiTForImageClassificationWithTeacher(config)
    return _image(model, 64, "logits", "cls_logits", "distillation_logits")


def swin() -> Model:
    """Shifted windows: rolls, partitions and merges between attentions."""
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=24,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        num_labels=10,
    )
    return _image(SwinForImageClassification(config), 64)


def convnext() -> Model:
    """Depthwise convolutions with layer norms in channels-last order."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 3, 1], num_labels=10)
    return _image(ConvNextForImageClassification(config), 64)


def segformer() -> Model:
    """A pyramid whose levels all live until the decoder joins them."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        hidden_sizes=[16, 32, 48, 64],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 4, 4],
        decoder_hidden_size=64,
        num_labels=10,
    )
    return _image(SegformerForSemanticSegmentation(config), 64)


def mobilevit() -> Model:
    """Convolutions around transformers over folded patches."""
    from transformers import MobileViTConfig, MobileViTForImageClassification

    config = MobileViTConfig(
        image_size=64,
        hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 32, 48, 64, 80, 128],
        num_labels=10,
    )
    return _image(MobileViTForImageClassification(config), 64)


def yolos() -> Model:
    """Detection tokens beside patches; two heads."""
    from transformers import YolosConfig, YolosForObjectDetection

    config = YolosConfig(
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=[64, 64],
        patch_size=8,
        num_detection_tokens=10,
        num_labels=10,
    )
    return _image(YolosForObjectDetection(config), 64, "logits", "pred_boxes")


def bert() -> Model:
    """An encoder with a padding mask."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=512,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=64,
    )
    return _text(BertForSequenceClassification(config), 512, 32, "logits")


def distilbert() -> Model:
    """An encoder without token types; returns all hidden states, so none may be overwritten."""
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(
        vocab_size=512, dim=64, n_layers=3, n_heads=4, hidden_dim=128, max_position_embeddings=64
    )
    return _text(DistilBertModel(config), 512, 24, "last_hidden_state")


def llama() -> Model:
    """A decoder with rotary embeddings, grouped keys and a causal mask, without a cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return _text(LlamaForCausalLM(config), 512, 24, "logits", use_cache=False)


def gpt2() -> Model:
    """A decoder with fused query, key and value, split after the projection."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=512, n_embd=64, n_layer=3, n_head=4, n_positions=64)
    return _text(GPT2LMHeadModel(config), 512, 24, "logits", use_cache=False)


def t5_encoder() -> Model:
    """An encoder with relative position biases shared by all layers, alive throughout."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=512, d_model=64, d_kv=16, d_ff=128, num_layers=3, num_heads=4)
    return _text(T5EncoderModel(config), 512, 24, "last_hidden_state")


def whisper_encoder() -> Model:
    """Strided convolutions over a spectrogram, then a long encoder."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=64,
        encoder_layers=3,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        max_source_positions=100,
        num_mel_bins=40,
    )
    model = Pick(WhisperEncoder(config), ("input_features",), ("last_hidden_state",))
    return model.eval(), (torch.randn(1, 40, 200),)


def wav2vec2() -> Model:
    """A stack of convolutions over raw sound, a grouped positional convolution, an encoder."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        conv_dim=(32, 32, 32),
        conv_stride=(5, 4, 2),
        conv_kernel=(10, 8, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    model = Pick(Wav2Vec2Model(config), ("input_values",), ("last_hidden_state",))
    return model.eval(), (torch.randn(1, 4000),)


REAL_MODELS: dict[str, Callable[[], Model]] = {
    function.__name__: function
    for function in (
        mobilenet_v2,
        resnet,
        efficientnet,
        vit,
        deit,
        swin,
        convnext,
        segformer,
        mobilevit,
        yolos,
        bert,
        distilbert,
        llama,
        gpt2,
        t5_encoder,
        whisper_encoder,
        wav2vec2,
    )
}
"""Real models by name: a function that makes the module and one set of inputs."""


class NestedCond(nn.Module):
    """A branch inside a branch, several results, a value read in one branch only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.relu(self.first(x))
        aside = torch.tanh(x)

        def large(h: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.cond(h.amax() > 4, lambda h, a: (h * a, a + 1), lambda h, a: (h - a, a * 2), (h, a))

        def small(h: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.second(h).sin(), h.exp()

        left, right = torch.cond(x.sum() > 0, large, small, (hidden, aside))
        return left + hidden, right * left


class SharedWhile(nn.Module):
    """A loop with two carries that change places, and a value captured from outside."""

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torch._higher_order_ops.while_loop import while_loop

        scale = x.abs().mean(dim=-1, keepdim=True)

        def going(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return i < steps

        def body(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return i + 1, b.clone(), a * 0.5 + scale

        _, a, b = while_loop(going, body, (torch.zeros_like(steps), x + 1, x - 1))
        return a, a + b


class CondInWhileInCond(nn.Module):
    """Three levels: a branch, a loop in it, a branch in the loop."""

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        def loop(x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
            def going(i: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
                return i < steps

            def body(i: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                turned = torch.cond(i % 2 == 0, lambda a: (a.cos(),), lambda a: ((a * 2).sin(),), (a,))[0]
                return i + 1, turned + x

            return while_loop(going, body, (torch.zeros_like(steps), x * 2))[1].clone()

        before = x.tanh()
        after = torch.cond(x.mean() > 0, loop, lambda x, steps: x.neg(), (before, steps))
        return after + before


class ScanWithCond(nn.Module):
    """A recurrence over rows whose cell takes one of two paths, and stacks what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torch._higher_order_ops.scan import scan

        def cell(state: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.cond(
                row.sum() > 0,
                lambda s, r: (self.cell(s + r).tanh(),),
                lambda s, r: ((s * 0.5 - r),),
                (state, row),
            )[0]
            return new, new * row

        last, rows = scan(cell, start, x)
        return last, rows.relu()


class MapRows(nn.Module):
    """The same few operators over every row, with a captured operand."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.map import map as map_rows

        def row(r: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (r @ w).relu() + r

        return map_rows(row, x, w).sum(dim=0)


class MixtureOfExperts(nn.Module):
    """A router picks one of four experts by nested branches; the rest of the network does not know."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.router = nn.Linear(width, 4)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))
            for wide in (16, 32, 64, 96)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = self.router(x.mean(dim=0)).argmax()

        def low(chosen: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(chosen == 0, lambda x: self.experts[0](x), lambda x: self.experts[1](x), (x,))

        def high(chosen: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(chosen == 2, lambda x: self.experts[2](x), lambda x: self.experts[3](x), (x,))

        return self.norm(x + torch.cond(chosen < 2, low, high, (chosen, x)))


class EarlyExit(nn.Module):
    """A classifier that stops after the first block if it is sure enough."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.rest = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width), nn.ReLU()
        )
        self.exit, self.head = nn.Linear(width, 5), nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        early = self.exit(hidden).softmax(dim=-1)
        return torch.cond(
            early.amax() > 0.5,
            lambda e, h: e * 1.0,
            lambda e, h: self.head(self.rest(h)).softmax(-1),
            (early, hidden),
        )


class Stateful(nn.Module):
    """A running mean and a counter, kept from one invocation to the next, with a branch on the counter."""

    count: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.mean.mul_(0.9).add_(x.mean(dim=0), alpha=0.1)
        return torch.cond(self.count > 1, lambda x, m: x - m, lambda x, m: x * 1.0, (x, self.mean.clone()))


class AliasedResults(nn.Module):
    """Outputs that are an input, a view of one, one value twice, a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = x @ self.weight
        return x, x.view(-1), made, made, made.t(), self.weight, made.relu()


Cases = tuple[nn.Module, list[Inputs]]


def _signs(shape: tuple[int, ...], *more: torch.Tensor) -> list[Inputs]:
    """Inputs that are positive, negative, mixed and large."""
    base = torch.randn(shape)
    return [(v, *more) for v in (base.abs(), -base.abs(), base, 50 * base.abs())]


def _nested_cond() -> Cases:
    return NestedCond().eval(), _signs((3, 8))


def _shared_while() -> Cases:
    return SharedWhile(), [(torch.randn(4, 6), torch.tensor(n)) for n in (0, 1, 2, 5)]


def _cond_in_while_in_cond() -> Cases:
    positive = torch.rand(3, 5)
    return CondInWhileInCond(), [
        *((positive, torch.tensor(n)) for n in (0, 1, 2, 5)),
        (-positive, torch.tensor(3)),
    ]


def _scan_with_cond() -> Cases:
    return ScanWithCond().eval(), _signs((5, 6), torch.zeros(6))


def _map_rows() -> Cases:
    return MapRows(), _signs((4, 6), torch.randn(6, 6))


def _mixture_of_experts() -> Cases:
    model = MixtureOfExperts().eval()
    with torch.no_grad():  # expert i is chosen when feature i is the largest
        model.router.weight.copy_(torch.eye(4, 16))
        model.router.bias.zero_()
    return model, [
        (torch.nn.functional.one_hot(torch.tensor(i), 16) * 3.0 + torch.rand(5, 16),) for i in range(4)
    ]


def _early_exit() -> Cases:
    model = EarlyExit().eval()
    with torch.no_grad():
        model.exit.weight.mul_(20)
    return model, [(torch.zeros(1, 24),), (torch.randn(1, 24) * 20,), (torch.randn(1, 24),)]


def _stateful() -> Cases:
    return Stateful(), [(torch.randn(4, 6),) for _ in range(3)]


def _aliased_results() -> Cases:
    return AliasedResults(), [(torch.randn(4, 4),), (-torch.rand(4, 4),)]


CONTROL_FLOW_MODELS: dict[str, Callable[[], Cases]] = {
    "nested_cond": _nested_cond,
    "shared_while": _shared_while,
    "cond_in_while_in_cond": _cond_in_while_in_cond,
    "scan_with_cond": _scan_with_cond,
    "map_rows": _map_rows,
    "mixture_of_experts": _mixture_of_experts,
    "early_exit": _early_exit,
    "stateful": _stateful,
    "aliased_results": _aliased_results,
}
"""Models by name: a function that makes the module and inputs that between them take every branch."""
