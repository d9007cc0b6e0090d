// Compiled executables on every layout against the un-partitioned program in
// f64.

#include "ExecutableTesting.h"

#include <cstdlib>
#include <gtest/gtest.h>

using meshc::test::Reference;

namespace {

struct Split {
  const char *mesh;
  std::vector<const char *> layouts;
};

void compareAll(const Reference &reference, const std::vector<Split> &splits) {
  for (const Split &split : splits)
    for (const char *layout : split.layouts)
      EXPECT_EQ(reference.compare(split.mesh, layout), "")
          << "mesh " << split.mesh << ", layout '" << layout << "'";
}

/// Terms along the longest way of strides.mesh: attention, and its loss.
constexpr int64_t strideTerms = 5 + 4 + 4 + 2 * 2 * 3 * 5 + 2 * 7 * 7 * 5;

const std::vector<Split> mlpSplits = {
    {"", {""}},
    {"a=4", {"", "batch=a", "hidden=a", "pixel=a", "class=a"}},
    {"a=2,b=2",
     {"batch=a,hidden=b", "batch=b,hidden=a", "batch=a,pixel=b",
      "hidden=a,pixel=b", "hidden=a+b", "batch=a+b", "batch=b+a",
      "class=a,pixel=b", "batch=a,class=b"}},
    {"a=2,b=3",
     {"batch=a,hidden=b", "batch=b,hidden=a", "pixel=a,hidden=b", "batch=b+a",
      "hidden=a+b"}},
    {"a=8", {"batch=a", "hidden=a", "pixel=a"}},
    {"a=2,b=2,c=2",
     {"batch=a,hidden=b,pixel=c", "batch=a+b,hidden=c", "hidden=a+b+c",
      "batch=c,hidden=b+a"}},
};

TEST(Executable, mlp_with_sizes_that_divide) {
  compareAll(Reference(MESHC_SOURCE_DIR "/samples/mlp.mesh",
                       {"batch=16", "pixel=24", "hidden=16", "class=8"},
                       24 + 16 + 8 + 16),
             mlpSplits);
}

TEST(Executable, mlp_with_sizes_that_do_not_divide) {
  compareAll(Reference(MESHC_SOURCE_DIR "/samples/mlp.mesh",
                       {"batch=10", "pixel=9", "hidden=7", "class=5"},
                       9 + 7 + 5 + 10),
             mlpSplits);
}

// Rows enough that the gradient of a bias is summed in parts.
TEST(Executable, threads_change_no_bit) {
  const std::string spec = MESHC_SOURCE_DIR "/samples/mlp.mesh";
  const std::vector<std::string> sizes = {"batch=2062", "pixel=5", "hidden=300",
                                          "class=4"};
  const Reference reference(spec, sizes, 5 + 300 + 4 + 2062);
  std::string plan = MESHC_EXECUTABLE " plan --emit json " + spec;
  for (const std::string &size : sizes)
    plan += " -D " + size;
  for (const Split &split :
       {Split{"", {""}}, Split{"a=2", {"batch=a", "hidden=a"}}})
    for (const std::string layout : split.layouts) {
      const std::string options =
          std::string(" --mesh '") + split.mesh + "' --layout '" + layout + "'";
      EXPECT_EQ(std::system((plan + options +
                             " | grep -q 'sum of parts of gradient of b1'")
                                .c_str()),
                0);
      EXPECT_EQ(reference.compare(split.mesh, layout), "");
      EXPECT_EQ(reference.compareThreads(split.mesh, layout, {1, 2, 3, 8}), "");
    }
}

TEST(Executable, outputs_of_every_element_type) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/element_types.mesh",
                       {}, 7 * 3 * 2),
             {{"", {""}},
              {"a=2", {"batch=a", "pos=a", "class=a"}},
              {"a=4", {"batch=a", "pos=a"}},
              {"a=2,b=3", {"batch=a,pos=b", "batch=b,class=a", "batch=a+b"}},
              {"a=8", {"batch=a", "pos=a"}}});
}

TEST(Executable, elements_that_are_for_data) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/data_elements.mesh", {},
                7 * 5 * 3 * 2),
      {{"", {""}},
       {"a=2", {"batch=a", "row=a", "side=a", "col=a", "class=a", "shade=a"}},
       {"a=4", {"batch=a", "row=a", "side=a", "shade=a"}},
       {"a=2,b=3",
        {"batch=a,row=b", "batch=b,shade=a", "row=a,side=b", "batch=a+b",
         "row=b,shade=a+b", "col=b,side=a"}},
       {"a=8", {"batch=a", "row=a", "shade=a"}}});
}

