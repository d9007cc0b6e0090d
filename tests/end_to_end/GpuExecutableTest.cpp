// Compiled executables on emulated GPUs, one process for each device, against
// the un-partitioned program in f64.

#include "ExecutableTesting.h"

#include <gtest/gtest.h>

using meshc::test::Reference;

namespace {

struct Split {
  const char *mesh, *layout;
  int devices;
};

void compareAll(const Reference &reference, const std::vector<Split> &splits) {
  for (const Split &split : splits)
    EXPECT_EQ(reference.compareOnGpus(split.mesh, split.layout, split.devices),
              "")
        << "mesh " << split.mesh << ", layout '" << split.layout << "'";
}

const std::string activations =
    MESHC_SOURCE_DIR "/tests/end_to_end/activations.mesh";

TEST(GpuExecutable, activations_in_library_calls) {
  compareAll(Reference(activations, {}, 9 + 16 + 24 + 24 + 8 + 16 + 5 + 6),
             {{"", "", 1},
              {"a=2", "batch=a", 2},
              {"a=2", "first=a,third=a", 2},
              {"a=2,b=2", "batch=a,second=b", 4}});
}

/// Roundings as in Executable.activations_in_16_bits.
TEST(GpuExecutable, activations_in_16_bits) {
  for (const char *precision : {"bf16", "fp16"})
    compareAll(Reference(activations, {}, 9 + 16 + 24 + 24 + 8 + 16 + 5 + 6, 1,
                         {precision, 18 + 19}),
               {{"", "", 1}, {"a=2", "batch=a", 2}, {"a=2", "second=a", 2}});
}

/// As on CPUs: Executable.extremes_of_values_computed_again.
TEST(GpuExecutable, extremes_of_values_computed_again) {
  for (unsigned seed : {1, 2, 3})
    compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/extremes.mesh", {},
                         30 * 40, seed),
               {{"", "", 1}, {"a=2", "p=a", 2}});
}

/// Windows over rows that are split, and the other accesses.
TEST(GpuExecutable, windows) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/windows.mesh", {},
                       3 * 3 * 2 + 3 * 3 * 3 + 3 * 2 * 3 + 3 + 3 * 8 * 6 * 2),
             {{"", "", 1},
              {"a=2", "y=a,row=a,up=a", 2},
              {"a=3", "x=a,col=a,right=a", 3}});
}

TEST(GpuExecutable, reads_beside_a_dimension) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/shifts.mesh", {},
                       7 + 2 * 5 * 24),
             {{"a=2,b=2", "m=a,n=b", 4}, {"a=2,b=4", "k=a,n=b", 8}});
}

/// Roundings as in Executable.reads_beside_a_dimension_in_16_bits.
TEST(GpuExecutable, reads_beside_a_dimension_in_16_bits) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/shifts.mesh", {},
                       7 + 2 * 5 * 24, 1, {"bf16", 18}),
             {{"a=2", "n=a", 2}});
}

TEST(GpuExecutable, dimensions_split_and_merged) {
  compareAll(
      Reference(MESHC_SOURCE_DIR "/tests/end_to_end/regrouped.mesh", {},
                2 * 24 + 2 * 6 + 5 * 3 * 24),
      {{"", "", 1}, {"a=2", "batch=a", 2}, {"a=3", "wide=a,group=a", 3}});
}

TEST(GpuExecutable, attention_over_the_last_positions) {
  compareAll(Reference(MESHC_SOURCE_DIR
                       "/tests/end_to_end/windowed_attention.mesh",
                       {}, 3 * 2 * 13 * 7 + 2 * 11 + 2 * 7),
             {{"", "", 1}, {"a=2", "pos=a", 2}, {"a=3", "batch=a", 3}});
}

/// Gradients of lookups add rows up by index, of tables that are split over
/// rows and columns, evenly and not.
TEST(GpuExecutable, lookups) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/lookups.mesh", {},
                       2 * 7 * 5 * 6 + 7 * 5),
             {{"", "", 1},
              {"a=3", "v=a", 3},
              {"a=3", "d=a", 3},
              {"a=3", "b=a", 3},
              {"a=3", "kind=a", 3},
              {"a=2,b=2", "v=a,d=b", 4},
              {"a=2,b=2", "b=a,v=b", 4},
              {"a=2,b=3", "v=b+a", 6},
              {"a=2,b=3", "v=a,t=b", 6},
              {"a=8", "v=a", 8},
              {"a=8", "b=a", 8}});
}

