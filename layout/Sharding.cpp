#include "layout/Sharding.h"
