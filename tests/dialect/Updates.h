#ifndef MESHC_TESTS_DIALECT_UPDATES_H
#define MESHC_TESTS_DIALECT_UPDATES_H

#include "dialect/Locations.h"
#include "dialect/ND.h"

#include <map>

namespace meshc::test {

/// Optimizers for programs that are written on nd, without a spec: the program
/// @update of a module.
class UpdateBuilder {
public:
  using Hyper = std::map<std::string, double>;

  /// `optimizer` is sgd(lr), momentum(lr, beta) or adam(lr, beta1, beta2,
  /// epsilon), applied to every parameter.
  static void add(mlir::ModuleOp module, llvm::StringRef optimizer,
                  const Hyper &hyper) {
    auto builder = mlir::OpBuilder::atBlockEnd(module.getBody());
    auto update = nd::ProgramOp::create(builder, module.getLoc(),
                                        nd::ProgramOp::updateName);
    builder.setInsertionPointToEnd(&update.getBody().front());
    UpdateBuilder updates(module, builder, hyper);
    llvm::SmallVector<nd::VariableOp> parameters;
    for (auto variable : module.getOps<nd::VariableOp>())
      if (variable.getRole() == nd::VariableRole::Parameter)
        parameters.push_back(variable);
    for (nd::VariableOp parameter : parameters)
      updates.add(parameter, optimizer);
  }

private:
  UpdateBuilder(mlir::ModuleOp module, mlir::OpBuilder &builder,
                const Hyper &hyper)
      : module(module), builder(builder), hyper(hyper) {}

  void add(nd::VariableOp variable, llvm::StringRef optimizer) {
    parameter = variable;
    type = variable.getTensorType();
    loc = withPhase(variable.getLoc(), nd::Phase::Update);
    mlir::Value w = read(variable.getSymName());
    mlir::Value g =
        nd::GradientOp::create(builder, loc, type, variable.getSymName());
    mlir::Value step;
    if (optimizer == "sgd")
      step = multiply(g, number(hyper.at("lr")));
    else if (optimizer == "momentum")
      step = multiply(average("momentum/v", number(hyper.at("beta")), g),
                      number(hyper.at("lr")));
    else
      step = getAdamStep(g);
    write(variable.getSymName(),
          nd::SubOp::create(builder, loc, type, w, step));
  }

  mlir::Value getAdamStep(mlir::Value g) {
    const double beta1 = hyper.at("beta1"), beta2 = hyper.at("beta2");
    mlir::Value m =
        average("adam/m", number(beta1), multiply(g, number(1 - beta1)));
    mlir::Value v = average("adam/v", number(beta2),
                            multiply(multiply(g, g), number(1 - beta2)));
    mlir::Value count = nd::InputOp::create(
        builder, loc, nd::NamedTensorType::get({}, builder.getI32Type()),
        nd::InputOp::stepName);
    // 1 - 0.999^t in f32 would have 14 bits less.
    const mlir::Type wide = builder.getF64Type();
    mlir::Value t = nd::CastOp::create(builder, loc, count, wide);
    auto correct = [&](mlir::Value x, double beta) -> mlir::Value {
      mlir::Value power =
          nd::PowOp::create(builder, loc, number(beta, wide), t);
      mlir::Value rest =
          nd::SubOp::create(builder, loc, number(1, wide), power);
      if (type.getElementType() != wide)
        rest = nd::CastOp::create(builder, loc, rest, type.getElementType());
      return nd::DivOp::create(builder, loc, type, x, rest);
    };
    mlir::Value root = nd::SqrtOp::create(builder, loc, correct(v, beta2));
    mlir::Value divisor = nd::AddOp::create(builder, loc, type, root,
                                            number(hyper.at("epsilon")));
    return nd::DivOp::create(
        builder, loc, type, multiply(correct(m, beta1), number(hyper.at("lr"))),
        divisor);
  }

  /// beta * state + term, which the state becomes.
  mlir::Value average(const std::string &state, mlir::Value beta,
                      mlir::Value term) {
    const std::string name = state + "/" + parameter.getSymName().str();
    mlir::OpBuilder outside(parameter);
    outside.setInsertionPointAfter(parameter);
    nd::VariableOp::create(
        outside,
        withName(parameter.getLoc(),
                 getOrigin(parameter.getLoc(), parameter.getSymName())
                     .asState(state)),
        name, nd::VariableRole::State, type,
        nd::FillAttr::get(builder.getContext(), builder.getF64FloatAttr(0)));
    mlir::Value sum =
        nd::AddOp::create(builder, loc, type, multiply(read(name), beta), term);
    write(name, sum);
    return sum;
  }

  mlir::Value read(llvm::StringRef name) {
    return nd::ReadOp::create(builder, loc, type, name);
  }
  void write(llvm::StringRef name, mlir::Value value) {
    nd::WriteOp::create(builder, loc, name, value);
  }
  mlir::Value multiply(mlir::Value x, mlir::Value y) {
    return nd::MulOp::create(builder, loc, type, x, y);
  }
  mlir::Value number(double value) {
    return number(value, type.getElementType());
  }
  mlir::Value number(double value, mlir::Type element) {
    return nd::ConstantOp::create(builder, loc,
                                  nd::NamedTensorType::get({}, element),
                                  mlir::FloatAttr::get(element, value));
  }

  mlir::ModuleOp module;
  mlir::OpBuilder &builder;
  const Hyper &hyper;
  nd::VariableOp parameter; ///< the one whose update is built
  nd::NamedTensorType type; ///< of it
  mlir::Location loc = mlir::UnknownLoc::get(builder.getContext());
};

} // namespace meshc::test

#endif
