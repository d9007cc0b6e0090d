// Every diagnostic: a spec that causes it, with the primary span between << and
// >>, and what the message and its help must say.

#include "CodeCases.h"
#include "SpecTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

using namespace meshc::frontend;
using namespace meshc::frontend::cases;
using testing::HasSubstr;

namespace {

const std::vector<Case> &getCases() {
  static const std::vector<Case> own = {
      // Text.
      {Code::InvalidUtf8, "dim a = 1 // <<\xC3>>\x28", "0xc3 at offset 13",
       "UTF-8"},
      {Code::InvalidUtf8, "// <<\xED>>\xA0\x80", "0xed", ""},
      {Code::InvalidUtf8, "// <<\xC0>>\xAF", "0xc0", ""},
      {Code::NulCharacter, std::string("dim a = <<") + '\0' + ">>1",
       "NUL character at offset 8", ""},
      {Code::UnexpectedCharacter, "dim a = 1 <<$>>", "unexpected \"$\"", ""},
      {Code::UnexpectedCharacter, "dim <<\xC3\xA4>> = 1", "U+00E4", "ASCII"},
      {Code::UnexpectedCharacter, "dim a = 1<<\r>>dim b = 2", "U+000D", "CRLF"},
      {Code::UnexpectedCharacter, "// <<\xE2\x80\xAE>>", "U+202E", ""},
      {Code::InvalidNumber, "dim a = <<9223372036854775808>>",
       "9223372036854775808", "64 bits"},
      {Code::InvalidNumber, "let a = <<1e400>>", "1e400", ""},
      {Code::InvalidNumber, "dim a = <<12abc>>", "12abc", ""},
      {Code::InvalidNumber, "let a = <<1.2.3>>", "1.2.3", ""},
      {Code::UnterminatedString, "import <<\">>abc\ndim a = 1", "string", ""},
      {Code::NameTooLong, "dim <<" + std::string(255, 'a') + ">>bcd = 1",
       "258 characters", ""},
      // Syntax.
      {Code::ExpectedToken, "dim a <<->>> 1", "expected \"=\" after the name",
       ""},
      {Code::UnexpectedCharacter, value("sum(x<<;>>)"), "unexpected \";\"", ""},
      {Code::UnexpectedCharacter, value("sum(x <<$>> y)"), "unexpected \"$\"",
       ""},
      {Code::UnexpectedCharacter, "<<?>>\ndim a = 1", "unexpected \"?\"", ""},
      {Code::UnexpectedCharacter, model("  <<#>> a comment"),
       "unexpected \"#\"", ""},
      {Code::ExpectedToken, value("exp(x\n  <<let>> z = y"),
       "expected \")\" after the arguments", "add \")\""},
      {Code::ExpectedToken, value("exp(x <<->>> batch)"),
       "\"exp\" takes no \"->\"", "einsum"},
      {Code::ExpectedToken, value("<<einsum(x, w)>>"), "-> dims",
       "einsum(a, b -> "},
      {Code::ExpectedToken, value("x <<@>> [batch -> data]"),
       "\"@\" is no operator", "a rule of the layout for its name"},
      {Code::ExpectedExpression, value("x + <<*>> y"), "found \"*\"", ""},
      {Code::ExpectedItem, "<<dimm>> a = 1\n", "found \"dimm\"", "\"dim\""},
      {Code::ExpectedItem, model("  <<ouput>> o = x"), "\"output\"",
       "did you mean \"output\""},
      {Code::ExpectedItem, "fn f(x) {\n  <<output>> o = x\n}\n",
       "a function has no outputs", ""},
      {Code::ExpectedItem, model("  <<return>> x"), "does not return",
       "output name"},
      {Code::ChainedComparison, value("1 < 2 <<<>> 3"), "do not chain",
       "\"and\""},
      {Code::NotSupported,
       loop("x = exp(x)", "t in batch <<while>> sum(x) < 1"),
       "not supported yet: loops with a condition", ""},
      {Code::NotSupported,
       loop("<<x>>[in = t] = x[in = t] + x[in = 0]", "t in in"),
       "the block reads elements of \"x\" that it sets", "under another name"},
      {Code::NotSupported, loop("x[in = t] <<+=>> 1"),
       "not supported yet: adding to elements", ""},
      {Code::NotSupported, loop("x[in = <<t + 1>>] = sum(w)"),
       "elsewhere than at the position of the innermost loop", ""},
      {Code::NotSupported, model("  x[in = <<2>>] = 1\n  output o = sum(x)"),
       "elsewhere than at the position", ""},
      {Code::ExpectedToken, loop("x = exp(x)", "t <<of>> in"),
       "expected \"in\" after the name", "positions of the dimension"},
      {Code::UnknownDim, loop("x = exp(x)", "t in <<im>>"),
       "no dimension \"im\"", "\"in\""},
      {Code::WrongKind, loop("x = exp(x)", "t in <<half>>"),
       "expected a dimension", ""},
      {Code::WrongKind, loop("x = exp(x)", "t in <<(batch, in)>>"),
       "expected one dimension, found 2", ""},
      {Code::MisplacedStatement, loop("output <<late>> = x"),
       "an output stands in a loop", "behind the block"},
      {Code::MisplacedStatement,
       "fn f(x) {\n  for t in out { <<return>> x }\n  return x\n}\n" +
           value("f(x)"),
       "a loop does not return", "behind the block"},
      {Code::NameIsBound, loop("let <<x>> = x + 1"), "\"x\" is bound already",
       "without \"let\" the loop carries \"x\""},
      {Code::NameIsBound, loop("param <<w>>: f32[in] = zeros"),
       "\"w\" is bound already", ""},
      {Code::NameIsBound, loop("x = x + 1", "<<x>> in out"),
       "\"x\" is bound already", ""},
      {Code::UnknownName, loop("<<xx>> += 1"), "\"xx\" is not defined here",
       "begins with \"let\""},
      {Code::UnknownName, loop("<<xx>>[out = t] = x"),
       "\"xx\" is not defined here", ""},
      {Code::CarriedTypeChanges, loop("<<x>> = sum(x, over = in)"),
       "\"x\" is f32[batch, in] before the loop and f32[batch] after", ""},
      {Code::CarriedTypeChanges, loop("<<x>> = x == x"),
       "\"x\" is f32[batch, in] before the loop and bool[batch, in] after", ""},
      {Code::CarriedTypeChanges, loop("x[in = t] = <<sum(w)>>", "t in in"),
       "the value at a position of \"in\" is f32, and \"x\" is f32[batch, in]",
       ""},
      {Code::RepeatedDim,
       model("  let <<h>> = x\n  for t in in { h = exp(h) }\n"
             "  output o = sum(h)"),
       "\"h\" is carried from one position of \"in\" to the next", ""},
      {Code::ProgramTooLarge,
       "dim long = 1099511627776\n" + loop("x = exp(x)", "<<t in long>>"),
       "each of the 1099511627776 iterations over \"long\" has its own",
       "not built yet"},
      {Code::NotSupported,
       head + "model m(x: <<bf16>>[batch]) { output o = x }",
       "not supported yet: elements of type bf16", ""},
      {Code::ReservedWord, "dim <<let>> = 1", "reserved word \"let\"", ""},
      {Code::ReservedWord,
       model("  param <<step>>: f32[in] = zeros\n  output o = x"),
       "no parameter can be called \"step\"", "programs"},
      // Names.
      {Code::UnknownName, value("x + <<hlf>>"), "\"hlf\" is not defined",
       "did you mean \"half\""},
      {Code::UnknownName, model("  <<z>> = exp(x)\n  output o = sum(x)"),
       "cannot be redefined", "\"let\""},
      {Code::UnknownDim,
       head + "model m(x: f32[<<bacth>>, in]) { output o = x }",
       "no dimension \"bacth\"", "did you mean \"batch\""},
      {Code::UnknownDim, value("sum(x, over = (batch, <<inn>>))"),
       "no dimension \"inn\"", "did you mean \"in\""},
      {Code::UnknownFunction, value("<<sofmax>>(x, over = in)"),
       "no function \"sofmax\"", "did you mean \"softmax\""},
      {Code::UnknownFunction, value("<<einsm>>(x, w -> batch)"), "einsm",
       "did you mean \"einsum\""},
      {Code::UnknownArgument, value("softmax(x, <<ovr>> = in)"),
       "no parameter \"ovr\"", "did you mean \"over\""},
      {Code::UnknownElementType,
       head + "model m(x: <<f23>>[batch]) { output o = x }", "\"f23\"",
       "did you mean \"f32\""},
      {Code::UnknownInitializer,
       model("  param v: f32[in] = <<zeroes>>\n  output o = sum(x)"),
       "\"zeroes\"", "did you mean \"zeros\""},
      {Code::UnknownInitializer,
       model("  param v: f32[in] = <<normal>>\n  output o = sum(x)"),
       "needs arguments", "normal(mean, stddev)"},
      {Code::UnknownInitializer,
       model("  param v: f32[in] = <<randn>>(0, 1)\n  output o = sum(x)"),
       "\"randn\"", "did you mean \"normal\""},
      {Code::DuplicateName, "dim a = 1\ndim <<a>> = 2\n", "defined twice", ""},
      {Code::DuplicateName, "dim a = 1\nlet <<a>> = 2\n", "defined twice", ""},
      {Code::DuplicateName, "mesh a = 2, <<a = 3>>\n", "two axes \"a\"", ""},
      {Code::DuplicateName, "mesh a = 2\n<<mesh>> b = 3\n", "two meshes", ""},
      {Code::DuplicateName, "fn f(a, <<a>>) { return a }", "two parameters",
       ""},
      {Code::DuplicateName, "fn f(a) { return a }\nfn <<f>>(b) { return b }",
       "\"f\" is defined twice", ""},
      {Code::DuplicateName, "fn <<exp>>(a) { return a }", "built-in", ""},
      {Code::DuplicateName,
       model("  param <<w>>: f32[in] = zeros\n  output o = sum(x)"),
       "two parameters are called \"w\"", ""},
      {Code::DuplicateName,
       "fn f(x) {\n  param p: f32 = ones\n  return x * p\n}\n" +
           model("  let a = f(x) as r\n  let b = f(x) as <<r>>\n"
                 "  output o = sum(x)"),
       "scope \"r\" is taken", ""},
      {Code::SharedScope,
       owning + model("  let a = f(x)\n  let b = <<f(x)>>\n"
                      "  output o = sum(b)"),
       "a second call has parameters in scope \"f\"", "... as NAME"},
      {Code::SharedScope,
       owning + model("  let a = f(x)\n  let b = f(x) as r\n"
                      "  let c = <<f(x)>>\n  output o = sum(b)"),
       "a second call has parameters in scope \"f\"", "... as NAME"},
      {Code::SharedScope,
       owning + model("  let a = f(x) as f\n  let b = exp(x) + <<f(x)>>\n"
                      "  output o = sum(b)"),
       "a second call has parameters in scope \"f\"", "... as NAME"},
      {Code::SharedScope,
       owning + "fn g(x) {\n  return f(x) + <<f(x)>>\n}\n" +
           value("g(x) as one + g(x) as other"),
       "in scope \"one/f\"", ""},
      {Code::SharedScope, value("dense(x, in, out) + <<dense(x, in, out)>>"),
       "in scope \"dense\"", "order in which they are written"},
      {Code::SharedScope,
       model("  for t in out { param a: f32 = ones\n    x = x * a }\n"
             "  for <<t in out>> { param b: f32 = ones\n    x = x * b }\n"
             "  output o = sum(x)"),
       "a second loop has parameters in scope \"t\"",
       "call the position of this loop otherwise"},
      {Code::DuplicateName, model("  output o = x\n  output <<o = x>>"),
       "two outputs \"o\"", ""},
      {Code::DuplicateName,
       head + "model m(x: f32[batch], <<x: f32[in]>>) { output o = x }",
       "two inputs \"x\"", ""},
      {Code::DuplicateName, value("sum(x, in, over = <<batch>>)"),
       "two arguments for parameter \"over\"", ""},
      {Code::MissingArgument,
       model("  param v: f32[in] = <<normal(0.1)>>\n  output o = sum(x)"),
       "is 0.1 the mean or the standard deviation", "normal(stddev = 0.1)"},
      {Code::MissingArgument,
       model("  param v: f32[in] = <<normal(2 * half)>>\n  output o = sum(x)"),
       "is 2 * half the mean", "normal(mean = 2 * half, stddev = ...)"},
      {Code::MissingArgument, value("<<softmax(x)>>"),
       "needs an argument for \"over\"", ""},
      {Code::MissingArgument, value("<<argmax(x)>>"), "\"over\"", ""},
      {Code::TooManyArguments, value("exp(x, <<x>>)"), "takes 1 argument", ""},
      {Code::RecursiveFunction, "fn f(a) { return <<f(a)>> }\n" + value("f(x)"),
       "calls itself", "expanded"},
      {Code::RecursiveFunction,
       "fn f(a) { return g(a) }\nfn g(a) { return <<f(a)>> }\n" + value("f(x)"),
       "\"f\" calls itself", ""},
      {Code::WrongKind, value("<<batch>>(x)"), "a dimension, not a function",
       ""},
      {Code::WrongKind, value("<<relu>>"), "is a function", ""},
      {Code::WrongKind, value("sum(x, over = <<half>>)"),
       "\"half\" is a number, expected a dimension", ""},
      {Code::WrongKind, value("<<x % 2>>"), "\"%\"", ""},
      {Code::WrongKind, value("not <<(batch, in)>>"), "list of dimensions", ""},
      {Code::WrongKind, value("<<\"text\">>"), "string is not a value", ""},
      {Code::WrongKind, value("exp(x) as <<e>>"), "opens no scope", ""},
      {Code::MissingReturn, "fn <<f>>(a) { let b = a }", "returns nothing",
       "return value"},
      {Code::MissingReturn, "fn f(a) { <<return>> a let b = a return b }",
       "follow the return", ""},
      // Sizes.
      {Code::SizeNotPositive, "dim a = <<0>>", "size 0", ""},
      {Code::SizeNotPositive, "dim a = <<3 - 5>>", "size -2", ""},
      {Code::SizeNotPositive, "mesh a = 2, <<b = 0>>", "size 0", ""},
      {Code::SizeNotInteger, "dim a = 7\ndim b = <<a / 2>>", "3.5", ""},
      {Code::SizeNotInteger, "mesh a = <<1.5>>", "1.5", ""},
      {Code::NumberOverflow, "dim a = <<9223372036854775807 + 1>>", "64 bits",
       ""},
      {Code::NumberOverflow, "dim a = <<2 ^ 63>>", "64 bits", ""},
      {Code::NumberOverflow, "dim a = 3\nlet b = <<1 / (a - 3)>>",
       "division by zero", ""},
      {Code::NumberOverflow, "let a = <<sqrt(-1)>>", "not a number", ""},
      {Code::CyclicDefinition, "dim <<a>> = b\ndim b = c + 1\ndim c = a\n",
       "\"a\" is defined by itself", ""},
      {Code::ContradictingSizes, value("rename(x, in -> <<out>>)"),
       "size 5 to \"out\" of size 7", "keeps its size"},
      {Code::TensorTooLarge,
       "dim a = 2 ^ 40\ndim b = 2 ^ 22\n"
       "model m(<<x: f32[a, b]>>) { output o = x }",
       "f32[a, b]", ""},
      // 2^61 elements of 4 bytes.
      {Code::TensorTooLarge,
       "dim a = 2 ^ 31\ndim b = 2 ^ 30\n"
       "model m(x: f32[a], y: f32[b]) { output o = sum(<<x * y>>) }",
       "f32[a, b]", ""},
      // 2^51 bytes each, and one scalar.
      {Code::TensorTooLarge,
       "dim a = 2 ^ 49\n"
       "model m(x: f32[a], y: f32[a], <<s: f32>>) { output o = x }",
       "more than 2^52 bytes in all", ""},
      {Code::TensorTooLarge,
       "dim a = 2 ^ 36\ndim b = 2 ^ 12\ndim c = 2 ^ 16\n"
       "model m(x: f32[a, b], y: f32[b, c]) {\n"
       "  output o = sum(<<einsum(x, y -> b, c)>>)\n}\n",
       "products", ""},
      // Types.
      {Code::ElementTypeMismatch, value("<<x + y>>"),
       "f32[batch, in] and i32[batch]", "f32(...)"},
      {Code::WrongElementType, value("exp(<<y>>)"), "not i32", "f32(...)"},
      {Code::WrongElementType, value("mean(<<y>>)"), "float elements", ""},
      {Code::WrongElementType, value("where(<<x>>, x, x)"), "bool elements",
       ""},
      {Code::WrongElementType, value("not <<y>>"), "bool elements", ""},
      {Code::WrongElementType, value("gather(x, <<x>>, over = in)"),
       "integer elements", ""},
      {Code::WrongElementType,
       model("  param <<v>>: i32[in] = zeros\n  output o = sum(x)"),
       "float elements, not i32", ""},
      {Code::DimNotInTensor, value("sum(x, over = <<out>>)"),
       "\"out\", which f32[batch, in] lacks", "\"batch\", \"in\""},
      {Code::DimNotInTensor, value("einsum(x, x, over = (in, <<out>>))"),
       "no input of the einsum has dimension \"out\"", ""},
      {Code::RepeatedDim,
       head + "model m(<<x: f32[batch, batch]>>) { output o = x }",
       "dimension \"batch\" occurs twice",
       "write \"batch'\" for its second role, of the same size"},
      {Code::RepeatedDim, value("sum(x, over = (in, <<in>>))"), "twice", ""},
      {Code::RepeatedDim, value("rename(x, in -> in', <<in>> -> in'')"),
       "rename gives dimension \"in\" two names", ""},
      {Code::RepeatedDim, value("rename(x, in -> in', batch -> <<in'>>)"),
       "rename gives two dimensions the name \"in'\"", ""},
      {Code::DimFromNowhere, value("einsum(x -> batch, <<out>>)"),
       "\"out\" is in no input", "broadcast"},
      {Code::DimAlreadyPresent, value("broadcast(x, <<in>>)"),
       "has dimension \"in\" already", "added"},
      {Code::DimAlreadyPresent, value("rename(x, batch -> <<in>>)"), "already",
       ""},
      {Code::DimAlreadyPresent, value("rename(x, batch -> <<batch>>)"),
       "already", ""},
      {Code::DimNotInTensor, value("rename(x, in -> in', <<in'>> -> in'')"),
       "\"in'\", which f32[batch, in] lacks", ""},
      {Code::NotRepresentable, value("y + <<0.5>>"), "0.5", ""},
      {Code::NotRepresentable, value("y + <<2 ^ 40>>"), "i32", ""},
      {Code::NotRepresentable, value("x * <<1e300>>"), "f32", ""},
      // Elements by position.
      {Code::ReadsOutside, index("in = <<in + 1>>]"),
       "\"in\" has positions 0 to 4 and is read at 1 to 5", "else 0"},
      {Code::ReadsOutside, index("in = <<2 * out - 1>>]"), "-1 to 11", ""},
      {Code::ReadsOutside, index("batch = 0, in = <<out / 2>>]"),
       "is read at out / 2, which is not always whole", "else 0"},
      {Code::ReadsOutside, index("in = <<(out + 1) % 6>>]"), "0 to 5", ""},
      {Code::ReadsOutside, index("in = <<(out + 1) % 9>>]"), "read at 1 to 7",
       ""},
      {Code::WindowTooLarge, index("in = <<out + 3 * (out' - 3)>> else 0]"),
       "at position 0 of \"out'\" nothing of \"in\", of size 5, is read", ""},
      {Code::WindowTooLarge, index("in = <<out + 4 * out'>> else 0]"),
       "at position 6 of \"out\"", ""},
      {Code::WindowTooLarge, index("in = <<7>> else 0]"),
       "nothing of \"in\", of size 5, is read", ""},
      {Code::WindowTooLarge, index("in = <<(2 * out + 1) / 2>> else 0]"),
       "nothing of \"in\"", ""},
      {Code::NumberOverflow,
       index("in = <<(out - 9223372036854775807 - 1) / 2>> else 0]"), "2^31",
       ""},
      {Code::NumberOverflow, index("in = <<-9223372036854775807 - 1>> else 0]"),
       "2^31", ""},
      {Code::NumberOverflow,
       index("in = <<(out - out - 5) % 9223372036854775807>>]"), "2^31", ""},
      {Code::IndexNotInteger, index("in = <<half>>]"), "0.5", ""},
      {Code::IndexNotInteger, index("in = <<half * out>>]"), "0.5",
       "floor(n / 2)"},
      {Code::IndexNotInteger, index("in = <<out + half>>]"), "0.5", "floor"},
      {Code::IndexNotInteger, index("in = <<1 == 2>>]"), "a truth value", ""},
      {Code::IndexNotInteger, index("in = <<w>>]"), "found f32", ""},
      {Code::MixedIndex, index("in = <<3 * out % 8>> else 0]"),
       "sums with more values than there are elements", "strides that nest"},
      {Code::MixedIndex, index("in = <<out % 4 + out % 3>> else 0]"),
       "of out by 3 and 4, neither of which divides the other", ""},
      {Code::MixedIndex, index("in = <<out % 4 + (out + 1) % 4>> else 0]"),
       "of out + 1 and of out go by no common digits", ""},
      {Code::MixedIndex,
       index("in = <<(out + 2 * out') % 3 + out % 2>> else 0]"),
       "of two sums have \"out\"", "go together"},
      {Code::MixedIndex, index("in = <<(out + 2 * batch) % 3 + out>> else 0]"),
       "\"out\" stands beside a quotient or remainder of a sum", ""},
      {Code::MixedIndex, index("in = <<out / 2 % 2>> else 0]"),
       "of a quotient that is not always whole", "floor(n / 2)"},
      {Code::MixedIndex, index("in = <<out / 2>> + y else 0]"),
       "not always whole stands beside a tensor", "floor(n / 2)"},
      {Code::MixedIndex, index("in = <<out % 4 + out % 2>> + y else 0]"),
       "beside a tensor", "iota(n) / 2"},
      {Code::WrongKind, index("in = abs(<<(in, out)>>)]"),
       "a list of 2 positions", "size("},
      {Code::WrongKind, index("in = <<out * out>>]"), "of two dims",
       "size(dim)"},
      {Code::WrongKind, index("in = <<2 / out>>]"), "by a dim", ""},
      {Code::WrongKind, index("(in, batch) = <<(out, out', 1)>>]"),
       "2 dims are read at 3 positions", ""},
      {Code::WrongKind, index("(in, batch) = <<(out, 1) + (1, 2, 3)>>]"),
       "lists of 2 and 3 positions", ""},
      {Code::WrongKind, index("in = out else <<y>>]"), "a tensor", "where("},
      {Code::DimNotInTensor, index("<<out>> = 0]"),
       "which f32[batch, in] lacks", ""},
      {Code::RepeatedDim, index("in = 0, <<in>> = 1]"), "twice", ""},
      {Code::UnknownDim, index("<<inn>> = 0]"), "inn", "\"in\""},
      {Code::UnknownDim, index("in = 0, <<inn'>> = 0]"), "inn'", ""},
      {Code::NumberOverflow, index("in = <<4000000000 * out>> else 0]"), "2^31",
       ""},
      {Code::NumberOverflow, index("in = <<out / 0>>]"), "by zero", ""},
      {Code::NumberOverflow, index("in = <<out % 0>>]"), "modulo 0", ""},
      {Code::TypeDiffers,
       "dim n = 2\ndim k = 3\nmodel m(x: f32[n, k]) { output y<<[n]>> = x }",
       "has not each of its dimensions once: it is f32[n, k]", ""},
      {Code::TypeDiffers,
       "dim n = 2\ndim k = 3\n"
       "model m(x: f32[n, k]) { output y<<[n, k, n]>> = x }",
       "has not each of its dimensions once", ""},
      {Code::ExpectedToken, index("<<0>>]"), "expected a dimension",
       "x[n = 0] is the first of n"},
      {Code::ExpectedToken, index("<<:>>2]"), "expected a dimension",
       "x[n = m]"},
      {Code::ExpectedToken, "model m(x: f32[<<4>>, 8]) { output y = x }",
       "expected a dimension, found \"4\"", "declare dim rows = 4 above"},
      {Code::NotSupported,
       "dim n = 2\nmodel m(x: <<bf16>>[n]) { output y = x }",
       "elements of type bf16", "\"precision bf16\" above the model"},
      {Code::ExpectedToken, index("in <<]>>"), "expected \"=\"",
       "x[dim = position]"},
      {Code::ReservedWord, "dim a = 3\ndim <<a'>> = 3", "prime", "leave"},

      // Layout.
      {Code::UnknownAxis, layout("batch -> <<dat>>"), "no axis \"dat\"",
       "did you mean \"data\""},
      {Code::MeshTooLarge, "mesh a = 1024, <<b = 1025>>", "1048576 devices",
       ""},
      {Code::MeshTooLarge, "mesh <<a = 2 ^ 62>>, b = 2", "1048576", ""},
      {Code::MeshTooLarge, "mesh a = 2, <<b = 2 ^ 62>>, c = 2", "1048576", ""},
      // Model and training.
      {Code::MissingModel, "<<>>dim a = 1\n", "no model", ""},
      {Code::MissingOutput, head + "model <<m>>(x: f32[batch]) { let a = x }",
       "no output", ""},
      {Code::MissingMinimize,
       train("<<train>> { optimizer adam(lr = 1) steps 1 }"),
       "what to minimize", "minimize"},
      {Code::UnknownOutput,
       train("train { minimize <<los>> optimizer adam(lr = 1) steps 1 }"),
       "no output \"los\"", "did you mean \"loss\""},
      {Code::OutputNotScalar,
       train("train { minimize <<wide>> optimizer adam(lr = 1) steps 1 }"),
       "\"wide\" is f32[batch, in]", "output wide = mean(...)"},
      {Code::OutputNotFloat,
       train("train { minimize <<count>> optimizer adam(lr = 1) steps 1 }"),
       "\"count\" is i32", ""},
      {Code::UnknownOptimizer, train("<<train>> { minimize loss steps 1 }"),
       "does not name an optimizer", ""},
      {Code::UnknownSetting,
       train("train { minimize loss optimizer adam(lr = 1) <<epoch>> 1 steps 2 "
             "}"),
       "no setting \"epoch\"", "did you mean \"epochs\""},
      {Code::InvalidSetting,
       train("train { minimize loss optimizer adam(lr = 1) steps <<0>> }"),
       "positive integer, found 0", ""},
      {Code::InvalidSetting,
       train("train { minimize loss optimizer adam(lr = 1) "
             "epochs <<1073741825>> }"),
       "\"epochs\" is a positive integer up to 2^30, found 1073741825", ""},
      {Code::InvalidSetting,
       train("train { minimize loss optimizer adam(lr = 1) "
             "steps <<72057594037927937>> }"),
       "\"steps\" is a positive integer up to 2^56, found 72057594037927937",
       ""},
      {Code::InvalidSetting,
       model("  param v: f32[in] = normal(stddev = <<-1>>)\n"
             "  output o = sum(x)"),
       "stddev", ""},
      {Code::UnknownPrecision,
       train(
           "train { minimize loss optimizer adam steps 1 precision <<bf8>> }"),
       "do not compute in \"bf8\"; expected f32, bf16 or fp16", ""},
      {Code::UnknownPrecision,
       train(
           "train { minimize loss optimizer adam steps 1 precision <<f16>> }"),
       "do not compute in \"f16\"", "did you mean \"fp16\""},
      {Code::WrongKind,
       train("train { minimize loss optimizer adam steps 1 precision <<16>> }"),
       "expected a precision", ""},
      {Code::UnknownSetting,
       train(
           "train { minimize loss optimizer adam steps 1 <<precison>> bf16 }"),
       "no setting \"precison\"", "did you mean \"precision\""},
      {Code::DuplicateName,
       train("train { minimize loss optimizer adam steps 1 precision bf16 "
             "<<precision>> bf16 }"),
       "\"precision\" is set twice", ""},
      {Code::UnknownArgument,
       train("train { minimize loss optimizer adam steps 1 "
             "precision fp16(<<initial_scal>> = 4) }"),
       "precision \"fp16\" has no setting \"initial_scal\"",
       "did you mean \"initial_scale\""},
      {Code::UnknownArgument,
       train("train { minimize loss optimizer adam steps 1 "
             "precision bf16(<<initial_scale>> = 4) }"),
       "precision \"bf16\" has no setting", ""},
      {Code::DuplicateName,
       train("train { minimize loss optimizer adam steps 1 "
             "precision fp16(growth_steps = 4, <<growth_steps>> = 4) }"),
       "\"growth_steps\" is given twice", ""},
      {Code::InvalidSetting,
       train("train { minimize loss optimizer adam steps 1 "
             "precision <<fp16(initial_scale = 1000)>> }"),
       "a power of two from 2^-24 to 2^24, found 1000", ""},
      {Code::InvalidSetting,
       train("train { minimize loss optimizer adam steps 1 "
             "precision fp16(growth_steps = <<1.5>>) }"),
       "\"growth_steps\" is a positive integer, found 1.5", ""},
      {Code::InvalidSetting,
       train("train { minimize loss optimizer adam steps 1 "
             "precision <<fp16(growth_steps = 0)>> }"),
       "\"growth_steps\" is a positive integer, found 0", ""},
      {Code::ReservedWord,
       "fn f(x) {\n  param <<m>>: f32 = zeros\n  return x * m\n}\n" +
           value("f(x) as fp16"),
       "\"fp16/m\"", ""},
      {Code::NothingToOptimize,
       head + "model m(x: f32[batch]) { output loss = sum(x) }\n"
              "<<train>> { minimize loss optimizer adam(lr = 1) steps 1 }",
       "no parameters", ""},
      {Code::MissingDuration,
       train("<<train>> { minimize loss optimizer adam(lr = 1) steps 1 epochs "
             "1 }"),
       "exclude", "epochs 5"},
  };
  static const std::vector<Case> all = [] {
    std::vector<Case> all = getCallCases();
    for (const std::vector<Case> &more :
         {getDataCases(), getLayoutCases(), getReaderCases(),
          getOptimizerCases(), getStateCases(), getValueCases(), own})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return all;
}

/// Takes the marks out of a text; the range between them.
std::pair<size_t, size_t> takeMarks(std::string &text) {
  size_t begin = text.find("<<");
  text.erase(begin, 2);
  // Of three marks in a row the first is the operator that is marked.
  size_t end = text.find(">>", begin);
  while (end != std::string::npos && end + 2 < text.size() &&
         text[end + 2] == '>')
    ++end;
  text.erase(end, 2);
  return {begin, end};
}

class CodesTest : public testing::TestWithParam<size_t> {};

} // namespace

TEST_P(CodesTest, IsReportedAtItsSpan) {
  const Case &test = getCases()[GetParam()];
  std::string text = test.text;
  auto [begin, end] = takeMarks(text);
  SpecRun run(text);
  ASSERT_FALSE(run.module) << text;
  ASSERT_TRUE(run.diagnostics.hasErrors());
  const Diagnostic *found = nullptr;
  for (const Diagnostic &error : run.diagnostics.getErrors())
    if (error.code == test.code && !found)
      found = &error;
  ASSERT_NE(found, nullptr) << getInfo(test.code).id << "\n" << run.getText();
  EXPECT_THAT(found->message, HasSubstr(test.message)) << run.getText();
  ASSERT_TRUE(found->primary.isValid());
  EXPECT_EQ(run.sources.get(found->primary.source).getName(), "test.mesh");
  EXPECT_EQ(found->primary.begin, begin) << run.getText();
  EXPECT_EQ(found->primary.end, end) << run.getText();
  std::string advice;
  for (const std::string &note : found->notes)
    advice += note + "\n";
  for (const std::string &help : found->helps)
    advice += help + "\n";
  for (const FixIt &fixIt : found->fixIts)
    advice += fixIt.message + "\n";
  EXPECT_THAT(advice, HasSubstr(test.advice)) << run.getText();
}

/// One mistake, one error: nothing follows from it.
TEST_P(CodesTest, HasNoCascade) {
  const Case &test = getCases()[GetParam()];
  std::string text = test.text;
  takeMarks(text);
  SpecRun run(text);
  for (const Diagnostic &error : run.diagnostics.getErrors())
    // Texts that hold no model, to be short, say so; so do those of a train
    // block that is no longer complete.
    EXPECT_TRUE(error.code == test.code || error.code == Code::MissingModel ||
                error.code == Code::MissingData)
        << text << "\n"
        << run.getText();
}

INSTANTIATE_TEST_SUITE_P(All, CodesTest,
                         testing::Range(size_t(0), getCases().size()),
                         [](const auto &info) {
                           return std::string(
                                      getInfo(getCases()[info.param].code).id) +
                                  "_" + std::to_string(info.param);
                         });

TEST(CodeTable, EveryCodeHasATest) {
  // These need files, sizes, programs or commands that do not fit a table, or
  // are no errors; LimitsTest, SourcesTest, LayoutTest, NotesTest and
  // tests/driver cause each.
  std::set<Code> tested = {
      Code::CannotRead,         Code::FileTooLarge,    Code::TooManyTokens,
      Code::ImportCycle,        Code::TooManyImports,  Code::NestingTooDeep,
      Code::TooManyDims,        Code::ProgramTooLarge, Code::UnknownOverride,
      Code::InvalidOverride,    Code::Refused,         Code::CannotWrite,
      Code::UnknownId,          Code::MissingPlan,     Code::DamagedPlan,
      Code::UnknownGradient,    Code::CannotLink,      Code::NoObjective,
      Code::NoEffect,           Code::OuterResult,     Code::Waste,
      Code::UnreadablePlan,     Code::UnreadableTrace, Code::NotMeasured,
      Code::InsertedResharding,
  };
  for (const Case &test : getCases())
    tested.insert(test.code);
  for (const CodeInfo &info : getAllCodes())
    EXPECT_TRUE(tested.contains(info.code)) << info.id;
}

TEST(CodeTable, HasStableUniqueNumbers) {
  std::set<std::string> ids;
  for (const CodeInfo &info : getAllCodes()) {
    EXPECT_TRUE(ids.insert(info.id).second) << info.id;
    EXPECT_EQ(std::string(info.id),
              "MC0" + std::to_string(static_cast<int>(info.code)));
    EXPECT_NE(std::string(info.explanation), "");
  }
}