/// A position that is not found is the size; an extreme that is not found has
/// no gradient.
TEST(Executable, extremes_of_values_computed_again) {
  for (unsigned seed : {1, 2, 3})
    compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/extremes.mesh", {},
                         30 * 40, seed),
               {{"", {""}}, {"a=2", {"row=a", "p=a"}}, {"a=3", {"p=a"}}});
}

TEST(Executable, transformer_block_with_every_dimension_split) {
  compareAll(
      Reference(
          MESHC_SOURCE_DIR "/samples/transformer_block.mesh",
          {"batch=6", "pos=5", "d_model=9", "heads=3", "d_head=4", "d_ff=7"},
          4 * (4 * 9 + 4 + 2 * 5 + 7) + 6 * 5 * 9),
      {{"a=2",
        {"", "batch=a", "pos=a", "key_pos=a", "heads=a", "d_head=a",
         "d_model=a", "d_ff=a"}},
       {"a=2,b=3",
        {"batch=a,heads=b,d_ff=b", "batch=b,d_model=a", "pos=a,heads=b",
         "batch=a+b", "d_ff=a+b,heads=b", "key_pos=b,d_head=a", "d_model=b+a"}},
       {"a=4,b=2", {"batch=a,heads=b,d_ff=b"}}});
}

// The prime of a dimension, in a shell's single quotes, is '\''.
TEST(Executable, decoder_of_the_layouts_that_people_want) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/samples/layouts/decoder.mesh",
                {"batch=6", "pos=5", "d=9", "heads=3", "d_head=4", "d_ff=7"},
                2 * (4 * 9 + 4 + 2 * 5 + 3 * 4 + 7) + 6 * 5 * 9),
      {{"", {""}},
       {"a=4",
        {"batch=a", "batch -> a, d -> a unless batch", "heads=a,d_ff=a",
         "pos=a", "pos -> a unless (heads, d_ff), (heads, d_ff) -> a"}},
       {"a=2,b=3",
        {"batch -> a, d -> a unless batch, (heads, d_ff) -> b",
         "batch -> b, params: * -> (a, b)", "pos -> a, state: * -> a",
         "pos -> a, gradients: * -> b", "batch=a,pos=b", "pos'\\''=a,batch=b",
         "pos -> a unless heads, heads -> a, params: heads -> ()"}}});
}

TEST(Executable, experts_on_the_axis_of_the_batch) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/samples/layouts/experts.mesh",
                {"batch=6", "pos=5", "d=9", "heads=3", "d_head=4", "d_ff=7",
                 "experts=5", "slot=2"},
                2 * (4 * 9 + 4 + 2 * 5 + 3 * 4 + 7 + 5 * 5 + 5 * 3) +
                    6 * 5 * 9),
      {{"", {""}},
       {"a=3",
        {"batch -> a unless experts, experts -> a", "batch=a", "experts=a"}},
       {"a=2,b=3",
        {"batch -> a unless experts, experts -> a, (heads, d_ff) -> b",
         "batch -> (a, b) unless experts, experts -> b",
         "batch=b,experts=a"}}});
}

/// Windows over every dimension that is split, and every other access.
TEST(Executable, windows_with_every_dimension_split) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/windows.mesh", {},
                3 * 3 * 2 + 3 * 3 * 3 + 3 * 2 * 3 + 3 + 3 * 8 * 6 * 2),
      {{"", {""}},
       {"a=3",
        {"batch=a", "y=a", "x=a,col=a", "row=a", "up=a", "c=a", "k=a", "dy=a",
         "dx=a", "y=a,row=a,up=a", "group=a"}},
       {"a=4", {"y=a,row=a,up=a", "x=a,col=a,right=a", "k=a,group=a"}},
       {"a=2,b=2", {"y=a,x=b,row=a,col=b", "row=b,k=a", "y=a+b,row=b+a"}},
       {"a=2,b=3", {"batch=a,y=b,row=b,up=b", "y=a,row=b,up=a+b", "dy=a,x=b"}},
       {"a=8", {"y=a,row=a,up=a"}},
       {"a=2,b=2,c=2", {"y=a,x=b,row=a,col=b,k=c", "y=a+b+c,up=c+b+a"}}});
}

