"""How a server is launched: a shell script, a command line, `docker run`, a compose file or Kubernetes args.

Nothing is executed or expanded; variables stay as written. Flags are kept by their long name without dashes and with
hyphens (`tensor-parallel-size`); `--no-x` is the flag `no-x`; a flag without a value has the value `true`.
"""

from collections.abc import Iterable

import msgspec
import re2
from msgspec import Struct

BYTES_MAX, TOKENS_MAX, TEXT_MAX = 1 << 20, 20_000, 4_000

_SAME = {
    "tp": "tensor-parallel-size",
    "tp-size": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "pp-size": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "dp-size": "data-parallel-size",
    "context-length": "max-model-len",
    "model-path": "model",
    "model-tag": "model",
}


class LaunchCommand(Struct, frozen=True, kw_only=True):
    """One launch; of several in a script the last that starts a model server."""

    engine: str = ""
    """`vllm`, `sglang`, or empty."""
    runtime: str = ""
    """`docker`, `podman`, `nerdctl`, `compose`, `kubernetes`, `shell`, or empty when no launch was found."""
    image: str = ""
    model: str = ""
    flags: dict[str, str] = {}
    env: dict[str, str] = {}
    container: dict[str, str] = {}
    """Options of the container runtime: `gpus`, `runtime`, `ipc`, `shm-size`, `network`, `privileged`, `device`."""
    lines: dict[str, int] = {}
    """Where each flag stands, from 1."""
    notes: tuple[str, ...] = ()
    """Comments, which people use for what no option says."""


class _Token(Struct, frozen=True):
    text: str
    line: int


_ASSIGNMENT = re2.compile(r"^[A-Za-z_]\w*=")
_OPTIONS_WITH_VALUE = {
    "-e", "--env", "-v", "--volume", "-p", "--publish", "--name", "--gpus", "--runtime", "--ipc", "--shm-size",
    "--network", "--net", "--device", "--ulimit", "-u", "--user", "-w", "--workdir", "--entrypoint", "--cap-add",
    "--mount", "--restart", "-h", "--hostname", "--env-file", "--memory", "-m", "--cpus", "--security-opt", "--pull",
    "--platform", "--label", "-l", "--add-host", "--log-opt", "--log-driver", "--tmpfs", "--group-add", "--annotation",
}  # fmt: skip
_CONTAINER_RUN = {"docker", "podman", "nerdctl"}


def read_launch_command(raw: bytes) -> LaunchCommand:
    """The launch that a text describes; any bytes are accepted."""
    text = raw[:BYTES_MAX].decode("utf-8", "replace").replace("\r\n", "\n").replace("\x00", "")
    comments = tuple(
        line.strip()[1:].strip()[:TEXT_MAX]
        for line in text.split("\n")
        if line.strip().startswith("#") and not line.startswith("#!")
    )[:200]
    if _is_manifest(text):
        return msgspec.structs.replace(_manifest(text), notes=comments)
    best = LaunchCommand()
    exported: dict[str, str] = {}
    for command in _commands(_tokens(text)):
        words = [token.text for token in command]
        if words[0] == "export" or all(_ASSIGNMENT.match(word) for word in words):
            exported |= dict(word.split("=", 1) for word in words if _ASSIGNMENT.match(word))
            continue
        found = _one(command)
        if found.engine or (found.image and not best.engine):
            best = msgspec.structs.replace(found, env={**exported, **found.env})
    return msgspec.structs.replace(best, notes=comments)


