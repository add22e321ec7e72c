/* SPDX-License-Identifier: Apache-2.0
 *
 * The software NVMe controller: placeholder until its part lands.
 */
#ifndef TUTTI_CONTROLLER_H
#define TUTTI_CONTROLLER_H
#include "tutti/port.h"
#endif
