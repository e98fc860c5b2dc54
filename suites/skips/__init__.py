"""Why a test was skipped: exactly one category for each skip, found by where the skip was raised.

``evidence`` is what is known of one skip, ``frames``, ``wrapping`` and ``source`` find it out, ``rules``
holds what is known of upstream (``rules.toml``), and ``engine`` puts the two together.
"""
