"""Wrong usage ends with exit 2, one clear message, nothing sent to the service and no bundle left behind."""

import http.server
import json
import subprocess
import sys
import threading

import pytest
import typer

from signoff.cli import _fresh_name, _write, app
from signoff.errors import SignoffError

PLAN = """schema: signoff/plan/1
name: trial
profile: vllm-cpu
service:
  base_url: {url}
  model: {model}
objective:
  concurrency: {{target: 2, floor: 1, hold_s: 1}}
  input_tokens: {{target: 512, floor: 128}}
"""


def signoff(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "signoff", *map(str, words)], capture_output=True, text=True, timeout=60, **more
    )


class Server(http.server.BaseHTTPRequestHandler):
    status, body, posts = 200, b"", 0

    def do_GET(self):
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_POST(self):
        type(self).posts += 1
        self.do_GET()

    def log_message(self, *words):
        pass


@pytest.fixture
def serve():
    running = []

    def start(status, body):
        kind = type("One", (Server,), {"status": status, "body": body, "posts": 0})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}", kind

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


MODELS = json.dumps({"object": "list", "data": [{"id": "right", "max_model_len": 1024}]}).encode()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"error":"Unauthorized"}', ["401", "api_key_env"]),
        (200, MODELS, ["does not serve `wrong`", "It serves: right"]),
        (200, b"<html>hello</html>", ["not a list of models"]),
        (404, b"", ["404", "without /v1"]),
    ],
)
def test_a_service_that_cannot_be_used(tmp_path, serve, status, body, words):
    url, kind = serve(status, body)
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(url=url, model="wrong"))
    done = signoff("run", plan, "-o", tmp_path / "bundle")
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2
    assert kind.posts == 0
    assert not (tmp_path / "bundle").exists()


def test_nobody_listens(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(url="http://127.0.0.1:9", model="m"))
    done = signoff("run", plan, "-o", tmp_path / "bundle")
    assert done.returncode == 2
    assert "Start the service" in done.stderr
    assert not (tmp_path / "bundle").exists()


def test_not_http_at_all(tmp_path):
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        plan = tmp_path / "plan.yaml"
        plan.write_text(PLAN.format(url=f"http://127.0.0.1:{port}", model="m"))
        done = signoff("run", plan, "-o", tmp_path / "bundle")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_unknown_key_names_line_and_nearest(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(url="http://127.0.0.1:9", model="m").replace("floor: 1,", "flor: 1,"))
    done = signoff("run", plan)
    assert done.returncode == 2
    assert f"{plan}:8:" in done.stderr
    assert "Did you mean `floor`?" in done.stderr


LOAD = ["--streams", "1", "--requests", "1", "--output-tokens", "1"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "nowhere.yaml"], "cannot read"),
        (["judge", "nowhere"], "cannot read"),
        (["report", "nowhere", "--format", "pdf"], "Formats are"),
        (["report", "nowhere", "--lang", "tlh"], "Languages are"),
        (["explain", "no.such.code"], "no.such.code"),
        (["demo", "--scenario", "moon"], "Scenarios are"),
        (["demo", "--fault", "moon"], "moon"),
        (["profile", "show", "moon"], "moon"),
        (["run", "x.yaml", "--gate", "speed"], "Gates are"),
        (
            ["load", "--base-url", "http://127.0.0.1:9", "--streams", "1", "--requests", "1", "--output-tokens", "1"],
            "9",
        ),
        (["load", *LOAD, "--base-url", "http://127.0.0.1:99999"], "1 to 65535"),
        (["load", *LOAD, "--base-url", "http://[::1"], "IPv6"),
        (["load", *LOAD, "--base-url", "http://127.0.0.1:9/v1"], "ends in /v1"),
        (["load", *LOAD, "--base-url", "https://127.0.0.1:9", "--ca-file", "no.pem"], "CA file no.pem"),
        (["init", "--base-url", "http://127.0.0.1:9/v1"], "ends in /v1"),
        (["init", "--base-url", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
        (["sim", "--port", "99999"], "65535"),
        (["sim", "--port", "-1"], "--port"),
        (["diagnose", "nowhere.log"], "nowhere.log"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_each_command_says_what_is_wrong(words, told, tmp_path):
    done = signoff(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_named_key_that_is_not_set(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        PLAN.format(url="http://127.0.0.1:9", model="m").replace("model: m", "model: m\n  api_key_env: NO_SUCH_KEY")
    )
    done = signoff("run", plan)
    assert done.returncode == 2
    assert "NO_SUCH_KEY" in done.stderr


def test_a_place_that_cannot_be_written(tmp_path, serve):
    url, _ = serve(200, MODELS)
    done = signoff("init", "--base-url", url, "-o", "no/such/x.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "no/such/x.yaml: cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_that_cannot_be_written_is_usage(tmp_path):
    with pytest.raises(SignoffError, match="cannot write: No such file or directory"):
        _write(tmp_path / "no" / "x.html", b"page")
    with pytest.raises(SignoffError, match="cannot write"):
        _write(tmp_path, b"page")


@pytest.mark.parametrize("name", ["../../etc/x", "/etc/x", "a\x1b[2Jb", ".", "", "名字", "x" * 999])
def test_a_bundle_named_by_the_plan_lies_here(name):
    made = _fresh_name(name)
    assert made.parent.name == ""
    assert made.name[0] not in ".-"
    assert made.name.isprintable()
    assert len(made.name) < 120


@pytest.mark.parametrize("command", ["load", "init", "run"])
def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path, command):
    url = "http://me:opensesame@127.0.0.1:9"
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(url=url, model="m"))
    words = {"load": ["load", *LOAD, "--base-url", url], "init": ["init", "--base-url", url], "run": ["run", plan]}
    done = signoff(*words[command], cwd=tmp_path)
    assert done.returncode == 2
    assert "user name or password" in done.stderr
    assert "opensesame" not in done.stderr


def test_an_address_that_ends_in_v1_is_refused_alike_by_run(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(url="http://127.0.0.1:9/v1", model="m"))
    done = signoff("run", plan)
    assert done.returncode == 2
    assert "ends in /v1" in done.stderr


@pytest.mark.parametrize(("options", "told"), [([], "--api-key-env"), (["--api-key-env", "TRIAL_KEY"], "was refused")])
def test_a_key_that_is_missing_or_wrong(serve, monkeypatch, options, told):
    monkeypatch.setenv("TRIAL_KEY", "opensesame")
    url, _ = serve(401, b"")
    for words in (["init", "--base-url", url], ["load", *LOAD, "--base-url", url]):
        done = signoff(*words, *options)
        assert done.returncode == 2
        assert told in done.stderr
        assert "--api-key-env" in done.stderr
        assert "opensesame" not in done.stderr


def test_every_option_and_argument_has_words_and_no_line_of_the_overview_is_cut():
    def commands(command):
        yield command
        for inner in getattr(command, "commands", {}).values():
            yield from commands(inner)

    for command in commands(typer.main.get_command(app)):
        for given in command.params:
            assert getattr(given, "help", "") or given.name == "help", (command.name, given.name)
    overview = signoff("--help").stdout
    assert "..." not in overview.split("Commands:")[1]
