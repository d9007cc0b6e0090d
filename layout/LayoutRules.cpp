#include "layout/LayoutRules.h"
