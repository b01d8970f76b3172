# SPDX-License-Identifier: Apache-2.0
"""Programs of real compilers, each name that is printed of them against the tool that knows: nm and addr2line for C++
and Rust, `go tool nm` for Go, also where the symbols were stripped."""

import os
import shutil
import subprocess

import frames
import real_programs
import truth
import work_case


class RealCase(work_case.WorkCase):
    COMPILER = ""
    UNITS = 150

    def setUp(self):
        super().setUp()
        if shutil.which(self.COMPILER) is None:
            self.skipTest(f"{self.COMPILER} is not installed")

    def build(self, name, text, *words, env=None):
        """Compiles a source; the words are the command but for the output and the source."""
        source, program = self.stage.folder / name, self.stage.folder / name.partition(".")[0]
        source.write_text(text)
        done = subprocess.run([*words, "-o", program, source], capture_output=True, text=True, check=False, timeout=240,
                              env={**os.environ, **(env or {})}, cwd=self.stage.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def check_frames(self, recording, checker, file, least):
        found = frames.frames_of(recording.files)
        checker.check(found)
        self.assertGreater(checker.compared[str(file)], least)
        print(f"\n{checker}")
        return [frame for frame in found if frame.file == str(file)]

    def check_addr2line(self, program, found):
        """addr2line may answer with another name of the same code; nm says which are."""
        answers = truth.lines_of_addr2line(program, sorted({frame.address for frame in found if frame.name}))
        symbols = truth.Elf(program).symbols
        for frame in found:
            if frame.name and not frame.name.endswith("@plt"):
                answer = answers[frame.address]
                self.assertTrue(answer == frame.name or answer in symbols.covering(frame.address), (frame, answer))


class Cpp(RealCase):
    COMPILER = "g++"
    OPTIONS = ("-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-std=c++17")
    PATTERN = r"(?:long )?shop::(alpha|beta)\(.*\)"

    def check(self, *options):
        program = self.build("work.cpp", real_programs.CPP, "g++", *self.OPTIONS, *options)
        recording = self.record(self.worker(program))
        found = self.check_frames(recording, truth.Checker(), program, 20)
        self.check_addr2line(program, found)
        names = self.check_names(recording, 0.9, self.PATTERN)
        self.assertLess({"shop::alpha(long)", "shop::alpha(int, std::string const&)"}, names)
        shown = {frame.name for frame in found}
        for name in ("shop::(anonymous namespace)::noise(long)",
                     "shop::Plain::price(std::vector<shop::Item, std::allocator<shop::Item> > const&)"):
            self.assertIn(name, shown)
        self.assertTrue(any(name.startswith("long shop::tally<std::string, 2>(") for name in shown), shown)

    def test_pie(self):
        self.check("-fPIE", "-pie")

    def test_no_pie(self):
        self.check("-fno-pie", "-no-pie")

    def test_static(self):
        self.check("-fno-pie", "-static")

    def test_other_linker(self):
        """It lays segments out so that file offset and address differ (SYM-01)."""
        if shutil.which("ld.lld") is None:
            self.skipTest("ld.lld is not installed")
        self.check("-fPIE", "-pie", "-fuse-ld=lld")


class Rust(RealCase):
    COMPILER = "rustc"

    def check(self, mangling, *options):
        program = self.build("work.rs", real_programs.RUST, "rustc", "-O", "-C", "force-frame-pointers=yes", "-C",
                             "strip=debuginfo", *options)
        self.assertIn(mangling, truth.output_of("nm", program))
        recording = self.record(self.worker(program))
        found = self.check_frames(recording, truth.Checker(), program, 20)
        self.check_addr2line(program, found)
        # libc's leaves have no frame pointers.
        self.check_names(recording, 0.5, r"work::(alpha|beta)(?:::h[0-9a-f]{16})?")
        return {frame.name for frame in found}

    def test_legacy_names(self):
        shown = self.check("_ZN4work5alpha17h")
        self.assertIn("<work::Square as work::Shape>::area", shown)

    def test_v0_names(self):
        shown = self.check("4work5alpha", "-C", "symbol-mangling-version=v0")
        self.assertIn("<work::Square as work::Shape>::area", shown)
        self.assertFalse({name for name in shown if name.startswith("_R")})


class Go(RealCase):
    COMPILER = "go"
    PATTERN = r"main\.(alpha|beta)(?:\.func\d+)?"

    def check(self, *options):
        # Folders of the test's own: the user's may be read-only, or on a network.
        env = {"CGO_ENABLED": "0", "GOFLAGS": "", "GO111MODULE": "off"}
        build = ("go", "build", "-buildvcs=false")
        twin = self.build("twin.go", real_programs.GO, *build, *options, env=env)
        stripped = self.build("stripped.go", real_programs.GO, *build, "-ldflags=-s -w", *options, env=env)
        self.assertEqual(truth.output_of("nm", stripped, may_fail=True), "")
        known = truth.Go(twin)
        for program in (twin, stripped):
            with self.subTest(program=program.name):
                self.setUp()
                recording = self.record(self.worker(program))
                checker = truth.Checker()
                checker.tell(program, known)
                found = self.check_frames(recording, checker, program, 20)
                self.check_names(recording, 0.9, self.PATTERN)
                self.assertEqual({frame.kind for frame in found}, {"go"})
                shown = {frame.name for frame in found}
                self.assertLess({"main.(*square).area", "main.main", "runtime.main"}, shown)

    def test_with_and_without_symbols(self):
        self.check()

    def test_position_independent(self):
        self.check("-buildmode=pie")
