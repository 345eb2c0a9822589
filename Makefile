# The commands people type. Everything behind them is CMake: see CMakePresets.json and CONTRIBUTING.md.

cores := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell n=$(cores); [ $$n -ge 2 ] || n=2; [ $$n -le 4 ] || n=4; echo $$n)
PREFIX ?= /usr/local
BUILD ?= build/release

.PHONY: release demo check install uninstall dist docs bench asan lint format clean help

release: build/release/build.ninja ## build the program, the libraries and the manuals into build/release
	cmake --build --preset release

demo: ## on a fresh machine: install what is missing, build, train across workers, end with the result table and a report
	tools/install-deps
	cmake --preset release -Wno-dev >/dev/null
	cmake --build --preset release --target lockstep_program
	mkdir -p demo
	build/release/lockstep train mnist-cnn --data digits --workers $(WORKERS) --epochs 2 --record demo/run.json
	build/release/lockstep report demo/run.json --out demo

check: ## on a fresh machine: install what is missing, build with warnings as errors, run the tests but those of minutes
	tools/install-deps --test
	cmake --preset check -Wno-dev >/dev/null
	cmake --build --preset check
	ctest --preset check -LE slow

install: release ## install to PREFIX (/usr/local): program, libraries, manuals, documents, examples
	cmake --install build/release --prefix $(PREFIX)

uninstall: ## remove what 'make install' has put there
	xargs -rd '\n' rm -fv <$(BUILD)/install_manifest.txt
	sed -n 's|^\(.*/lockstep\(/.*\)\{0,1\}\)/[^/]*$$|\1|p' $(BUILD)/install_manifest.txt | sort -ru | xargs -rd '\n' rmdir --ignore-fail-on-non-empty

dist: ## the sources of HEAD as build/lockstep-VERSION.tar.gz, with its checksum
	tools/dist build

docs: ## an HTML reference from the public headers, in build/reference/html; needs Doxygen
	tools/reference build/reference

bench: release ## images per second, milliseconds per step, and the floor under them
	build/release/lockstep bench mnist-cnn

asan: build/asan/build.ninja ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	cmake --build --preset asan
	ctest --preset asan

lint: build/clang/build.ninja ## clang-tidy, shellcheck and the include directions
	tools/lint build/clang

format: ## clang-format over every C file
	tools/format

clean: ## remove everything that was built
	rm -rf build demo

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

build/%/build.ninja:
	cmake --preset $*
