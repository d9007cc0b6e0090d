#include "codegen/steps/MatmulForm.h"
#include "codegen/steps/MatmulOrder.h"

#include "dialect/ND.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mlir;
using namespace meshc::codegen;

namespace {

/// A contraction written as in "bpd,dhe->bphe" with sizes by letter.
class Contraction {
public:
  Contraction(const std::string &text, const std::map<char, int64_t> &sizes)
      : sizes(sizes) {
    size_t comma = text.find(','), arrow = text.find("->");
    terms = {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
             text.substr(arrow + 2)};
    context.loadDialect<linalg::LinalgDialect, arith::ArithDialect,
                        tensor::TensorDialect, meshc::nd::NDDialect>();
    build();
  }

  MatmulForm getForm() { return getMatmulForm(op); }
  /// Copies what no library takes as it is stored.
  void order(MatmulLibrary library) {
    OrderedCopies copies;
    op = storeInLibraryOrder(op, library, copies);
  }

  /// Runs the library calls of `form` with plain loops.
  std::vector<double> run(const MatmulForm &form, const std::vector<double> &a,
                          const std::vector<double> &b) {
    std::vector<double> c(getSize(2));
    std::vector<MatmulForm::Loop> loops = form.batch;
    loops.insert(loops.end(), form.outerK.begin(), form.outerK.end());
    loops.insert(loops.end(), {form.m, form.n, form.k});
    const auto &x = form.swapped ? b : a, &y = form.swapped ? a : b;
    walk(loops, 0, 0, 0, 0,
         [&](int64_t ia, int64_t ib, int64_t ic) { c[ic] += x[ia] * y[ib]; });
    return c;
  }

  /// The definition: a sum over every letter that the result lacks.
  std::vector<double> runByLetters(const std::vector<double> &a,
                                   const std::vector<double> &b) {
    std::vector<double> c(getSize(2));
    std::vector<MatmulForm::Loop> loops;
    for (char letter : letters)
      loops.push_back({sizes.at(letter), getStride(0, letter),
                       getStride(1, letter), getStride(2, letter)});
    walk(loops, 0, 0, 0, 0,
         [&](int64_t ia, int64_t ib, int64_t ic) { c[ic] += a[ia] * b[ib]; });
    return c;
  }

  int64_t getSize(int term) const {
    int64_t size = 1;
    for (char letter : terms[term])
      size *= sizes.at(letter);
    return size;
  }

private:
  int64_t getStride(int term, char letter) const {
    size_t at = terms[term].find(letter);
    if (at == std::string::npos)
      return 0;
    int64_t stride = 1;
    for (size_t i = at + 1; i < terms[term].size(); ++i)
      stride *= sizes.at(terms[term][i]);
    return stride;
  }

  template <typename Visit>
  void walk(const std::vector<MatmulForm::Loop> &loops, size_t depth, int64_t a,
            int64_t b, int64_t c, Visit visit) {
    if (depth == loops.size())
      return visit(a, b, c);
    const MatmulForm::Loop &loop = loops[depth];
    for (int64_t i = 0; i < loop.size; ++i)
      walk(loops, depth + 1, a + i * loop.a, b + i * loop.b, c + i * loop.c,
           visit);
  }

  void build() {
    letters = terms[2];
    for (char letter : terms[0] + terms[1])
      if (letters.find(letter) == std::string::npos)
        letters += letter;
    OpBuilder builder(&context);
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
    Location loc = builder.getUnknownLoc();
    SmallVector<Value> tensors;
    SmallVector<AffineMap> maps;
    for (const std::string &term : terms) {
      SmallVector<int64_t> shape;
      SmallVector<AffineExpr> dims;
      for (char letter : term) {
        shape.push_back(sizes.at(letter));
        dims.push_back(builder.getAffineDimExpr(letters.find(letter)));
      }
      tensors.push_back(
          tensor::EmptyOp::create(builder, loc, shape, builder.getF32Type()));
      maps.push_back(AffineMap::get(letters.size(), 0, dims, &context));
    }
    SmallVector<utils::IteratorType> iterators;
    for (char letter : letters)
      iterators.push_back(terms[2].find(letter) == std::string::npos
                              ? utils::IteratorType::reduction
                              : utils::IteratorType::parallel);
    op = linalg::GenericOp::create(
        builder, loc, tensors[2].getType(), ValueRange{tensors[0], tensors[1]},
        ValueRange{tensors[2]}, maps, iterators,
        [](OpBuilder &inner, Location where, ValueRange x) {
          Value product = arith::MulFOp::create(inner, where, x[0], x[1]);
          Value sum = arith::AddFOp::create(inner, where, x[2], product);
          linalg::YieldOp::create(inner, where, sum);
        });
  }

