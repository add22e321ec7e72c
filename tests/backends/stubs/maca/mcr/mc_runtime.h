// The compiler's part of MACA: masks of 64 bits; no atomic of system scope.
#pragma once
#define STUB_MASK unsigned long long
#include "../../device.h"
unsigned int atomicOr(unsigned int *, unsigned int);
unsigned long long atomicOr(unsigned long long *, unsigned long long);
