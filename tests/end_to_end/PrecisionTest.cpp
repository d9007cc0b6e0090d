// Training in 16 bits: loss curves beside those in f32 and beside one another,
// on meshes whose axes do not divide the sizes; overflows; what the plan says.

#include "ExecutableTesting.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

using meshc::test::TemporaryFolder;

namespace {

constexpr int pixels = 15, classes = 4, batch = 10;

/// Two layers.
const char *const mlp = R"(
  dim batch = 10
  dim pixel = 15
  dim hidden = 21
  dim class = 4
  model mlp(image: f32[batch, pixel], label: i32[batch]) {
    let h      = relu(dense(image, from = pixel, to = hidden) as first)
    let logits = dense(h, from = hidden, to = class) as second
    output loss = mean(cross_entropy(logits, label, over = class))
  }
)";

/// Attention with a mask, layer norms, gelu and residual sums; a pixel is a
/// position.
const char *const block = R"(
  dim batch = 10
  dim pixel = 15
  dim key   = pixel
  dim width = 9
  dim heads = 3
  dim depth = 4
  dim hidden = 14
  dim class = 4
  model block(image: f32[batch, pixel], label: i32[batch]) {
    param place: f32[pixel, width] = normal(stddev = 0.5)
    param scale: f32[width] = normal(stddev = 0.5)
    param wq, wk, wv: f32[width, heads, depth] = normal(stddev = 0.33)
    param wo: f32[heads, depth, width] = normal(stddev = 0.33)
    let x = image * scale + place
    let n = layer_norm(x, over = width) as norm1
    let m = rename(n, pixel -> key)
    let q = einsum(n, wq -> batch, heads, pixel, depth)
    let k = einsum(m, wk -> batch, heads, key, depth)
    let v = einsum(m, wv -> batch, heads, key, depth)
    let scores = einsum(q, k -> batch, heads, pixel, key) * depth ^ -0.5
    let seen = where(iota(pixel) >= iota(key), scores, -inf)
    let read = einsum(softmax(seen, over = key), v -> batch, heads, pixel, depth)
    let y = x + einsum(read, wo -> batch, pixel, width)
    let h = gelu(dense(layer_norm(y, over = width) as norm2, from = width, to = hidden) as up)
    let z = y + dense(h, from = hidden, to = width) as down
    let logits = dense(mean(z, over = pixel), from = width, to = class) as head
    output loss = mean(cross_entropy(logits, label, over = class))
  }
)";

void writeBigEndian(std::ostream &file, uint32_t number) {
  for (int shift : {24, 16, 8, 0})
    file << char(number >> shift);
}

/// An IDX file of f32.
void writeIdx(const std::string &path, const std::vector<uint32_t> &sizes,
              const std::vector<float> &elements) {
  std::ofstream file(path, std::ios::binary);
  file << '\0' << '\0' << char(0x0d) << char(sizes.size());
  for (uint32_t size : sizes)
    writeBigEndian(file, size);
  for (float element : elements)
    writeBigEndian(file, std::bit_cast<uint32_t>(element));
}

/// An IDX file of signed 32-bit integers.
void writeIdx(const std::string &path, const std::vector<uint32_t> &sizes,
              const std::vector<int32_t> &elements) {
  std::ofstream file(path, std::ios::binary);
  file << '\0' << '\0' << char(0x0c) << char(sizes.size());
  for (uint32_t size : sizes)
    writeBigEndian(file, size);
  for (int32_t element : elements)
    writeBigEndian(file, uint32_t(element));
}

/// Samples whose class is where their brightest pixels are.
void writeData(const std::string &folder) {
  std::mt19937 random(3);
  for (const char *split : {"train", "test"}) {
    const uint32_t samples = 8 * batch;
    std::vector<float> images;
    std::vector<int32_t> labels;
    for (uint32_t i = 0; i < samples; ++i) {
      const int label = int(random() % classes);
      labels.push_back(label);
      for (int pixel = 0; pixel < pixels; ++pixel)
        images.push_back(
            float(random() % 128 + (pixel % classes == label ? 127 : 0)) / 255);
    }
    writeIdx(folder + "/" + split + "-images", {samples, pixels}, images);
    writeIdx(folder + "/" + split + "-labels", {samples}, labels);
  }
}

/// One number of each line of a metrics file.
std::vector<double> getMetric(const std::string &path,
                              const std::string &name) {
  std::vector<double> values;
  std::ifstream file(path);
  const std::string key = "\"" + name + "\": ";
  for (std::string line; std::getline(file, line);)
    if (size_t at = line.find(key); at != std::string::npos)
      values.push_back(std::stod(line.substr(at + key.size())));
  return values;
}

struct Curves {
  std::vector<double> loss, scale, skipped;
};

class Precision : public ::testing::Test {
protected:
  Precision() { writeData(folder.getPath()); }

