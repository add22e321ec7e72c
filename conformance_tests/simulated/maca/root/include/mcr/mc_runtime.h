/* SPDX-License-Identifier: Apache-2.0 */
#include "../mc_runtime.h"
