// What is wrong in data blocks.

#include "CodeCases.h"

using namespace meshc::frontend;
using namespace meshc::frontend::cases;

std::vector<Case> cases::getReaderCases() {
  return {
      {Code::UnknownInput,
       train(
           "data over batch { <<z>> = idx(\"a\", \"b\") x = idx(\"a\", \"b\")\n"
           "y = idx(\"a\", \"b\") }"),
       "no input \"z\"", ""},
      {Code::InvalidSetting,
       train("data over batch { x = idx(\"a\", \"b\") <</>> 255 }"),
       "comes as it is", "f32(x) / 255"},
      {Code::InvalidSetting,
       train("data over batch { x = idx(\"a\", \"b\") <<y>> = idx(\"a\") }"),
       "for some inputs and not for others", ""},
      {Code::InvalidSetting,
       train("data over batch { x = tokens(\"a\", stride = <<0>>) }"),
       "\"stride\" is a positive integer up to 2^32, found 0", ""},
      {Code::InvalidSetting,
       train("data over batch { x = idx(\"a\", test = <<\"\">>) }"),
       "the name of the file is empty", ""},
      {Code::WrongKind, train("data over batch { x = idx(<<a>>) }"),
       "expected a file name in quotes", ""},
      {Code::WrongKind,
       train("data over batch { x = tokens(\"a\", type = <<16>>) }"),
       "expected a type: u16 or i32", ""},
      {Code::UnknownArgument,
       train("data over batch { x = tokens(\"a\", <<strid>> = 2) }"),
       "\"tokens\" has no parameter \"strid\"", "did you mean \"stride\""},
      {Code::ExpectedToken, train("data <<{>> x = idx(\"a\", \"b\") }"),
       "expected \"over\"", "data over batch { ... }"},
      {Code::UnknownDim, train("data over <<bach>> { x = idx(\"a\") }"), "bach",
       "did you mean \"batch\""},
      {Code::MissingFedDim,
       head + "model m(x: f32[in]) { output o = x }\n"
              "data over batch { <<x>> = idx(\"a\", \"b\") }\n",
       "data over \"batch\" for input \"x\", which does not have that dim", ""},
      {Code::UnfitInput, train("data over batch { <<x>> = text(\"a\") }"),
       "text cannot feed input \"x\": it gives integers", ""},
      {Code::UnfitInput,
       head + "model m(x: i32[batch]) { output o = x }\n"
              "data over batch { <<x>> = tokens(\"a\", \"b\") }\n",
       "a sample is a window, so that it needs one dim beside \"batch\"", ""},
      {Code::UnfitInput,
       head + "model m(x: i32[batch, in]) { output o = x }\n"
              "data over batch { <<x>> = tokens(\"a\", type = i31) }\n",
       "type is u16 or i32, found \"i31\"", ""},
      {Code::UnfitInput,
       head +
           "model m(x: i32[batch, in]) { output o = x }\n"
           "data over batch { <<x>> = text(\"a\", tokens = \"bpe.json\") }\n",
       "tokens are \"bytes\" or \"chars\", found \"bpe.json\"; files of other "
       "tokens are not read yet",
       ""},
      {Code::UnfitInput, train("data over batch { <<x>> = rows(\"a\") }"),
       "it needs columns = \"a, b\"", ""},
      {Code::UnfitInput,
       train("data over batch { <<x>> = rows(\"a\", columns = \"u\") }"),
       "1 column is named, a sample has 5", ""},
      {Code::UnfitInput, train("data over batch { <<x>> = images(\"a\") }"),
       "an image has rows and columns, and perhaps 1 or 3 channels", ""},
      {Code::UnfitInput, train("data over batch { <<x>> = classes(\"a\") }"),
       "classes cannot feed input \"x\": it gives integers", ""},
      {Code::UnknownReader,
       train("data over batch { x = <<csv>>(\"a\", \"b\") }"),
       "no data reader \"csv\"",
       "readers are idx, npy, tokens, text, rows, images, classes"},
      {Code::UnknownReader, train("data over batch { x = <<3>> }"),
       "expected a data reader such as idx(\"train file\", test = \"test "
       "file\")",
       ""},
      {Code::MissingData,
       head + "model m(x: f32[batch], <<y: i32[batch]>>) { output o = x }\n"
              "data over batch { x = idx(\"a\", \"b\") }\n",
       "no data for input \"y\"", ""},
  };
}