def _tokens(text: str) -> list[_Token]:
    """Words as a shell would split them, quotes off, comments out; `;`, `&&`, `|`, `&` and line ends are words."""
    out: list[_Token] = []
    word: list[str] = []
    started, quote, line, i, at = False, "", 1, 0, 1
    while i < len(text) and len(out) < TOKENS_MAX:
        c = text[i]
        following = text[i + 1 : i + 2]
        if c == "\n":
            line += 1
        if quote:
            if c == quote:
                quote = ""
            elif c == "\\" and quote == '"' and following in ('"', "\\", "$", "`"):
                word.append(following)
                i += 1
            else:
                word.append(c)
        elif c == "\\" and following:
            if following == "\n":
                line += 1
            else:
                word.append(following)
                started = True
            i += 1
        elif c in "'\"":
            quote, started = c, True
        elif c == "#" and not started:
            end = text.find("\n", i)
            i = (len(text) if end < 0 else end) - 1
        elif c in " \t\n;|&<>()":
            if started:
                out.append(_Token("".join(word)[:TEXT_MAX], at))
                word, started = [], False
            if c in "\n;|&":
                out.append(_Token("\n", line))
        else:
            word.append(c)
            started = True
        if not started:
            at = line
        i += 1
    if started:
        out.append(_Token("".join(word)[:TEXT_MAX], at))
    return out


def _commands(tokens: Iterable[_Token]) -> list[list[_Token]]:
    out: list[list[_Token]] = [[]]
    for token in tokens:
        if token.text == "\n":
            if out[-1]:
                out.append([])
        elif not (token.text in ("$", ">", "sudo", "exec", "nohup", "time", "env") and not out[-1]):
            out[-1].append(token)
    return [command for command in out if command]


def _one(command: list[_Token]) -> LaunchCommand:
    env: dict[str, str] = {}
    i = 0
    while i < len(command) and _ASSIGNMENT.match(command[i].text):
        key, _, value = command[i].text.partition("=")
        env[key] = value
        i += 1
    rest = command[i:]
    if not rest:
        return LaunchCommand(env=env)
    program = rest[0].text.rsplit("/", 1)[-1]
    if program in _CONTAINER_RUN and any(token.text in ("run", "create") for token in rest[1:4]):
        return _container(program, rest, env)
    if program == "torchrun" or program == "ray":
        rest = rest[1:]
    return _server("shell", rest, env)


def _container(program: str, command: list[_Token], env: dict[str, str]) -> LaunchCommand:
    start = next(i for i, token in enumerate(command) if token.text in ("run", "create")) + 1
    options: dict[str, str] = {}
    i = start
    while i < len(command) and command[i].text.startswith("-"):
        name, equals, value = command[i].text.partition("=")
        if not equals and name in _OPTIONS_WITH_VALUE and i + 1 < len(command):
            i += 1
            value = command[i].text
        if name in ("-e", "--env"):
            key, _, said = value.partition("=")
            env[key] = said
        elif name.startswith("--"):
            key = {"net": "network"}.get(name[2:], name[2:])
            options[key] = value or "true"
        i += 1
    image = command[i].text if i < len(command) else ""
    entry = options.get("entrypoint", "")
    rest = command[i + 1 :]
    if entry:
        rest = [_Token(entry, command[0].line), *rest]
    found = _server(program, rest, env, in_image=image)
    return msgspec.structs.replace(found, image=image, container=options)


def _server(runtime: str, command: list[_Token], env: dict[str, str], in_image: str = "") -> LaunchCommand:
    """Flags of the server. An image of vLLM or SGLang starts the server by itself, so that its words are flags."""
    words = [token.text for token in command]
    joined = " ".join(words)
    engine, start = "", len(command)
    for i, word in enumerate(words):
        if word.rsplit("/", 1)[-1] == "vllm" and words[i + 1 : i + 2] == ["serve"]:
            engine, start = "vllm", i + 2
        elif word.startswith("vllm.entrypoints"):
            engine, start = "vllm", i + 1
        elif word.startswith("sglang.launch_server") or (word == "sglang" and words[i + 1 : i + 2] == ["serve"]):
            engine, start = "sglang", i + 1
        if engine:
            break
    if not engine and ("vllm" in in_image or "sglang" in in_image):
        engine, start = ("vllm" if "vllm" in in_image else "sglang"), 0
    if not engine and "--tensor-parallel-size" in joined and "--model" in joined:
        engine, start = "vllm", 0
    if not engine and len(words) == 1 and (" vllm serve" in " " + joined or "sglang.launch_server" in joined):
        return _one([token for token in _tokens(joined) if token.text != "\n"])  # bash -c "vllm serve ..."
    nested = next((word for word in words if " " in word and ("vllm serve" in word or "sglang" in word)), "")
    if not engine and nested:
        found = read_launch_command(nested.encode())
        return msgspec.structs.replace(found, runtime=runtime, env={**env, **found.env})
    model, flags, lines = _flags(command[start:]) if engine else ("", {}, {})
    return LaunchCommand(
        engine=engine,
        runtime=runtime if engine or in_image else "",
        model=model or flags.get("model", ""),
        flags=flags,
        env=env,
        lines=lines,
    )


