// SPDX-License-Identifier: MIT
#include "../shim.h"
