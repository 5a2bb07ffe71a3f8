"""Operators that the fast tests try: some of every kind."""

from __future__ import annotations

VIEWS = """
    H T __getitem__ as_strided.partial_views chunk diagonal expand expand_as flatten
    imag linalg.diagonal mH mT meshgrid.list_of_tensors movedim narrow permute positive real reshape
    reshape_as select slice split split.list_args squeeze squeeze.multiple t transpose unbind
    unflatten unfold unsafe_chunk unsafe_split unsqueeze view view_as view_as_complex view_as_real
"""
MAYBE_VIEWS = """
    broadcast_tensors chalf conj conj_physical contiguous float nn.functional.dropout
    nn.functional.pad.constant ravel resolve_conj resolve_neg rot90 sum_to_size tile to
    nn.functional.feature_alpha_dropout.without_train
"""
COPIES = """
    alias_copy as_strided_copy cat clone constant_pad_nd diagonal_copy diagonal_scatter
    expand_copy flip index_select narrow_copy permute_copy repeat roll select_scatter slice_scatter
    split_with_sizes_copy stack transpose_copy tril unbind_copy unfold_copy
    view_copy
"""
ELEMENTWISE = """
    add addcmul bitwise_and clamp div.floor_rounding eq exp lerp
    maximum mul neg nn.functional.gelu nn.functional.relu pow
    round.decimals_3 sigmoid sin sub tanh where
"""
ROWS = "cumprod cumsum log_softmax native_layer_norm nn.functional.group_norm softmax cummax logcumsumexp"
REDUCTIONS = "all amax argmax max.reduction_with_dim norm sum"
PRODUCTS = "__rmatmul__ addmm dot linalg.vecdot matmul mm vdot nn.functional.linear"
FACTORIES = "arange empty_like full_like new_empty zeros_like"
WRITES = """
    fill index_add index_copy index_put masked_fill native_batch_norm nn.functional.batch_norm put scatter
    zero_
"""
OTHERS = """
    fft.fft fft.irfft frexp gather linalg.qr linalg.svd lu_unpack nn.functional.conv2d
    nn.functional.embedding nn.functional.max_pool2d nn.functional.scaled_dot_product_attention nonzero sort
    topk unique
"""

SAMPLE = tuple(
    " ".join(
        (VIEWS, MAYBE_VIEWS, COPIES, ELEMENTWISE, ROWS, REDUCTIONS, PRODUCTS, FACTORIES, WRITES, OTHERS)
    ).split()
)
