"""Compiles the CPU kernels when outpace is installed; everything else is in pyproject.toml.

Installing never fails for want of a compiler: what went wrong is written beside the package,
`outpace doctor` prints it, and the torch path runs.
"""

import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = Path("src/outpace/runtimes/native/kernels")
SOURCES = sorted(str(path) for path in (FOLDER / "cpp").glob("*.cpp"))
HEADERS = sorted(str(path) for path in (FOLDER / "cpp").glob("*.h"))

# -ffp-contract=off: only the fused operations written in the source are fused, on every compiler.
FLAGS = (
    *("-O3", "-g0", "-std=c++20", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"),
    *("-Wall", "-Wextra", "-Wno-uninitialized", "-Wno-maybe-uninitialized", "-pthread"),
)
AVX2 = ("-mavx2", "-mfma", "-mf16c", "-mprfchw")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni")
X86: dict[str, tuple[str, ...]] = {
    "isa_avx2.cpp": AVX2,
    "isa_avxvnni.cpp": (*AVX2, "-mavxvnni"),
    "isa_avx512.cpp": (*AVX512, "-mprefer-vector-width=512"),
}
ARM: dict[str, tuple[str, ...]] = {"isa_neon.cpp": ("-march=armv8.2-a+dotprod",)}
BY_MACHINE: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": X86,
    "amd64": X86,
    "aarch64": ARM,
    "arm64": ARM,
}


class BuildKernels(build_ext):
    """Each instruction set's file gets its own flags; the rest runs on any processor."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link, or write down why not."""
        target = Path(self.get_ext_fullpath(ext.name))
        reason = target.parent / "not_built.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        reason.unlink(missing_ok=True)
        try:
            self._build(ext, target)
        except Exception as error:
            # Compilers fail in many ways, and none of them may stop an install.
            reason.write_text(f"compiling failed when outpace was installed: {error}\n")
            self.warn(f"outpace is installed without compiled kernels: {error}")

    def copy_extensions_to_source(self) -> None:
        """For an editable install: the library, or the reason there is none, beside the sources."""
        super().copy_extensions_to_source()
        for ext in self.extensions:
            built = Path(self.build_lib, *ext.name.split(".")[:-1], "not_built.txt")
            beside = FOLDER / built.name
            beside.unlink(missing_ok=True)
            if built.exists():
                beside.write_text(built.read_text())

    def _build(self, ext: Extension, target: Path) -> None:
        own = BY_MACHINE.get(platform.machine().lower(), {})
        special = set(X86) | set(ARM)
        sources = [s for s in ext.sources if Path(s).name not in special or Path(s).name in own]

        def compile_one(source: str) -> list[str]:
            flags = [*FLAGS, *own.get(Path(source).name, ())]
            objects: list[str] = self.compiler.compile(
                [source], output_dir=self.build_temp, extra_postargs=flags, depends=ext.depends
            )
            return objects

        with ThreadPoolExecutor() as threads:
            objects = [o for some in threads.map(compile_one, sources) for o in some]
        self.compiler.link_shared_object(
            objects, str(target), extra_postargs=["-pthread"], target_lang="c++"
        )


setup(
    ext_modules=[
        Extension(
            "outpace.runtimes.native.kernels._kernels", SOURCES, depends=HEADERS, optional=True
        )
    ],
    cmdclass={"build_ext": BuildKernels},
)
