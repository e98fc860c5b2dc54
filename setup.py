"""Builds the C++ part of the simulated device for the torch that is installed.

Everything else about the distribution is in pyproject.toml. A missing compiler, or a torch that is
missing or is not 2.13, ends the build with one sentence and a non-zero exit.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

from setuptools import setup

TORCH_SERIES = "2.13"
ROOT = Path(__file__).parent
SOURCES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "torchneuron_backend/csrc").glob("*.cpp"))
HEADERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "torchneuron_backend/csrc").glob("*.h"))

# The backend must not load itself while it is being built.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"


def stop(sentence: str) -> None:
    """End the build with one sentence on stderr, and no traceback."""
    print(f"torchneuron-harness: {sentence}", file=sys.stderr)
    sys.exit(1)


def check_torch() -> str:
    """The version of the installed torch, which must be of the series this backend is written for."""
    try:
        import torch
    except ImportError:
        stop(f"building the neuron device needs torch {TORCH_SERIES}, and no torch is installed here.")
    version = str(torch.__version__)
    if not version.startswith(TORCH_SERIES + "."):
        stop(f"building the neuron device needs torch {TORCH_SERIES}, and the installed torch is {version}.")
    return version


def check_compiler() -> None:
    """A C++ compiler must be on the path: CXX when set, else the ones torch would try."""
    wanted = shlex.split(os.environ.get("CXX", ""))[:1] or ["c++", "g++"]
    if not any(shutil.which(name) for name in wanted):
        stop(f"building the neuron device needs a C++ compiler, and {' or '.join(wanted)} was not found.")


def main() -> None:
    torch_version = check_torch()
    if "egg_info" not in sys.argv and "dist_info" not in sys.argv:
        check_compiler()

    from torch.utils import cpp_extension

    class BuildForThisTorch(cpp_extension.BuildExtension):
        """Builds, and leaves beside the library the version of the torch it was built for."""

        def finalize_options(self) -> None:
            # pip would build in a new temporary folder each time, and so all files each time.
            if self.build_temp is None:
                self.build_temp = str(ROOT / "build" / "csrc")
            super().finalize_options()

        def run(self) -> None:
            super().run()
            folder = Path(self.get_ext_fullpath("torchneuron_backend._C")).parent
            (folder / "built_for_torch.txt").write_text(torch_version + "\n", encoding="utf-8")

    setup(
        ext_modules=[
            cpp_extension.CppExtension(
                "torchneuron_backend._C",
                SOURCES,
                depends=HEADERS,
                extra_compile_args=[
                    "-std=c++20",
                    # The work is in torch's host kernels: more would cost build time and gain nothing.
                    os.environ.get("TORCHNEURON_OPT", "-O1"),
                    "-g0",
                    "-fvisibility=hidden",
                    "-Wall",
                    "-Wno-unused-parameter",
                    "-DAT_PER_OPERATOR_HEADERS",
                ],
            )
        ],
        cmdclass={"build_ext": BuildForThisTorch},
    )


main()
