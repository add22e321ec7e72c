# The rig's targets, included by the Makefile of this folder's parent. See rig/README.md.
KERNELS ?= 6.1 6.12
CASES   ?=
PATIENCE ?= 1
RIG_PYTHON ?= $(abspath $(CURDIR)/..)/.venv/bin/python

.PHONY: rig-test rig-fuzz rig-fetch rig-list

rig-test: ## the module on real kernels in QEMU; KERNELS="5.10 6.1 6.12 newest", CASES=text
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --cases "$(CASES)" --without fuzz/ --patience $(PATIENCE)

rig-fuzz: ## 100,000 random requests on each kernel of KERNELS
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --cases fuzz/ --patience $(PATIENCE)

rig-fetch: ## only fetch what KERNELS need
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --fetch

rig-list: ## the rig's cases
	@$(RIG_PYTHON) -m rig --list
