# SPDX-License-Identifier: Apache-2.0
"""Each rule about includes has a tree that keeps it and one that breaks it."""
import unittest

import trees

rooms = trees.load("check-rooms")

# Headers that stand in every tree, so that names resolve.
HEADERS = ["loader/base/fd.h", "loader/bpf/ring.h", "loader/proc/maps.h", "loader/proc/byte_source.h",
           "loader/proc/elf_file.h", "loader/unwind/table.h", "loader/profile/model.h", "loader/export/http.h",
           "loader/report/read.h", "loader/app/loop.h", "tests/help.h", "bench/clock.h", *(f"bpf/{name}" for name in rooms.LADDER)]


class RoomsCase(trees.TreeCase):
    def breaches(self, name, *includes):
        self.plant({each: "" for each in HEADERS})
        self.write({name: "".join(f"#include {each}\n" for each in includes)})
        return rooms.Tree(self.root).check()

    def check_kept(self, name, *includes):
        self.assertEqual(self.breaches(name, *includes), [])

    def check_broken(self, rule, name, *includes):
        found = self.breaches(name, *includes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(rule, found[0])
        self.assertTrue(found[0].startswith(f"{name}:{len(includes)}: "), found[0])


class Rooms(RoomsCase):
    def test_rooms_that_may_be_included(self):
        for room, others in rooms.ROOMS.items():
            for header in HEADERS:
                if header.startswith("loader/") and header.split("/")[1] in others | {room}:
                    with self.subTest(room=room, header=header):
                        self.check_kept(f"loader/{room}/x.cpp", f'"{header.removeprefix("loader/")}"')

    def test_rooms_that_may_not_be_included(self):
        for room, others in rooms.ROOMS.items():
            for header in HEADERS:
                other = header.split("/")[1]
                if not header.startswith("loader/") or other in others | {room} or header in rooms.DOORS.get(room, ()):
                    continue
                with self.subTest(room=room, header=header):
                    self.check_broken(f"not {other}", f"loader/{room}/x.cpp", "<vector>",
                                      f'"{header.removeprefix("loader/")}"')

    def test_a_header_beside_the_file_is_found_without_its_room(self):
        self.check_kept("loader/proc/x.cpp", '"maps.h"')

    def test_unwind_reads_files_by_procs_readers_only(self):
        self.check_kept("loader/unwind/x.cpp", '"proc/byte_source.h"', '"proc/elf_file.h"')
        self.check_broken("not proc", "loader/unwind/x.cpp", '"proc/maps.h"')

    def test_abi_alone_crosses_the_kernel_line(self):
        self.check_kept("loader/bpf/x.cpp", '"bpf/abi.h"')
        self.check_broken("only abi.h", "loader/bpf/x.cpp", '"bpf/core.h"')
        for room in set(rooms.ROOMS) - {"bpf"}:
            with self.subTest(room=room):
                self.check_broken("only loader/bpf sees bpf/", f"loader/{room}/x.cpp", '"bpf/abi.h"')

    def test_libraries_are_seen_in_their_rooms_only(self):
        headers = {"libbpf": "bpf/libbpf.h", "libelf, libdw": "gelf.h", "libiberty": "libiberty/demangle.h",
                   "liblzma": "lzma.h", "zlib": "zlib.h", "protozero": "protozero/pbf_writer.hpp", "CLI11": "CLI/CLI.hpp",
                   "simdjson": "simdjson.h", "libcurl": "curl/curl.h", "fmt": "fmt/format.h",
                   "doctest": "doctest/doctest.h", "httplib": "httplib.h"}
        self.assertEqual(set(headers) | {"a skeleton"}, set(rooms.LIBRARIES))
        for library, header in headers.items():
            for room in rooms.ROOMS:
                with self.subTest(library=library, room=room):
                    if room in rooms.LIBRARIES[library][1]:
                        self.check_kept(f"loader/{room}/x.cpp", f"<{header}>")
                    else:
                        self.check_broken(f"{library} is seen by", f"loader/{room}/x.cpp", f"<{header}>")

    def test_skeletons_are_seen_by_the_bpf_room_only(self):
        self.check_kept("loader/bpf/x.cpp", '"spanfold.skel.h"')
        self.check_broken("a skeleton is seen by loader/bpf only", "loader/app/x.cpp", '"spanfold.skel.h"')

    def test_system_headers_are_free(self):
        self.check_kept("loader/base/x.cpp", "<vector>", "<sys/stat.h>", "<linux/perf_event.h>", "<elf.h>", "<unistd.h>")

    def test_a_library_that_nobody_named_is_a_breach(self):
        self.check_broken("name it in", "loader/proc/x.cpp", "<boost/any.h>")
        self.check_broken("name it in", "loader/proc/x.cpp", "<json.hpp>")

    def test_a_quoted_name_that_is_nowhere_is_a_breach(self):
        self.check_broken("no such file", "loader/proc/x.cpp", '"proc/gone.h"')

    def test_nothing_sees_tests_and_bench(self):
        self.check_broken("nothing sees tests/", "loader/app/x.cpp", '"tests/help.h"')
        self.check_broken("nothing sees bench/", "loader/app/x.cpp", '"bench/clock.h"')

    def test_tests_and_bench_see_anything(self):
        self.check_kept("tests/unit/x.cpp", '"bpf/core.h"', '"app/loop.h"', "<httplib.h>", '"spanfold.skel.h"')
        self.check_kept("bench/x.cpp", '"bpf/core.h"', "<bpf/libbpf.h>")

    def test_a_file_outside_a_room_is_a_breach(self):
        self.assertIn("not in a room", self.breaches("loader/x.cpp")[0])
        self.assertIn("not in a room", self.breaches("loader/other/x.cpp")[0])

    def test_includes_in_odd_writing_are_seen(self):
        self.write({each: "" for each in HEADERS})
        self.write({"loader/proc/x.cpp": '  #  include"app/loop.h"\n// #include "bpf/abi.h"\n'})
        self.assertEqual(len(rooms.Tree(self.root).check()), 1)


class Ladder(RoomsCase):
    def test_a_lower_rung_may_be_included(self):
        self.check_kept("bpf/fold.bpf.h", '"record.bpf.h"', '"core.h"', '"bpf/abi.h"')
        self.check_kept("bpf/on_cpu.bpf.c", '"fold.bpf.h"', '"context.bpf.h"')

    def test_a_higher_rung_may_not(self):
        self.check_broken("lower rung", "bpf/maps.bpf.h", '"stats.bpf.h"')
        self.check_broken("lower rung", "bpf/stack.bpf.h", '"core.h"', '"fold.bpf.h"')
        self.check_broken("lower rung", "bpf/fold.bpf.h", '"fold.bpf.h"')

    def test_programs_never_include_one_another(self):
        self.check_broken("one another", "bpf/on_cpu.bpf.c", '"sweep.bpf.c"')

    def test_abi_and_core_stay_pure(self):
        self.check_kept("bpf/abi.h", "<linux/types.h>")
        self.check_broken("nothing else", "bpf/abi.h", "<linux/bpf.h>")
        self.check_kept("bpf/core.h", '"abi.h"')
        self.check_broken("nothing else", "bpf/core.h", '"vmlinux.h"')

    def test_only_the_base_sees_the_kernels_types(self):
        self.check_kept("bpf/compat.bpf.h", '"vmlinux.h"', "<bpf/bpf_helpers.h>")
        self.check_broken("see the kernel's types", "bpf/task.bpf.h", '"vmlinux.h"')
        self.check_broken("see the kernel's types", "bpf/on_cpu.bpf.c", "<bpf/bpf_helpers.h>")

    def test_other_headers_are_not_for_bpf(self):
        self.check_broken("only", "bpf/compat.bpf.h", "<stdint.h>")
        self.check_broken("only", "bpf/on_cpu.bpf.c", '"base/fd.h"')

    def test_a_header_without_a_rung_is_a_breach(self):
        self.assertIn("not on the ladder", self.breaches("bpf/extra.bpf.h")[0])


class ThisTree(unittest.TestCase):
    def test_keeps_the_rooms_apart(self):
        self.assertEqual(rooms.Tree(trees.ROOT).check(), [])


if __name__ == "__main__":
    unittest.main()
