"""Measures which ATen overloads the compiler stack can take: ``python -m torchneuron_backend.probe``.

The result, ``lowerings.json``, is what the device registers its native kernels from.
"""
