// What a program of another folder does with meshc: uses WHAT ARGUMENTS.

#include <meshc.h>

#include <iostream>
#include <string>

using enum meshc::ElementType;

/// Prints errors, if there are; the exit code.
static int finish(const meshc::Program &program) {
  std::cerr << program.getErrors();
  return program ? 0 : 1;
}

static int plan(const std::string &path, const std::string &target) {
  meshc::SpecFile spec{path};
  spec.defines = {"hidden=64"};
  spec.layout = "batch=data";
  meshc::Program first(
      spec, {.target = target, .machine = target == "cuda" ? "a100" : ""});
  const meshc::Program program = std::move(first);
  if (!program)
    return finish(program);
  std::cout << program.getPlan();
  return 0;
}

static int show(const std::string &path) {
  meshc::Program program(meshc::SpecFile{path});
  if (!program)
    return finish(program);
  std::cout << program.explain("c1").value_or("none") << "\n"
            << program.explain("c99").value_or("none") << "\n"
            << program.getPlanJson() << program.getPlanPage();
  return 0;
}

/// A product whose operands do not fit, and a rule that no dim has.
static int fail() {
  meshc::Builder b;
  b.setMesh({{"data", 2}});
  const auto batch = b.dim("batch", 6), d = b.dim("d", 5);
  b.addRule("batc -> data");
  const auto x = b.input("x", F32, {batch, d});
  const auto n = b.input("n", I32, {batch, d});
  b.output("y", b.add(x, n)); // line 47
  return finish(meshc::Program(b));
}

static int write(const std::string &path) {
  meshc::Builder b;
  const auto batch = b.dim("batch", 6);
  const auto x = b.input("x", F32, {batch});
  b.output("y", b.tanh(x));
  meshc::Program program(b, {.name = "small"});
  // What goes wrong once is no matter of the next time.
  if (program.write(path + "/none/small") || program.getErrors().empty())
    return 2;
  return program.write(path) && program.write(path) ? finish(program) : 3;
}

static int choose(const std::string &target, const std::string &machine,
                  const std::string &cpu, const std::string &gpu) {
  meshc::Builder b;
  const auto x = b.input("x", F32, {b.dim("batch", 6)});
  b.output("y", x);
  meshc::Program program(
      b, {.target = target, .machine = machine, .cpu = cpu, .gpus = {gpu}});
  const bool isRight = program && program.write("/dev/null/none");
  std::cerr << program.getErrors();
  return isRight ? 0 : 1;
}

int main(int count, char **arguments) {
  const std::string what = arguments[1];
  auto get = [&](int i) { return std::string(i < count ? arguments[i] : ""); };
  return what == "plan"     ? plan(get(2), get(3))
         : what == "show"   ? show(get(2))
         : what == "fail"   ? fail()
         : what == "write"  ? write(get(2))
         : what == "choose" ? choose(get(2), get(3), get(4), get(5))
                            : 2;
}
