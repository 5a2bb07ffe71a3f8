"""What Lowtide claims of each operator's memory, tried on PyTorch's own samples with real tensors."""