TEST(Executable, attention_over_the_last_positions) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/windowed_attention.mesh",
                {}, 3 * 2 * 13 * 7 + 2 * 11 + 2 * 7),
      {{"", {""}},
       {"a=3", {"batch=a", "pos=a", "window=a", "d_head=a"}},
       {"a=2,b=2", {"batch=a,heads=b", "pos=a,window=b", "pos=a+b"}},
       {"a=2,b=3", {"heads=a,pos=b", "pos=a,d_head=b", "window=b,heads=a"}},
       {"a=8", {"pos=a"}}});
}

TEST(Executable, images_split_by_rows) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/samples/layouts/spatial.mesh",
                {"batch=3", "y=14", "x=6", "thin=2", "wide=3", "class=5"},
                9 * (3 + 3 * 2 + 2 * 3) + 7 * 3 + 3 + 5 + 3 * 14 * 6),
      {{"", {""}},
       {"a=3", {"y=a,row=a", "y=a"}},
       {"a=2,b=3", {"y=a,row=a,x=b,col=b", "batch=a,y=b,row=b"}},
       {"a=8", {"y=a,row=a"}}});
}

TEST(Executable, reads_by_position) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/accesses.mesh", {},
                       7 * 5 * 3),
             {{"", {""}},
              {"a=3", {"n=a", "m=a", "m'\\''=a", "k=a"}},
              {"a=2,b=2", {"n=a,m=b", "m=a,m'\\''=b", "n=a+b"}},
              {"a=2,b=3", {"n=b,m=a", "m=b,m'\\''=a,k=a", "n=a,k=b"}}});
}

TEST(Executable, digits_of_positions) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/digits.mesh", {}, 2 * 48),
      {{"", {""}},
       {"a=3", {"m=a,i=a", "h=a,row=a", "l=a,j=a"}},
       {"a=2,b=2", {"h=a,row=a,w=b,col=b", "m=a+b,i=a", "c=a,deep=b"}}});
}

TEST(Executable, reads_around_rings_and_backwards) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/rings.mesh", {},
                       13 * 5 * 4),
             {{"", {""}},
              {"a=3", {"n=a", "m=a", "k=a,n=a"}},
              {"a=2,b=3", {"n=b,m=a", "n=a+b"}},
              {"a=8", {"n=a"}}});
}

const std::vector<Split> regroupedSplits = {
    {"", {""}},
    {"a=2",
     {"batch=a", "pos=a", "wide=a", "group=a", "lane=a", "wide=a,group=a",
      "half=a", "out=a", "wide'\\''=a"}},
    {"a=3", {"batch=a", "wide=a", "group=a", "third=a,lane=a"}},
    {"a=2,b=2", {"batch=a,group=b", "wide=a,group=b", "group=a,lane=b"}},
    {"a=2,b=3", {"batch=b,wide=a,group=a", "pos=b,lane=a", "group=a+b"}}};

const std::string shifts = MESHC_SOURCE_DIR "/tests/end_to_end/shifts.mesh";
/// The longest sum is that of a gradient.
constexpr int64_t shiftTerms = 7 + 2 * 5 * 24;

TEST(Executable, reads_beside_a_dimension) {
  compareAll(
      Reference(shifts, {}, shiftTerms),
      {{"", {""}}, {"a=2", {"n=a", "m=a"}}, {"a=2,b=4", {"k=a,n=b", "n=a+b"}}});
}

TEST(Executable, dimensions_split_and_merged) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/regrouped.mesh", {},
                       2 * 24 + 2 * 6 + 5 * 3 * 24),
             regroupedSplits);
}

/// What a convolution reads is kept until it is built, views included.
TEST(Executable, convolutions_of_views) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/convs_of_views.mesh",
                       {}, 6 * 3 * 8 + 9 * 5 * 8),
             {{"", {""}},
              {"a=3", {"g=a", "h=a", "c=a", "o=a"}},
              {"a=2,b=2", {"g=a,o=b", "h=a,c=b", "g=a+b"}},
              {"a=2,b=3", {"h=b,c=a", "g=b,h=a"}}});
}

TEST(Executable, loops_in_loops) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/loops.mesh", {},
                3 * (3 + 11 * 2 + 5 + 6 * 5 * 11)),
      {{"", {""}},
       {"a=3", {"batch=a", "wide=a", "pos=a", "time=a", "layers=a"}},
       {"a=2,b=2", {"batch=a,pos=b", "time=a,wide=b"}},
       {"a=2,b=3",
        {"batch=a,wide=b", "pos=b+a", "layers=b,batch=a", "time=b,layers=a"}}});
}

