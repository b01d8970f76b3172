# SPDX-License-Identifier: Apache-2.0
"""A decoder that is not ours: the classes that protobuf generates, from the package opentelemetry-proto.

They live in a virtual environment below the build folder (O, default build), made on first use; where the package
cannot be had, that is said once on standard error, and available() is false. As a program, in that environment: reads
one path a line, answers each by one line of JSON."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "opentelemetry-proto>=1.40"  # serve() checks that it knows the messages in the form that we write
INSTALL_SECONDS = 120


def folder():
    return ROOT / os.environ.get("O", "build") / "otlp-venv"


@functools.cache
def available():
    try:
        worker()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"SKIPPED: the second OTLP decoder is not available: {error}", file=sys.stderr)
        return False
    return True


def install():
    """The environment's python, with the package."""
    python = folder() / "bin/python"
    ready = folder() / "ready"
    if not ready.exists():
        venv.create(folder(), clear=True, with_pip=True)
        command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", PACKAGE]
        subprocess.run(command, check=True, timeout=INSTALL_SECONDS, capture_output=True)
        ready.touch()
    return python


@functools.cache
def worker():
    running = subprocess.Popen([install(), __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if running.stdout.readline() != "ready\n":
        raise ValueError("its package knows another version of the messages")
    return running


def totals(path):
    """As check.count() gives them."""
    running = worker()
    running.stdin.write(f"{pathlib.Path(path).resolve()}\n")
    running.stdin.flush()
    answer = json.loads(running.stdout.readline())
    if "error" in answer:
        raise ValueError(answer["error"])
    return {"spans": {tuple(span): value for span, value in answer["spans"]},
            "background": {pid: value for pid, value in answer["background"]},
            "span_times": {tuple(span): tuple(value) for span, value in answer["span_times"]}}


def read(messages, path):
    data = messages.ProfilesData()
    data.ParseFromString(pathlib.Path(path).read_bytes())
    links, strings = data.dictionary.link_table, data.dictionary.string_table
    spans, background, times = {}, {}, {}
    for resource_profiles in data.resource_profiles:
        pid = next((each.value.int_value for each in resource_profiles.resource.attributes if each.key == "process.pid"), None)
        for profile in (profile for scoped in resource_profiles.scope_profiles for profile in scoped.profiles):
            timed = strings[profile.sample_type.type_strindex] == "span_thread_time"
            for sample in profile.samples:
                link = links[sample.link_index]
                span = (link.trace_id.hex(), link.span_id.hex())
                if timed:
                    length, stays = times.get(span, (0, 0))
                    times[span] = (length + sum(sample.values), stays + len(sample.timestamps_unix_nano))
                    continue
                table, key = (spans, span) if sample.link_index != 0 else (background, pid)
                table[key] = table.get(key, 0) + sum(sample.values)
    return {"spans": list(spans.items()), "background": list(background.items()), "span_times": list(times.items())}


def serve():
    from opentelemetry.proto.profiles.v1development import profiles_pb2 as messages
    numbers = {field.name: field.number for field in messages.Sample.DESCRIPTOR.fields}
    known = numbers == {"stack_index": 1, "attribute_indices": 2, "link_index": 3, "values": 4, "timestamps_unix_nano": 5}
    print("ready" if known else f"other fields: {numbers}", flush=True)
    for line in sys.stdin:
        try:
            answer = read(messages, line.rstrip("\n"))
        except Exception as error:  # whatever a decoder throws is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
