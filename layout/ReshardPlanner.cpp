#include "layout/ReshardPlanner.h"
