#include "passes/Passes.h"
