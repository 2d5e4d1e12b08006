"""A case: the files that one trouble left, and questions that several clues ask of them together."""

import re2
from msgspec import Struct

from signoff.read.case_file import CaseFile
from signoff.read.launch_command import LaunchCommand
from signoff.read.nvidia_smi import NvidiaSmi

_RESTARTS = re2.compile(r"(?i)(?:restart[_ ]?count|restarts)\W{0,3}(?P<n>\d+)|CrashLoopBackOff|OOMKilled")
_IMAGE = re2.compile(r"[\w.-]+(?:/[\w.-]+)*/?(?:vllm|sglang)[\w./-]*:[\w.+-]+|\b(?:vllm|lmsys)[\w./-]*:[\w.+-]+")
_CUDA_SAID = re2.compile(r"(?i)\bCUDA[ :=]*(?P<cuda>1\d\.\d+)|\bcu(?P<cu>1[123]\d)\b")


def _parts(file: CaseFile) -> set[str]:
    """What a pasted text holds beside its main part."""
    parts = {"nvidia_smi"} if file.smi.format in ("banner", "query", "xml", "csv") else set()
    if file.launch.engine:
        parts.add("launch")
    if file.log.notes or file.log.phases or file.log.stats:
        parts.add("log")
    return parts


class Case(Struct, frozen=True):
    files: tuple[CaseFile, ...]

    def of(self, *kinds: str) -> list[CaseFile]:
        """Files of the kinds, and files of another kind that hold such a part."""
        return [file for file in self.files if file.kind in kinds or _parts(file) & set(kinds)]

    def launch(self) -> tuple[CaseFile | None, LaunchCommand]:
        """The launch that is at hand, with its file; flags of a log's arguments when no command is."""
        for file in self.of("launch"):
            if file.launch.engine:
                return file, file.launch
        for file in self.of("log"):
            if file.log.arguments:
                flags = {key.replace("_", "-"): value.strip("'\"") for key, value in file.log.arguments.items()}
                return file, LaunchCommand(engine="vllm", runtime="shell", model=file.log.model or "", flags=flags)
        return None, LaunchCommand()

    def smi(self) -> tuple[CaseFile | None, NvidiaSmi]:
        """The nvidia-smi output with the most GPUs."""
        files = sorted(self.of("nvidia_smi"), key=lambda file: -len(file.smi.gpus))
        return (files[0], files[0].smi) if files else (None, NvidiaSmi())

    def texts(self) -> list[CaseFile]:
        """Files of loose text, and everything else people write by hand."""
        return self.of("text", "log", "json")

    def restarts(self) -> int:
        """How many restarts the files speak of; 1 when they only say that there were some."""
        most = 0
        for file in self.texts():
            for found in _RESTARTS.finditer(file.text[:200_000]):
                most = max(most, int(found["n"][:6]) if found["n"] else 1)
        return most

    def image(self) -> tuple[str, str]:
        """The image that is named, and the CUDA release said with it."""
        _, launch = self.launch()
        image, cuda = launch.image, ""
        for file in self.of("text", "json", "launch"):
            if not image and (found := _IMAGE.search(file.text[:100_000])):
                image = found[0]
            if not cuda and "image" in file.name.lower() and (found := _CUDA_SAID.search(file.text[:100_000])):
                cuda = found["cuda"] or f"{found['cu'][:2]}.{found['cu'][2:]}"
        if not cuda and (found := _CUDA_SAID.search(image)):
            cuda = found["cuda"] or f"{found['cu'][:2]}.{found['cu'][2:]}"
        if not cuda and "kimi-k3" in image:
            cuda = "13.0"  # the recipe's image exists for CUDA 13 alone
        return image, cuda
