#include "layout/CostModel.h"
