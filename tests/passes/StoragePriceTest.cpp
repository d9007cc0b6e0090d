#include "passes/StoragePrice.h"

#include "../dialect/Programs.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace meshc;

namespace {

/// Prices of one contraction of f32 values, whose dims are letters with sizes.
class StoragePriceTest : public ::testing::Test {
protected:
  std::unique_ptr<mlir::MLIRContext> context = test::makeContext();
  std::map<char, int64_t> sizes = {{'b', 5},  {'m', 700}, {'p', 30},
                                   {'n', 90}, {'k', 110}, {'l', 13}};

  Order getOrder(llvm::StringRef dims) {
    Order order;
    for (char dim : dims)
      order.push_back(nd::DimAttr::get(
          mlir::StringAttr::get(context.get(), std::string(1, dim)),
          sizes.at(dim)));
    return order;
  }

  nd::NamedTensorType getType(llvm::StringRef dims) {
    return nd::NamedTensorType::get(getOrder(dims),
                                    mlir::Float32Type::get(context.get()));
  }

  std::string print(llvm::StringRef dims) {
    std::string text;
    llvm::raw_string_ostream(text) << getType(dims);
    return text;
  }

  mlir::OwningOpRef<mlir::ModuleOp> module;

  nd::EinsumOp contract(llvm::StringRef lhs, llvm::StringRef rhs,
                        llvm::StringRef result) {
    const std::string l = print(lhs), r = print(rhs), o = print(result);
    module = test::parse(
        *context, "nd.program @p {\n %l = nd.input \"l\" : " + l +
                      "\n %r = nd.input \"r\" : " + r +
                      "\n %o = nd.einsum %l, %r : (" + l + ", " + r + ") -> " +
                      o + "\n nd.output \"o\", %o : " + o + "\n}");
    nd::EinsumOp found;
    module->walk([&](nd::EinsumOp op) { found = op; });
    return found;
  }

  /// The bytes of a kernel, in picoseconds.
  static int64_t getPs(const layout::Machine &machine, double bytes) {
    return std::llround(machine.getKernelPrice(0, bytes).us * 1e6);
  }
  double getBytes(llvm::StringRef dims) {
    double bytes = 4;
    for (char dim : dims)
      bytes *= double(sizes.at(dim));
    return bytes;
  }

  const layout::Machine &cpu = layout::getCpuMachine();
  const layout::Machine &gpu = layout::getAssumedGpu();
};

} // namespace

TEST_F(StoragePriceTest, OneCallIsFree) {
  const nd::EinsumOp einsum = contract("bmk", "bkn", "bmn");
  for (const layout::Machine *machine : {&cpu, &gpu}) {
    const StoragePrice price(*machine);
    EXPECT_EQ(price.getWriterPs(einsum, getOrder("bmn")), 0);
    EXPECT_EQ(price.getWriterPs(einsum, getOrder("bnm")), 0);
    EXPECT_EQ(price.getReaderPs({einsum, 0, DimNames()}, getOrder("bmk")), 0);
    EXPECT_EQ(price.getReaderPs({einsum, 0, DimNames()}, getOrder("mbk")), 0);
  }
}

TEST_F(StoragePriceTest, WhatEndsInABatchDimIsCopied) {
  const nd::EinsumOp einsum = contract("bmk", "bkn", "bmn");
  for (const layout::Machine *machine : {&cpu, &gpu}) {
    const StoragePrice price(*machine);
    EXPECT_EQ(price.getWriterPs(einsum, getOrder("mnb")),
              getPs(*machine, 2 * getBytes("bmn")));
    EXPECT_EQ(price.getReaderPs({einsum, 1, DimNames()}, getOrder("knb")),
              getPs(*machine, 2 * getBytes("bkn")));
  }
}

// p and m are rows that have n in between: 30 matmuls, of which each reads the
// other operand, unless a copy is shorter.
TEST_F(StoragePriceTest, RowsInPiecesReadTheOtherOperandAgain) {
  for (const int64_t rows : {700, 29}) {
    sizes['m'] = rows;
    const nd::EinsumOp einsum = contract("pmk", "kn", "pmn");
    for (const layout::Machine *machine : {&cpu, &gpu}) {
      const StoragePrice price(*machine);
      const int64_t times = std::min<int64_t>(rows, 30);
      const int64_t again = getPs(*machine, double(times) * getBytes("kn")) -
                            getPs(*machine, getBytes("kn"));
      const int64_t copy = price.getCopyPs(getType("pmn"));
      if (machine == &cpu) {
        EXPECT_EQ(again < copy, rows == 700);
      }
      EXPECT_EQ(price.getWriterPs(einsum, getOrder("pnm")),
                std::min(again, copy));
    }
  }
}

// The library steps along m in the first operand, and along p in a result that
// ends so: one of the two is copied, whichever is smaller.
TEST_F(StoragePriceTest, ColumnsThatEndOtherwiseAreCopied) {
  const nd::EinsumOp einsum = contract("kpm", "kn", "npm");
  for (const layout::Machine *machine : {&cpu, &gpu}) {
    const StoragePrice price(*machine);
    EXPECT_EQ(price.getWriterPs(einsum, getOrder("nmp")) -
                  price.getWriterPs(einsum, getOrder("mpn")),
              price.getCopyPs(getType("npm")));
  }
}

// k and l lie apart: 13 calls, each of which adds to the result. A GPU copies
// the operand where that is shorter, on CPUs calls take no less than that.
TEST_F(StoragePriceTest, ContractedPiecesAreCalls) {
  sizes['n'] = 4;
  for (const int64_t rows : {7, 70'000}) {
    sizes['m'] = rows;
    const nd::EinsumOp einsum = contract("mkl", "kln", "mn");
    for (const layout::Machine *machine : {&cpu, &gpu}) {
      const StoragePrice price(*machine);
      const int64_t calls = 12 * getPs(*machine, 2 * getBytes("mn"));
      const int64_t copy = price.getCopyPs(getType("mkl"));
      EXPECT_EQ(price.getReaderPs({einsum, 0, DimNames()}, getOrder("lmk")),
                machine == &gpu ? std::min(calls, copy)
                                : std::max(calls, copy));
    }
  }
}

// Names that the value has elsewhere are the reader's here.
TEST_F(StoragePriceTest, ReadersHaveTheirNames) {
  const nd::EinsumOp einsum = contract("bmk", "bkn", "bmn");
  auto name = [&](const char *text) {
    return mlir::StringAttr::get(context.get(), text);
  };
  StorageReader reader{einsum, 0, DimNames()};
  reader.names[name("p")] = name("b");
  sizes['p'] = sizes['b'];
  EXPECT_EQ(reader.rename(getOrder("mkp")), getOrder("mkb"));
  EXPECT_EQ(StoragePrice(gpu).getReaderPs(reader, getOrder("mkp")),
            StoragePrice(gpu).getCopyPs(getType("bmk")));
}
