# SPDX-License-Identifier: Apache-2.0
"""Each rule that can be counted has a tree that keeps it and one that breaks it."""
import pathlib
import re
import subprocess
import unittest

import trees

house = trees.load("check-house")

CPP = "// SPDX-License-Identifier: Apache-2.0\n"
BPF = "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n"
SCRIPT = "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"


class House(trees.TreeCase):
    def breaches(self, files):
        self.plant(files)
        return house.House(self.root).check()

    def check_kept(self, name, text):
        self.assertEqual(self.breaches({name: text}), [])

    def check_broken(self, rule, name, text, line=1):
        found = self.breaches({name: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(rule, found[0])
        self.assertTrue(found[0].startswith(f"{name}:{line}: "), found[0])

    def test_licence_lines(self):
        self.check_kept("loader/base/x.cpp", CPP)
        self.check_kept("scripts/x.sh", SCRIPT)
        self.check_kept("scripts/x", SCRIPT)
        self.check_kept("Makefile", "# SPDX-License-Identifier: Apache-2.0\n")
        self.check_kept("bpf/x.bpf.h", "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n")
        self.check_kept("vmlinux/arm64/vmlinux.h", "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n")
        self.check_kept("tests/w/x.bpf.c", "// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only\n")
        self.check_kept("README.md", "no line needed\n")

    def test_a_missing_licence_line(self):
        for name in ("loader/base/x.cpp", "scripts/x.py", "Makefile", "bpf/x.bpf.h", "tests/.clang-tidy"):
            with self.subTest(name=name):
                self.check_broken("no SPDX", name, "one\ntwo\n// SPDX-License-Identifier: Apache-2.0\n")

    def test_an_executable_without_a_suffix_needs_the_line_too(self):
        self.check_broken("no SPDX", "scripts/x", "#!/bin/sh\n")

    def test_the_wrong_licence(self):
        self.check_broken("belongs here", "bpf/x.bpf.h", CPP)

    def test_programs_of_bench_may_take_the_kernels_licence(self):
        self.check_kept("bench/x.bpf.c", BPF)

    def test_the_kernels_licence_outside_bpf(self):
        self.check_broken("belongs here", "loader/base/x.h", BPF)

    def test_sizes(self):
        self.check_kept("loader/base/x.cpp", CPP + "\n" * 499)
        self.check_broken("501 lines", "loader/base/x.cpp", CPP + "\n" * 500, 501)

    def test_sizes_of_programs(self):
        self.check_kept("bpf/x.bpf.c", BPF + "\n" * 119)
        self.check_broken("121 lines", "bpf/x.bpf.c", BPF + "\n" * 120, 121)

    def test_a_generated_header_has_no_size(self):
        text = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n" + "\n" * 2000
        self.check_kept("vmlinux/x86_64/vmlinux.h", text)

    def test_a_long_file_is_only_warned_of(self):
        self.write({"loader/base/x.cpp": CPP + "\n" * 350})
        checked = house.House(self.root)
        self.assertEqual(checked.check(), [])
        self.assertEqual(len(checked.warnings), 1)

    def test_map_names(self):
        self.check_kept("bpf/x.bpf.h", BPF + 'struct {\n} name_of_15_chrs SEC(".maps");\n')
        self.check_broken("map name_of_16_chars", "bpf/x.bpf.h", BPF + 'struct {\n} name_of_16_chars SEC(".maps") __weak;\n', 3)

    def test_program_names(self):
        self.check_kept("bpf/x.bpf.c", BPF + 'SEC("perf_event")\nint on_tick(void *ctx)\n{\n}\n'
                        'SEC("tp_btf/x")\nint BPF_PROG(on_exit, int a)\n{\n}\nchar LICENSE_OF_PROGRAMS[] SEC("license") = "GPL";\n')

    def test_a_long_program_name(self):
        self.check_broken("program on_sixteen_chars", "bpf/x.bpf.c", BPF + 'SEC("perf_event")\nint on_sixteen_chars(void *c)\n', 3)

    def test_a_long_program_name_in_a_macro(self):
        self.check_broken("program on_sixteen_chars", "tests/x.bpf.c",
                          CPP + 'SEC("fentry/x")\nint BPF_PROG(on_sixteen_chars, int a)\n', 3)

    def test_a_program_that_is_not_named_by_its_event(self):
        self.check_broken("on_<event>", "bpf/x.bpf.c", BPF + 'SEC("perf_event")\nint tick(void *ctx)\n', 3)

    def test_the_top_level(self):
        self.check_kept("CHANGELOG.md", "")
        self.check_kept(".ci/run", SCRIPT)
        self.check_broken("top level", "extra.md", "")

    def test_a_folder_at_the_top_level(self):
        self.check_broken("top level", "src/x.md", "")

    def test_words_of_work_left_open(self):
        for word in ("TO" "DO", "FIX" "ME"):
            with self.subTest(word=word):
                self.check_broken(word, "loader/base/x.cpp", CPP + f"// {word}: later\n", 2)
        self.check_kept("loader/base/x.cpp", CPP + "// AUTO" "DOC\n")

    def test_goto(self):
        self.check_kept("loader/base/x.cpp", CPP + '// goto\nauto a = "goto";\n/* a\ngoto */\nint goto_place;\n')
        self.check_broken("no goto", "loader/base/y.cpp", CPP + "/* a\nb */\n  goto out;\n", 4)

    def test_goto_in_bpf_is_the_kernels_style(self):
        self.check_kept("bpf/x.bpf.c", BPF + "goto out;\n")

    def test_files_that_are_not_text_are_left_alone(self):
        (self.root / "tests").mkdir()
        (self.root / "tests/x.bin").write_bytes(b"\xff\xfe\x00")
        self.assertEqual(house.House(self.root).check(), [])

    def test_what_git_ignores_is_not_looked_at(self):
        self.write({".gitignore": "# SPDX-License-Identifier: Apache-2.0\n/build/\n", "build/x.cpp": "", "loader/a.cpp": ""})
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.assertEqual(house.list_files(self.root), [".gitignore", "loader/a.cpp"])


class ThisTree(unittest.TestCase):
    def test_keeps_the_rules(self):
        self.assertEqual(house.House(trees.ROOT).check(), [])

    def test_each_disabled_check_has_a_reason(self):
        for path in (trees.ROOT / ".clang-tidy", trees.ROOT / "tests/.clang-tidy"):
            text = path.read_text()
            comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
            checks = re.search(r"^Checks: >-\n((?:  .*\n)+)", text, re.MULTILINE).group(1)
            for disabled in re.findall(r"(?:^|,)(-[a-z][\w.*-]*)", re.sub(r"\s", "", checks)):
                with self.subTest(file=path.name, check=disabled):
                    self.assertRegex(comments, re.escape(disabled) + r"[:,]")


if __name__ == "__main__":
    unittest.main()