/// Roundings as in Executable.lookups_in_16_bits.
TEST(GpuExecutable, lookups_in_16_bits) {
  for (const char *precision : {"bf16", "fp16"})
    compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/lookups.mesh", {},
                         2 * 7 * 5 * 6 + 7 * 5, 1, {precision, 24}),
               {{"", "", 1}, {"a=2,b=3", "v=b+a", 6}});
}

/// Words that are odd in number, as a whole and for each of two devices: 67 and
/// 34 are padded to 72 and 40, or 80 and 48. Roundings are those of the lookup,
/// tanh, the product and the cross entropy, twice as many backward.
TEST(GpuExecutable, matmuls_of_padded_sizes) {
  for (const char *precision : {"bf16", "fp16"}) {
    const Reference reference(MESHC_SOURCE_DIR
                              "/tests/end_to_end/odd_words.mesh",
                              {}, 2 * (18 + 67) + 3 * 13, 1, {precision, 24});
    for (const Split &split :
         {Split{"", "", 1}, Split{"a=2", "word=a", 2},
          Split{"a=3", "batch=a", 3}, Split{"a=2,b=2", "word=a,d=b", 4}})
      for (const char *multiple : {"1", "8", "16"})
        EXPECT_EQ(reference.compareOnGpus(
                      split.mesh, split.layout, split.devices,
                      std::string("--matmul-multiple ") + multiple),
                  "")
            << precision << ", " << split.layout << ", " << multiple;
  }
}

/// Rows of several blocks of terms, one of them of all that there are, have the
/// same bits in every order of threads.
TEST(GpuExecutable, orders_change_no_bit_of_lookups) {
  const Reference reference(MESHC_SOURCE_DIR "/tests/end_to_end/lookups.mesh",
                            {"b=257", "t=50", "v=70", "d=67"},
                            2 * 257 * 50 * 67 + 257 * 50);
  const std::vector<std::string> orders = {"forward", "backward", "random:3"};
  EXPECT_EQ(reference.compareOnGpus("", "", 1), "");
  EXPECT_EQ(reference.compareGpuOrders("", "", 1, orders), "");
  EXPECT_EQ(reference.compareGpuOrders("a=2,b=3", "b=a,v=b", 6, orders), "");
}

TEST(GpuExecutable, reads_by_position) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/accesses.mesh", {},
                       7 * 5 * 3),
             {{"", "", 1}, {"a=2", "n=a", 2}, {"a=3", "m=a", 3}});
}

TEST(GpuExecutable, reads_around_rings_and_backwards) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/rings.mesh",
                       {"n=12", "more=12"}, 12 * 5 * 4),
             {{"a=2", "n=a", 2}, {"a=2,b=2", "n=a+b", 4}});
}

TEST(GpuExecutable, epilogues_that_are_left_out) {
  for (const char *precision : {"f32", "bf16"}) {
    const Reference reference(activations, {},
                              9 + 16 + 24 + 24 + 8 + 16 + 5 + 6, 1,
                              {precision, precision[0] == 'b' ? 18 + 19 : 0});
    for (const char *epilogues : {"bias", "none"})
      EXPECT_EQ(reference.compareOnGpus("a=2", "batch=a", 2,
                                        std::string("--matmul-epilogues ") +
                                            epilogues),
                "")
          << precision << ", " << epilogues;
  }
}

/// Activations with rows that the library does not take, and others that axes
/// do not divide.
TEST(GpuExecutable, activations_in_kernels) {
  for (const std::vector<std::string> &sizes :
       {std::vector<std::string>{"first=7", "second=5", "third=3", "linear=2"},
        std::vector<std::string>{"first=12", "second=20", "batch=5"}})
    compareAll(
        Reference(activations, sizes, 9 + 16 + 24 + 24 + 8 + 16 + 5 + 6),
        {{"", "", 1}, {"a=2", "batch=a", 2}, {"a=2", "first=a,second=a", 2}});
}

