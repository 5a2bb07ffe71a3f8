"""Operators that the fast tests try: some of every kind."""

from __future__ import annotations

VIEWS = """
    H T __getitem__ as_strided.partial_views atleast_2d broadcast_to chunk diagonal expand expand_as flatten
    hsplit imag linalg.diagonal mH mT meshgrid.list_of_tensors movedim narrow permute positive real reshape
    reshape_as select slice split split.list_args squeeze squeeze.multiple t tensor_split transpose unbind
    unflatten unfold unsafe_chunk unsafe_split unsqueeze view view_as view_as_complex view_as_real
"""
MAYBE_VIEWS = """
    bfloat16 broadcast_tensors chalf conj conj_physical contiguous double float nn.functional.dropout
    nn.functional.pad.constant ravel resolve_conj resolve_neg rot90 sum_to_size tile to
    nn.functional.feature_alpha_dropout.without_train
"""
COPIES = """
    alias_copy as_strided_copy cat clone column_stack constant_pad_nd diagonal_copy diagonal_scatter dstack
    expand_copy flip index_select narrow_copy permute_copy repeat roll select_scatter slice_scatter
    split_with_sizes_copy squeeze_copy stack t_copy transpose_copy tril unbind_copy unfold_copy
    unsqueeze_copy view_copy
"""
ELEMENTWISE = """
    abs add addcmul bitwise_and clamp copysign cos div.floor_rounding eq exp fmod gt isnan ldexp lerp
    logical_not maximum mul nan_to_num ne neg nn.functional.gelu nn.functional.relu pow reciprocal
    round.decimals_3 rsub sgn sigmoid sin sqrt sub tanh trunc where xlogy
"""
ROWS = "cumprod cumsum log_softmax native_layer_norm nn.functional.group_norm softmax cummax logcumsumexp"
REDUCTIONS = "all amax argmax max.reduction_with_dim mean norm std_mean sum var"
PRODUCTS = "__rmatmul__ addmm baddbmm dot linalg.vecdot matmul mm mv vdot nn.functional.linear"
FACTORIES = "arange empty_like full_like new_empty new_zeros rand_like zeros_like"
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
