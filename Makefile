# SPDX-License-Identifier: Apache-2.0
# Builds the BPF programs, the loader, the tests. `make help` lists the targets; what each room may see is checked by
# scripts/check-rooms.py.

SAN ?= 0
FUZZ ?= 0
O   ?= build$(if $(filter 1,$(FUZZ)),/fuzz,$(if $(filter 1,$(SAN)),/san))
V   ?= 0

, := ,

PREFIX     ?= /usr/local
CLANG      ?= clang
BPFTOOL    ?= bpftool
PYTHON     ?= python3
PKG_CONFIG ?= pkg-config
CXXFLAGS   ?= $(if $(filter 1,$(SAN)),-Og -g1,-O2 -g)

ARCH     := $(patsubst aarch64,arm64,$(shell uname -m))
BPF_ARCH := $(patsubst x86_64,x86,$(ARCH))
# clang -target bpf looks in no multiarch folder of its own, and <linux/types.h> needs <asm/types.h> from there.
MULTIARCH := $(shell $(CXX) -print-multiarch)

# A room that is optional can be left out: make WITHOUT=report
WITHOUT  ?=
OPTIONAL := export report
ROOMS    := $(filter-out $(WITHOUT) $(if $(filter 1,$(FUZZ)),app),base bpf proc unwind profile export report app)
PRESENT  := $(foreach room,$(filter $(ROOMS),$(OPTIONAL)),$(if $(wildcard loader/$(room)/*.cpp),$(room)))
upper     = $(shell echo $(1) | tr a-z A-Z)

PACKAGES := libbpf libelf libdw zlib liblzma fmt
# Designated initialisers leave members at their defaults on purpose, which one warning of -Wextra does not know.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual \
            -Wno-missing-field-initializers $(if $(filter 1,$(WERROR)),-Werror)
SANITIZE := $(if $(filter 1,$(SAN) $(FUZZ)),-fsanitize=address$(,)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
ifeq ($(FUZZ),1)
# libFuzzer is clang's; it must see which branches of ours an input takes.
CXX      := clang++
SANITIZE += -fsanitize=fuzzer-no-link -D_GLIBCXX_ASSERTIONS
CXXFLAGS := -O2 -g1 -Wno-unknown-warning-option
endif
LTOFLAGS := $(if $(filter 1,$(LTO)),-flto=auto)

# Generated skeletons are system headers: their warnings are bpftool's affair.
INCLUDES := -I. -Iloader -isystem $(O)/gen
DEFINES  := $(foreach room,$(PRESENT),-DSPANFOLD_WITH_$(call upper,$(room))=1)
CPPFLAGS_ALL := $(INCLUDES) $(DEFINES) $(CPPFLAGS) $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
CXXFLAGS_ALL := -std=c++20 $(WARNINGS) $(CXXFLAGS) $(SANITIZE) $(LTOFLAGS)
LIBS     := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) -liberty -pthread
BPFFLAGS := -target bpf -mcpu=v3 -O2 -g -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Wextra -Wno-unused-parameter \
            $(if $(filter 1,$(WERROR)),-Werror) -I. -Ivmlinux/$(ARCH) $(if $(MULTIARCH),-idirafter /usr/include/$(MULTIARCH))
# What a profiler samples must keep frame pointers and must not be instrumented, whatever SAN says.
WORKLOAD_PACKAGES := cpp-httplib
WORKLOAD_FLAGS := -std=c++20 $(WARNINGS) -O2 -fno-omit-frame-pointer -g -Itests $(CPPFLAGS_ALL) \
                  $(shell $(PKG_CONFIG) --cflags $(WORKLOAD_PACKAGES) 2>/dev/null)
WORKLOAD_LIBS := -Wl,--as-needed $(shell $(PKG_CONFIG) --libs $(WORKLOAD_PACKAGES) 2>/dev/null) $(LIBS)

BPF_SRC   := $(sort $(wildcard bpf/*.bpf.c))
BODIES    := $(sort $(wildcard tests/bpf/*.bpf.c))
TEST_BPF  := $(sort $(wildcard tests/workloads/*.bpf.c bench/*.bpf.c)) $(BODIES)
# The command of a room that is left out goes with it.
ROOM_SRC  := $(filter-out loader/app/main.cpp $(WITHOUT:%=loader/app/%_command.cpp), \
               $(sort $(foreach room,$(ROOMS),$(wildcard loader/$(room)/*.cpp))))
UNIT_SRC  := $(sort $(wildcard tests/unit/*.cpp tests/unit/*/*.cpp))
UNIT_SRC  := $(filter-out $(foreach room,$(WITHOUT),$(wildcard tests/unit/$(room)/*.cpp)),$(UNIT_SRC))
BPFT_SRC  := $(sort $(wildcard tests/bpf/*.cpp)) $(if $(wildcard tests/bpf/main.cpp),,tests/unit/main.cpp)
WORK_SRC  := $(sort $(wildcard tests/workloads/*.cpp))
BENCH_SRC := $(sort $(wildcard bench/*.cpp))
FUZZ_SRC  := $(sort $(wildcard tests/fuzz/*.cpp))
obj        = $(patsubst %.cpp,$(O)/obj/%.o,$(1))
stem       = $(basename $(basename $(notdir $(1))))
WORKLOADS := $(foreach source,$(WORK_SRC),$(O)/workloads/$(call stem,$(source)))
BENCHES   := $(foreach source,$(BENCH_SRC),$(O)/bench/$(call stem,$(source)))
FUZZERS   := $(foreach source,$(FUZZ_SRC),$(O)/fuzzers/$(call stem,$(source)))
SKELETON  := $(if $(BPF_SRC),$(O)/gen/spanfold.skel.h $(O)/gen/spanfold_no_fetch.skel.h)
TEST_SKELETONS := $(foreach source,$(TEST_BPF),$(O)/gen/$(call stem,$(source)).skel.h) \
                  $(foreach source,$(BODIES),$(O)/gen/$(call stem,$(source))_no_fetch.skel.h)

ifeq ($(V),1)
say =
else
say = @printf '  %-8s %s\n' '$(1)' '$(2)';
endif

all: $(O)/spanfold ## the binary (the default); V=1 shows commands, O=DIR, SAN=1, WERROR=1, LTO=1, WITHOUT=report

$(O)/spanfold: $(call obj,loader/app/main.cpp) $(O)/libspanfold.a
	$(call say,LINK,$@)$(CXX) $(CXXFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS)

$(O)/libspanfold.a: $(call obj,$(ROOM_SRC)) $(O)/members
	$(call say,AR,$@)rm -f $@ && gcc-ar rcs $@ $(filter %.o,$^)

$(O)/tests/unit: $(call obj,$(UNIT_SRC)) $(O)/libspanfold.a
$(O)/tests/bpf: $(call obj,$(BPFT_SRC)) $(O)/libspanfold.a
$(O)/tests/unit $(O)/tests/bpf:
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(CXXFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS)

$(O)/bench/%: $(O)/obj/bench/%.o $(O)/libspanfold.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(CXXFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS)

$(O)/fuzzers/%: $(O)/obj/tests/fuzz/%.o $(O)/libspanfold.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) $(CXXFLAGS_ALL) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(LIBS)

$(O)/workloads/%: $(O)/obj/tests/workloads/%.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CXX) -g -o $@ $< $(WORKLOAD_LIBS)

$(O)/obj/tests/workloads/%.o: tests/workloads/%.cpp $(O)/flags | $(TEST_SKELETONS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(WORKLOAD_FLAGS) -MD -MP -c -o $@ $<

$(call obj,$(filter loader/bpf/% loader/app/%,$(ROOM_SRC)) loader/app/main.cpp): | $(SKELETON)
$(call obj,$(sort $(wildcard tests/bpf/*.cpp)) $(BENCH_SRC)): | $(SKELETON) $(TEST_SKELETONS)
$(O)/obj/%.o: %.cpp $(O)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(if $(filter tests/%,$<),-Itests) $(CPPFLAGS_ALL) $(CXXFLAGS_ALL) -MD -MP -c -o $@ $<

$(O)/obj/%.bpf.o: %.bpf.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,BPF,$<)$(CLANG) $(BPFFLAGS) -MD -MP -c -o $@ $<

# The same programs for kernels without atomics that return a value (bpf/compat.bpf.h).
$(O)/obj/no-fetch/%.bpf.o: %.bpf.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,BPF,$< (no fetch))$(CLANG) $(BPFFLAGS) -DSPANFOLD_NO_FETCH -MD -MP -c -o $@ $<

# One linked object, so that the programs share maps; the link also drops the DWARF that nobody loads.
$(O)/gen/spanfold.bpf.o: $(BPF_SRC:%.c=$(O)/obj/%.o) $(O)/members
$(O)/gen/spanfold_no_fetch.bpf.o: $(BPF_SRC:%.c=$(O)/obj/no-fetch/%.o) $(O)/members
$(O)/gen/spanfold.bpf.o $(O)/gen/spanfold_no_fetch.bpf.o:
	@mkdir -p $(@D)
	$(call say,GEN-OBJ,$@)$(BPFTOOL) gen object $@ $(filter %.o,$^)

define test_object
$(O)/gen/$(call stem,$(1))$(3).bpf.o: $(O)/obj/$(2)$(1:%.c=%.o)
	@mkdir -p $$(@D)
	$$(call say,GEN-OBJ,$$@)$(BPFTOOL) gen object $$@ $$<
endef
$(foreach source,$(TEST_BPF),$(eval $(call test_object,$(source))))
$(foreach source,$(BODIES),$(eval $(call test_object,$(source),no-fetch/,_no_fetch)))

$(O)/gen/%.skel.h: $(O)/gen/%.bpf.o
	$(call say,GEN-SKEL,$@)$(BPFTOOL) gen skeleton $< name $(subst -,_,$*)_bpf >$@.new && mv $@.new $@

# Written only when what they hold changes: other flags, or another set of files, rebuild what depends on them.
stamp = @mkdir -p $(@D); printf '%s\n' '$(1)' | cmp -s - $@ || printf '%s\n' '$(1)' >$@
$(O)/flags: FORCE
	$(call stamp,$(CXX) $(CPPFLAGS_ALL) $(CXXFLAGS_ALL) $(WORKLOAD_FLAGS) $(CLANG) $(BPFFLAGS))
$(O)/members: FORCE
	$(call stamp,$(ROOM_SRC) $(BPF_SRC))

tests: $(if $(UNIT_SRC),$(O)/tests/unit) $(if $(wildcard tests/bpf/*.cpp),$(O)/tests/bpf) workloads ## test programs
fuzzers: $(FUZZERS)
workloads: $(WORKLOADS) ## the programs that tests and the demo record

test: ## all tests; SUITES="house unit otlp fuzz bpf bpf-no-fetch e2e" picks some
	@MAKE='$(MAKE)' O='$(O)' scripts/test.sh $(SUITES)

fuzz: ## each fuzzer for FUZZ_SECONDS (60); TARGETS="elf maps" picks some
	@MAKE='$(MAKE)' O='$(O)' $(PYTHON) tests/fuzz/run.py $(TARGETS)

demo: ## records a real service for some seconds and shows where its spans spent CPU time
	@MAKE='$(MAKE)' O='$(O)' scripts/demo.sh

bench: all $(BENCHES) ## measures, see bench/README.md; needs root
	@MAKE='$(MAKE)' O='$(O)' bench/run

lint: compile_commands.json $(SKELETON) $(TEST_SKELETONS) ## format, clang-tidy, rooms, house rules, scripts
	@O='$(O)' scripts/lint.sh

format: ## formats what is there; FILES="…" picks some
	@scripts/format.sh -i $(FILES)

compile_commands.json: FORCE ## for editors and clang-tidy
	@$(PYTHON) scripts/compile-commands.py $@ '$(CXX) $(CPPFLAGS_ALL) -Itests $(CXXFLAGS_ALL)' $(ROOM_SRC) \
		$(wildcard loader/app/main.cpp) $(sort $(UNIT_SRC) $(BPFT_SRC)) $(BENCH_SRC) \
		--and '$(CXX) $(WORKLOAD_FLAGS)' $(WORK_SRC)

install: $(O)/spanfold ## to DESTDIR, PREFIX
	install -D -m 755 $< $(DESTDIR)$(PREFIX)/bin/spanfold

clean: ## removes what was built
	rm -rf $(O) compile_commands.json

help: ## this list
	@awk -F ':.*## ' '/^[a-z_.]+:.*## / { printf "  %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

FORCE:
.PHONY: all tests fuzzers workloads test fuzz demo bench lint format install clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:
-include $(patsubst %.cpp,$(O)/obj/%.d,$(ROOM_SRC) loader/app/main.cpp $(UNIT_SRC) $(BPFT_SRC) $(WORK_SRC) $(BENCH_SRC) $(FUZZ_SRC)) \
         $(patsubst %.c,$(O)/obj/%.d,$(BPF_SRC) $(TEST_BPF)) $(patsubst %.c,$(O)/obj/no-fetch/%.d,$(BPF_SRC) $(BODIES))
