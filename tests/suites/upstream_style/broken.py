"""A file that cannot be imported."""

from torch.testing._internal.common_utils import no_such_name_in_any_version  # noqa: F401


def test_never():
    pass
