# SPDX-License-Identifier: Apache-2.0
#
# tent. `make demo` shows it, `make check` proves it; both install what they need
# first (DEPS=no: do not). Everything that is built lies under $(B).
#
#   all tests       libraries, tools and perf programs; test programs
#   demo            replays a real trace through tentd, draws what happened
#   check soak      every test; the same, ten times round every loop of chance
#   check-vectors   what every request of tests/vectors becomes, at every door
#   check-o3        who copies once, when the compiler is at its most eager
#   sim             the software ConnectX: tent-sim and what it preloads; sim/cuda's libcuda.so.1
#   python          the Python module; check-python tests it
#   check-rdma      the tests of RDMA alone
#   check-gpu       those of GPUs alone, on the stand-in for their driver
#   check-hca       programs nobody here wrote, on the software ConnectX
#   asan tsan       every test program under a sanitizer
#   fuzz            each fuzzer for a minute, or TENT_FUZZ_SECONDS
#   layers headers  who may include whom; every header compiles alone
#   size cost       lengths of functions and files; instructions and lines a request
#   perf            round trips of a ring, requests a second, a neighbour, files, tcp, rdma
#   abi-renew       stores what the libraries' ABI has gained; check compares
#   install clean   into DESTDIR/PREFIX; removes $(B)
#   deps deps-demo  packages that check and demo need; deps-hca, deps-python
#
#   V=1             full command lines        CC=clang        another compiler
#   SAN=asan|tsan   sanitized, in its own B   DEPS=no         install no packages
#   DESTDIR, PREFIX where install puts it     CROSS=aarch64-linux-gnu-
#   PYTHON=/usr/bin/python3 whose module it is; install takes it along when it is said

VERSION	:= 1.0.0
PREFIX	?= /usr/local
DEPS	?= yes
SAN	?=
B	?= build$(if $(SAN),/$(SAN))
Q	:= $(if $(V),,@)

ifneq ($(CROSS),)
CC	:= $(CROSS)gcc
endif
CXX	:= $(if $(findstring clang,$(CC)),clang++,$(CROSS)g++)
OBJCOPY	?= $(CROSS)objcopy

# ---- flags -------------------------------------------------------------------

WARN	:= -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	   -Wpointer-arith
CFLAGS	?= $(if $(SAN),-O1 -g1,-O2 -g)
# Hardening that adds no instruction to the data path. Shared memory is read and
# published through words of several types, hence no strict aliasing.
HARDEN	:= $(if $(SAN),,-D_FORTIFY_SOURCE=2) -fno-strict-aliasing
HARDEN_LD := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack

SAN_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# gcc does not instrument the copies that it expands itself: a race in one goes unseen.
SAN_tsan := -fsanitize=thread -fno-builtin-memcpy -fno-builtin-memset
SAN_fuzz := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
SANFLAGS := $(if $(SAN),$(or $(SAN_$(SAN)),$(error SAN is asan, tsan or fuzz, not $(SAN))))

# gcc 12 takes for uninitialized what it does not inline, where sanitizers hinder it.
SAN_WARN := $(if $(SAN),$(if $(findstring clang,$(CC)),,-Wno-maybe-uninitialized))

ALL_CFLAGS := -std=gnu11 -DTENT_VERSION='"$(VERSION)"' $(WARN) $(SAN_WARN) $(CFLAGS) \
	      -fPIC -fvisibility=hidden $(HARDEN) $(SANFLAGS) -pthread -I. -Iuapi
ALL_CXXFLAGS := $(filter-out -std=% -Wstrict-prototypes -Wmissing-prototypes,$(ALL_CFLAGS)) \
	      -std=c++17 -Wpedantic
ALL_LDFLAGS := $(CFLAGS) $(SANFLAGS) -pthread $(HARDEN_LD) $(LDFLAGS)
LDLIBS	:= -ljansson -luring -lmlx5 -libverbs -lm

# ---- what there is -----------------------------------------------------------

objs	= $(patsubst %.c,$(B)/%.o,$(sort $(wildcard $(1))))
progs	= $(addprefix $(B)/,$(basename $(sort $(wildcard $(1)))))

