# SPDX-License-Identifier: Apache-2.0
"""The frames of recordings, out of their dictionaries: what was printed of which address in which file."""

import collections

import harness

Frame = collections.namedtuple("Frame", "file address name kind")
KIND = "profile.frame.type"


class _Tables:
    """The dictionary of a file, increments put together."""

    def __init__(self, path):
        self.rows = collections.defaultdict(list)
        for dictionary, _ in harness.otlp.check.load(path):
            for name, rows in dictionary.items():
                self.rows[name].extend(rows)

    def attributes(self, indices):
        """Those that are text."""
        rows = (self.rows["attribute"][index] for index in indices)
        return {self.rows["string"][row["key_strindex"]]: row["value"]["string_value"] for row in rows}

    def frame(self, location):
        strings, lines = self.rows["string"], location["lines"]
        mapping = self.rows["mapping"][location["mapping_index"]]
        name = strings[self.rows["function"][lines[0]["function_index"]]["name_strindex"]] if lines else ""
        return Frame(strings[mapping["filename_strindex"]], location["address"], name,
                     self.attributes(location["attribute_indices"]).get(KIND, ""))


def frames_of(files):
    """All distinct ones. A name is empty where there is none."""
    found = set()
    for path in files:
        tables = _Tables(path)
        found.update(tables.frame(location) for location in tables.rows["location"][1:])
    return found


def types_of(files):
    """Names to the types of their frames."""
    types = {}
    for frame in frames_of(files):
        types.setdefault(frame.name, set()).add(frame.kind)
    return types


def mappings_of(files):
    """File names to the sets of attributes that mappings of that name have, each as sorted pairs."""
    found = {}
    for path in files:
        tables = _Tables(path)
        for mapping in tables.rows["mapping"][1:]:
            name = tables.rows["string"][mapping["filename_strindex"]]
            found.setdefault(name, set()).add(tuple(sorted(tables.attributes(mapping["attribute_indices"]).items())))
    return found
