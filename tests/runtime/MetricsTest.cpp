/// Metrics of a training as files of events and as pictures.

#include "runtime/metrics/Crc32c.h"
#include "runtime/metrics/EventFile.h"
#include "runtime/metrics/MetricsPlot.h"
#include "runtime/metrics/StepLog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <unistd.h>

using namespace meshc::runtime;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

class MetricsTest : public testing::Test {
protected:
  MetricsTest() {
    std::string pattern = testing::TempDir() + "metrics-XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~MetricsTest() override { std::filesystem::remove_all(folder); }

  static std::string read(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::filesystem::path folder;
};

/// Source: RFC 3720, appendix B.4.
TEST(Crc32cTest, has_the_published_values) {
  EXPECT_EQ(getCrc32c(""), 0u);
  EXPECT_EQ(getCrc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(getCrc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending;
  for (int i = 0; i < 32; ++i)
    ascending += char(i);
  EXPECT_EQ(getCrc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(getCrc32c("123456789"), 0xE3069283u);
}

/// Sums, counts and extremes are those of all numbers, however many.
TEST(SeriesTest, bins_hold_all_numbers) {
  std::mt19937 random(7);
  for (int64_t steps : {1, 5, 1023, 1024, 1025, 2049, 70001}) {
    Series series;
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int64_t step = 3; step < steps + 3; ++step) {
      const double value = std::normal_distribution(2.0, 3.0)(random);
      series.add(step, value);
      sum += value;
      least = std::min(least, value);
      most = std::max(most, value);
    }
    double found = 0, foundLeast = INFINITY, foundMost = -INFINITY;
    int64_t count = 0, next = 3;
    for (const Series::Bin &bin : series.getBins()) {
      EXPECT_EQ(bin.firstStep, next);
      next = bin.lastStep + 1;
      count += bin.count;
      found += bin.sum;
      foundLeast = std::min(foundLeast, bin.least);
      foundMost = std::max(foundMost, bin.most);
    }
    EXPECT_LE(series.getBins().size(), Series::mostBins);
    EXPECT_GE(series.getBins().size(),
              std::min<size_t>(size_t(steps), Series::mostBins / 2));
    EXPECT_EQ(next, steps + 3);
    EXPECT_EQ(count, steps);
    EXPECT_NEAR(found, sum, 1e-6);
    EXPECT_EQ(foundLeast, least);
    EXPECT_EQ(foundMost, most);
  }
}

TEST(SeriesTest, what_is_not_finite_is_counted_alone) {
  Series series;
  for (int64_t step = 1; step <= 5000; ++step)
    series.add(step, step == 777 ? NAN : step == 4000 ? INFINITY : 1.5);
  EXPECT_EQ(series.getFirstNotFinite(), 777);
  int64_t count = 0, notFinite = 0;
  for (const Series::Bin &bin : series.getBins()) {
    count += bin.count;
    notFinite += bin.notFinite;
    if (bin.count > 0)
      EXPECT_EQ(bin.getMean(), 1.5);
  }
  EXPECT_EQ(count, 4998);
  EXPECT_EQ(notFinite, 2);
}

TEST(TicksTest, are_round_and_inside) {
  EXPECT_THAT(getTicks(0, 100, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(getTicks(-0.3, 0.9, 4), ElementsAre(0, 0.5));
  EXPECT_FALSE(std::signbit(getTicks(-0.3, 0.9, 4).front())); // no "-0"
  EXPECT_THAT(getTicks(3, 4, 1), ElementsAre(3, 4));
  std::mt19937 random(11);
  for (int i = 0; i < 1000; ++i) {
    const double least = std::ldexp(std::normal_distribution()(random), i % 90);
    const double most =
        least +
        std::ldexp(std::uniform_real_distribution(1., 2.)(random), i % 60 - 20);
    if (!(least < most)) // a distance that is lost in large numbers
      continue;
    for (double tick : getTicks(least, most, 5)) {
      EXPECT_GE(tick, least);
      EXPECT_LE(tick, most);
    }
  }
}

/// Of the records of a file the events, whose checksums are right.
std::vector<std::string> readEvents(const std::string &bytes) {
  std::vector<std::string> events;
  auto isRight = [](std::string_view of, const char *at) {
    uint32_t sum = 0;
    std::memcpy(&sum, at, sizeof sum);
    const uint32_t right = std::rotr(getCrc32c(of), 15) + 0xA282EAD8u;
    return sum == right;
  };
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, &bytes[at], sizeof length);
    EXPECT_TRUE(isRight({&bytes[at], 8}, &bytes[at + 8]));
    events.push_back(bytes.substr(at + 12, length));
    EXPECT_TRUE(isRight(events.back(), &bytes[at + 12 + length]));
    at += 16 + length;
  }
  return events;
}

TEST_F(MetricsTest, event_files_have_a_record_for_each_step) {
  const std::string place = folder / "deep" / "events";
  auto file = EventFile::create(place, 1, false);
  ASSERT_TRUE(file) << file.getError().message;
  auto second = EventFile::create(place, 41, true); // another name
  ASSERT_TRUE(second);
  for (int64_t step = 1; step <= 300; ++step)
    ASSERT_TRUE((*file)->add({step, 1, {{"loss", 2.5}, {"a/b", NAN}}, 100}));
  ASSERT_TRUE((*file)->finish());
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(place))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_THAT(paths[0].filename().string(),
              testing::StartsWith("events.out.tfevents."));
  const std::vector<std::string> events = readEvents(read(paths[0]));
  ASSERT_EQ(events.size(), 301u);
  EXPECT_THAT(events[0], HasSubstr("brain.Event:2"));
  // Step 300 as a varint; the tag and 2.5f, little endian.
  EXPECT_THAT(events[300], HasSubstr(std::string("\x10\xAC\x02", 3)));
  EXPECT_THAT(events[300],
              HasSubstr(std::string("\x0A\x04loss\x15\0\0\x20\x40", 11)));
  EXPECT_THAT(events[300], HasSubstr("samples_per_s"));
  // A run that goes on says from where, field 7.
  const std::vector<std::string> later = readEvents(read(paths[1]));
  ASSERT_EQ(later.size(), 2u);
  EXPECT_THAT(later[1], HasSubstr(std::string("\x10\x29\x3A\x02\x08\x01")));
}

TEST_F(MetricsTest, events_of_a_training_that_starts_again_count_from_step_1) {
  MetricsRequest request;
  request.eventFolder = folder / "events";
  request.continues = true;
  auto log = StepLog::open(request, 1, "model", "loss");
  ASSERT_TRUE(log) << log.getError().message;
  ASSERT_TRUE(log->finish());
  for (const auto &entry :
       std::filesystem::directory_iterator(request.eventFolder)) {
    const std::vector<std::string> events = readEvents(read(entry.path()));
    ASSERT_EQ(events.size(), 2u);
    EXPECT_THAT(events[1], HasSubstr(std::string("\x10\x01\x3A\x02\x08\x01")));
  }
}

TEST_F(MetricsTest, event_files_need_a_folder) {
  std::ofstream(folder / "file") << "x";
  auto file = EventFile::create(folder / "file", 1, false);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.getError().code, ErrorCode::CannotWrite);
  EXPECT_THAT(file.getError().message, HasSubstr("file"));
}

TEST_F(MetricsTest, plots_show_the_metric_that_was_asked_for_first) {
  const std::string path = folder / "loss.svg";
  auto plot = MetricsPlot::create(path, "a <b> & \"c\"", "loss");
  ASSERT_TRUE(plot) << plot.getError().message;
  EXPECT_FALSE(std::filesystem::exists(path));
  for (int64_t step = 1; step <= 4000; ++step)
    ASSERT_TRUE((*plot)->add(
        {step, 1, {{"accuracy", 0.5}, {"loss", 4.0 / double(step)}}, 1}));
  ASSERT_TRUE((*plot)->finish());
  const std::string text = read(path);
  EXPECT_THAT(text,
              HasSubstr("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"));
  EXPECT_LT(text.find(">loss</text>"), text.find(">accuracy</text>"));
  EXPECT_NE(text.find(">accuracy</text>"), std::string::npos);
  EXPECT_THAT(text, HasSubstr(">4000</text>"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
  EXPECT_LT(text.size(), 150'000u);
}

TEST_F(MetricsTest, plots_of_what_is_never_finite_say_so) {
  const std::string path = folder / "loss.svg";
  auto plot = MetricsPlot::create(path, "m", "loss");
  ASSERT_TRUE(plot);
  ASSERT_TRUE((*plot)->finish());
  EXPECT_THAT(read(path), HasSubstr("no step yet"));
  for (int64_t step = 5; step <= 6; ++step)
    ASSERT_TRUE((*plot)->add({step, 1, {{"loss", -INFINITY}}, 1}));
  ASSERT_TRUE((*plot)->finish());
  EXPECT_THAT(read(path), HasSubstr("not finite in step 5"));
  EXPECT_THAT(read(path), Not(HasSubstr("nan")));
}

TEST_F(MetricsTest, plots_need_a_place) {
  auto plot = MetricsPlot::create(folder / "none" / "loss.svg", "m", "loss");
  ASSERT_FALSE(plot);
  EXPECT_EQ(plot.getError().code, ErrorCode::CannotWrite);
}

} // namespace