# ring/host*.c and ring/sigbus.c serve engines only.
RING_OBJS	:= $(call objs,ring/*.c)
RING_CLIENT	:= $(filter-out $(B)/ring/host% $(B)/ring/sigbus%,$(RING_OBJS))
LIB_OBJS	:= $(RING_OBJS) $(call objs,engine/*.c dv/*.c gpu/*.c io/*.c lib/*.c)
# All of it, hidden functions too, for our own tools and tests.
INTERNAL	:= $(B)/internal.a

LIBS	:= $(B)/libtentring.a $(B)/libtentring.so $(B)/libtent.a $(B)/libtent.so \
	   $(B)/libtent_shared.so $(B)/tent.pc $(B)/tentring.pc
TOOLS	:= $(B)/tools/tentd $(B)/tools/tentctl
PERF	:= $(filter-out %/cost_driver,$(call progs,perf/*.c)) $(B)/perf/replay
TESTS	:= $(call progs,tests/test_*.c tests/test_*.cpp sim/hca/tests/test_*.c sim/cuda/tests/test_*.c)
# Those that take longest begin first: the last of them would run on alone otherwise.
LONGEST	:= $(addprefix $(B)/tests/test_,rdma_faults rdma_obstacles long tcp rdma_hosts rdma_rails file \
	   tcp_hosts fenced_rdma tcp_serve fenced_tcp fenced_file fenced_shm directory)
# They need all of what a machine has one pool of, huge pages or locked memory: nothing may run
# beside them.
ALONE	:= $(addprefix $(B)/,$(addprefix tests/test_,attack_pages control_query engine_pages ring_mem \
	   ring_sigbus) sim/hca/tests/test_hca_umem_limits)
BESIDE	:= $(LONGEST) $(filter-out $(ALONE) $(LONGEST),$(TESTS))
HELPERS	:= $(call progs,tests/examples/*.c tests/examples/*.cpp)
DOORS	:= $(addprefix $(B)/tests/vectors/door_,lib ring cpp)
FUZZERS	:= $(call progs,tests/fuzz_*.c sim/hca/tests/fuzz_*.c)
# Tests that are scripts: they build, start and trace whole programs. Those that measure, or begin
# anew where there was other work, run alone.
SCRIPTS	:= tests/foreign.sh tests/replay_kills.sh tests/symbols.sh tests/abi.sh tests/readme_examples.sh \
	   tests/installed.sh tests/frozen.sh tests/vectors.sh
QUIET	:= tests/strace_busy.sh tests/replay.sh tests/perf.sh tests/rdma_capture.sh tests/rdma_perf.sh \
	   tests/gpu_report.sh

all: $(LIBS) $(TOOLS) $(PERF)

tests: $(TESTS) $(HELPERS) $(DOORS)

.PHONY: all sim tests python demo check check-hca check-rdma check-gpu check-python check-vectors check-o3 asan tsan layers headers abi-renew size cost perf soak fuzz install \
	install-python deps deps-demo deps-hca deps-python clean check-all check-san check-copies foreign foreign-objects fuzzers FORCE
.DELETE_ON_ERROR:
.SECONDARY:

# ---- objects -----------------------------------------------------------------

compile = @mkdir -p $(@D); echo "  CC      $<"; \
	$(if $(V),set -x;) $(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/%.o: %.c
	$(call compile)
# Only tests and examples are C++, for tent.hpp.
$(B)/%.o: %.cpp
	@mkdir -p $(@D)
	@echo "  CXX     $<"
	$(Q)$(CXX) $(ALL_CXXFLAGS) $(CXX_INCLUDES) -MMD -MP -c -o $@ $<
# This folder has the name of its program, so its objects lie elsewhere.
$(B)/perf/replay_objs/%.o: perf/replay/%.c
	$(call compile)

# A list of objects that changes only when the list does: removing a source file
# relinks what held it.
$(B)/%.list: FORCE
	@mkdir -p $(@D)
	@echo '$(sort $(LIST))' | cmp -s - $@ || echo '$(sort $(LIST))' > $@
FORCE:

$(B)/internal.list: LIST = $(LIB_OBJS)
$(INTERNAL): $(LIB_OBJS) $(B)/internal.list
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcsT $@ $(LIB_OBJS)

# ---- libraries ---------------------------------------------------------------

$(B)/libtentring.so.1 $(B)/libtentring.a: OBJS = $(RING_CLIENT)
$(B)/libtentring.so.1 $(B)/libtentring.a: $(RING_CLIENT) lib/libtentring.map $(B)/internal.list
$(B)/libtent.so.1 $(B)/libtent.a: OBJS = $(LIB_OBJS)
$(B)/libtent.so.1 $(B)/libtent.a: $(LIB_OBJS) lib/libtent.map $(B)/internal.list
$(B)/libtent.so.1: LIBS_SO = -ljansson -luring -lmlx5 -libverbs

$(B)/%.so.1:
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,--version-script,lib/$*.map \
		$(if $(SAN),,-Wl,-z,defs) $(ALL_LDFLAGS) -o $@ $(OBJS) $(LIBS_SO)

# One relocatable object in which only the documented names are global: a static
# library must not clash with its user's names either.
$(B)/lib%.a:
	@echo "  AR      $@"
	$(Q)sed -n 's/^\t\([a-z_0-9]*\);/\1/p' lib/lib$*.map > $(B)/lib$*.syms
	$(Q)$(CC) -r -nostdlib -Wl,--force-group-allocation -o $(B)/lib$*.whole.o $(OBJS)
	$(Q)$(OBJCOPY) --keep-global-symbols=$(B)/lib$*.syms $(B)/lib$*.whole.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/lib$*.whole.o

$(B)/libtent_shared.so: $(B)/libtent.so.1
	$(Q)ln -sf $(<F) $@
$(B)/%.so: $(B)/%.so.1
	$(Q)ln -sf $(<F) $@

# PREFIX may differ from the last call's, so these are made each time.
fill = @mkdir -p $(@D); sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' $< > $@
$(B)/%.pc: lib/%.pc.in FORCE
	$(fill)
$(B)/%.service: tools/%.service.in FORCE
	$(fill)

# ---- programs ----------------------------------------------------------------

link = @mkdir -p $(@D); echo "  LD      $@"; \
	$(if $(V),set -x;) $(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(1) $(LDLIBS)

tools: $(TOOLS)
$(B)/tools/tentd: $(call objs,tools/tentd*.c) $(INTERNAL)
	$(call link)
$(B)/tools/tentctl: $(call objs,tools/tentctl*.c) $(INTERNAL)
	$(call link)

$(B)/perf/replay: $(patsubst perf/replay/%.c,$(B)/perf/replay_objs/%.o,$(sort $(wildcard perf/replay/*.c))) \
		$(call objs,perf/common/*.c) $(INTERNAL)
	$(call link)
$(B)/perf/%: $(B)/perf/%.o $(call objs,perf/common/*.c) $(INTERNAL)
	$(call link)

# Static, so that every function callgrind sees can be disassembled by name.
$(B)/perf/cost_driver: LDLIBS += -lnl-route-3 -lnl-3
$(B)/perf/cost_driver: $(B)/perf/cost_driver.o $(INTERNAL)
	$(call link,-static)

# ---- Python --------------------------------------------------------------------

# The interpreter that the module is for. Where it looks for modules below PREFIX is
# where they are installed; one that looks nowhere there needs PYTHONPATH.
install-module := $(if $(PYTHON),install-python)
PYTHON	?= /usr/bin/python3
PY_DIR	= $(shell $(PYTHON) -c 'import sys, sysconfig; p = "$(PREFIX)"; \
	print(next((d for d in sys.path if d.startswith(p + "/lib/") and d.endswith("-packages")), \
		sysconfig.get_path("platlib", "posix_prefix", {"base": p, "platbase": p})))')
PY_ASK	= $(shell $(PYTHON) -c 'import sysconfig; print($(1))')
PY_SUFFIX = $(call PY_ASK,sysconfig.get_config_var("EXT_SUFFIX"))
PY_OBJS	:= $(patsubst %.cpp,$(B)/%.o,$(sort $(wildcard python/src/*.cpp)))
PY_FILES := $(wildcard python/tent/*.py python/tent/*.pyi python/tent/py.typed)
PY_BUILT = $(patsubst python/%,$(B)/python/%,$(PY_FILES)) $(B)/python/tent/_tent.so

$(PY_OBJS): CXX_INCLUDES = -isystem $(call PY_ASK,sysconfig.get_path("include"))
$(B)/python/tent/_tent.so: $(PY_OBJS) $(B)/libtent.so
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CXX) -shared $(ALL_LDFLAGS) -o $@ $(PY_OBJS) -L$(B) -ltent
$(B)/python/tent/%: python/tent/%
	$(Q)install -D -m 644 $< $@
python: $(PY_BUILT)

# ---- the software ConnectX ----------------------------------------------------

# Nothing of the product is in it. front/ takes libc's names, so only the preloaded
# library may hold it.
SIM_PARTS := $(call objs,$(foreach d,engine mem wire host doorbell cm uverbs,sim/hca/$(d)/*.c))
HCA	:= $(B)/sim/hca.a
SIM	:= $(B)/libtent-hca.so $(B)/tent-sim

sim: $(SIM)
$(B)/sim/hca.list: LIST = $(SIM_PARTS)
$(HCA): $(SIM_PARTS) $(B)/sim/hca.list
	@echo "  AR      $@"
	$(Q)rm -f $@ && $(AR) rcsT $@ $(SIM_PARTS)
ifeq ($(SAN),)
$(B)/libtent-hca.so: $(call objs,sim/hca/front/*.c) $(HCA)
	@echo "  LD      $@"
	$(Q)$(CC) -shared $(ALL_LDFLAGS) -o $@ $^ -ldl
$(B)/tent-sim: $(call objs,sim/hca/tool/*.c) $(HCA)
	$(call link)
else
# What is preloaded stands before libc, in programs without a sanitizer too: its runtime would
# call it while it begins. So a test that is instrumented runs on a simulator that is not.
PLAIN	?= $(B)/plain
plain-sim:
	@$(MAKE) --no-print-directory SAN= B=$(PLAIN) sim
$(SIM): $(B)/%: plain-sim
	$(Q)ln -sf $(abspath $(PLAIN))/$* $@
endif
$(B)/sim/hca/tests/%: $(B)/sim/hca/tests/%.o $(call objs,sim/hca/tests/common/*.c) $(HCA)
	$(call link,-lcmocka)
$(B)/sim/hca/tests/fuzz_%: $(B)/sim/hca/tests/fuzz_%.o $(HCA)
	$(call link,-fsanitize=fuzzer)
# Programs as others write them, which the simulator runs.
JUDGES	:= $(addprefix $(B)/sim/hca/judges/,life order rare rare_asan)
$(filter-out %_asan,$(JUDGES)): %: %.o $(B)/sim/hca/judges/loop.o
	$(call link,-lrdmacm -lmlx5 -libverbs)
# Its runtime in it: what is preloaded comes first otherwise.
$(B)/sim/hca/judges/rare_asan: sim/hca/judges/rare.c sim/hca/judges/loop.c sim/hca/judges/loop.h
	@mkdir -p $(@D)
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=address \
		$(if $(findstring clang,$(CC)),,-static-libasan) -o $@ $(filter %.c,$^) -lmlx5 -libverbs
# These play with two cards and the wire of the tests.
$(B)/sim/hca/tests/fuzz_hca_wqe $(B)/sim/hca/tests/fuzz_hca_packet: \
	$(addprefix $(B)/sim/hca/tests/common/,fabric.o fabric_objects.o pair.o)
$(B)/sim/hca/tests/fuzz_hca_command: $(B)/sim/hca/tests/common/program.o
$(B)/sim/hca/tests/fuzz_hca_cm: $(B)/sim/hca/tests/common/cm_env.o

# ---- the stand-in for the CUDA driver -------------------------------------------

# Nothing of the product is in it either. What is dlopen()ed finds it by LD_LIBRARY_PATH.
CUDA	:= $(B)/sim/cuda/libcuda.so.1
sim: $(CUDA)
$(CUDA): $(call objs,sim/cuda/*.c)
	@echo "  LD      $@"
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $(ALL_LDFLAGS) -o $@ $^
$(B)/sim/cuda/tests/%: $(B)/sim/cuda/tests/%.o $(call objs,sim/cuda/*.c)
	$(call link,-lcmocka)
$(B)/sim/cuda/tests/test_cuda_driver: | $(CUDA)
# What it exports, as the software ConnectX takes it.
$(B)/sim/cuda/tests/test_cuda_share: $(HCA)

# What tests share; each program takes what it needs.
COMMON	:= $(B)/tests/common.a
COMMON_OBJS := $(call objs,tests/common/*.c)
$(COMMON): $(COMMON_OBJS)
	$(Q)rm -f $@ && $(AR) rcsT $@ $^

$(B)/tests/test_%: $(B)/tests/test_%.o $(COMMON) $(INTERNAL)
	$(call link,-lcmocka)
# On software GPUs, which the program has its own child run on.
$(filter $(B)/tests/test_gpu% $(B)/tests/test_staging%,$(TESTS)): | $(CUDA)
# OpenSSL as its headers have it, beside what we find of it.
$(B)/tests/test_tls: LDLIBS += -lssl -lcrypto
# The declarations of the CUDA driver, against those of a toolkit where there is one.
CUDA_H	:= $(firstword $(wildcard $(addsuffix /include/cuda.h,$(CUDA_HOME) $(CUDA_PATH) /usr/local/cuda \
	/usr/local/cuda-*)))
$(B)/tests/test_cuda_api.o $(B)/sim/cuda/tests/test_cuda_calls.o: ALL_CFLAGS += $(if $(CUDA_H),-isystem $(dir $(CUDA_H)))
# On software devices, which the program has its own child run on.
$(addprefix $(B)/tests/test_,dv_device dv_qp dv_reference rdma_faults rdma_hosts rdma_load \
	rdma_obstacles rdma_plan rdma_rails fenced_rdma gpu_rdma): | $(SIM)
$(B)/tests/test_cpp $(B)/tests/examples/cpp_api: LDLIBS += -lstdc++
# The replay program's own parts are tested too.
$(B)/tests/test_replay: $(addprefix $(B)/perf/,replay_objs/trace.o replay_objs/pool.o \
	replay_objs/map.o common/content.o common/args.o common/samples.o)
# So is how tentd loads what it can do without.
$(B)/tests/test_tools_metrics: $(addprefix $(B)/tools/tentd_,http.o metrics.o)
$(B)/tests/examples/%: $(B)/tests/examples/%.o $(INTERNAL)
	$(call link)

# The doors of the vectors, on the libraries as programs get them.
$(B)/tests/vectors/door_lib $(B)/tests/vectors/door_cpp: $(B)/libtent.so
$(B)/tests/vectors/door_lib $(B)/tests/vectors/door_cpp: DOOR_LIBS = -L$(B) -ltent
$(B)/tests/vectors/door_cpp: DOOR_LIBS += -lstdc++
$(B)/tests/vectors/door_ring: $(B)/libtentring.so
$(B)/tests/vectors/door_ring: DOOR_LIBS = -L$(B) -ltentring
$(DOORS): %: %.o $(B)/tests/vectors/door.o
	@echo "  LD      $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(DOOR_LIBS) -ljansson

$(B)/tests/fuzz_%: $(B)/tests/fuzz_%.o $(INTERNAL)
	$(call link,-fsanitize=fuzzer)

# Another CPU or word size (CC or CROSS says which): the rings and their own tests,
# static so that qemu-user needs no libraries of that CPU.
FOREIGN_TESTS := $(patsubst tests/%.c,$(B)/foreign/%,$(sort $(wildcard tests/test_ring_*.c)))

foreign: $(B)/libtentring.a $(FOREIGN_TESTS)
foreign-objects: $(LIB_OBJS)

$(B)/foreign/%.o: tests/%.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	$(Q)$(CC) -Itests/compat $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/foreign/test_%: $(B)/foreign/test_%.o $(RING_OBJS)
	@echo "  LD      $@"
	$(Q)$(CC) -static $(ALL_LDFLAGS) -o $@ $^

# ---- what people run ---------------------------------------------------------

export B CC DEPS

deps:
	@tests/deps.sh all
deps-demo:
	@tests/deps.sh demo
deps-hca:
	@tests/deps.sh hca
deps-python:
	@tests/deps.sh python

demo: deps-demo
	@$(MAKE) --no-print-directory all sim $(B)/perf/cost_driver
	@perf/demo.sh

check: deps
	@$(MAKE) --no-print-directory check-all
check-all: all tests
	@tests/run.sh $(SCRIPTS) $(BESIDE) -- $(ALONE) $(QUIET)

# Programs that nobody here wrote, on the software ConnectX.
check-hca: deps-hca
	@$(MAKE) --no-print-directory sim $(JUDGES)
	@sim/hca/judges/run.sh

# Those of RDMA alone, on the software ConnectX.
RDMA_TESTS := $(filter $(addprefix $(B)/tests/test_,dv_% rdma_% fenced_rdma),$(TESTS))
check-rdma: deps
	@$(MAKE) --no-print-directory all $(RDMA_TESTS)
	@tests/run.sh $(RDMA_TESTS) -- $(filter tests/rdma_%,$(QUIET))

# Those of GPUs alone, on the stand-in for their driver and the software ConnectX.
GPU_TESTS := $(filter $(addprefix $(B)/,tests/test_gpu% tests/test_cuda% tests/test_staging% sim/cuda/tests/%),$(TESTS))
check-gpu: deps
	@$(MAKE) --no-print-directory all $(GPU_TESTS)
	@tests/run.sh $(GPU_TESTS) -- $(filter tests/gpu_%,$(SCRIPTS))

check-python: deps-python
	@$(MAKE) --no-print-directory python tools $(DOORS)
	@PYTHON=$(PYTHON) tests/run.sh -- python/tests/run.sh

check-vectors: deps deps-python
	@$(MAKE) --no-print-directory $(LIBS) $(TOOLS) $(DOORS) python
	@PYTHON=$(PYTHON) tests/vectors.sh thread caller tentd notified notified-tentd ring cpp pybind transfer

asan tsan: deps
	@$(MAKE) --no-print-directory SAN=$@ B=$(B)/$@ PLAIN=$(B) check-san
check-san: $(TOOLS) tests
	@tests/run.sh $(BESIDE) -- $(ALONE)

# What goes by time takes two minutes each, and the software ConnectX ten. The neighbour is
# judged here only, and last: on a machine that others use it says little.
soak:
	@TENT_SOAK=1 TENT_FUZZ_SECONDS=$${TENT_FUZZ_SECONDS:-120} TENT_TEST_SECONDS=7200 \
		$(MAKE) --no-print-directory check
	@TENT_JUDGES=soak TENT_SOAK_SECONDS=$${TENT_SOAK_SECONDS:-600} \
		$(MAKE) --no-print-directory check-hca
	$(B)/perf/neighbour --check

# The tests that flip bytes under a copy, beside all other attacks.
COPY_TESTS := $(filter %/test_intake_ring %/test_copy $(B)/tests/test_attack_%,$(TESTS))

check-o3: deps
	@$(MAKE) --no-print-directory CFLAGS='-O3 -g' B=$(B)/o3 check-copies
check-copies: $(TOOLS) $(COPY_TESTS)
	@tests/run.sh $(COPY_TESTS)

# libFuzzer is clang's; a minute for each target unless TENT_FUZZ_SECONDS says more.
fuzz: deps
	@$(MAKE) --no-print-directory CC=clang SAN=fuzz B=$(B)/fuzz fuzzers
	@tests/fuzz.sh $(FUZZERS:$(B)/%=$(B)/fuzz/%)
fuzzers: $(FUZZERS)

layers:
	@tests/layers.sh
headers:
	@tests/headers.sh
abi-renew: deps $(B)/libtent.so $(B)/libtentring.so
	@tests/abi.sh renew
size:
	@mkdir -p $(B)
	@tests/size.sh

cost: all $(B)/perf/cost_driver $(SIM)
	@perf/cost.sh

perf: all sim
	$(B)/perf/ring_rtt --check
	$(B)/perf/submit_rate --check
	$(B)/perf/neighbour
	$(B)/perf/file_bw
	$(B)/perf/file_bw --buffered
	$(B)/perf/tcp_lat --check
	$(B)/perf/tcp_bw --check
	perf/ucx_tcp.sh
	$(B)/perf/rdma_lat --check
	$(B)/perf/rdma_bw --check
	$(B)/perf/rdma_rate --check
	perf/compare.sh

clean:
	rm -rf $(B)

D := $(DESTDIR)$(PREFIX)
install: all $(SIM) $(B)/tentd.service $(install-module)
	install -d $(D)/include/tent $(D)/lib/pkgconfig $(D)/lib/systemd/system $(D)/bin
	install -m 644 uapi/tent/*.h uapi/tent/*.hpp $(D)/include/tent
	install -m 644 $(B)/tent.pc $(B)/tentring.pc $(D)/lib/pkgconfig
	install -m 644 $(B)/libtent.a $(B)/libtentring.a $(D)/lib
	install -m 755 $(B)/libtent.so.1 $(B)/libtentring.so.1 $(D)/lib
	ln -sf libtent.so.1 $(D)/lib/libtent.so
	ln -sf libtent.so.1 $(D)/lib/libtent_shared.so
	ln -sf libtentring.so.1 $(D)/lib/libtentring.so
	install -m 755 $(TOOLS) $(B)/tent-sim $(D)/bin
	install -m 755 $(B)/libtent-hca.so $(D)/lib
	install -m 644 $(B)/tentd.service $(D)/lib/systemd/system
	for page in $(wildcard docs/*.[1-9]); do install -D -m 644 $$page \
		$(D)/share/man/man$${page##*.}/$${page##*/} || exit 1; done

install-python: PY_INTO = $(DESTDIR)$(PY_DIR)/tent
install-python: python
	install -d $(PY_INTO)
	install -m 644 $(PY_FILES) $(PY_INTO)
	install -m 755 $(B)/python/tent/_tent.so $(PY_INTO)/_tent$(PY_SUFFIX)

-include $(shell find $(B) -maxdepth 6 -name '*.d' 2> /dev/null)
