#include "layout/Mesh.h"
