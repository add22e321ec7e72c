# The rig's targets, included by the Makefile of this folder's parent. See rig/README.md.
KERNELS ?= 6.1 6.12
CASES   ?=
PATIENCE ?= 1
RIG_PYTHON ?= $(abspath $(CURDIR)/..)/.venv/bin/python
EVIDENCE ?= build/rig-evidence

.PHONY: rig-test rig-certify rig-fuzz rig-fetch rig-list

rig-test: ## the module on real kernels in QEMU; KERNELS="5.10 6.1 6.12 newest", CASES=text
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --cases "$(CASES)" --without fuzz/ --without certify/ --patience $(PATIENCE)

rig-fuzz: ## 100,000 random requests on each kernel of KERNELS
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --cases fuzz/ --patience $(PATIENCE)

rig-certify: ## the conformance suite's L7 in the guest; the evidence comes out to $(EVIDENCE)
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --cases certify/ --patience $(PATIENCE) --keep "$(EVIDENCE)"

rig-fetch: ## only fetch what KERNELS need
	@$(RIG_PYTHON) -m rig --kernels "$(KERNELS)" --fetch

rig-list: ## the rig's cases
	@$(RIG_PYTHON) -m rig --list
