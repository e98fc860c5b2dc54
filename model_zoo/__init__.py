"""Which models to run, how to fetch them, and how to feed them.

``mirror``   a local server that speaks the Hub's HTTP API over a directory; needs no torch.
``builder``  fills such a directory with small real architectures.
``catalog``  the list of models to run, as a Parquet file.
``fetch``    brings one repository into a cache, whole or with a named reason.
``load``     makes a ``torch.nn.Module`` of a fetched folder, without running anybody's code.
``inputs``   seeded inputs for a model, from its configuration and forward signature.
``outputs``  what to compare, and what to call ``backward`` on.
"""