  std::string writeSpec(const std::string &model,
                        const std::string &precision) {
    const std::string path = folder.getPath() + "/model.mesh";
    std::ofstream(path) << model << R"(
      data over batch {
        image = idx("train-images", test = "test-images")
        label = idx("train-labels", test = "test-labels")
      }
      train {
        minimize  loss
        optimizer adam(lr = 0.01)
        steps     40
        precision )" << precision
                        << "\n}\n";
    return path;
  }

  /// What the training says, which has to succeed.
  Curves train(const std::string &model, const std::string &precision,
               const std::string &mesh, const std::string &layout) {
    const std::string path = folder.getPath();
    const std::string command = fmt::format(
        "MESHC_CACHE_DIR={0} {1} run {2} --mesh '{3}' --layout '{4}' -- train "
        "--data-dir {0} --seed 5 --metrics {0}/metrics > {0}/log 2>&1",
        path, MESHC_EXECUTABLE, writeSpec(model, precision), mesh, layout);
    if (std::system(command.c_str()) != 0) {
      std::stringstream log;
      log << std::ifstream(path + "/log").rdbuf();
      ADD_FAILURE() << command << "\n" << log.str();
    }
    return {getMetric(path + "/metrics", "loss"),
            getMetric(path + "/metrics", "fp16/loss_scale"),
            getMetric(path + "/metrics", "fp16/skipped_steps")};
  }

  std::string readPlan(const std::string &model, const std::string &precision,
                       const std::string &mesh, const std::string &layout) {
    const std::string path = folder.getPath();
    const std::string command = fmt::format(
        "MESHC_CACHE_DIR={0} {1} plan {2} --mesh '{3}' --layout '{4}' --emit "
        "json -o {0}/plan",
        path, MESHC_EXECUTABLE, writeSpec(model, precision), mesh, layout);
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::stringstream text;
    text << std::ifstream(path + "/plan").rdbuf();
    return text.str();
  }

  TemporaryFolder folder;
};

struct Split {
  const char *mesh, *layout;
};

double getDistance(const std::vector<double> &a, const std::vector<double> &b) {
  EXPECT_EQ(a.size(), 40u);
  EXPECT_EQ(b.size(), 40u);
  double distance = a.size() == b.size() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double here = std::abs(a[i] - b[i]);
    distance = here <= HUGE_VAL ? std::max(distance, here) : HUGE_VAL;
  }
  return distance;
}

/// Bound on how far losses lie apart, of at most 2 in 40 steps: `units` units
/// roundoff. A loss has an error of a few of them from its own step; what the
/// steps before add is a walk of as many errors in the parameters.
void expectCurves(
    double units, const std::vector<Split> &splits,
    const std::function<Curves(const char *, const Split &)> &train) {
  const std::vector<double> wide = train("f32", {"", ""}).loss;
  ASSERT_EQ(wide.size(), 40u);
  EXPECT_LT(wide.back(), wide.front() - 0.3) << "nothing is learnt";
  for (const char *precision : {"bf16", "fp16"}) {
    const double unit = precision[0] == 'b' ? 0x1p-8 : 0x1p-11;
    std::vector<double> first;
    for (const Split &split : splits) {
      Curves curves = train(precision, split);
      EXPECT_LE(getDistance(curves.loss, wide), units * unit)
          << precision << " beside f32, mesh " << split.mesh << ", layout "
          << split.layout;
      if (first.empty())
        first = curves.loss;
      EXPECT_LE(getDistance(curves.loss, first), units * unit)
          << precision << ", mesh " << split.mesh << ", layout "
          << split.layout;
      if (precision[0] == 'f')
        EXPECT_EQ(curves.skipped, std::vector<double>(40, 0));
    }
    EXPECT_NE(first, wide) << precision << " is f32";
  }
}

TEST_F(Precision, mlp_learns_alike) {
  expectCurves(8,
               {{"", ""},
                {"a=2,b=3", "batch=a,hidden=b"},
                {"a=4", "batch=a"},
                {"a=2,b=2", "pixel=a,class=b"}},
               [&](const char *precision, const Split &split) {
                 return train(mlp, precision, split.mesh, split.layout);
               });
}

TEST_F(Precision, block_learns_alike) {
  expectCurves(8,
               {{"", ""},
                {"a=2,b=3", "batch=a,heads=b,hidden=b"},
                {"a=2", "pixel=a"},
                {"a=2,b=2", "width=a,hidden=b"}},
               [&](const char *precision, const Split &split) {
                 return train(block, precision, split.mesh, split.layout);
               });
}