  std::map<char, int64_t> sizes;
  std::vector<std::string> terms;
  std::string letters;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  linalg::GenericOp op;
};

std::vector<double> makeRandom(int64_t size, int seed) {
  std::mt19937 random(seed);
  std::vector<double> values(size);
  for (double &value : values)
    value = std::uniform_int_distribution<int>(-4, 4)(random);
  return values;
}

constexpr MatmulLibrary libraries[] = {MatmulLibrary::OneDnn,
                                       MatmulLibrary::CublasLt};

const std::map<char, int64_t> sizes = {{'b', 2}, {'p', 3}, {'k', 4}, {'h', 5},
                                       {'e', 6}, {'d', 7}, {'f', 8}};

TEST(MatmulForm, merges_dimensions_that_step_as_one) {
  MatmulForm form = Contraction("bpd,dhe->bphe", sizes).getForm();
  EXPECT_TRUE(form.batch.empty());
  EXPECT_TRUE(form.outerK.empty());
  EXPECT_EQ(form.m.size, 2 * 3);
  EXPECT_EQ(form.n.size, 5 * 6);
  EXPECT_EQ(form.k.size, 7);
}

TEST(MatmulForm, takes_batches_with_strides) {
  MatmulForm form = Contraction("bphe,bkhe->bhpk", sizes).getForm();
  EXPECT_EQ(form.batch.size(), 2u);
  EXPECT_EQ(form.m.size, 3);
  EXPECT_EQ(form.n.size, 4);
  EXPECT_EQ(form.k.size, 6);
  EXPECT_EQ(form.k.a, 1);
}

TEST(MatmulForm, makes_a_batch_of_rows_that_do_not_merge) {
  MatmulForm form = Contraction("bpd,dhe->bhpe", sizes).getForm();
  EXPECT_EQ(form.batch.size(),
            2u); // b has stride 0 in the second, h in the first
  EXPECT_EQ(form.m.size, 3);
  EXPECT_EQ(form.n.size, 6);
}

TEST(MatmulForm, accumulates_over_contracted_dimensions_that_do_not_merge) {
  MatmulForm form = Contraction("bhpe,hed->bpd", sizes).getForm();
  ASSERT_EQ(form.outerK.size(), 1u);
  EXPECT_EQ(form.outerK.front().size * form.k.size, 5 * 6);
}

TEST(MatmulForm, swaps_operands_where_the_result_is_contiguous_along_rows) {
  MatmulForm form = Contraction("db,df->fb", sizes).getForm();
  EXPECT_EQ(form.n.c, 1);
  EXPECT_TRUE(form.swapped);
}

TEST(MatmulForm, takes_the_loop_that_an_operand_is_contiguous_in) {
  // w[f, d, k] is contiguous along k, of its columns the shorter one; the
  // result along b.
  MatmulForm form = Contraction("bd,fdk->fkb", sizes).getForm();
  EXPECT_TRUE(form.swapped);
  EXPECT_EQ(form.m.size, 4);
  EXPECT_EQ(form.m.a, 1);
  for (MatmulLibrary library : libraries)
    EXPECT_EQ(form.findRefused(library), (std::array{false, false, false}));
}

TEST(MatmulForm, says_what_no_library_takes) {
  using Strided = std::array<bool, 3>;
  auto find = [](const char *text) {
    const MatmulForm form = Contraction(text, sizes).getForm();
    const Strided refused = form.findRefused(MatmulLibrary::OneDnn);
    EXPECT_EQ(form.findRefused(MatmulLibrary::CublasLt), refused) << text;
    return refused;
  };
  EXPECT_EQ(find("bpd,df->bpf"), (Strided{false, false, false}));
  EXPECT_EQ(find("bdp,df->bpf"), (Strided{false, false, false}));
  // The batch is last in each of them.
  EXPECT_EQ(find("bpdh,dfh->bpfh"), (Strided{true, true, true}));
  EXPECT_EQ(find("bpdh,hdf->bphf"), (Strided{true, false, false}));
  // Columns h and k: contiguous along one in the result, the other in w.
  EXPECT_EQ(find("bd,hdk->bkh"), (Strided{false, true, false}));
  // Sums over d and e: one operand is contiguous along d, which is longer.
  EXPECT_EQ(find("bde,fed->bf"), (Strided{true, false, false}));
  EXPECT_EQ(find("fed,bde->bf"), (Strided{false, true, false}));
}

TEST(MatmulOrder, leaves_nothing_that_no_library_takes) {
  std::mt19937 random(5);
  int copied = 0;
  for (int round = 0; round < 1000; ++round) {
    // Each letter is in two or three of the tensors: rows, columns, what is
    // summed, batch; there are rows, columns and sums.
    std::array<std::string, 3> terms = {"bk", "pk", "bp"};
    for (char letter : std::string("hedf"))
      if (const unsigned absent = random() % 5; absent < 4)
        for (unsigned term = 0; term < 3; ++term)
          if (term != absent)
            terms[term] += letter;
    for (std::string &term : terms)
      std::shuffle(term.begin(), term.end(), random);
    const std::string text = terms[0] + "," + terms[1] + "->" + terms[2];
    for (MatmulLibrary library : libraries) {
      Contraction contraction(text, sizes);
      const auto isRefused = [&] {
        return llvm::is_contained(contraction.getForm().findRefused(library),
                                  true);
      };
      copied += isRefused();
      contraction.order(library);
      EXPECT_FALSE(isRefused()) << text;
    }
  }
  EXPECT_GT(copied, 100);
}

TEST(MatmulForm, every_form_computes_the_contraction) {
  for (const char *text :
       {"bpd,dhe->bphe", "bpd,dhe->bhpe", "bphe,bkhe->bhpk", "bhpk,bkhe->bphe",
        "bhpk,bkhe->bhpe", "bphe,hed->bpd", "bhpe,hed->bpd", "bpd,bphe->dhe",
        "bpd,bhpe->dhe", "bpf,fd->bpd", "bpd,df->fpb", "db,df->fb",
        "bhpk,bphe->bkhe", "pbd,dbk->kbp", "bd,fdk->fkb", "bpdh,dfh->bpfh",
        "bd,hdk->bkh", "bde,fed->bf"}) {
    Contraction contraction(text, sizes);
    std::vector<double> a = makeRandom(contraction.getSize(0), 1);
    std::vector<double> b = makeRandom(contraction.getSize(1), 2);
    EXPECT_EQ(contraction.run(contraction.getForm(), a, b),
              contraction.runByLetters(a, b))
        << text;
  }
}

} // namespace