TEST(Executable, loops_of_constrained_values) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/constrained.mesh",
                       {}, 5 * (3 + 3) + 7 * 3),
             {{"a=3", {"", "batch=a", "wide=a"}},
              {"a=2,b=2", {"batch=a,wide=b", "time=b"}},
              {"a=2,b=3", {"wide=a", "batch=b"}}});
}

/// Library calls of tensors that are stored as none takes them.
TEST(Executable, products_in_any_order) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/orders.mesh", {},
                       3 * 2 + 4 * 5 * 7 * 2 + 4 * 7 + 3 * 5),
             {{"", {""}},
              {"a=3", {"b=a", "k=a", "member=a"}},
              {"a=2,b=3", {"b=a,h=b", "t=a,e=b", "k=a,b=b", "e=a,member=b"}}});
}

/// Matmuls read slices in several pieces where they lie.
TEST(Executable, products_of_slices) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/slices.mesh", {},
                       6 + 7 + 4 + 4 + 5 * 4 * 2 * 7 + 7 + 4 + 4 + 5 * 4),
             {{"", {""}},
              {"a=3", {"b=a", "t=a", "h=a", "three=a", "half=a"}},
              {"a=2,b=3", {"b=a,h=b", "e=a,t=b", "d=a,c=b", "half=b,e=a"}}});
}

/// Matmuls read a copy of what no library takes as it lies: a step beyond the
/// next block. The blocks of a device are of odd sizes where all are even.
TEST(Executable, products_of_strides) {
  const std::string spec = MESHC_SOURCE_DIR "/tests/end_to_end/strides.mesh";
  compareAll(
      Reference(spec, {}, strideTerms),
      {{"", {""}}, {"a=2", {"b=a", "row=a,odd=a", "y=a", "q=a,key=a", "i=a"}}});
  for (const char *precision : {"bf16", "fp16"})
    compareAll(Reference(spec, {}, strideTerms, 1, {precision, 12}),
               {{"", {""}}});
}

/// Gradients of lookups add rows up by index.
TEST(Executable, lookups) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/lookups.mesh", {},
                       2 * 7 * 5 * 6 + 7 * 5),
             {{"", {""}},
              {"a=3", {"", "v=a", "d=a", "b=a", "t=a", "kind=a"}},
              {"a=2,b=2", {"v=a,d=b", "b=a,v=b", "t=a,b=b"}},
              {"a=2,b=3", {"v=b+a", "b=b,d=a", "v=a,t=b", "kind=b,v=a"}},
              {"a=8", {"v=a", "b=a"}}});
}

/// Rows of which each is cut into pieces.
TEST(Executable, threads_change_no_bit_of_lookups) {
  const std::vector<std::string> sizes = {"b=257", "t=50", "v=70", "d=67"};
  const Reference reference(MESHC_SOURCE_DIR "/tests/end_to_end/lookups.mesh",
                            sizes, 2 * 257 * 50 * 67 + 257 * 50);
  EXPECT_EQ(reference.compareThreads("", "", {1, 2, 3, 7}), "");
  EXPECT_EQ(reference.compareThreads("a=2,b=3", "b=a,v=b", {1, 2, 7}), "");
}

TEST(Executable, loops_that_carry_nothing) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/maps.mesh", {},
                5 * (3 + 3) + 7 * 4 * 3),
      {{"", {""}},
       {"a=3", {"batch=a", "wide=a", "time=a", "member=a"}},
       {"a=2,b=2", {"batch=a,member=b", "time=a,wide=b"}},
       {"a=2,b=3", {"batch=a,wide=b", "member=b+a", "member=b,batch=a"}}});
}

TEST(Executable, gated_recurrent_units) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/gru.mesh", {},
                2 * 5 * (3 + 3) + 4 * 5 * 3),
      {{"", {""}},
       {"a=3", {"batch=a", "wide=a", "wide'\\''=a"}},
       {"a=2,b=2", {"batch=a,wide=b", "wide=a+b"}},
       {"a=2,b=3", {"batch=a,wide=b", "batch=a+b", "wide'\\''=b,gate=a"}}});
}

/// Layers of the standard library whose dims are split, unevenly too.
TEST(Executable, library_of_transformers) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/transformers.mesh", {},
                4 * (7 + 5 + 12 + 7) + 2 * 5 * 7),
      {{"", {""}},
       {"a=2", {"pos=a"}},
       {"a=2,b=3", {"batch=a,heads=b,wide=b,vocab=b", "d_head=a,each=b"}}});
}

