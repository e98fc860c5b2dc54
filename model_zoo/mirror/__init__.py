"""A local server that speaks the Hugging Face Hub's HTTP API over a directory of models.

Layout of a mirror directory::

    <root>/<org>/<name>/config.json, model.safetensors, ...   the files, served as they are
    <root>/<org>/<name>/.mirror.json                          what the Hub knows beside the files
    <root>/<name>/...                                         a repository without an organisation

``.mirror.json`` is optional and every key of it has a default
(:class:`~model_zoo.mirror.repository.Metadata`)::

    pipeline_tag  str          the task, e.g. "fill-mask"            default: none
    library_name  str          e.g. "transformers"                   default: "transformers" if config.json
                               has a model_type
    downloads     int          downloads in 30 days                  default: 0, nothing is invented
    likes         int                                                default: 0
    tags          list[str]    besides the derived ones              default: []
    gated         false|"auto"|"manual"                              default: false
    granted       list[str]    tokens that may read a gated or private repository  default: []
    private       bool         only tokens in ``granted`` see it     default: false
    moved_to      str          the id it has now; clients are sent there  default: none
    created_at, last_modified  ISO 8601 times                        default: none

Names that begin with a dot are never served. A repository has one branch, ``main``, and one commit,
whose 40-hex hash is computed from the names and contents of its files: equal content, equal hash.

``harness zoo serve DIR`` (or ``python -m model_zoo.mirror DIR``) serves until interrupted; clients find it
through ``HF_ENDPOINT=http://127.0.0.1:8000``. In a program::

    with MirrorServer(directory) as mirror:
        HfApi(endpoint=mirror.endpoint).list_models()

With an upstream (:mod:`~model_zoo.mirror.upstream`) it fetches what the directory lacks, and keeps it.
"""

from model_zoo.mirror.faults import ALWAYS, Fault, FaultError, named_fault, parse_fault, read_faults
from model_zoo.mirror.repository import METADATA_FILE, MirrorDirectory, Repository
from model_zoo.mirror.server import MirrorServer
from model_zoo.mirror.upstream import Upstream

__all__ = [
    "ALWAYS",
    "METADATA_FILE",
    "Fault",
    "FaultError",
    "MirrorDirectory",
    "MirrorServer",
    "Repository",
    "Upstream",
    "named_fault",
    "parse_fault",
    "read_faults",
]
