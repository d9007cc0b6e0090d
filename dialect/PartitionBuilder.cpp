#include "dialect/PartitionBuilder.h"
