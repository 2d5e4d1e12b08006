"""`make deep`: the long lanes. Their result is committed beside this file and names the digest of its sources.

python tests/lanes/deep.py            run the lanes, write deep-result.json
python tests/lanes/deep.py --check    say whether the committed result covers the sources as they are
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULT = HERE / "deep-result.json"


def sources_digest() -> str:
    """SHA-256 over path and content of everything the lanes exercise."""
    paths = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".py", ".yaml", ".j2", ".jinja", ".css", ".js")]
    paths += [p for p in HERE.glob("*") if p.suffix in (".py", ".jinja")]
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()


def check() -> int:
    try:
        result = json.loads(RESULT.read_bytes())
    except (OSError, ValueError):
        print("deep lanes: no result is committed; run `make deep`")
        return 1
    if result["sources"] != sources_digest():
        print(f"deep lanes: the result of {result['date']} covers other sources; run `make deep`")
        return 1
    print(f"deep lanes: the result of {result['date']} covers these sources: {json.dumps(result['lanes'])}")
    return 0


def main() -> int:
    if "--check" in sys.argv:
        return check()
    sources = sources_digest()
    lanes: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch:
        counted = Path(scratch) / "draws.json"
        draws = subprocess.run([sys.executable, HERE / "draws.py", "--json", counted], check=False)
        lanes["draws"] = json.loads(counted.read_bytes()) if counted.exists() else None
        tests = subprocess.run([sys.executable, "-m", "pytest", "-m", "deep"], cwd=ROOT, check=False)
        lanes["tests"] = "passed" if tests.returncode == 0 else "not passed"
        real = subprocess.run([sys.executable, HERE / "real.py", "--whole"], check=False)
        lanes["real"] = "as it should be" if real.returncode == 0 else "not as it should be"
    if sources != sources_digest():
        print("deep lanes: the sources changed while the lanes ran; nothing was written")
        return 1
    passed = draws.returncode == 0 and tests.returncode == 0 and real.returncode == 0
    RESULT.write_text(
        json.dumps({"date": time.strftime("%Y-%m-%d"), "sources": sources, "passed": passed, "lanes": lanes}, indent=2)
        + "\n"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
