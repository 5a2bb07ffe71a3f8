"""Models of TensorFlow Lite Micro, ``.tflite``: read, planned as the interpreter will have them, and written.

``reading`` makes a ``model`` of the bytes, with the checked tables of ``flatbuffer``; ``programs`` makes a
Program of that, with what ``kernels`` allow. ``interpreter`` says where the runtime puts everything,
``scratch`` what its kernels ask for besides, ``judging`` whether that is right. ``planning`` finds
``metadata`` under which it is smaller, and ``writing`` puts these into the file.
"""
