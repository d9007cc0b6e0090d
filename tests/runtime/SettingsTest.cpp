#include "runtime/settings/Settings.h"

#include <gmock/gmock.h>

#include <cstring>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

/// lr = 0.1, decay = 0.5 * lr, layers = 12, of which a program is made.
exec::ExecutableT makeProgram() {
  exec::ExecutableT program;
  for (const auto &[name, value, isFixed] : {std::tuple("lr", "0.1", false),
                                             {"decay", "0.5 lr *", false},
                                             {"layers", "12", true}}) {
    auto setting = std::make_unique<exec::SettingT>();
    setting->name = name;
    setting->value = value;
    setting->is_fixed = isFixed;
    program.settings.push_back(std::move(setting));
  }
  return program;
}

Settings makeSettings(std::vector<std::string> requirements = {}) {
  exec::ExecutableT program = makeProgram();
  program.requirements = std::move(requirements);
  Result<Settings> settings = Settings::create(program);
  EXPECT_TRUE(bool(settings)) << settings.getError().message;
  return std::move(*settings);
}

Status set(Settings &settings, const char *name, double value) {
  const NamedNumber number{name, Number::of(value)};
  return settings.set({&number, 1});
}

std::string evaluate(const Settings &settings, const char *expression) {
  Result<Number> number = settings.evaluate(expression);
  return number ? toString(*number) : number.getError().message;
}

} // namespace

TEST(Settings, ExpressionsAreComputed) {
  const Settings settings = makeSettings();
  EXPECT_EQ(evaluate(settings, "1 lr 3 * -"),
            toString(Number::of(1 - 0.1 * 3)));
  EXPECT_EQ(evaluate(settings, "layers 5 %"), "2");
  EXPECT_EQ(evaluate(settings, "layers ~ 2 ^"), "144");
  EXPECT_EQ(evaluate(settings, "7 2 /"), "3.5");
  EXPECT_EQ(evaluate(settings, "decay -0.05 +"), "0");
  EXPECT_EQ(evaluate(settings, "layers 12 >="), "1");
  EXPECT_EQ(evaluate(settings, "layers 12 !="), "0");
}

TEST(Settings, WhatIsComputedFollows) {
  Settings settings = makeSettings();
  ASSERT_TRUE(bool(set(settings, "lr", 0.5)));
  EXPECT_EQ(evaluate(settings, "decay"), "0.25");
  ASSERT_TRUE(bool(set(settings, "decay", 2)));
  ASSERT_TRUE(bool(set(settings, "lr", 0.75)));
  EXPECT_EQ(evaluate(settings, "decay lr +"), "2.75");
  EXPECT_EQ(settings.getChanged().size(), 2u);
  EXPECT_EQ(toString(settings.getChanged().at("lr")), "0.75");
}

TEST(Settings, WhatCannotBeSetChangesNothing) {
  Settings settings = makeSettings({"lr 0 >", "1 decay / 100 <"});
  Status failed = set(settings, "layers", 3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.getError().code, ErrorCode::WrongSetting);
  EXPECT_EQ(failed.getError().message,
            "the program is made of 'layers', which is 12");
  EXPECT_EQ(failed.getError().note, "compile it with -D layers=3");

  failed = set(settings, "lrs", 3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.getError().code, ErrorCode::UnknownName);
  EXPECT_EQ(failed.getError().note, "did you mean 'lr'?");
  failed = set(settings, "layer", 3); // which is fixed
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.getError().note, "did you mean 'layers'?");
  failed = set(settings, "momentum", 3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.getError().note, "expected one of 'lr', 'decay'");

  failed = set(settings, "lr", -1);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.getError().message, HasSubstr("lr > 0"));
  EXPECT_THAT(failed.getError().message, HasSubstr("with lr = -1"));
  failed = set(settings, "lr", 0.001);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.getError().message, HasSubstr("(1 / decay) < 100"));
  failed = set(settings, "decay", 0);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.getError().message, HasSubstr("division by zero"));
  EXPECT_EQ(failed.getError().note, "with decay = 0");

  EXPECT_EQ(evaluate(settings, "lr"), "0.1");
  EXPECT_TRUE(settings.getChanged().empty());
}

TEST(Settings, FloatsAreRoundedOnce) {
  const Settings settings = makeSettings();
  auto narrow = settings.evaluate("lr", exec::ElementType::f32);
  ASSERT_TRUE(bool(narrow));
  float number = 0;
  ASSERT_EQ(narrow->size(), sizeof number);
  std::memcpy(&number, narrow->data(), sizeof number);
  EXPECT_EQ(number, 0.1f);
  auto wide = settings.evaluate("lr", exec::ElementType::f64);
  ASSERT_TRUE(bool(wide));
  double exact = 0;
  ASSERT_EQ(wide->size(), sizeof exact);
  std::memcpy(&exact, wide->data(), sizeof exact);
  EXPECT_EQ(exact, 0.1);
  auto large = settings.evaluate("1e39", exec::ElementType::f32);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.getError().code, ErrorCode::WrongSetting);
  EXPECT_TRUE(bool(settings.evaluate("inf", exec::ElementType::f32)));
}

TEST(Settings, DamageIsNoticed) {
  const Settings settings = makeSettings();
  for (const char *expression :
       {"", " ", "lr lr", "lr +", "+", "~", "lr  lr +", "lr nothing +",
        "lr lr &", "lr lr ++", "nan"}) {
    Result<Number> number = settings.evaluate(expression);
    ASSERT_FALSE(number) << expression;
    EXPECT_EQ(number.getError().code, ErrorCode::DamagedProgram) << expression;
  }
  for (const char *value : {"decay", "layers", "", "0 0 /"}) {
    exec::ExecutableT program = makeProgram();
    program.settings[1]->value = value;
    Result<Settings> created = Settings::create(program);
    ASSERT_FALSE(created) << value;
    EXPECT_EQ(created.getError().code, ErrorCode::DamagedProgram) << value;
  }
  exec::ExecutableT program = makeProgram();
  program.requirements = {"lr 1 >"};
  EXPECT_FALSE(Settings::create(program));
  program = makeProgram();
  program.settings[1]->name = "lr";
  EXPECT_FALSE(Settings::create(program));
}

TEST(Settings, NumbersAreReadInFull) {
  for (const auto &[text, number] :
       {std::pair("3", "3"), {"-3", "-3"}, {"1e-3", "0.001"}, {"-.5", "-0.5"}})
    EXPECT_EQ(toString(parseNumber(text).value()), number);
  for (const char *text : {"", "3x", " 3", "0x3", "+3", "nan", "one"})
    EXPECT_EQ(parseNumber(text).has_value(), false) << text;
  for (double number : {3.0, 0.1, 1e300, -0x1p-1074}) {
    const auto read = parseNumber(toExpression(Number::of(number)));
    ASSERT_TRUE(read.has_value());
    EXPECT_FALSE(read->isInteger);
    EXPECT_EQ(read->real, number);
  }
}
