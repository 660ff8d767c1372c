// SPDX-License-Identifier: MIT
// unit-cxx.cpp - the unit tests once more, compiled as C++.
#include "unit.c"