def _flags(tokens: list[_Token]) -> tuple[str, dict[str, str], dict[str, int]]:
    flags: dict[str, str] = {}
    lines: dict[str, int] = {}
    model, i = "", 0
    while i < len(tokens):
        text = tokens[i].text
        if text.startswith("-") and len(text) > 1 and not text[1:2].isdigit():
            name, equals, value = text.partition("=")
            key = name.lstrip("-").replace("_", "-")
            key = _SAME.get(key, key)
            following = tokens[i + 1].text if i + 1 < len(tokens) else "-"
            lines[key] = tokens[i].line
            if not equals and (not following.startswith("-") or following[1:2].isdigit()):
                i += 1
                value = following
            flags[key] = value or "true"
        elif not model:
            model = text
        i += 1
    return model, flags, lines


def _is_manifest(text: str) -> bool:
    return (
        ("apiVersion:" in text and "kind:" in text)
        or "containers:" in text
        or ("services:" in text and "image:" in text)
    )


_ITEM = re2.compile(r"^\s*(?:-\s+)?(?P<key>[\w.-]+):\s*(?P<value>.*?)\s*$")
_LIST_WORD = re2.compile(r"^\s*-\s+(?P<word>[^:\s].*?)\s*$")
_ENV_NAME = re2.compile(r"^\s*-?\s*name:\s*(?P<name>[A-Z_][A-Z0-9_]*)\s*$")
_ENV_VALUE = re2.compile(r"^\s*value:\s*(?P<value>.*?)\s*$")


def _manifest(text: str) -> LaunchCommand:
    """Image, environment and arguments of the first model server in a Kubernetes or compose file, read by lines."""
    words: list[_Token] = []
    env: dict[str, str] = {}
    image = name = listing = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip().startswith("#"):
            continue
        if found := _ENV_NAME.match(line):
            name = found["name"]
        elif name and (found := _ENV_VALUE.match(line)):
            env[name], name = _bare(found["value"]), ""
        elif listing and (found := _LIST_WORD.match(line)) and len(words) < TOKENS_MAX:
            words.append(_Token(_bare(found["word"]), number))
        elif found := _ITEM.match(line):
            key, value = found["key"], found["value"]
            listing = key if key in ("args", "command") else ""
            if key == "image" and ("vllm" in value or "sglang" in value or not image):
                image = _bare(value)
            elif listing and value.startswith("["):
                words += [_Token(_bare(word), number) for word in value.strip("[]").split(",") if word.strip()]
            elif listing and value and value not in ("|", ">", "|-", ">-"):
                words += [_Token(token.text, number) for token in _tokens(value) if token.text != "\n"]
            elif key.isupper() and value:
                env[key] = _bare(value)
        elif listing and line.strip():
            words += [_Token(token.text, number) for token in _tokens(line) if token.text not in ("\n", "\\")]
    runtime = "kubernetes" if "apiVersion:" in text or "containers:" in text else "compose"
    found = _server(runtime, words, env, in_image=image)
    return msgspec.structs.replace(found, image=image, runtime=runtime)


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
