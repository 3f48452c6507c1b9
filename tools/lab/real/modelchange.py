"""Quantizes the model of train.py twice and looks whether track_model finds that the one takes the
place of the other: modelchange.py EXPORTER MODEL.gguf PORT, in an environment with
llama-cpp-python[server]. It prints the published
series before and after, once with log-probabilities and once without, and each once
with Q8_0 again instead of Q4_0."""

import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import llama_cpp

DAY = {True: 96, False: 480}  # answers that are compared, with log-probabilities and without
KINDS = {"q8": 7, "q4": 2}  # llama_ftype: MOSTLY_Q8_0, MOSTLY_Q4_0
FAMILIES = ("first_token_logprob_shift", "first_token_variation_ratio", "identity_changes_total", "prompt_tokens_total", "output_tokens_total")


def quantize(source, directory):
    for name, kind in KINDS.items():
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = kind
        if llama_cpp.llama_model_quantize(str(source).encode(), str(directory / name).encode(), params) != 0:
            sys.exit(f"cannot quantize {source} to {name}")


def get(url):
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def wait(url, seconds=120):
    for _ in range(seconds * 5):
        try:
            return get(url)
        except OSError:
            time.sleep(0.2)
    sys.exit(f"{url} does not answer")


def serve(path, port, scored):
    server = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", "--model", path, "--model_alias", "tiny", "--port", str(port),
         "--n_ctx", "512", "--n_threads", "1", "--logits_all", str(scored)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait(f"http://127.0.0.1:{port}/v1/models")
    return server


def series(port):
    page = get(f"http://127.0.0.1:{port}/metrics")
    return [line for line in page.splitlines() if line.startswith("inference_probe_") and any(f in line.split("{")[0] for f in FAMILIES)]


def answers(port):
    page = get(f"http://127.0.0.1:{port}/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in page if line.startswith("inference_probe_results_total") and 'outcome="success"' in line)


def until(port, count):
    while answers(port) < count:
        time.sleep(0.5)


def experiment(exporter, directory, port, scored, after):
    config = directory / "exporter.yml"
    config.write_text(f"""
modules: {{track: {{track_model: true, interval: 30ms, timeout: 5s}}}}
endpoints: [{{name: tiny, url: "http://127.0.0.1:{port}/v1", api: openai-completions, model: tiny, modules: [track], servers: {{find: false}}}}]
""")
    server = serve(directory / "q8", port, scored)
    watcher = subprocess.Popen([exporter, "--config.file", config, "--web.listen-address", f"127.0.0.1:{port + 1}", "--state.path="], stderr=subprocess.DEVNULL)
    try:
        wait(f"http://127.0.0.1:{port + 1}/metrics")
        day, days = DAY[scored], 5 if scored else 7  # two are for the search of border prompts
        until(port + 1, days * day)
        print(f"\nlog-probabilities: {scored}, {days} days of q8:", *series(port + 1), sep="\n  ")
        server.terminate()
        server.wait()
        server = serve(directory / after, port, scored)
        at = answers(port + 1)
        until(port + 1, at + day)
        print(f"then a day of {after}:", *series(port + 1), sep="\n  ", flush=True)
    finally:
        for process in (watcher, server):
            process.terminate()
            process.wait()


exporter, source, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
with tempfile.TemporaryDirectory() as name:
    directory = pathlib.Path(name)
    quantize(source, directory)
    for scored in (True, False):
        for after in ("q4", "q8"):
            experiment(exporter, directory, port, scored, after)
