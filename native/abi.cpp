// SPDX-License-Identifier: Apache-2.0
#include "tutti/abi.h"

extern "C" uint32_t tt_abi_version(void) { return TT_ABI_VERSION; }
