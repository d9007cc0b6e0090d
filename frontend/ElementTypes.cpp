// Element types: their names, sizes and types of MLIR.

#include "frontend/BuilderState.h"

namespace meshc::frontend {

std::string_view getName(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return "f32";
  case ElementType::F64:
    return "f64";
  case ElementType::I32:
    return "i32";
  case ElementType::I64:
    return "i64";
  case ElementType::Bool:
    return "bool";
  case ElementType::U8:
    return "u8";
  case ElementType::I8:
    return "i8";
  case ElementType::I16:
    return "i16";
  }
  __builtin_unreachable();
}

bool isFloat(ElementType type) {
  return type == ElementType::F32 || type == ElementType::F64;
}

bool isForData(ElementType type) {
  return type == ElementType::U8 || type == ElementType::I8 ||
         type == ElementType::I16;
}

int64_t getByteSize(ElementType type) {
  switch (type) {
  case ElementType::F64:
  case ElementType::I64:
    return 8;
  case ElementType::F32:
  case ElementType::I32:
    return 4;
  case ElementType::I16:
    return 2;
  case ElementType::Bool:
  case ElementType::U8:
  case ElementType::I8:
    return 1;
  }
  __builtin_unreachable();
}

bool holds(ElementType type, int64_t value) {
  switch (type) {
  case ElementType::I64:
    return true;
  case ElementType::I32:
    return llvm::isInt<32>(value);
  case ElementType::I16:
    return llvm::isInt<16>(value);
  case ElementType::I8:
    return llvm::isInt<8>(value);
  case ElementType::U8:
    return value >= 0 && llvm::isUInt<8>(uint64_t(value));
  case ElementType::Bool:
    return value == 0 || value == 1;
  case ElementType::F32:
  case ElementType::F64:
    break;
  }
  __builtin_unreachable(); // floats are constants of their own
}

mlir::Type BuilderState::getType(ElementType element) const {
  switch (element) {
  case ElementType::F32:
    return mlir::Float32Type::get(context);
  case ElementType::F64:
    return mlir::Float64Type::get(context);
  case ElementType::I32:
    return mlir::IntegerType::get(context, 32);
  case ElementType::I64:
    return mlir::IntegerType::get(context, 64);
  case ElementType::Bool:
    return mlir::IntegerType::get(context, 1);
  case ElementType::U8:
    return mlir::IntegerType::get(context, 8, mlir::IntegerType::Unsigned);
  case ElementType::I8:
    return mlir::IntegerType::get(context, 8);
  case ElementType::I16:
    return mlir::IntegerType::get(context, 16);
  }
  __builtin_unreachable();
}

} // namespace meshc::frontend
