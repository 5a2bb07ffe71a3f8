"""Flatbuffers of any format: tables read with care, schemas, and whole buffers decoded by them."""
