"""Real models to plan, by ``transformers`` configuration; those that are all control flow come along.

Weights are random and nothing is downloaded. Sizes are such that each exports in a few seconds; the
shape of the memory problem (residuals, attention, pyramids, concatenations) is the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from control_flow import CONTROL_FLOW_MODELS, AliasedResults, Cases

__all__ = ["CONTROL_FLOW_MODELS", "REAL_MODELS", "AliasedResults", "Cases", "Inputs", "Model"]

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
