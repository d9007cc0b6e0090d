#include "codegen/kernels/KernelTarget.h"

meshc::codegen::KernelTarget::~KernelTarget() = default;
