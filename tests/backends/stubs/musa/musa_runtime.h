// The compiler's part of MUSA: masks of 32 bits; neither an atomic or, nor any atomic of system scope.
#pragma once
#define STUB_MASK unsigned int
#include "../device.h"
