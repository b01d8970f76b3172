# SPDX-License-Identifier: Apache-2.0
"""Whole files: reads them by two decoders, ours and the one that protobuf generates, and runs the rules."""

import pathlib

from . import rules, second, span_times, wire


def load(path):
    path = pathlib.Path(path)
    return wire.read(path.read_bytes(), torn=path.name.endswith(".part"))


def validate(path):
    """What is wrong with a file, as lines of text; empty when it keeps all rules."""
    try:
        increments = load(path)
    except wire.Malformed as error:
        return [str(error)]
    if not increments:
        return ["it is empty"]
    checker = rules.Checker()
    for dictionary, resources in increments:
        checker.add_increment(dictionary, resources)
    broken = checker.finish()
    return broken or differences(path, count(increments))


def count(increments):
    """Samples by (trace id, span id) in hex, and by pid (None: not said) outside of spans; of spans with times, by the
    same ids, their nanoseconds on threads and the number of the stays that are listed."""
    links, strings, spans, background, times = [], [], {}, {}, {}
    for dictionary, resources in increments:
        links += dictionary["link"]
        strings += dictionary["string"]
        for resource_profiles in resources:
            attributes = (resource_profiles["resource"] or {"attributes": []})["attributes"]
            pid = next((each["value"]["int_value"] for each in attributes if each["key"] == "process.pid"), None)
            for profile in (profile for scoped in resource_profiles["scope_profiles"] for profile in scoped["profiles"]):
                timed = strings[(profile["sample_type"] or {"type_strindex": 0})["type_strindex"]] == span_times.TYPE[0]
                for sample in profile["samples"]:
                    link = links[sample["link_index"]]
                    key = (link["trace_id"].hex(), link["span_id"].hex())
                    if timed:
                        length, stays = times.get(key, (0, 0))
                        times[key] = (length + sum(sample["values"]), stays + len(sample["timestamps_unix_nano"]))
                        continue
                    table, key = (spans, key) if sample["link_index"] else (background, pid)
                    table[key] = table.get(key, 0) + sum(sample["values"])
    return {"spans": spans, "background": background, "span_times": times}


def differences(path, found):
    """Where the second decoder disagrees; nothing where there is none (second.available() says why)."""
    # A torn tail is no message for a decoder that reads whole ones.
    if pathlib.Path(path).name.endswith(".part") or not second.available():
        return []
    other = second.totals(path)
    return [f"the decoders disagree about {name}" for name in found if found[name] != other[name]]


def totals(path):
    found = count(load(path))
    different = differences(path, found)
    if different:
        raise AssertionError(f"{path}: {different}")
    return found
