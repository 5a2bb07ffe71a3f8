"""Front ends: a package for each format, told apart by content first, then by suffix.

Importing this package imports none of them: a format's reader, and the library that it may need, is imported
when a file of that format is loaded.
"""