/// A layer with one output: the gradient before it sums over one term, beside
/// which cuBLASLt computes nothing.
TEST(GpuExecutable, layers_with_one_output) {
  for (const char *precision : {"f32", "bf16"})
    for (const char *size : {"second=1", "third=1"})
      compareAll(Reference(activations, {size},
                           9 + 16 + 24 + 24 + 8 + 16 + 5 + 6, 1,
                           {precision, precision[0] == 'b' ? 18 + 19 : 0}),
                 {{"", "", 1}, {"a=2", "batch=a", 2}});
}

TEST(GpuExecutable, mlp) {
  compareAll(Reference(MESHC_SOURCE_DIR "/samples/mlp.mesh",
                       {"batch=16", "pixel=24", "hidden=16", "class=8"},
                       24 + 16 + 8 + 16),
             {{"", "", 1}, {"a=2,b=2", "batch=a,hidden=b", 4}});
}

/// Ends of products round once where kernels round after every operation: at
/// most as often as on CPUs.
TEST(GpuExecutable, mlp_in_16_bits) {
  for (const char *precision : {"bf16", "fp16"})
    compareAll(Reference(MESHC_SOURCE_DIR "/samples/mlp.mesh",
                         {"batch=16", "pixel=24", "hidden=16", "class=8"},
                         24 + 16 + 8 + 16, 1, {precision, 12}),
               {{"", "", 1}, {"a=2", "batch=a", 2}});
}

/// cuBLASLt refuses them as they are stored.
TEST(GpuExecutable, products_in_any_order) {
  compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/orders.mesh", {},
                       3 * 2 + 4 * 5 * 7 * 2 + 4 * 7 + 3 * 5),
             {{"", "", 1}, {"a=2", "e=a", 2}});
}

/// Only a machine whose library sends contiguous blocks has them in another
/// order; what the outside sees stays in the declared one.
TEST(GpuExecutable, what_is_sent_in_another_order) {
  const Reference reference(MESHC_SOURCE_DIR "/tests/end_to_end/scattered.mesh",
                            {}, 24 + 35 + 12 * 20 * 3);
  for (const Split &split : std::vector<Split>{
           {"data=2", "batch=data,d2=data", 2},
           {"data=4", "batch=data,d2=data,e2=data", 4},
           {"data=2,model=2", "batch=data,d2=data,heads=model,e2=data", 4}})
    EXPECT_EQ(reference.compareOnGpus(split.mesh, split.layout, split.devices,
                                      " --machine h100"),
              "")
        << split.mesh;
  // Sums that arrive in another order than the contractions behind them like.
  const Reference attention(
      MESHC_SOURCE_DIR "/samples/layouts/sequence.mesh",
      {"batch=3", "pos=7", "d=9", "heads=3", "d_head=4", "d_ff=7"},
      2 * (4 * 9 + 4 + 2 * 7 + 3 * 4 + 7) + 3 * 7 * 9);
  EXPECT_EQ(attention.compareOnGpus("seq=3", "pos=seq", 3, " --machine h100"),
            "");
}

TEST(GpuExecutable, products_of_slices) {
  for (const char *precision : {"f32", "bf16"})
    compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/slices.mesh", {},
                         6 + 7 + 4 + 4 + 5 * 4 * 2 * 7 + 7 + 4 + 4 + 5 * 4, 1,
                         {precision, precision[0] == 'b' ? 12 : 0}),
               {{"", "", 1}, {"a=2", "b=a", 2}});
}

TEST(GpuExecutable, products_of_strides) {
  for (const char *precision : {"f32", "bf16", "fp16"})
    compareAll(Reference(MESHC_SOURCE_DIR "/tests/end_to_end/strides.mesh", {},
                         5 + 4 + 4 + 2 * 2 * 3 * 5 + 2 * 7 * 7 * 5, 1,
                         {precision, precision == std::string("f32") ? 0 : 12}),
               {{"", "", 1}});
}

TEST(GpuExecutable, transformer_block) {
  compareAll(Reference(MESHC_SOURCE_DIR "/samples/transformer_block.mesh",
                       {"batch=4", "pos=6", "d_model=16", "heads=2", "d_head=8",
                        "d_ff=24"},
                       4 * (4 * 16 + 8 + 2 * 6 + 24) + 4 * 6 * 16),
             {{"", "", 1}, {"a=2", "heads=a,d_ff=a", 2}});
}

} // namespace