TEST(Executable, recurrent_layers_of_the_library) {
  compareAll(Reference(MESHC_SOURCE_DIR
                       "/tests/end_to_end/recurrent_layers.mesh",
                       {}, 2 * 5 * (3 + 5 + 5 + 2) + 2 * 5 * 2),
             {{"", {""}}, {"a=2,b=3", {"batch=a,wide=b", "time=a,out=b"}}});
}

TEST(Executable, residual_layers_of_the_library) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/residual_layers.mesh", {},
                6 * (6 * 6 + 3 * 12) + 2 * 12 * 6),
      {{"", {""}},
       {"a=2,b=3", {"batch=a,y=b,row=b", "x=a,col=a,inner=b", "groups=a"}}});
}

const std::vector<Split> choiceSplits = {
    {"", {""}},
    {"a=2", {"row=a", "in=a", "out=a", "wide=a", "key=a"}},
    {"a=2,b=3",
     {"row=a,out=b", "row=b,in=a", "out=b+a", "key=a,row=b", "in=b,wide=a"}}};

/// A result would be infinite or NaN if anything leaked.
TEST(Executable, choices_around_contractions) {
  for (unsigned seed : {1, 2, 3})
    compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/choices.mesh", {},
                         5 * 3 + 7 + 2 + 25, seed),
               choiceSplits);
}

/// Both 16-bit precisions; `roundings` as for Reference.
void compareHalf(const std::string &spec,
                 const std::vector<std::string> &defines,
                 int64_t reductionLength, int64_t roundings,
                 const std::vector<Split> &splits) {
  for (const char *name : {"bf16", "fp16"}) {
    SCOPED_TRACE(name);
    compareAll(Reference(MESHC_SOURCE_DIR + spec, defines, reductionLength, 1,
                         {name, roundings}),
               splits);
  }
}

TEST(Executable, mlp_in_16_bits) {
  compareHalf("/samples/mlp.mesh",
              {"batch=10", "pixel=9", "hidden=7", "class=5"}, 9 + 7 + 5 + 10,
              12, mlpSplits);
}

/// Forward the input is rounded, six products and the five biases behind them,
/// four operations within gelu_tanh and what both gelus give. Backward it is
/// the gradient of the logits, twice, five products, and the operations of the
/// gradients of gelu, three, and of gelu_tanh, nine.
TEST(Executable, activations_in_16_bits) {
  compareHalf("/tests/end_to_end/activations.mesh", {},
              9 + 16 + 24 + 24 + 8 + 16 + 5 + 6, 18 + 19,
              {{"", {""}}, {"a=2", {"batch=a", "second=a"}}});
}

TEST(Executable, transformer_block_in_16_bits) {
  compareHalf(
      "/samples/transformer_block.mesh",
      {"batch=6", "pos=5", "d_model=9", "heads=3", "d_head=4", "d_ff=7"},
      4 * (4 * 9 + 4 + 2 * 5 + 7) + 6 * 5 * 9, 24,
      {{"", {""}},
       {"a=2",
        {"batch=a", "pos=a", "key_pos=a", "heads=a", "d_head=a", "d_model=a",
         "d_ff=a"}},
       {"a=2,b=3",
        {"batch=a,heads=b,d_ff=b", "batch=b,d_model=a", "d_ff=a+b,heads=b",
         "key_pos=b,d_head=a"}}});
}

/// Forward each lookup is a rounding, and so are the product behind it, its
/// square and what the loop adds and maps; as many backward.
TEST(Executable, lookups_in_16_bits) {
  compareHalf("/tests/end_to_end/lookups.mesh", {}, 2 * 7 * 5 * 6 + 7 * 5, 24,
              {{"", {""}}, {"a=2,b=3", {"v=b+a", "b=b,d=a", "v=a,t=b"}}});
}

/// Forward the inputs are rounded, the sum over m, products and what is
/// squared; twice as many backward.
TEST(Executable, reads_beside_a_dimension_in_16_bits) {
  compareHalf("/tests/end_to_end/shifts.mesh", {}, shiftTerms, 18,
              {{"", {""}}, {"a=2,b=3", {"n=b,k=a"}}});
}

/// Forward u's conversions, the product, its square and what multiplies it,
/// twice as many backward.
TEST(Executable, choices_around_contractions_in_16_bits) {
  compareHalf("/tests/end_to_end/choices.mesh", {}, 5 * 3 + 7 + 2 + 25, 24,
              choiceSplits);
}

} // namespace
