"""A tiny seeded model of every (model type, class) pair of the installed ``transformers``.

``pairs`` lists them, ``shrink`` and ``build`` make them, ``trial`` runs one, ``server`` runs many
in processes of their own, ``covering`` finds the fewest types that reach every operator seen.
"""
