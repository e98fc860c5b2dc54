"""How the device computes in 64 bits: exactly, or in 32 as the chip does.

The chip stores int64, uint64, float64 and complex128 but computes them in 32 bits and casts back:
integers wrap around at 2^31, floats keep 24 bits. Here exact is the default; the other policy rounds what
a native kernel reads and writes to what 32 bits can hold. Copies, views and what falls back stay exact,
and so does all of float64 for as long as the lowering table has no native operator for it.
"""

import os
from typing import Literal, get_args

from torchneuron_backend._registration import load_extension

VARIABLE = "TORCHNEURON_64BIT"
Policy = Literal["exact", "32"]


def set_64_bit_policy(policy: Policy) -> None:
    """From now on, in all threads, 64-bit numbers are computed so. Raises ValueError for another name."""
    if policy not in get_args(Policy):
        raise ValueError(f"{policy!r} is not a policy for 64-bit numbers: use 'exact' or '32'.")
    load_extension().compute_64_bits_in_32(policy == "32")


def get_64_bit_policy() -> Policy:
    """The policy in force."""
    return "32" if load_extension().computes_64_bits_in_32() else "exact"


def set_from_environment() -> None:
    """Follow TORCHNEURON_64BIT, if it is set. Raises ValueError when it names no policy."""
    policy = os.environ.get(VARIABLE)
    if policy:
        try:
            set_64_bit_policy(policy)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"{VARIABLE}: {error}") from None