/// 2^24 is more than f16 holds, whatever it is multiplied by. Every device has
/// to skip the same steps: else replicas part, and with them the loss.
TEST_F(Precision, overflows_are_skipped_on_all_devices) {
  std::vector<double> scales;
  for (Split split : {Split{"", ""},
                      {"a=2,b=3", "batch=a,hidden=b"},
                      {"a=2,b=2", "pixel=a,hidden=b"}}) {
    SCOPED_TRACE(split.layout);
    Curves curves =
        train(mlp, "fp16(initial_scale = 2 ^ 24, growth_steps = 10)",
              split.mesh, split.layout);
    ASSERT_EQ(curves.loss.size(), 40u);
    EXPECT_EQ(curves.skipped.front(), 1);
    EXPECT_EQ(curves.scale.front(), 0x1p23);
    EXPECT_GE(curves.skipped.back(), 2);
    for (size_t i = 1; i < 40; ++i) {
      const bool isSkipped = curves.skipped[i] > curves.skipped[i - 1];
      const double ratio = curves.scale[i] / curves.scale[i - 1];
      EXPECT_TRUE(isSkipped ? ratio == 0.5 : ratio == 1 || ratio == 2);
    }
    EXPECT_LT(curves.loss.back(), curves.loss.front() - 0.2);
    if (scales.empty())
      scales = curves.scale;
    EXPECT_EQ(curves.scale, scales);
  }
}

/// The first value of `key` after the tensor called `name`, in JSON without
/// blanks.
std::string findValue(const std::string &plan, const std::string &name,
                      const std::string &key) {
  size_t at = plan.find("\"name\":\"" + name + "\",\"role\"");
  if (at == std::string::npos)
    return "no tensor " + name;
  at = plan.find("\"" + key + "\":", at) + key.size() + 3;
  return plan.substr(at, plan.find_first_of(",}", at) - at);
}

TEST_F(Precision, the_plan_tells_types_and_bytes) {
  std::string plan = readPlan(mlp, "bf16", "a=2,b=3", "batch=a,hidden=b");
  std::erase_if(plan, [](char c) { return c == ' ' || c == '\n'; });
  auto expect = [&](const std::string &name, const std::string &type,
                    int64_t bytes) {
    EXPECT_EQ(findValue(plan, name, "dtype"), "\"" + type + "\"") << name;
    EXPECT_EQ(findValue(plan, name, "bytes_per_device"), std::to_string(bytes))
        << name;
  };
  expect("first/weight", "f32", 15 * 7 * 4);
  expect("first/weightasbf16", "bf16", 15 * 7 * 2);
  expect("h", "bf16", 5 * 7 * 2);
  expect("second/logits", "bf16", 5 * 4 * 2);
  expect("gradientoffirst/weight", "f32", 15 * 7 * 4);
  // Logits are completed in 16 bits, gradients in f32.
  EXPECT_NE(plan.find("\"payload_elements\":20,\"payload_bytes\":40"),
            std::string::npos);
  EXPECT_NE(plan.find("\"payload_elements\":105,\"payload_bytes\":420"),
            std::string::npos);
}

TEST_F(Precision, the_command_line_replaces_the_spec) {
  const std::string spec = writeSpec(mlp, "fp16");
  auto count = [&](const std::string &option) {
    const std::string output = folder.getPath() + "/out";
    const std::string command =
        fmt::format("MESHC_CACHE_DIR={} {} plan {} {} > {} 2>&1",
                    folder.getPath(), MESHC_EXECUTABLE, spec, option, output);
    EXPECT_EQ(std::system(command.c_str()), 0) << option;
    std::stringstream text;
    text << std::ifstream(output).rdbuf();
    return std::pair(text.str().find("as f16") != std::string::npos,
                     text.str().find("as bf16") != std::string::npos);
  };
  EXPECT_EQ(count(""), std::pair(true, false));
  EXPECT_EQ(count("--precision bf16"), std::pair(false, true));
  EXPECT_EQ(count("--precision f32"), std::pair(false, false));
  EXPECT_EQ(count("--precision 'fp16(growth_steps = 3)'"),
            std::pair(true, false));
}

TEST_F(Precision, wrong_options_are_pointed_out) {
  const std::string spec = writeSpec(mlp, "bf16");
  auto run = [&](const std::string &option) {
    const std::string output = folder.getPath() + "/out";
    const int status =
        std::system(fmt::format("{} check {} --precision '{}' > {} 2>&1",
                                MESHC_EXECUTABLE, spec, option, output)
                        .c_str());
    std::stringstream text;
    text << WEXITSTATUS(status) << " " << std::ifstream(output).rdbuf();
    return text.str();
  };
  EXPECT_NE(run("bf8").find("1 --precision:1:1: error[MC0715]"),
            std::string::npos)
      << run("bf8");
  EXPECT_NE(run("bf16 bf16").find("expected"), std::string::npos);
  EXPECT_NE(run("").find("expected"), std::string::npos);
  EXPECT_NE(run("bf16(initial_scale = 2)").find("no setting"),
            std::string::npos);
}

} // namespace
